/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are others put together: rows with the flag OP_COMPOSED, whose `infer` writes the
 * composition down in operators of ai.onnx. What fusion makes of it is what it makes of a model
 * that was exported so.
 *
 *     static void quick_gelu(Infer *in) {
 *         int x = operand(in, 0), s = OP(in, "Mul", x, number(in, x, alpha));
 *         result(in, 0, OP(in, "Mul", x, OP(in, "Sigmoid", s)));
 *     }
 *
 * Values are numbers of the graph; -1 is absent. Types of what was written are known at once. */
#ifndef WEIR_FRONTENDS_ONNX_COMPOSE_H
#define WEIR_FRONTENDS_ONNX_COMPOSE_H

#include "nn.h"

/* Operand i of the node; -1 when it is absent. */
int compose_operand(const Infer *in, int i);
const Type *compose_type(const Infer *in, int value);

/* Attributes of the operator that is written next: write its operands before. */
void compose_int(Infer *in, const char *name, int64_t v);
void compose_float(Infer *in, const char *name, float v);
void compose_string(Infer *in, const char *name, const char *v);
void compose_ints(Infer *in, const char *name, const int64_t *v, int n);
/* The same, with the value that the node's attribute `from` has, when it has one. */
void compose_attr(Infer *in, const char *name, const char *from);

/* Writes an operator, of ai.onnx or else of com.microsoft; the number of its first result, the
 * others follow. */
int compose_op(Infer *in, const char *op, const int *operand, int n, int nout);
#define OP(in, op, ...) compose_op(in, op, (const int[]){__VA_ARGS__}, NN_COUNT(__VA_ARGS__), 1)
void compose_result(Infer *in, int result, int value);

/* Constants: a float in the type of value `like`; integers, as a vector or (n < 0) a scalar. */
int compose_number(Infer *in, int like, double v);
int compose_constant(Infer *in, DType t, const double *v, int n);
int compose_shape(Infer *in, const int64_t *v, int n);
int compose_vector(Infer *in, int64_t v); /* of one integer */

/* Often needed: */
int compose_add(Infer *in, int a, int b);         /* an absent operand adds nothing */
int compose_silu(Infer *in, int x, double alpha); /* x * sigmoid(alpha * x) */
int compose_extents(Infer *in, int x, int64_t from, int64_t to); /* extents from .. to - 1 of x */
int64_t compose_size(Infer *in, int x,
                     int axis);      /* an extent that must be a number; -1: the last */
int compose_range(Infer *in, int n); /* 0, 1, .. n - 1, of a vector of one */
int compose_part(Infer *in, int x, int64_t axis, int from, int to); /* elements from .. to - 1 */
int compose_row(Infer *in, int x, int64_t row);                     /* one of x's first axis */
int compose_split(Infer *in, int x, int64_t axis, int parts); /* equal ones; the others follow */
int compose_unsqueeze(Infer *in, int x, int64_t axis);
int compose_reshape(Infer *in, int x, const int64_t *shape, int n); /* 0 keeps, -1 infers */
int compose_transpose(Infer *in, int x, const int64_t *perm, int n);
int compose_cast(Infer *in, int x, DType t);
/* The activation that the attribute `activation` names: "", Relu, Tanh, Sigmoid, LeakyRelu, Clip,
 * HardSigmoid, Gelu; `alpha`, `beta`, `activation_params` go along. */
int compose_activation(Infer *in, int x);
/* Channels last to channels first, or back. */
int compose_channels(Infer *in, int x, bool first);
/* The node's window attributes: kernel_shape, strides, pads and so on. */
void compose_window(Infer *in);
/* Softmax over the axes from .. to - 1 as one row, which are one or the last ones. */
int compose_softmax(Infer *in, int x, int from, int to);
/* What is added to scores: nothing where `seen` is true, else -inf; of the type of `like`. */
int compose_bias(Infer *in, int seen, int like);
/* Truth values [row, n], of that shape, true at `places` [row, k]. */
int compose_flags(Infer *in, int shape, int places);
/* The same bytes of a constant as other numbers. */
int compose_view(Infer *in, const Value *param, DType t, const int64_t *shape, int rank);
/* Constant bytes (operand i) as numbers of a smaller type, low bits first along the last axis. */
int compose_bits(Infer *in, int i, DType t);
/* Of rows [token, width] without padding, `offset` [batch, step] numbers all places, those of rows
 * first: these as a vector; and the rows there, zeros elsewhere, [batch, step, width]. */
int compose_places(Infer *in, int rows, int offset);
int compose_padded(Infer *in, int rows, int places, int offset);
/* Rows of requests one after the other, each of which goes on from `kept` rows of its own past.
 * `ends` holds where each one starts and, last, where the last one ends. All are i64. */
typedef struct ComposeRequests {
    int64_t kept;
    int start, end;     /* [request] */
    int token, request; /* [row]: its number, and its request's */
    int past, all;      /* vectors of one: rows of all pasts; and those of the operand */
} ComposeRequests;
ComposeRequests compose_requests(Infer *in, int rows, int ends, int64_t kept);
/* Which of all pasts' rows and, behind them, the operand's has number `at` of request `request`:
 * before its start its past goes on. Whatever the operands hold, there is such a row. */
int compose_history(Infer *in, const ComposeRequests *r, int at, int request);
/* The same of the last `kept` ones of each: [request, kept]. */
int compose_last(Infer *in, const ComposeRequests *r);
/* contrib_quant.c: (a - zero_a)(b - zero_b) in integers, times the scales, plus bias. */
int compose_integer_product(Infer *in, int a, int b, int scale_a, int scale_b, int zero_a,
                            int zero_b, int bias);

#define IN(i) compose_operand(in, i)
#define COMPOSED(name, infer, types)                                                               \
    { "com.microsoft", name, 1, 0, infer, NULL, NULL, types, OP_COMPOSED }

#endif
