/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying values of small integer tensors through element-wise operators. */
#ifndef WEIR_FRONTENDS_ONNX_KNOWN_H
#define WEIR_FRONTENDS_ONNX_KNOWN_H

#include "ops.h"

/* One element of the result from one of each operand (NULL for absent ones); NULL: not known. */
typedef Dim KnownFn(Infer *in, const Dim *arg);

/* After infer_set: gives result 0 its elements, when all operands' are known. */
void onnx_carry(Infer *in, KnownFn *fn);
/* After infer_set, where result 0 is a view of operand 0: its element of index `at` is operand 0's
 * element number first + sum of at[k] * step[k]. Gives those that are known. */
void onnx_carry_view(Infer *in, int64_t first, const int64_t *step);
/* Elements as infer_known gives them, also of float tensors that hold known integers. */
bool onnx_known(Infer *in, int operand, const Dim **elements, int *n);

KnownFn onnx_known_add, onnx_known_sub, onnx_known_mul, onnx_known_div, onnx_known_mod,
    onnx_known_neg, onnx_known_abs, onnx_known_min, onnx_known_max, onnx_known_same,
    onnx_known_equal, onnx_known_less, onnx_known_greater, onnx_known_less_equal,
    onnx_known_greater_equal, onnx_known_not, onnx_known_and, onnx_known_or, onnx_known_where,
    onnx_known_sign;

#endif
