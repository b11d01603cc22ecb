/* SPDX-License-Identifier: Apache-2.0 */
/* The head of the device's text: scalar names, and how kernels begin. nvcc compiles it with
 * -fmad=false and exact division and root, so that results are those of the nests. */
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define FN_MEMBER __device__ __forceinline__
#define FN static FN_MEMBER
#ifndef SHARED
#define SHARED __shared__ __align__(16)
#endif
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
