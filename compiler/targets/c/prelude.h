/* SPDX-License-Identifier: Apache-2.0 */
/* The head of every emitted unit: scalar names, what a kernel gets, and the arithmetic that results
 * depend on: no contraction, no reassociation. Standalone C for gcc and clang, no header needed. */
typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef float f32;
typedef double f64;

/* Tasks lo .. hi-1 of a kernel, on one thread. `bad` is set when an index from data was out of
 * range (element 0 was used instead). */
typedef struct Task {
    i64 lo, hi;
    char *scratch;
    i32 bad;
#ifdef CHECKED
    const char *stray; /* what was about to leave its buffer, or NULL */
    i64 index, size;
#endif
} Task;

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#define VECTOR_WIDTH(bits) __attribute__((min_vector_width(bits)))
#else
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC optimize("fp-contract=off", "no-strict-aliasing", "wrapv", "no-math-errno",            \
                     "no-trapping-math")
#define VECTOR_WIDTH(bits)
#endif
#define FN static inline __attribute__((always_inline, unused))
#define KERNEL __attribute__((visibility("hidden"), noinline))
#define ALIGNED __attribute__((aligned(64)))
