/* SPDX-License-Identifier: Apache-2.0 */
/* What the neural-network families share: checks with messages that name both shapes, spatial
 * attributes, and short forms for writing maps.
 *
 * Short forms: `nn_read` converts to the type arithmetic runs in (f32 for f16), `nn_write` rounds
 * to the container's type, `EXPR` computes from Vals. So a lowering reads like the formula. */
#ifndef WEIR_FRONTENDS_ONNX_NN_H
#define WEIR_FRONTENDS_ONNX_NN_H

#include "ops.h"

/* ---- types ----------------------------------------------------------------------------------- */

typedef struct Shape {
    int rank;
    Dim at[RANK_MAX];
} Shape;

Shape shape_of(const Type *t);
/* Fails with E_SHAPE: names, types of operands i and j, then the rule and the remedy. */
_Noreturn void nn_misfit(const Infer *in, int i, int j, const char *rule);
/* The value, if there is one, must be a tensor of one element, in at most `rank` dims of extent 1.
 */
void nn_need_one(Ctx *ctx, const Value *v, int rank);
/* The one extent that both must have: the constant one, if any; nn_misfit when they cannot agree.
 */
Dim nn_agree(const Infer *in, Dim a, Dim b, int i, int j, const char *rule);
/* Operand i as a tensor of rank lo..hi. */
const Type *nn_ranked(const Infer *in, int i, int lo, int hi);
bool nn_is_float(DType t);
void nn_same_as(Infer *in, int result, int operand);
void nn_infer_same(Infer *in); /* result 0 has the type of operand 0 */
/* Constant integers: a known operand or, when `operand` is < 0 or absent, the attribute. -1:
 * neither is there. Fails when the operand is there but not known at compile time. */
int nn_ints(Ctx *ctx, const Graph *graph, const Node *node, int operand, const char *attr,
            const int64_t **ints);
bool nn_absent(const Node *node, int operand);
/* Axes of a tensor of `rank`, made positive and checked, as flags; all of them when none are given.
 */
void nn_axes(Ctx *ctx, const int64_t *axes, int n, int rank, bool *flag);
/* What is left of `from` without the flagged axes; returns how many. */
int nn_kept(const Dim *from, const bool *flag, int rank, Dim *to);
/* Product of the flagged extents. */
Dim nn_extent(Ctx *ctx, const Dim *shape, const bool *flag, int rank);

/* ---- lowering -------------------------------------------------------------------------------- */

static inline const Cont *nn_cont(const Lower *lo, int cont) {
    return &lo->flow->cont.at[cont];
}

/* Index dims over `shape`, named by the letters of `names` (then i0, i1, ...); 0 where the extent
 * is 1, without a map dim. */
void nn_dims(Lower *lo, Map *m, const char *names, const Dim *shape, int rank, Dim *at);
/* One more dim; index 0 when its extent is 1. */
Dim nn_dim(Lower *lo, Map *m, const char *name, Dim extent);
/* A map whose dims are those of `cont`. */
Map *nn_map_over(Lower *lo, const char *name, const char *names, int cont, Dim *at);
int nn_read(Lower *lo, Map *m, int cont, const Dim *at);
int nn_read_as(Lower *lo, Map *m, int cont, const Dim *at, DType t);
/* The value outside is `otherwise`. */
int nn_read_else(Lower *lo, Map *m, int cont, const Dim *at, double otherwise, DType t);
/* Broadcast from the right, converted. */
int nn_read_broadcast(Lower *lo, Map *m, int cont, const Dim *dims, int rank, DType t);
void nn_write(Lower *lo, Map *m, int cont, const Dim *at, int val);
void nn_reduce(Lower *lo, Map *m, int cont, const Dim *at, int val, const char *combine);
/* A temporary in the type arithmetic runs in for `like`. */
int nn_tmp(Lower *lo, const char *name, DType t, const Dim *shape, int rank);
/* A temporary of `cont`'s shape. */
int nn_tmp_like(Lower *lo, const char *name, DType t, int cont);

/* Each row of f32 container x rounded to codes of 8 bits over the range of its elements and 0: a
 * new container. */
int nn_row_codes(Lower *lo, int x);
/* A symbol of the flow that a call will define; at most `upper`. */
Dim nn_fresh(Lower *lo, const char *name, Dim upper);
/* Is size a symbol that a call defines from data? */
bool nn_data_size(const Lower *lo, Dim size);
/* Defines `size` as element `index` of an integer container, put into 0 .. upper. */
void nn_define(Lower *lo, Dim size, int from, int64_t index, Dim upper);
/* Row-major index of element `at` of a shape. */
Dim nn_row_index(Ctx *ctx, const Dim *at, const Dim *shape, int rank);
/* Copy of the shape of `cont`: container numbers stay, pointers to containers do not. */
Shape nn_shape(const Lower *lo, int cont);
/* A size as a value of type t. */
int nn_size(Map *m, Dim size, DType t);
void nn_between(Lower *lo, Map *m, Dim d, Dim lo_bound, Dim extent); /* lo <= d < extent */
void nn_fill(Lower *lo, const char *name, int cont, double v);
/* Why the call "refuse" ends a run. */
enum { OTHER_RANK, NOT_ONE, NO_AXIS };
/* Appends a loop over `var` (NULL: a new symbol). The item stays where it is until the next one is
 * appended to the same list; point lo->into at its body, and back. */
Item *nn_loop(Lower *lo, Dim var, Dim trip);
/* A scalar container: of one that holds a single element, or of `otherwise` when cont is -1. */
int nn_scalar(Lower *lo, const char *name, int cont, DType t, double otherwise);
/* y = log(softmax(x)) along one axis (softmax.c). */
void nn_log_softmax(Lower *lo, int x, int axis, int y);
/* Between strings and numbers, `to` of the shape of `from` (cast.c). */
void nn_cast_text(Lower *lo, int from, int to);
/* Elements of c128 lie in maps as texts (lower_type), and calls take them as they are. Of element
 * type t: `cont` for a call to read, and what a call writes instead of it, which nn_pairs_to then
 * moves there. `cont` itself for other types. */
int nn_pairs(Lower *lo, int cont, DType t);
int nn_pairs_for(Lower *lo, int cont, DType t);
void nn_pairs_to(Lower *lo, int pairs, int cont);
/* Real and imaginary part of complex elements, as `cont` holds them: two new containers of f32 or
 * f64 like it, read from it (nn_parts), to be written (nn_parts_for) and put together in it. */
void nn_parts(Lower *lo, int cont, int *part);
void nn_parts_for(Lower *lo, int cont, int *part);
void nn_parts_to(Lower *lo, const int *part, int cont);
/* lo->node's attributes, short. */
int64_t nn_int(const Lower *lo, const char *name, int64_t otherwise);
float nn_float(const Lower *lo, const char *name, float otherwise);
/* A float as text for body_expr, exact. */
const char *nn_lit(const Lower *lo, double v);

/* body_expr on Vals: EXPR(m, "exp($0 - $1)", x, mx). */
#define NN_COUNT(...) ((int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
#define EXPR(m, text, ...)                                                                         \
    body_expr(&(m)->body, text, (const int[]){__VA_ARGS__}, NN_COUNT(__VA_ARGS__), NULL, 0, F32)

/* ---- windows: what convolutions and pools slide ---------------------------------------------- */

enum { SPATIAL_MAX = 8 };
typedef struct Window {
    int n; /* spatial dims */
    Dim kernel[SPATIAL_MAX];
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX];
    Dim begin[SPATIAL_MAX], end[SPATIAL_MAX]; /* padding */
    Dim in[SPATIAL_MAX], out[SPATIAL_MAX];
    bool padded; /* some padding may be > 0, so that reads may leave the box */
} Window;

/* From the attributes kernel_shape, strides, dilations, pads, auto_pad (and ceil_mode) of a node
 * over spatial extents `in`. `kernel` (may be NULL) is the shape of the weights' window; the
 * attribute, when it is there, says what that must be. */
Window nn_window(Ctx *ctx, const Node *node, const Dim *in, int n, const Dim *kernel);
/* What a run must hold for the window over weights of extents `kernel` to make sense: these are as
 * declared, 1 at least, and the result's extents are not negative. */
void nn_window_require(const Infer *in, const Window *w, const Dim *kernel);
/* a >= b in every run. */
void nn_require_ge(const Infer *in, Dim a, Dim b);
/* Result 0 repeats or mixes elements of operand 0 along an axis: one without elements has none, and
 * its size stays 0; E_SHAPE, or a bound on what the run gives. */
void nn_need_elements(Infer *in, int axis);
/* Elements from the first tap to the last. */
Dim nn_span(Ctx *ctx, const Window *w, int i);
/* Reads attribute `name` as n values: `otherwise` when absent, E_ATTRIBUTE on a wrong count. */
void nn_attr_n(Ctx *ctx, const Node *node, const char *name, int n, int64_t otherwise, int64_t *to);
/* Index in the input of tap r of output o: o*stride + r*dilation - begin. */
Dim nn_tap(Ctx *ctx, const Window *w, int i, Dim o, Dim r);

#endif
