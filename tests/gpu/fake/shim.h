/* SPDX-License-Identifier: Apache-2.0 */
/* Device code as C++ for this processor: what stands before a .cu text that tests/gpu/fake/nvcc
 * compiles. The driver beside it (threads.c) runs the threads of a block one after the other, or
 * side by side where they wait for each other, and sets where each one is. */
#define STAND_IN
#define __device__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __global__ __attribute__((visibility("default")))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__
#define SHARED static __attribute__((aligned(16)))

struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};

extern "C" {
struct shim_index {
    unsigned x, y, z;
};
__attribute__((visibility("default"))) shim_index threadIdx, blockIdx, blockDim, gridDim;
__attribute__((visibility("default"), aligned(1024))) char dynamic_bytes[256 << 10];
/* Of the driver: waits for the block's threads, or for the warp's; a place for each thread. */
__attribute__((visibility("default"))) void (*shim_wait)(int warp);
__attribute__((visibility("default"))) unsigned long long shim_slot[1024];
/* Threads that waited for the launch ahead. */
__attribute__((visibility("default"))) unsigned long long shim_followed;
float fmaf(float, float, float), floorf(float), ceilf(float), truncf(float), rintf(float);
float sqrtf(float), exp2f(float), fmodf(float, float), copysignf(float, float);
double fma(double, double, double), floor(double), ceil(double), trunc(double), rint(double);
double sqrt(double), fmod(double, double), copysign(double, double);
}

static inline void __syncthreads() {
    shim_wait(0);
}

static inline unsigned __activemask() {
    return 0xffffffffu;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T x, int h) {
    __builtin_memcpy(&shim_slot[threadIdx.x], &x, sizeof x);
    shim_wait(1);
    __builtin_memcpy(&x, &shim_slot[threadIdx.x ^ (unsigned)h], sizeof x);
    shim_wait(1);
    return x;
}

/* What the threads of a warp hand each other, one value of 4 bytes each at a time. */
static inline void shim_share(unsigned x, unsigned *of) {
    unsigned first = threadIdx.x / 32 * 32;
    shim_slot[threadIdx.x] = x;
    shim_wait(1);
    for (unsigned l = 0; l < 32; l++) of[l] = (unsigned)shim_slot[first + l];
    shim_wait(1);
}

static inline void warp_matrices(unsigned *x, const void *at, int n, bool across) {
    const unsigned short *row[32];
    unsigned first = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    shim_slot[threadIdx.x] = (unsigned long long)at;
    shim_wait(1);
    for (unsigned l = 0; l < 32; l++) row[l] = (const unsigned short *)shim_slot[first + l];
    for (int i = 0; i < n; i++) {
        unsigned r = lane / 4, k = lane % 4 * 2;
        const unsigned short *const *m = row + 8 * i;
        x[i] =
            across ? m[k][r] | (unsigned)m[k + 1][r] << 16 : m[r][k] | (unsigned)m[r][k + 1] << 16;
    }
    shim_wait(1);
}

/* c[2h + l] is element (8h + lane/4, 2(lane%4) + l); a and b lie as the instruction wants them,
 * EACH elements in a word: `add` gets words whose lowest bits are the element, and an element of c.
 */
template <int EACH, class F, class C>
static inline void warp_step(F add, C &c0, C &c1, C &c2, C &c3, const unsigned *a,
                             const unsigned *b) {
    unsigned as[4][32], bs[2][32], lane = threadIdx.x % 32;
    C *const c[4] = {&c0, &c1, &c2, &c3};
    for (int i = 0; i < 4; i++) shim_share(a[i], as[i]);
    for (int i = 0; i < 2; i++) shim_share(b[i], bs[i]);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 8 * EACH; k++) {
            unsigned late = k / (4 * EACH), word = k % (4 * EACH) / EACH,
                     shift = k % EACH * (32 / EACH);
            unsigned x = as[i / 2 + late * 2][lane / 4 * 4 + word];
            unsigned y = bs[late][(lane % 4 * 2 + i % 2) * 4 + word];
            *c[i] = add(x >> shift, y >> shift, *c[i]);
        }
}

/* Byte i of the result is the one of x, y that digit i of `which` names. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
    unsigned long long both = x | (unsigned long long)y << 32;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= (unsigned)(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
    return r;
}

static inline float __uint_as_float(unsigned x) {
    return __builtin_bit_cast(float, x);
}

static inline unsigned __float_as_uint(float x) {
    return __builtin_bit_cast(unsigned, x);
}

static inline int atomicExch(int *at, int v) {
    int old = *at;
    *at = v;
    return old;
}
