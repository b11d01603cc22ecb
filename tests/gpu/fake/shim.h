/* SPDX-License-Identifier: Apache-2.0 */
/* Device code as C++ for this processor: what stands before a .cu text that tests/gpu/fake/nvcc
 * compiles. tests/gpu/fake/cuda.c, the driver, runs the threads of a block one after the other, or
 * side by side where they wait for each other, and sets where each one is. */
#define __device__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __global__ __attribute__((visibility("default")))
#define __launch_bounds__(threads)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__
#define SHARED static __attribute__((aligned(16)))

extern "C" {
struct shim_index {
    unsigned x, y, z;
};
__attribute__((visibility("default"))) shim_index threadIdx, blockIdx, blockDim, gridDim;
__attribute__((visibility("default"), aligned(16))) char dynamic_bytes[256 << 10];
/* Of the driver: waits for the block's threads, or for the warp's; a place for each thread. */
__attribute__((visibility("default"))) void (*shim_wait)(int warp);
__attribute__((visibility("default"))) unsigned long long shim_slot[1024];
float fmaf(float, float, float), floorf(float), ceilf(float), truncf(float), rintf(float);
float sqrtf(float), fmodf(float, float), copysignf(float, float);
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

static inline int atomicExch(int *at, int v) {
    int old = *at;
    *at = v;
    return old;
}
