/* SPDX-License-Identifier: Apache-2.0 */
/* Moving data by choosing indices: what several families need. */
#ifndef WEIR_FRONTENDS_ONNX_VIEW_H
#define WEIR_FRONTENDS_ONNX_VIEW_H

#include "ops.h"

/* Row-major reshape of `from` into `to` (equal counts). */
void onnx_reshape(Lower *lo, const char *name, int from, int to);
/* Index that a value of the body gives for an axis of `extent`: negative counts from the end,
 * outside is clamped to the nearest; *guard is set where the axis may be empty. */
Dim onnx_value_index(Lower *lo, Map *m, int val, Dim extent, bool *guard);
/* Reads that may lie outside when guarded: 0 there. */
int onnx_read(Lower *lo, Map *m, int cont, const Dim *at, bool guard);
/* Index into shape `from` of the element that index `at` (inside shape `to`) has in row-major
 * order. */
void onnx_reshape_index(Lower *lo, const DimEnv *env, const Dim *from, int nfrom, const Dim *to,
                        int nto, const Dim *at, Dim *index);
/* For functions that ask for known values while lowering. */
Infer onnx_reader(Lower *lo);
/* Constant elements of an integer operand, or of an attribute when the operand is absent or < 0.
 * -1: neither is there; -2: there, but not constant at compile time. */
int onnx_ints(Infer *in, int operand, const char *attr, const int64_t **ints);
/* The same for axes of a tensor of `rank`: flag[k] is set for each; E_ATTRIBUTE out of range or
 * twice. */
int onnx_axes(Infer *in, int operand, const char *attr, int rank, bool *flag);
/* dtype that attribute `name` gives, or `otherwise`. */
DType onnx_dtype(Ctx *ctx, const Node *node, const char *name, DType otherwise);
/* The type of result 0 where only run-time values give its shape: as the model declares it, else
 * NULL dims of `shape` become fresh symbols, at most `upper` (NULL: anything) each; without `upper`
 * they cannot, which is E_UNSUPPORTED and names `operand`. */
void onnx_set_unknown(Infer *in, int operand, DType t, Dim *shape, int rank, const Dim *upper);
/* For `upper`: dims of any size. */
extern const Dim onnx_any_size[RANK_MAX];
/* The same where `operand` is the whole shape as a vector. */
void onnx_unknown_shape(Infer *in, int operand, DType t, Dim upper);
/* Those elements of a shape operand that are known, and above 0. */
void onnx_take_partly(Infer *in, int operand, Dim *shape, int rank);
/* The length of a vector operand; -1 when it is no vector of known length. */
int onnx_vector_length(Infer *in, int operand);
/* E_TYPE unless the operand, when it is there, has the type. */
void onnx_need_type(Infer *in, int operand, DType t);
/* E_SHAPE unless the operand, when it is there, is a vector of n elements. */
void onnx_need_length(Infer *in, int operand, int n);
/* Axes of result 0 whose extents are symbols that this node has to define at run time. */
int onnx_fresh_axes(const Lower *lo, int *axes);
/* Defines the symbols of these axes of result 0 at run time: by the elements of an i64 vector
 * container that holds its shape. */
void onnx_define(Lower *lo, int vector, const int *axes, int n);
/* The same of one axis of any result, by one element. */
void onnx_define_result(Lower *lo, int result, int axis, int vector, int64_t element);
/* The i64 vector `sizes` where its elements are >= 0 and their sum or product ("sum", "prod") is
 * `total`, else extents that no run has room for, so that it is refused. */
int onnx_checked_sizes(Lower *lo, int sizes, const char *combine, Dim total);
/* Defines the fresh axes: `size` gives the extent of one as an i64 value of a map. */
typedef int OnnxSizeFn(Lower *lo, Map *m, int axis);
void onnx_define_axes(Lower *lo, OnnxSizeFn *size);

#endif
