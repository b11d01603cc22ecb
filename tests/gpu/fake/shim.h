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

#include "tensor.h"

extern "C" {
struct shim_index {
    unsigned x, y, z;
};
__attribute__((visibility("default"))) shim_index threadIdx, blockIdx, blockDim, gridDim;
__attribute__((visibility("default"), aligned(1024))) char dynamic_bytes[256 << 10];
/* Of the driver: waits for the block's threads, or for the warp's; a place for each thread. */
__attribute__((visibility("default"))) void (*shim_wait)(int warp);
__attribute__((visibility("default"))) unsigned long long shim_slot[1024];
/* Of the driver: ends the process. */
__attribute__((visibility("default"))) void (*shim_breach)(const char *why);
/* Boxes that were asked for and that nobody has waited for. */
__attribute__((visibility("default"))) unsigned shim_boxes, shim_boxes_early;
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

static inline void __syncwarp() {
    shim_wait(1);
}

template <class T> static inline T __shfl_up_sync(unsigned, T x, int h) {
    unsigned lane = threadIdx.x % 32, from = threadIdx.x - (lane >= (unsigned)h ? (unsigned)h : 0);
    __builtin_memcpy(&shim_slot[threadIdx.x], &x, sizeof x);
    shim_wait(1);
    __builtin_memcpy(&x, &shim_slot[from], sizeof x);
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

static inline unsigned __ballot_sync(unsigned, int x) {
    unsigned of[32], all = 0;
    shim_share(x != 0, of);
    for (unsigned l = 0; l < 32; l++) all |= of[l] << l;
    return all;
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

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}

static inline unsigned atomicAdd(unsigned *at, unsigned v) {
    unsigned old = *at;
    *at += v;
    return old;
}

static inline int atomicExch(int *at, int v) {
    int old = *at;
    *at = v;
    return old;
}

/* ---- boxes ------------------------------------------------------------------------------------
 * A barrier counts one arrival and bytes. Boxes come as late as they may, when a thread waits; or
 * early, when they are asked for. */

struct shim_barrier {
    unsigned left; /* of the bytes that are expected; less while more has come */
    unsigned short arrived, phase;
};

struct shim_box {
    shim_barrier *barrier;
    const shim_tensor *tensor;
    char *to;
    int at[5];
};
static shim_box shim_asked[64];

static inline void shim_barrier_init(void *b) {
    *(shim_barrier *)b = {0, 0, 0};
}

static inline void shim_barrier_expect(void *b, int bytes) {
    ((shim_barrier *)b)->left += (unsigned)bytes;
}

static inline void shim_barrier_arrive(void *b) {
    if (((shim_barrier *)b)->arrived++) shim_breach("a group of boxes meets one that is not done");
}

/* An f32 to TF32: ten bits of fraction, ties to even; NaNs stay. */
static inline void shim_round(char *at) {
    unsigned x;
    __builtin_memcpy(&x, at, sizeof x);
    if ((x & 0x7fffffff) <= 0x7f800000) x = x + 0xfff + (x >> 13 & 1) & 0xffffe000;
    __builtin_memcpy(at, &x, sizeof x);
}

/* Rows one behind the other, 16-byte part p of row r at p xor r mod 8. */
static inline void shim_box_arrive(const shim_box *x) {
    const shim_tensor *t = x->tensor;
    unsigned row = t->box[0] * t->bytes, rows = 1;
    for (int i = 1; i < t->rank; i++) rows *= t->box[i];
    for (unsigned r = 0; r < rows; r++)
        for (unsigned e = 0; e < t->box[0]; e++) {
            unsigned rest = r, byte = r * row + e * t->bytes;
            long long first = (long long)x->at[0] + e;
            bool inside = first >= 0 && first < (long long)t->size[0];
            const char *from = t->at + first * t->bytes;
            for (int i = 1; i < t->rank; rest /= t->box[i++]) {
                long long place = (long long)x->at[i] + rest % t->box[i];
                inside = inside && place >= 0 && place < (long long)t->size[i];
                from += place * (long long)t->stride[i - 1];
            }
            char *to = x->to + (byte ^ (byte >> 7 & 7) << 4);
            if (inside)
                __builtin_memcpy(to, from, t->bytes);
            else
                __builtin_memset(to, 0, t->bytes);
            if (t->rounds) shim_round(to);
        }
    x->barrier->left -= row * rows;
}

static inline void shim_box_copy(void *to, const void *tensor, void *b, const int *at, int n) {
    const shim_tensor *t = (const shim_tensor *)tensor;
    if (shim_boxes == 64) shim_breach("too many boxes are asked for at a time");
    if (t->mark != SHIM_TENSOR || t->rank != n) shim_breach("a box of no tensor of so many dims");
    if ((unsigned long long)to % 1024) shim_breach("a box goes to no multiple of 1024 bytes");
    shim_box x = {(shim_barrier *)b, t, (char *)to, {}};
    for (int i = 0; i < n; i++) x.at[i] = at[i];
    if (shim_boxes_early)
        shim_box_arrive(&x);
    else
        shim_asked[shim_boxes++] = x;
}

static inline void shim_barrier_wait(void *at, unsigned parity) {
    shim_barrier *b = (shim_barrier *)at;
    unsigned later = 0;
    if ((b->phase & 1) != parity) return;
    if (!b->arrived) shim_breach("a wait for boxes that were not asked for");
    for (unsigned i = 0; i < shim_boxes; i++) {
        if (shim_asked[i].barrier == at)
            shim_box_arrive(&shim_asked[i]);
        else
            shim_asked[later++] = shim_asked[i];
    }
    shim_boxes = later;
    if (b->left) shim_breach("a barrier counts other bytes than boxes bring");
    *b = {0, 0, (unsigned short)(b->phase + 1)};
}
