/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes as values, and operators that only change the shape.
 *
 * Reshape, Flatten, Squeeze, Unsqueeze are one lowering: row-major order is kept. Where a shape
 * operand is not known at compile time, the model's own declaration of the result decides; without
 * one its dims are defined at run time by the operand. */
#include "known.h"
#include "view.h"

#include <string.h>

/* ---- Shape, Size ---------------------------------------------------------------------------- */

static void shape_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int64_t start = attr_int(in->ctx, in->node, "start", 0),
            end = attr_int(in->ctx, in->node, "end", t->rank);
    start = start < 0 ? start + t->rank : start;
    end = end < 0 ? end + t->rank : end;
    start = start < 0 ? 0 : start > t->rank ? t->rank : start;
    end = end > t->rank ? t->rank : end < start ? start : end;
    Dim n = dim_const(in->ctx, end - start);
    infer_set(in, 0, I64, &n, 1);
    infer_set_known(in, 0, t->shape + start, (int)(end - start));
}

static void size_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Dim n = dim_product(in->ctx, t->shape, t->rank);
    infer_set(in, 0, I64, NULL, 0);
    infer_set_known(in, 0, &n, 1);
}

/* Their values are always known, so nothing is left to lower. */
static void nothing_lower(Lower *lo) {
    BUG("\"%s\" has results that are not known", lo->node->row->name);
}

/* ---- Reshape and its kin -------------------------------------------------------------------- */

static void carry_elements(Infer *in) {
    const Dim *at;
    int n;
    if (infer_out(in, 0) && onnx_known(in, 0, &at, &n)) infer_set_known(in, 0, at, n);
}

static void reshape_lower(Lower *lo) {
    if (lower_out(lo, 0) >= 0) onnx_reshape(lo, NULL, lower_in(lo, 0), lower_out(lo, 0));
}

_Noreturn static void reshape_misfit(Infer *in, const Type *t, const Dim *shape, int rank) {
    Type to = {TYPE_TENSOR, t->dtype, rank, shape, NULL};
    fail(in->ctx, E_SHAPE, "\"%s\" of type %s cannot become %s: the number of elements must stay",
         infer_in(in, 0)->name, type_str(in->ctx, t), type_str(in->ctx, &to));
}

/* The dim written -1: what is left of the elements. */
static Dim rest_dim(Infer *in, const Type *t, Dim *shape, int rank, int rest) {
    Ctx *ctx = in->ctx;
    Dim total = dim_product(ctx, t->shape, t->rank), others, q;
    shape[rest] = dim_const(ctx, 1);
    others = dim_product(ctx, shape, rank);
    if (dim_is(others, 0)) return dim_const(ctx, 0);
    if (dim_divides(ctx, total, others, &q)) return q;
    if (dim_is_const(total, NULL) && dim_is_const(others, NULL)) {
        shape[rest] = dim_const(ctx, -1);
        reshape_misfit(in, t, shape, rank);
    }
    return dim_div(ctx, total, others);
}

static void reshape_to(Infer *in, const Type *t, const Dim *want, int rank) {
    Ctx *ctx = in->ctx;
    Dim shape[RANK_MAX];
    int rest = -1;
    int64_t d;
    bool allowzero = attr_int(ctx, in->node, "allowzero", 0) != 0;
    if (rank > RANK_MAX) fail(ctx, E_LIMIT, "shape of rank %d: the most is %d", rank, RANK_MAX);
    for (int i = 0; i < rank; i++) {
        bool is = dim_is_const(want[i], &d);
        shape[i] = want[i];
        if (is && d == 0 && !allowzero) {
            if (i >= t->rank)
                fail(ctx, E_SHAPE, "shape copies dim %d of \"%s\", which has rank %d", i,
                     infer_in(in, 0)->name, t->rank);
            shape[i] = t->shape[i];
        } else if (is && d == -1) {
            if (rest >= 0) fail(ctx, E_SHAPE, "shape has -1 twice: one dim can be inferred");
            rest = i;
        } else if (is && d < -1) {
            fail(ctx, E_SHAPE, "shape has a dim of %lld", (long long)d);
        }
    }
    if (rest >= 0) shape[rest] = rest_dim(in, t, shape, rank, rest);
    Dim a = dim_product(ctx, t->shape, t->rank), b = dim_product(ctx, shape, rank);
    if (a != b && dim_is_const(a, NULL) && dim_is_const(b, NULL)) reshape_misfit(in, t, want, rank);
    infer_set(in, 0, t->dtype, shape, rank);
    carry_elements(in);
}

static void reshape_1_infer(Infer *in) {
    const int64_t *list;
    int n = attr_ints(in->ctx, in->node, "shape", &list);
    if (n < 0) fail(in->ctx, E_ATTRIBUTE, "attribute \"shape\" is missing");
    Dim *shape = NEW_ARRAY(in->arena, Dim, n);
    for (int i = 0; i < n; i++) shape[i] = dim_const(in->ctx, list[i]);
    reshape_to(in, &infer_tensor(in, 0)->type, shape, n);
}

/* What a dim can be at most when `t` takes another shape; of an empty tensor, what its other
 * extents make. */
static Dim most_of_one_dim(Infer *in, const Type *t) {
    Dim most = dim_const(in->ctx, 1);
    for (int i = 0; i < t->rank; i++)
        most = dim_mul(in->ctx, most, dim_max(in->ctx, t->shape[i], dim_const(in->ctx, 1)));
    return most;
}

static void reshape_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    const Dim *want;
    int n;
    infer_tensor(in, 1);
    onnx_need_type(in, 1, I64);
    if (infer_known(in, 1, &want, &n))
        reshape_to(in, t, want, n);
    else
        onnx_unknown_shape(in, 1, t->dtype, most_of_one_dim(in, t));
}

/* The final dims from a shape operand that is known at run time only: 0 copies, -1 takes the rest.
 * One map per dim; `product` of all others is a reduction. */
static void define_reshape(Lower *lo, const int *axes, int naxes) {
    const Cont from = lo->flow->cont.at[lower_in(lo, 0)], to = lo->flow->cont.at[lower_out(lo, 0)];
    Dim n = dim_const(lo->ctx, to.rank), total = dim_product(lo->ctx, from.shape, from.rank);
    bool allowzero = attr_int(lo->ctx, lo->node, "allowzero", 0) != 0;
    int want = lower_in(lo, 1), dims = lower_tmp(lo, "dims", I64, &n, 1);
    int others = lower_tmp(lo, "others", I64, NULL, 0), done = lower_tmp(lo, "shape", I64, &n, 1);
    for (int i = 0; i < to.rank; i++) {
        Map *m = lower_map(lo, "dim");
        Dim at = dim_const(lo->ctx, i);
        int arg[2] = {map_read(lo->flow, m, want, &at), 0};
        arg[1] = i < from.rank && !allowzero ? body_index(&m->body, from.shape[i]) : arg[0];
        map_write(lo->flow, m, dims, &at,
                  body_expr(&m->body, "select($0 == 0, $1, $0)", arg, 2, NULL, 0, I64), NULL);
    }
    Map *m = lower_map(lo, "others");
    Dim k = map_dim(lo->flow, m, "k", n);
    int d = map_read(lo->flow, m, dims, &k);
    map_write(lo->flow, m, others, NULL,
              body_expr(&m->body, "select($0 == -1, 1, $0)", &d, 1, NULL, 0, I64),
              combine_get(lo->ctx, "prod", I64));
    m = lower_map(lo, "shape");
    k = map_dim(lo->flow, m, "k", n);
    int arg[3] = {map_read(lo->flow, m, dims, &k), body_index(&m->body, total),
                  map_read(lo->flow, m, others, NULL)};
    map_write(lo->flow, m, done, &k,
              body_expr(&m->body, "select($0 == -1, $1 / $2, $0)", arg, 3, NULL, 0, I64), NULL);
    onnx_define(lo, onnx_checked_sizes(lo, done, "prod", total), axes, naxes);
}

static void reshape_5_lower(Lower *lo) {
    int axes[RANK_MAX], n = lower_out(lo, 0) >= 0 ? onnx_fresh_axes(lo, axes) : 0;
    Infer in = onnx_reader(lo);
    const Dim *want;
    int count;
    if (n && !infer_known(&in, 1, &want, &count)) define_reshape(lo, axes, n);
    reshape_lower(lo);
}

static void flatten_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int64_t axis = attr_int(in->ctx, in->node, "axis", 1);
    if (axis < -t->rank || axis > t->rank)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"axis\" is %lld: it must be in %d..%d",
             (long long)axis, -t->rank, t->rank);
    if (axis < 0) axis += t->rank;
    Dim shape[2] = {dim_product(in->ctx, t->shape, (int)axis),
                    dim_product(in->ctx, t->shape + axis, t->rank - (int)axis)};
    infer_set(in, 0, t->dtype, shape, 2);
    carry_elements(in);
}

/* The result of a squeeze or unsqueeze whose axes the run gives: `more` dims than `t`; each extent
 * is 1 or one of those that may move there. */
static void set_moved(Infer *in, const Type *t, int more) {
    Dim shape[RANK_MAX] = {NULL}, most[RANK_MAX];
    int rank = t->rank + more;
    if (onnx_vector_length(in, 1) < 0 || rank < 0 || rank > RANK_MAX)
        fail(in->ctx, E_UNSUPPORTED,
             "axes \"%s\" of type %s are computed at run time, and the rank of the result with "
             "them: make them a constant",
             infer_in(in, 1)->name, type_str(in->ctx, &infer_in(in, 1)->type));
    for (int i = 0; i < rank; i++) {
        most[i] = dim_const(in->ctx, 1);
        for (int k = 0; k < t->rank; k++)
            if (more < 0 ? k >= i && k <= i - more : k <= i && k >= i - more)
                most[i] = dim_max(in->ctx, most[i], t->shape[k]);
    }
    onnx_set_unknown(in, 1, t->dtype, shape, rank, most);
}

/* Is axis k of `rank` among the operand's? */
static int axis_given(Lower *lo, Map *m, int k, int rank) {
    int64_t n = 0;
    int axes = lower_in(lo, 1), is = body_const(&m->body, BOOL, 0);
    dim_is_const(lo->flow->cont.at[axes].shape[0], &n);
    for (int64_t i = 0; i < n; i++) {
        Dim at = dim_const(lo->ctx, i);
        int arg[2] = {is, map_read(lo->flow, m, axes, &at)};
        const char *text = internf(lo->ctx, "$0 | $1 == %d | $1 == %d", k, k - rank);
        is = body_expr(&m->body, text, arg, 2, NULL, 0, I64);
    }
    return is;
}

/* Extent `axis` of the result: of the longer shape, the given axes are 1, and the others are those
 * of the shorter one in their order. Axes given twice or outside, and ones to squeeze that are not
 * 1, are refused. */
static int moved_size(Lower *lo, Map *m, int axis) {
    Body *b = &m->body;
    const Type *t = &lower_value(lo, 0)->type;
    int to = lo->flow->cont.at[lower_out(lo, 0)].rank, longer = t->rank > to ? t->rank : to;
    int kept = body_const(b, I64, 0), good = body_const(b, BOOL, 1), val = body_const(b, I64, 1);
    for (int k = 0; k < longer; k++) {
        int arg[5] = {axis_given(lo, m, k, longer), kept, val, good, 0};
        if (to < t->rank) {
            arg[4] = body_index(b, t->shape[k]);
            good = body_expr(b, "$3 & (not($0) | $4 == 1)", arg, 5, NULL, 0, I64);
            const char *text = internf(lo->ctx, "select(not($0) & $1 == %d, $4, $2)", axis);
            val = body_expr(b, text, arg, 5, NULL, 0, I64);
        }
        for (int i = 0; k == axis && to > t->rank && i < t->rank; i++) {
            arg[2] = val, arg[4] = body_index(b, t->shape[i]);
            const char *text = internf(lo->ctx, "select(not($0) & $1 == %d, $4, $2)", i);
            val = body_expr(b, text, arg, 5, NULL, 0, I64);
        }
        kept = body_expr(b, "select($0, $1, $1 + 1)", arg, 2, NULL, 0, I64);
    }
    int arg[3] = {good, kept, val};
    const char *text =
        internf(lo->ctx, "select($0 & $1 == %d, $2, highest)", to < t->rank ? to : t->rank);
    return body_expr(b, text, arg, 3, NULL, 0, I64);
}

static void moved_lower(Lower *lo) {
    if (lower_out(lo, 0) >= 0) onnx_define_axes(lo, moved_size);
    reshape_lower(lo);
}

/* Without axes, a symbolic dim stays, unless the model declares a result that has none left. */
static bool squeezes_symbols(Infer *in, const Type *t) {
    const Type *declared = in->declared && in->node->out.n ? &in->declared[0] : NULL;
    int large = 0;
    for (int i = 0; i < t->rank; i++)
        large += dim_is_const(t->shape[i], NULL) && !dim_is(t->shape[i], 1);
    return declared && declared->kind == TYPE_TENSOR && declared->rank == large;
}

/* What a branch asks of sizes holds only where it is taken, so nothing is asked there. */
static void squeeze_infer(Infer *in) {
    const Value *v = infer_tensor(in, 0);
    const Type *t = &v->type;
    bool flag[RANK_MAX];
    Dim shape[RANK_MAX] = {NULL};
    int rank = 0, n = onnx_axes(in, 1, "axes", t->rank, flag);
    if (n == -2) {
        set_moved(in, t, -onnx_vector_length(in, 1));
        return;
    }
    bool all = n < 0 && squeezes_symbols(in, t);
    for (int i = 0; i < t->rank; i++) {
        if (n < 0) flag[i] = dim_is(t->shape[i], 1) || (all && !dim_is_const(t->shape[i], NULL));
        if (flag[i] && !in->graph->outer)
            infer_require(in, t->shape[i], dim_const(in->ctx, 1), false);
        if (flag[i] && dim_is_const(t->shape[i], NULL) && !dim_is(t->shape[i], 1))
            fail(in->ctx, E_SHAPE,
                 "axis %d of \"%s\", which is %s, cannot be squeezed: its extent is not 1", i,
                 v->name, type_str(in->ctx, t));
        if (!flag[i]) shape[rank++] = t->shape[i];
    }
    infer_set(in, 0, t->dtype, shape, rank);
    carry_elements(in);
}

static void unsqueeze_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    const int64_t *axes;
    bool flag[RANK_MAX];
    Dim shape[RANK_MAX] = {NULL};
    int n = onnx_ints(in, 1, "axes", &axes);
    if (n == -2) {
        set_moved(in, t, onnx_vector_length(in, 1));
        return;
    }
    if (n < 0)
        fail(in->ctx, E_ATTRIBUTE, "axes are missing: give the attribute or operand \"axes\"");
    if (t->rank + n > RANK_MAX)
        fail(in->ctx, E_LIMIT, "rank %d: the most is %d", t->rank + n, RANK_MAX);
    onnx_axes(in, 1, "axes", t->rank + n, flag);
    for (int i = 0, k = 0; i < t->rank + n; i++)
        shape[i] = flag[i] ? dim_const(in->ctx, 1) : t->shape[k++];
    infer_set(in, 0, t->dtype, shape, t->rank + n);
    carry_elements(in);
}

/* ---- Transpose ------------------------------------------------------------------------------ */

static void transpose_perm(Ctx *ctx, const Node *node, int rank, int *perm) {
    const int64_t *list;
    int n = attr_ints(ctx, node, "perm", &list);
    bool seen[RANK_MAX] = {false};
    if (n >= 0 && n != rank)
        fail(ctx, E_ATTRIBUTE, "attribute \"perm\" has %d entries: the operand has rank %d", n,
             rank);
    for (int i = 0; i < rank; i++) {
        int64_t p = n < 0 ? rank - 1 - i : list[i] < 0 ? list[i] + rank : list[i];
        if (p < 0 || p >= rank || seen[p])
            fail(ctx, E_ATTRIBUTE, "attribute \"perm\" is not a permutation of 0..%d", rank - 1);
        seen[p] = true;
        perm[i] = (int)p;
    }
}

static void carry_transpose(Infer *in, const Type *t, const int *perm) {
    int64_t stride[RANK_MAX], step[RANK_MAX], extent, all = 1;
    for (int k = t->rank; k-- > 0; all *= extent) {
        if (!dim_is_const(t->shape[k], &extent)) return;
        stride[k] = all;
    }
    for (int k = 0; k < t->rank; k++) step[k] = stride[perm[k]];
    onnx_carry_view(in, 0, step);
}

static void transpose_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int perm[RANK_MAX];
    Dim shape[RANK_MAX];
    transpose_perm(in->ctx, in->node, t->rank, perm);
    for (int i = 0; i < t->rank; i++) shape[i] = t->shape[perm[i]];
    infer_set(in, 0, t->dtype, shape, t->rank);
    carry_transpose(in, t, perm);
}

static void transpose_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0), perm[RANK_MAX];
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    Dim at[RANK_MAX], read[RANK_MAX];
    Map *m = lower_map(lo, NULL);
    transpose_perm(lo->ctx, lo->node, c.rank, perm);
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < c.rank; i++) read[perm[i]] = at[i];
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, read), NULL);
}

/* ---- Expand, Tile --------------------------------------------------------------------------- */

/* A shape known at run time only: leading dims that it does not speak of stay. */
static void unknown_expand(Infer *in, const Type *t) {
    int n = onnx_vector_length(in, 1), rank = n < t->rank ? t->rank : n;
    Dim shape[RANK_MAX], most[RANK_MAX] = {NULL};
    for (int i = 0; i < rank; i++) shape[i] = i < rank - n ? t->shape[i] : NULL;
    if (n == rank) onnx_take_partly(in, 1, shape, rank);
    for (int i = 0; n == rank && i < rank; i++)
        if (shape[i] && (!dim_is_const(shape[i], NULL) || dim_is(shape[i], 1))) shape[i] = NULL;
    onnx_set_unknown(in, 1, t->dtype, shape, n < 0 ? -1 : rank, most);
}

static void expand_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Dim shape[RANK_MAX];
    const Dim *want;
    int n;
    infer_tensor(in, 1);
    onnx_need_type(in, 1, I64);
    if (!infer_known(in, 1, &want, &n)) {
        unknown_expand(in, t);
        return;
    }
    if (n > RANK_MAX) fail(in->ctx, E_LIMIT, "shape of rank %d: the most is %d", n, RANK_MAX);
    Type to = {TYPE_TENSOR, t->dtype, n, want, NULL};
    int rank = infer_broadcast(in, t, &to, shape);
    infer_set(in, 0, t->dtype, shape, rank);
    Type out = infer_out(in, 0) ? infer_out(in, 0)->type : *t;
    const Dim *at;
    if (type_count(&out) == 1 ||
        (onnx_known(in, 0, &at, &n) && n == 1 && type_count(&out) <= KNOWN_MAX)) {
        if (!onnx_known(in, 0, &at, &n)) return;
        int64_t count = type_count(&out);
        if (count < 0) return;
        Dim *all = NEW_ARRAY(in->arena, Dim, count);
        for (int64_t i = 0; i < count; i++) all[i] = at[0];
        infer_set_known(in, 0, all, (int)count);
    }
}

/* ONNX takes the larger of an operand's element and the extent there is. */
static int expand_size(Lower *lo, Map *m, int axis) {
    const Type *from = &lower_value(lo, 0)->type;
    Infer in = onnx_reader(lo);
    int rank = lo->flow->cont.at[lower_out(lo, 0)].rank, own = axis - (rank - from->rank);
    Dim at = dim_const(lo->ctx, axis - (rank - onnx_vector_length(&in, 1)));
    Dim extent = own >= 0 ? from->shape[own] : dim_const(lo->ctx, 1);
    int arg[2] = {map_read(lo->flow, m, lower_in(lo, 1), &at), body_index(&m->body, extent)};
    return body_expr(&m->body, "select($0 == 1, $1, $0)", arg, 2, NULL, 0, I64);
}

static void expand_lower(Lower *lo) {
    Infer in = onnx_reader(lo);
    const Dim *want;
    int count;
    if (lower_out(lo, 0) < 0) return;
    if (!infer_known(&in, 1, &want, &count)) onnx_define_axes(lo, expand_size);
    lower_copy(lo, NULL, lower_in(lo, 0), lower_out(lo, 0));
}

static void tile_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Dim shape[RANK_MAX];
    const Dim *times;
    int n;
    infer_tensor(in, 1);
    onnx_need_type(in, 1, I64);
    if (!infer_known(in, 1, &times, &n)) {
        for (int i = 0; i < t->rank; i++) shape[i] = dim_is(t->shape[i], 0) ? t->shape[i] : NULL;
        onnx_need_length(in, 1, t->rank);
        onnx_set_unknown(in, 1, t->dtype, shape, t->rank, onnx_any_size);
        return;
    }
    if (n != t->rank)
        fail(in->ctx, E_SHAPE, "repeats have %d entries: \"%s\" has rank %d", n,
             infer_in(in, 0)->name, t->rank);
    for (int i = 0; i < n; i++) shape[i] = dim_mul(in->ctx, t->shape[i], times[i]);
    infer_set(in, 0, t->dtype, shape, n);
}

/* A constant of one element, of any type, in 0..most. */
static bool constant_whole(const Infer *in, int operand, int64_t most, int64_t *to) {
    const Value *v = value_source(in->graph, infer_tensor(in, operand));
    if (type_count(&v->type) != 1 || !value_look(v)) return false;
    double at = bits_to_double(v->type.dtype, mem_get(v->type.dtype, v->data, 0));
    if (!(at >= 0 && at <= (double)most)) return false;
    *to = (int64_t)at;
    return true;
}

/* Before opset 6: how often, and along which axis, as scalars of the tensor's type. */
static void tile_1_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Dim shape[RANK_MAX];
    int64_t times, axis;
    if (!constant_whole(in, 1, INT32_MAX, &times) || !constant_whole(in, 2, t->rank - 1, &axis))
        fail(in->ctx, E_UNSUPPORTED, "tiles and axis must be constants, the axis in 0..%d",
             t->rank - 1);
    memcpy(shape, t->shape, sizeof *shape * (size_t)t->rank);
    shape[axis] = dim_mulc(in->ctx, shape[axis], times);
    infer_set(in, 0, t->dtype, shape, t->rank);
}

static int tile_size(Lower *lo, Map *m, int axis) {
    Dim at = dim_const(lo->ctx, axis);
    int extent = body_index(&m->body, lower_value(lo, 0)->type.shape[axis]);
    return body_prim2(&m->body, P_MUL, map_read(lo->flow, m, lower_in(lo, 1), &at), extent);
}

static void tile_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0), count;
    Infer in = onnx_reader(lo);
    const Dim *times;
    if (to < 0) return;
    if (lo->node->version >= 6 && !infer_known(&in, 1, &times, &count))
        onnx_define_axes(lo, tile_size);
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    Dim at[RANK_MAX], read[RANK_MAX];
    Map *m = lower_map(lo, NULL);
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < c.rank; i++)
        read[i] = a.shape[i] == c.shape[i] ? at[i] : dim_mod(lo->ctx, at[i], a.shape[i]);
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, read), NULL);
}

/* ---- Identity ------------------------------------------------------------------------------- */

static void identity_infer(Infer *in) {
    const Value *v = infer_in(in, 0);
    Value *out = infer_out(in, 0);
    if (!v) fail(in->ctx, E_MODEL, "operand 0 is missing: the operator needs it");
    if (!out) return;
    out->type = v->type;
    out->known = NULL;
    if (v->type.kind == TYPE_TENSOR && v->type.rank >= 0) carry_elements(in);
}

static void identity_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    lower_copy(lo, NULL, lower_in(lo, 0), to);
}

/* ---- rows ----------------------------------------------------------------------------------- */

const OpRow onnx_shape_rows[] = {
    {"", "Shape", 1, 0, shape_infer, nothing_lower, NULL, NULL, 0},
    {"", "Size", 1, 0, size_infer, nothing_lower, NULL, NULL, 0},
    {"", "Reshape", 1, 4, reshape_1_infer, reshape_lower, NULL, NULL, OP_SAME},
    {"", "Reshape", 5, 0, reshape_infer, reshape_5_lower, NULL, NULL, OP_SAME},
    {"", "Flatten", 1, 0, flatten_infer, reshape_lower, NULL, NULL, OP_SAME},
    {"", "Squeeze", 1, 0, squeeze_infer, moved_lower, NULL, NULL, OP_SAME},
    {"", "Unsqueeze", 1, 0, unsqueeze_infer, moved_lower, NULL, NULL, OP_SAME},
    {"", "Transpose", 1, 0, transpose_infer, transpose_lower, NULL, NULL, OP_SAME},
    {"", "Expand", 8, 0, expand_infer, expand_lower, NULL, NULL, 0},
    {"", "Tile", 1, 5, tile_1_infer, tile_lower, NULL, NULL, 0},
    {"", "Tile", 6, 0, tile_infer, tile_lower, NULL, NULL, 0},
    {"", "Identity", 1, 0, identity_infer, identity_lower, NULL, NULL, OP_SAME},
    {0},
};
