/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of the evaluator's contractions, written so that the compiler vectorizes them. */
#include "eval_loops.h"

#ifndef EVAL_LOOPS
#define EVAL_LOOPS eval_loops
#endif

static void axpy4(double *restrict acc, long stride, const double *s, const float *restrict v,
                  int n) {
    double *restrict a0 = acc, *restrict a1 = acc + stride;
    double *restrict a2 = acc + 2 * stride, *restrict a3 = acc + 3 * stride;
    double s0 = s[0], s1 = s[1], s2 = s[2], s3 = s[3];
    for (int j = 0; j < n; j++) {
        double x = v[j];
        a0[j] += s0 * x;
        a1[j] += s1 * x;
        a2[j] += s2 * x;
        a3[j] += s3 * x;
    }
}

static void axpy1(double *restrict acc, double s, const float *restrict v, long step, int n) {
    if (step == 1)
        for (int j = 0; j < n; j++) acc[j] += s * (double)v[j];
    else
        for (int j = 0; j < n; j++) acc[j] += s * (double)v[j * step];
}

static void axpy(double *restrict acc, long stride, int rows, const double *s,
                 const float *restrict v, long step, int n) {
    int r = 0;
    for (; r + 4 <= rows && step == 1; r += 4) axpy4(acc + r * stride, stride, s + r, v, n);
    for (; r < rows; r++) axpy1(acc + r * stride, s[r], v, step, n);
}

static void multiply(double *restrict acc, const float *restrict a, long astep,
                     const float *restrict b, long bstep, int n) {
    if (astep == 1 && bstep == 1)
        for (int j = 0; j < n; j++) acc[j] += (double)a[j] * (double)b[j];
    else
        for (int j = 0; j < n; j++) acc[j] += (double)a[j * astep] * (double)b[j * bstep];
}

static double dot(const float *restrict a, const float *restrict b, int n) {
    double part[8] = {0};
    int j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; k++) part[k] += (double)a[j + k] * (double)b[j + k];
    for (; j < n; j++) part[j % 8] += (double)a[j] * (double)b[j];
    for (int k = 4; k > 0; k /= 2)
        for (int i = 0; i < k; i++) part[i] += part[i + k];
    return part[0];
}

const EvalLoops EVAL_LOOPS = {axpy, multiply, dot};
