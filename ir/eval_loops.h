/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of the evaluator's contractions; eval_loops.c is compiled once for every machine and,
 * on x86-64, once more for those with AVX2. Both give the same bits: products of f32 are exact in
 * f64. */
#ifndef WEIR_IR_EVAL_LOOPS_H
#define WEIR_IR_EVAL_LOOPS_H

enum { EVAL_ROWS = 8 };
typedef struct EvalLoops {
    /* acc[r*stride + j] += s[r] * v[j*step], r < rows <= EVAL_ROWS, j < n */
    void (*axpy)(double *restrict acc, long stride, int rows, const double *s,
                 const float *restrict v, long step, int n);
    /* acc[j] += a[j*astep] * b[j*bstep] */
    void (*multiply)(double *restrict acc, const float *restrict a, long astep,
                     const float *restrict b, long bstep, int n);
    /* sum of a[j]*b[j] in eight parts */
    double (*dot)(const float *restrict a, const float *restrict b, int n);
} EvalLoops;

extern const EvalLoops eval_loops, eval_loops_x86v3;

#endif
