/* SPDX-License-Identifier: Apache-2.0 */
/* Typed inner loops of the column engine; only body_code.c and body_loops*.c include this. */
#ifndef WEIR_IR_BODY_LOOPS_H
#define WEIR_IR_BODY_LOOPS_H

#include "prim.h"

/* out[i] = prim(a[i], b[i], c[i]) for i < n; columns do not overlap. */
typedef void LoopFn(void *restrict out, const void *restrict a, const void *restrict b,
                    const void *restrict c, int n);

/* A loop for these types, or NULL: then prim_apply runs element by element. body_loops.c is
 * compiled once for every machine and, on x86-64, once more for those with AVX2 and FMA; both give
 * the same bits. */
LoopFn *loop_find(Prim p, DType result, DType operand);
LoopFn *loop_find_x86v3(Prim p, DType result, DType operand);

#endif
