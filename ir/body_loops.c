/* SPDX-License-Identifier: Apache-2.0 */
/* One loop per primitive and type, written so that the compiler vectorizes it: the bodies are
 * expressions of x, y, z that say what prim_apply says. What is missing here runs through it. */
#include "body_loops.h"

#include <math.h>
#include <string.h>

#ifndef LOOP_FIND
#define LOOP_FIND loop_find
#endif

/* Result type R of operand type T. */
#define LOOP1(NAME, R, T, EXPR)                                                                    \
    static void NAME(void *restrict out, const void *restrict a, const void *restrict b,           \
                     const void *restrict c, int n) {                                              \
        R *to = out;                                                                               \
        const T *xs = a;                                                                           \
        (void)b, (void)c;                                                                          \
        for (int i = 0; i < n; i++) {                                                              \
            T x = xs[i];                                                                           \
            to[i] = (R)(EXPR);                                                                     \
        }                                                                                          \
    }
#define LOOP2(NAME, R, T, EXPR)                                                                    \
    static void NAME(void *restrict out, const void *restrict a, const void *restrict b,           \
                     const void *restrict c, int n) {                                              \
        R *to = out;                                                                               \
        const T *xs = a, *ys = b;                                                                  \
        (void)c;                                                                                   \
        for (int i = 0; i < n; i++) {                                                              \
            T x = xs[i], y = ys[i];                                                                \
            to[i] = (R)(EXPR);                                                                     \
        }                                                                                          \
    }
#define LOOP3(NAME, R, S, T, EXPR)                                                                 \
    static void NAME(void *restrict out, const void *restrict a, const void *restrict b,           \
                     const void *restrict c, int n) {                                              \
        R *to = out;                                                                               \
        const S *xs = a;                                                                           \
        const T *ys = b, *zs = c;                                                                  \
        for (int i = 0; i < n; i++) {                                                              \
            S x = xs[i];                                                                           \
            T y = ys[i], z = zs[i];                                                                \
            to[i] = (R)(EXPR);                                                                     \
        }                                                                                          \
    }

/* ---- every type ----------------------------------------------------------------------------- */

#define ANY_LOOPS(DT, T)                                                                           \
    LOOP2(lt_##DT, uint8_t, T, x < y)                                                              \
    LOOP2(le_##DT, uint8_t, T, x <= y)                                                             \
    LOOP2(gt_##DT, uint8_t, T, x > y)                                                              \
    LOOP2(ge_##DT, uint8_t, T, x >= y)                                                             \
    LOOP2(eq_##DT, uint8_t, T, x == y)                                                             \
    LOOP2(ne_##DT, uint8_t, T, x != y)                                                             \
    LOOP3(select_##DT, T, uint8_t, T, x ? y : z)
#define ANY_ROW(DT)                                                                                \
    [P_LT] = lt_##DT, [P_LE] = le_##DT, [P_GT] = gt_##DT, [P_GE] = ge_##DT, [P_EQ] = eq_##DT,      \
    [P_NE] = ne_##DT, [P_SELECT] = select_##DT

#define NUMBER_LOOPS(DT, T)                                                                        \
    ANY_LOOPS(DT, T)                                                                               \
    LOOP2(add_##DT, T, T, x + y)                                                                   \
    LOOP2(sub_##DT, T, T, x - y)                                                                   \
    LOOP2(mul_##DT, T, T, (x) * (y))                                                               \
    LOOP1(neg_##DT, T, T, -x)
#define NUMBER_ROW(DT)                                                                             \
    ANY_ROW(DT), [P_ADD] = add_##DT, [P_SUB] = sub_##DT, [P_MUL] = mul_##DT, [P_NEG] = neg_##DT

/* ---- integers ------------------------------------------------------------------------------- */

/* Widening U keeps 16-bit products out of signed int; U is unsigned, so a count is never negative.
 */
#define INT_LOOPS(DT, T, U, BITS)                                                                  \
    NUMBER_LOOPS(DT, T)                                                                            \
    LOOP3(fma_##DT, T, T, T, ((U)x * (U)y) + (U)z)                                                 \
    LOOP2(min_##DT, T, T, x < y ? x : y)                                                           \
    LOOP2(max_##DT, T, T, x > y ? x : y)                                                           \
    LOOP2(and_##DT, T, T, (x) & (y))                                                               \
    LOOP2(or_##DT, T, T, x | y)                                                                    \
    LOOP2(xor_##DT, T, T, x ^ y)                                                                   \
    LOOP1(not_##DT, T, T, ~x)                                                                      \
    LOOP2(shl_##DT, T, T, (U)y >= BITS ? 0 : (U)x << ((U)y & (BITS - 1)))
#define INT_ROW(DT)                                                                                \
    NUMBER_ROW(DT), [P_FMA] = fma_##DT, [P_MIN] = min_##DT, [P_MAX] = max_##DT,                    \
                    [P_AND] = and_##DT, [P_OR] = or_##DT, [P_XOR] = xor_##DT, [P_NOT] = not_##DT,  \
                    [P_SHL] = shl_##DT, [P_SHR] = shr_##DT, [P_DIV] = div_##DT,                    \
                    [P_REM] = rem_##DT, [P_MOD] = mod_##DT, [P_ABS] = abs_##DT

#define SIGNED_LOOPS(DT, T, U, BITS)                                                               \
    INT_LOOPS(DT, T, U, BITS)                                                                      \
    LOOP1(abs_##DT, T, T, x < 0 ? -x : x)                                                          \
    LOOP2(shr_##DT, T, T, x >> ((U)y >= BITS ? BITS - 1 : (U)y))                                   \
    LOOP2(div_##DT, T, T, y == 0 ? 0 : y == -1 ? -x : x / y)                                       \
    LOOP2(rem_##DT, T, T, y == 0 || y == -1 ? 0 : x % y)                                           \
    LOOP2(mod_##DT, T, T,                                                                          \
          y == 0 || y == -1                  ? 0                                                   \
          : x % y != 0 && (x < 0) != (y < 0) ? x % y + y                                           \
                                             : x % y)
#define UNSIGNED_LOOPS(DT, T, U, BITS)                                                             \
    INT_LOOPS(DT, T, U, BITS)                                                                      \
    LOOP1(abs_##DT, T, T, x)                                                                       \
    LOOP2(shr_##DT, T, T, (U)y >= BITS ? 0 : (U)x >> ((U)y & (BITS - 1)))                          \
    LOOP2(div_##DT, T, T, y == 0 ? 0 : x / y)                                                      \
    LOOP2(rem_##DT, T, T, y == 0 ? 0 : x % y)                                                      \
    LOOP2(mod_##DT, T, T, y == 0 ? 0 : x % y)

SIGNED_LOOPS(I64, int64_t, uint64_t, 64)
SIGNED_LOOPS(I32, int32_t, uint32_t, 32)
SIGNED_LOOPS(I16, int16_t, uint16_t, 16)
SIGNED_LOOPS(I8, int8_t, uint8_t, 8)
UNSIGNED_LOOPS(U64, uint64_t, uint64_t, 64)
UNSIGNED_LOOPS(U32, uint32_t, uint32_t, 32)
UNSIGNED_LOOPS(U16, uint16_t, uint16_t, 16)
UNSIGNED_LOOPS(U8, uint8_t, uint8_t, 8)

ANY_LOOPS(BOOL, uint8_t)
LOOP2(and_BOOL, uint8_t, uint8_t, (x != 0) & (y != 0))
LOOP2(or_BOOL, uint8_t, uint8_t, (x != 0) | (y != 0))
LOOP2(xor_BOOL, uint8_t, uint8_t, (x != 0) ^ (y != 0))
LOOP1(not_BOOL, uint8_t, uint8_t, x == 0)

/* ---- floats --------------------------------------------------------------------------------- */

/* The bitwise and (or) of two floats: of equal ones, and so of two zeros, the greater (lesser). */
#define BITWISE(NAME, T, U, OP)                                                                    \
    static inline T NAME(T x, T y) {                                                               \
        U a, b;                                                                                    \
        memcpy(&a, &x, sizeof a);                                                                  \
        memcpy(&b, &y, sizeof b);                                                                  \
        a = a OP b;                                                                                \
        memcpy(&x, &a, sizeof a);                                                                  \
        return x;                                                                                  \
    }
BITWISE(and_f32, float, uint32_t, &)
BITWISE(or_f32, float, uint32_t, |)
BITWISE(and_f64, double, uint64_t, &)
BITWISE(or_f64, double, uint64_t, |)

static float floor_mod_f32(float x, float y) {
    float r = fmodf(x, y);
    if (r == 0) return copysignf(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static double floor_mod_f64(double x, double y) {
    double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

#define FLOAT_LOOPS(DT, T, F, AND, OR)                                                             \
    NUMBER_LOOPS(DT, T)                                                                            \
    LOOP2(div_##DT, T, T, x / y)                                                                   \
    LOOP2(min_##DT, T, T, x < y ? x : y < x ? y : x == y ? OR(x, y) : x + y)                       \
    LOOP2(max_##DT, T, T, x > y ? x : y > x ? y : x == y ? AND(x, y) : x + y)                      \
    LOOP1(abs_##DT, T, T, fabs##F(x))                                                              \
    LOOP1(floor_##DT, T, T, floor##F(x))                                                           \
    LOOP1(ceil_##DT, T, T, ceil##F(x))                                                             \
    LOOP1(trunc_##DT, T, T, trunc##F(x))                                                           \
    LOOP1(rint_##DT, T, T, nearbyint##F(x))                                                        \
    LOOP1(sqrt_##DT, T, T, sqrt##F(x))                                                             \
    LOOP2(rem_##DT, T, T, fmod##F(x, y))                                                           \
    LOOP3(fma_##DT, T, T, T, fma##F(x, y, z))
#define FLOAT_ROW(DT)                                                                              \
    NUMBER_ROW(DT), [P_DIV] = div_##DT, [P_MIN] = min_##DT, [P_MAX] = max_##DT,                    \
                    [P_ABS] = abs_##DT, [P_FLOOR] = floor_##DT, [P_CEIL] = ceil_##DT,              \
                    [P_TRUNC] = trunc_##DT, [P_RINT] = rint_##DT, [P_SQRT] = sqrt_##DT,            \
                    [P_REM] = rem_##DT, [P_MOD] = mod_##DT, [P_FMA] = fma_##DT

FLOAT_LOOPS(F32, float, f, and_f32, or_f32)
FLOAT_LOOPS(F64, double, , and_f64, or_f64)
LOOP2(mod_F32, float, float, floor_mod_f32(x, y))
LOOP2(mod_F64, double, double, floor_mod_f64(x, y))

/* Small floats hold 16 or 8 bits in their columns; what does not compute needs no conversion. */
LOOP3(select_16, uint16_t, uint8_t, uint16_t, x ? y : z)
LOOP3(select_8, uint8_t, uint8_t, uint8_t, x ? y : z)

static LoopFn *const loops[DT_COUNT][PRIM_COUNT] = {
    [F64] = {FLOAT_ROW(F64)},
    [F32] = {FLOAT_ROW(F32)},
    [F16] = {[P_SELECT] = select_16},
    [BF16] = {[P_SELECT] = select_16},
    [F8E4M3FN] = {[P_SELECT] = select_8},
    [F8E4M3FNUZ] = {[P_SELECT] = select_8},
    [F8E5M2] = {[P_SELECT] = select_8},
    [F8E5M2FNUZ] = {[P_SELECT] = select_8},
    [F8E8M0] = {[P_SELECT] = select_8},
    [F6E2M3] = {[P_SELECT] = select_8},
    [F6E3M2] = {[P_SELECT] = select_8},
    [F4E2M1] = {[P_SELECT] = select_8},
    [I64] = {INT_ROW(I64)},
    [I32] = {INT_ROW(I32)},
    [I16] = {INT_ROW(I16)},
    [I8] = {INT_ROW(I8)},
    [I4] = {[P_SELECT] = select_8},
    [I2] = {[P_SELECT] = select_8},
    [U64] = {INT_ROW(U64)},
    [U32] = {INT_ROW(U32)},
    [U16] = {INT_ROW(U16)},
    [U8] = {INT_ROW(U8)},
    [U4] = {[P_SELECT] = select_8},
    [U2] = {[P_SELECT] = select_8},
    [BOOL] = {ANY_ROW(BOOL), [P_AND] = and_BOOL, [P_OR] = or_BOOL, [P_XOR] = xor_BOOL,
              [P_NOT] = not_BOOL},
};

/* ---- conversions ---------------------------------------------------------------------------- */

/* Float to integer: truncates, saturates, NaN gives 0. LO is exact; HI is the first float above. */
#define TO_INT(DT, T, LO, HI)                                                                      \
    LOOP1(F32_to_##DT, T, float, x != x ? 0 : x < LO##f ? (T)LO : x >= HI##f ? (T) ~(T)LO : (T)x)  \
    LOOP1(F64_to_##DT, T, double, x != x ? 0 : x < LO ? (T)LO : x >= HI ? (T) ~(T)LO : (T)x)
TO_INT(I64, int64_t, -0x1.0p63, 0x1.0p63)
TO_INT(I32, int32_t, -0x1.0p31, 0x1.0p31)
TO_INT(I8, int8_t, -128.0, 128.0)
TO_INT(U8, uint8_t, 0.0, 256.0)

#define FROM(DT, T)                                                                                \
    LOOP1(DT##_to_F64, double, T, x)                                                               \
    LOOP1(DT##_to_F32, float, T, x)                                                                \
    LOOP1(DT##_to_I64, int64_t, T, x)                                                              \
    LOOP1(DT##_to_I32, int32_t, T, x)                                                              \
    LOOP1(DT##_to_I8, int8_t, T, x)                                                                \
    LOOP1(DT##_to_U8, uint8_t, T, x)                                                               \
    LOOP1(DT##_to_BOOL, uint8_t, T, x != 0)
FROM(I64, int64_t)
FROM(I32, int32_t)
FROM(I8, int8_t)
FROM(U8, uint8_t)
FROM(BOOL, uint8_t)
LOOP1(F32_to_F64, double, float, x)
LOOP1(F64_to_F32, float, double, x)
LOOP1(F32_to_BOOL, uint8_t, float, x != 0)
LOOP1(F64_to_BOOL, uint8_t, double, x != 0)

static inline float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* bfloat16 is the upper half of an f32; rounding to even may carry into the exponent as it should.
 */
static inline uint16_t bf16_of(uint32_t u) {
    uint32_t nan = u >> 16 | 0x40, even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
}
LOOP1(BF16_to_F32, float, uint16_t, float_of((uint32_t)x << 16))
LOOP1(F32_to_BF16, uint16_t, uint32_t, bf16_of(x))

/* f16 to f32: the magnitude's bits moved into place are the value times 2^-112, subnormals too. */
static inline float f16_to(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 13;
    uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
    uint32_t special = magnitude | 0x7f800000;
    special |= magnitude > 0x0f800000 ? 0x00400000 : 0;
    return float_of(sign | (magnitude >= 0x0f800000 ? special : finite));
}

/* f32 to f16: normal results round on the bits; below 2^-14 the addition of 0.5 leaves the result's
 * last place in the last place of the sum and rounds there. */
static inline uint16_t f16_of(uint32_t u) {
    uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t tiny = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x1ff);
    uint32_t r = magnitude < 0x38800000 ? tiny : magnitude >= 0x47800000 ? 0x7c00 : normal;
    return (uint16_t)(sign | (magnitude > 0x7f800000 ? nan : r));
}
LOOP1(F16_to_F32, float, uint16_t, f16_to(x))
LOOP1(F32_to_F16, uint16_t, uint32_t, f16_of(x))

#define TO_ROW(DT)                                                                                 \
    [F32] = F32_to_##DT, [F64] = F64_to_##DT, [I64] = I64_to_##DT, [I32] = I32_to_##DT,            \
    [I8] = I8_to_##DT, [U8] = U8_to_##DT, [BOOL] = BOOL_to_##DT
#define FROM_INTS(DT)                                                                              \
    [I64] = I64_to_##DT, [I32] = I32_to_##DT, [I8] = I8_to_##DT, [U8] = U8_to_##DT,                \
    [BOOL] = BOOL_to_##DT

static LoopFn *const convert[DT_COUNT][DT_COUNT] = {
    [I64] = {TO_ROW(I64)},
    [I32] = {TO_ROW(I32)},
    [I8] = {TO_ROW(I8)},
    [U8] = {TO_ROW(U8)},
    [BOOL] = {TO_ROW(BOOL)},
    [F64] = {FROM_INTS(F64), [F32] = F32_to_F64},
    [F32] = {FROM_INTS(F32), [F64] = F64_to_F32, [BF16] = BF16_to_F32, [F16] = F16_to_F32},
    [BF16] = {[F32] = F32_to_BF16},
    [F16] = {[F32] = F32_to_F16},
};

LoopFn *LOOP_FIND(Prim p, DType result, DType operand) {
    if (p == P_CVT || p == P_CVTINF) return convert[result][operand];
    return loops[operand][p];
}
