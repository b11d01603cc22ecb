/* SPDX-License-Identifier: Apache-2.0 */
/* Slice: bounds as Dims when they are known, as values read at run time when not.
 *
 * With a positive step, reading starts at max(0, start) and the length is what is left up to
 * min(end, extent); where start lies behind the end the length is 0 and nothing is read, so start
 * needs no upper bound. A negative step runs from min(start, extent - 1) down to above max(end,
 * -1). */
#include "known.h"
#include "view.h"

typedef struct Range {
    Dim start, step; /* all axes; axes that are not sliced: 0, 1, extent */
    Dim length;      /* NULL: only run time knows */
} Range;

typedef struct Bounds {
    const Dim *start, *end, *step; /* step NULL: 1 */
    const int64_t *axis;           /* NULL: 0, 1, ... */
    int n;
} Bounds;

static const Dim *dims_of(Infer *in, const int64_t *list, int n) {
    Dim *at = NEW_ARRAY(in->arena, Dim, n);
    for (int i = 0; i < n; i++) at[i] = dim_const(in->ctx, list[i]);
    return at;
}

/* How many axes are sliced, where operands tell: one may have a length that only run time knows. */
static int sliced_axes(Infer *in) {
    int n = -1;
    for (int i = 1; i <= 4; i++)
        if (infer_in(in, i) && onnx_vector_length(in, i) > n) n = onnx_vector_length(in, i);
    return n;
}

/* The `n` elements of an operand, NULL those that only run time knows. */
static const Dim *bounds_of(Infer *in, int operand, int n) {
    int count = 0;
    const Dim *at = infer_partly(in, operand, &count);
    const Type *t = &infer_tensor(in, operand)->type;
    if (t->rank != 1 || (at && count != n))
        fail(in->ctx, E_SHAPE,
             "starts, ends, axes and steps must be vectors of equal lengths, not %s beside "
             "%d elements",
             type_str(in->ctx, t), n);
    return at ? at : NEW_ARRAY(in->arena, Dim, n);
}

/* False when it is not known at compile time which axes are sliced. */
static bool slice_bounds(Infer *in, Bounds *b) {
    const int64_t *starts, *ends;
    *b = (Bounds){0};
    if (in->node->version < 10) {
        int n = attr_ints(in->ctx, in->node, "starts", &starts);
        int m = attr_ints(in->ctx, in->node, "ends", &ends);
        int axes = onnx_ints(in, -1, "axes", &b->axis);
        if (n < 0 || m < 0)
            fail(in->ctx, E_ATTRIBUTE, "attributes \"starts\" and \"ends\" must be there");
        if (n != m || (axes >= 0 && axes != n))
            fail(in->ctx, E_SHAPE,
                 "starts, ends and axes must have equal lengths, they have %d, %d and %d", n, m,
                 axes < 0 ? n : axes);
        *b = (Bounds){dims_of(in, starts, n), dims_of(in, ends, n), NULL, b->axis, n};
        return true;
    }
    b->n = sliced_axes(in);
    if (b->n < 0 || onnx_ints(in, 3, NULL, &b->axis) == -2) return false;
    if (b->axis) bounds_of(in, 3, b->n);
    b->start = bounds_of(in, 1, b->n);
    b->end = bounds_of(in, 2, b->n);
    if (infer_in(in, 4)) b->step = bounds_of(in, 4, b->n);
    return true;
}

/* -1 below zero, 1 not below, 0 when neither is proven. */
static int sign_of(Ctx *ctx, Dim d, const DimEnv *env) {
    if (dim_ge0(ctx, d, env)) return 1;
    return dim_ge0(ctx, dim_addc(ctx, dim_mulc(ctx, d, -1), -1), env) ? -1 : 0;
}

enum { ALL = 1000000000 }; /* exporters write this or the largest integers for "to the end" */

/* Counted from the end when negative; what may also be 0 is 0 then: (extent + d) * min(1, -d). */
static bool from_front(Ctx *ctx, Dim *d, Dim extent, const DimEnv *env) {
    int64_t v;
    if (dim_is_const(*d, &v) && (v >= ALL || v <= -ALL)) {
        *d = v > 0 ? extent : dim_const(ctx, -1);
        if (v > 0) return true;
        *d = dim_mulc(ctx, dim_addc(ctx, extent, 1), -1);
        return true;
    }
    int sign = sign_of(ctx, *d, env);
    Dim minus = dim_mulc(ctx, *d, -1), at = dim_add(ctx, *d, extent);
    if (!sign && !dim_ge0(ctx, minus, env)) return false;
    if (!sign) *d = dim_mul(ctx, at, dim_min(ctx, dim_const(ctx, 1), minus));
    if (sign < 0) *d = at;
    return true;
}

static bool slice_axis(Infer *in, Dim extent, Dim start, Dim end, Dim step, const DimEnv *env,
                       Range *out) {
    Ctx *ctx = in->ctx;
    int64_t k;
    Dim zero = dim_const(ctx, 0);
    if (!start || !end || !step || !dim_is_const(step, &k)) return false;
    if (!k) fail(ctx, E_ATTRIBUTE, "a step is 0: it must be another number");
    if (!from_front(ctx, &start, extent, env) || !from_front(ctx, &end, extent, env)) return false;
    Dim span;
    if (k > 0) {
        start = dim_simplify(ctx, dim_max(ctx, start, zero), env);
        end = dim_max(ctx, dim_min(ctx, end, extent), zero);
        span = dim_sub(ctx, end, start);
    } else {
        start = dim_simplify(ctx, dim_min(ctx, start, dim_addc(ctx, extent, -1)), env);
        end = dim_max(ctx, end, dim_const(ctx, -1));
        span = dim_sub(ctx, start, end);
    }
    span = dim_simplify(ctx, span, env);
    Dim length = dim_max(ctx, zero, dim_ceildiv(ctx, span, dim_const(ctx, k > 0 ? k : -k)));
    *out = (Range){start, step, dim_simplify(ctx, length, env)};
    return true;
}

static int sliced_axis(const Infer *in, const int64_t *axes, int i, int rank) {
    int64_t axis = axes ? axes[i] : i;
    if (axis < -rank || axis >= rank)
        fail(in->ctx, E_ATTRIBUTE, "axis %lld is out of range: it must be in %d..%d",
             (long long)axis, -rank, rank - 1);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* False when something only run time knows. */
static bool slice_ranges(Infer *in, const Type *t, Range *range) {
    Bounds b;
    DimEnv env = infer_env(in);
    Dim one = dim_const(in->ctx, 1);
    bool all = true;
    for (int i = 0; i < t->rank; i++) range[i] = (Range){dim_const(in->ctx, 0), one, t->shape[i]};
    if (!slice_bounds(in, &b)) {
        for (int i = 0; i < t->rank; i++) range[i].length = NULL;
        return false;
    }
    for (int i = 0; i < b.n; i++) {
        int k = sliced_axis(in, b.axis, i, t->rank);
        if (slice_axis(in, t->shape[k], b.start[i], b.end[i], b.step ? b.step[i] : one, &env,
                       &range[k]))
            continue;
        range[k].length = NULL;
        all = false;
    }
    return all;
}

static void carry_slice(Infer *in, const Type *t, const Range *range) {
    int64_t first = 0, stride = 1, start, extent, step[RANK_MAX];
    for (int k = t->rank; k-- > 0; stride *= extent) {
        if (!dim_is_const(t->shape[k], &extent) || !dim_is_const(range[k].start, &start)) return;
        dim_is_const(range[k].step, &step[k]);
        step[k] *= stride;
        first += start * stride;
    }
    onnx_carry_view(in, first, step);
}

static void slice_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Range range[RANK_MAX];
    Dim shape[RANK_MAX];
    bool known = slice_ranges(in, t, range);
    for (int i = 0; i < t->rank; i++) shape[i] = range[i].length;
    if (known) {
        infer_set(in, 0, t->dtype, shape, t->rank);
        carry_slice(in, t, range);
        return;
    }
    int n = sliced_axes(in);
    for (int i = 1; i <= 4 && n >= 0; i++) onnx_need_length(in, i, n);
    onnx_set_unknown(in, 1, t->dtype, shape, t->rank, t->shape);
}

/* ---- bounds at run time --------------------------------------------------------------------- */

/* Element i; 0 where only the run tells that there are so many. */
static int vector_read(Lower *lo, Map *m, int cont, int i) {
    const Cont *c = &lo->flow->cont.at[cont];
    Dim at = dim_const(lo->ctx, i);
    int val = dim_is_const(c->shape[0], NULL)
                  ? map_read(lo->flow, m, cont, &at)
                  : map_read_else(lo->flow, m, cont, &at, body_const(&m->body, c->type, 0));
    return body_cvt(&m->body, I64, val);
}

/* The bound that operand `which` gives for `axis`; `otherwise` where the axis is not sliced. Where
 * only the run tells how many are, each may be. */
static int bound_value(Lower *lo, Map *m, int which, int axis, int rank, int otherwise) {
    int cont = lower_in(lo, which), axes = lower_in(lo, 3), val = otherwise;
    Infer in = onnx_reader(lo);
    int n = sliced_axes(&in), count = body_index(&m->body, lo->flow->cont.at[cont].shape[0]);
    for (int i = 0; i < (n < 0 ? rank : n); i++) {
        if (axes < 0 && i != axis) continue;
        int here = vector_read(lo, m, cont, i);
        int k = axes < 0 ? body_const(&m->body, I64, axis) : vector_read(lo, m, axes, i);
        int arg[4] = {here, val, count, k};
        const char *text = internf(lo->ctx, "select($2 > %d & ($3 == %d | $3 == %d), $0, $1)", i,
                                   axis, axis - rank);
        val = body_expr(&m->body, text, arg, 4, NULL, 0, I64);
    }
    return val;
}

typedef struct Values {
    int start, step, length;
} Values;

static Values slice_values(Lower *lo, Map *m, int axis, int rank, Dim extent) {
    Body *b = &m->body;
    int d = body_index(b, extent), zero = body_const(b, I64, 0), one = body_const(b, I64, 1);
    Values v = {0};
    v.step = lower_in(lo, 4) < 0 ? one : bound_value(lo, m, 4, axis, rank, one);
    int arg[4] = {bound_value(lo, m, 1, axis, rank, zero), bound_value(lo, m, 2, axis, rank, d), d,
                  v.step};
    arg[0] = body_expr(b, "select($0 < 0, $0 + $2, $0)", arg, 4, NULL, 0, I64);
    arg[1] = body_expr(b, "select($1 < 0, max($1 + $2, -1), min($1, $2))", arg, 4, NULL, 0, I64);
    v.start = body_expr(b, "select($3 > 0, max($0, 0), min($0, $2 - 1))", arg, 4, NULL, 0, I64);
    arg[0] = v.start;
    v.length = body_expr(
        b, "max(0, select($3 > 0, (max($1, 0) - $0 + $3 - 1) / $3, ($0 - $1 - $3 - 1) / -$3))", arg,
        4, NULL, 0, I64);
    return v;
}

static int slice_size(Lower *lo, Map *m, int axis) {
    const Type *t = &lower_value(lo, 0)->type;
    return slice_values(lo, m, axis, t->rank, t->shape[axis]).length;
}

/* Where element `at` of a range is read. */
static Dim place(Ctx *ctx, const Range *range, Dim at) {
    return dim_add(ctx, range->start, dim_mul(ctx, at, range->step));
}

static void slice_at_run_time(Lower *lo, int from, int to, const Range *range) {
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    onnx_define_axes(lo, slice_size);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < c.rank; i++) {
        read[i] = place(lo->ctx, &range[i], at[i]);
        if (range[i].length) continue;
        Values v = slice_values(lo, m, i, c.rank, a.shape[i]);
        int arg[3] = {v.start, v.step, body_index(&m->body, at[i])};
        read[i] =
            body_symbol(&m->body, body_expr(&m->body, "$0 + $1 * $2", arg, 3, NULL, 0, I64), "s");
    }
    int val = map_read_else(lo->flow, m, from, read, body_const(&m->body, a.type, 0));
    map_write(lo->flow, m, to, at, val, NULL);
}

static void slice_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    Range range[RANK_MAX];
    Infer in = onnx_reader(lo);
    if (to < 0) return;
    if (!slice_ranges(&in, &lower_value(lo, 0)->type, range)) {
        slice_at_run_time(lo, from, to, range);
        return;
    }
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < c.rank; i++) read[i] = place(lo->ctx, &range[i], at[i]);
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, read), NULL);
}

const OpRow onnx_slice_rows[] = {
    {"", "Slice", 1, 0, slice_infer, slice_lower, NULL, NULL, 0},
    {0},
};
