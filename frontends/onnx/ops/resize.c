/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample: one axis after another, by tables.
 *
 * For each axis a small map computes where every output reads (`base`) and with what weights
 * (`weight`, one per tap), in f64 as the standard's reference does; they are constant when the
 * scales are. Then the axis is a sum over the taps. Nearest reads without a sum, and repeating each
 * element a whole number of times is plain index arithmetic. The coordinate formulas are the
 * standard's, over $0 the output's index, $1 the scale, $2 the input's extent, $3 the scaled extent
 * (not rounded), $4 the output's extent, $5 and $6 the region of interest. */
#include "known.h"
#include "nn.h"
#include "view.h"

#include <math.h>
#include <string.h>

typedef enum { NEAREST, LINEAR, CUBIC } Mode;

typedef struct Coordinate {
    const char *name, *text;
    bool crop;
} Coordinate;

static const Coordinate coordinates[] = {
    {"half_pixel", "($0 + 0.5) / $1 - 0.5", false},
    {"asymmetric", "$0 / $1", false},
    {"pytorch_half_pixel", "select($3 == 1, -0.5, ($0 + 0.5) / $1 - 0.5)", false},
    {"align_corners", "select($3 == 1, 0, $0 * ($2 - 1) / ($3 - 1))", false},
    {"tf_half_pixel_for_nn", "select($1 == 1, $0, ($0 + 0.5) / $1)", false},
    {"half_pixel_symmetric", "$2 / 2 * (1 - $4 / $3) + ($0 + 0.5) / $1 - 0.5", false},
    {"tf_crop_and_resize",
     "$5 * ($2 - 1) + select($3 == 1, ($6 - $5) * ($2 - 1) / 2, $0 * ($6 - $5) * ($2 - 1) / ($3 - "
     "1))",
     true},
};

typedef struct Rounding {
    const char *name, *text;
    double shift;
    bool up;
} Rounding;

static const Rounding roundings[] = {
    {"round_prefer_floor", "ceil($0 - 0.5)", -0.5, true},
    {"round_prefer_ceil", "floor($0 + 0.5)", 0.5, false},
    {"floor", "floor($0)", 0, false},
    {"ceil", "ceil($0)", 0, true},
    {"", "select($1 < 1, ceil($0), floor($0))", 0, false}, /* before opset 11 */
};

typedef struct Resize {
    Lower *lo;
    Mode mode;
    const Coordinate *where;
    const Rounding *rounding;
    double a, extrapolation;
    bool exclude, antialias;
    int policy;             /* 1, 2: one scale for all axes, of sizes that the run gives */
    int scales, sizes, roi; /* operands; -1: none */
    int place[RANK_MAX];    /* of each axis among the operand's elements; -1: not resized */
    int nplaces;
    double scale[RANK_MAX]; /* when known; else 0 */
} Resize;

/* ---- attributes and operands ---------------------------------------------------------------- */

static int choose(Ctx *ctx, const Node *node, const char *attr, const char *otherwise,
                  const char *const *names, int n) {
    const char *is = attr_string(ctx, node, attr, otherwise);
    Text list = {ctx_arena(ctx), NULL, 0, 0};
    for (int i = 0; i < n; i++) {
        if (!strcmp(is, names[i])) return i;
        text_printf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is \"%s\": it must be one of %s", attr, is,
         text_str(&list));
}

static bool is_old(const Node *node) {
    return node->version < 11;
}

static void operands(Ctx *ctx, const Node *node, int *roi, int *scales, int *sizes) {
    int first = is_old(node) ? 1 : 2;
    *roi = !is_old(node) && node->in.n > 1 && node->in.at[1] >= 0 ? 1 : -1;
    *scales = node->in.n > first && node->in.at[first] >= 0 ? first : -1;
    *sizes = node->in.n > 3 && node->in.at[3] >= 0 ? 3 : -1;
    if (*scales < 0 && *sizes < 0 && !node_attr(node, "scales") && !node_attr(node, "height_scale"))
        fail(ctx, E_MODEL, "neither scales nor sizes are given: one of them must be");
}

/* Elements of a constant float operand or of the attribute; in version 1 there are two of them. */
static bool known_scales(Infer *in, int operand, double *scale, int *n) {
    const Attr *a = node_attr(in->node, "scales");
    if (operand < 0 && node_attr(in->node, "height_scale")) {
        *n = 4;
        scale[0] = scale[1] = 1;
        scale[2] = (double)attr_float(in->ctx, in->node, "height_scale", 1);
        scale[3] = (double)attr_float(in->ctx, in->node, "width_scale", 1);
        return true;
    }
    if (operand < 0) {
        if (!a || a->kind != ATTR_FLOATS) return false;
        *n = a->n;
        for (int i = 0; i < a->n && i < RANK_MAX; i++) scale[i] = (double)a->floats[i];
        return true;
    }
    const Value *v = value_source(in->graph, infer_tensor(in, operand));
    int64_t count = type_count(&v->type);
    if (count > RANK_MAX || !value_look(v)) return false;
    *n = (int)count;
    for (int i = 0; i < *n; i++)
        scale[i] = bits_to_double(v->type.dtype, mem_get(v->type.dtype, v->data, i));
    return true;
}

/* Which element of scales and sizes speaks of each axis. */
static int places(Infer *in, int rank, int *place) {
    const int64_t *axes;
    int n = in->node->version >= 18 ? attr_ints(in->ctx, in->node, "axes", &axes) : -1;
    for (int i = 0; i < rank; i++) place[i] = n < 0 ? i : -1;
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || place[axis] >= 0)
            fail(in->ctx, E_ATTRIBUTE,
                 "attribute \"axes\" has %lld, which is out of range or there twice",
                 (long long)axes[i]);
        place[axis] = i;
    }
    return n < 0 ? rank : n;
}

/* An operand without elements counts as absent. */
static int not_empty(Infer *in, int operand) {
    return operand >= 0 && type_count(&infer_tensor(in, operand)->type) == 0 ? -1 : operand;
}

/* floor(extent * scale), the product rounded to f32, as scales are; NULL when it is no polynomial.
 */
static Dim scaled(Ctx *ctx, Dim extent, double scale) {
    int64_t d;
    if (dim_is_const(extent, &d)) return dim_const(ctx, (int64_t)floorf((float)d * (float)scale));
    for (int64_t q = 1; q <= 64; q *= 2)
        if (scale * (double)q == floor(scale * (double)q) && scale * (double)q < 1e6)
            return dim_div(ctx, dim_mulc(ctx, extent, (int64_t)(scale * (double)q)),
                           dim_const(ctx, q));
    return NULL;
}

/* 0: stretch; one scale for all axes, so that none becomes larger (1) or smaller (2) than asked
 * for.
 */
static int policy_of(Ctx *ctx, const Node *node) {
    static const char *const names[] = {"stretch", "not_larger", "not_smaller"};
    return choose(ctx, node, "keep_aspect_ratio_policy", "stretch", names, 3);
}

/* That scale; 0 when axes are stretched, or only the run tells. */
static double common_scale(Infer *in, const Type *t, const int *place, const Dim *size) {
    int policy = policy_of(in->ctx, in->node);
    double best = 0;
    int64_t want, have;
    for (int i = 0; policy && i < t->rank; i++) {
        if (place[i] < 0) continue;
        if (!dim_is_const(size[place[i]], &want) || !dim_is_const(t->shape[i], &have)) return 0;
        if (have == 0) continue;
        double s = (double)want / (double)have;
        if (best == 0 || (policy == 1 ? s < best : s > best)) best = s;
    }
    return best;
}

/* ---- types ---------------------------------------------------------------------------------- */

static void resize_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int roi, scales, sizes, n, place[RANK_MAX], nplaces = places(in, t->rank, place);
    double scale[RANK_MAX];
    const Dim *size;
    Dim shape[RANK_MAX], most[RANK_MAX]; /* an empty axis stays so, whatever the run asks for */
    operands(in->ctx, in->node, &roi, &scales, &sizes);
    sizes = not_empty(in, sizes);
    bool known = true, by_size = sizes >= 0 && infer_known(in, sizes, &size, &n);
    bool by_scale = sizes < 0 && known_scales(in, scales, scale, &n);
    int by = sizes >= 0 ? sizes : scales;
    if (!by_size && !by_scale) onnx_need_length(in, by, nplaces), n = nplaces;
    if (n != nplaces)
        fail(in->ctx, E_SHAPE, "there are %d scales or sizes for %d axes", n, nplaces);
    double common = by_size ? common_scale(in, t, place, size) : 0;
    bool late = by_size && policy_of(in->ctx, in->node) && common == 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t d = 0;
        dim_is_const(t->shape[i], &d);
        shape[i] = place[i] < 0       ? t->shape[i]
                   : by_scale         ? scaled(in->ctx, t->shape[i], scale[place[i]])
                   : common > 0       ? dim_const(in->ctx, (int64_t)floor(common * (double)d + 0.5))
                   : by_size && !late ? size[place[i]]
                                      : NULL;
        if (by_scale && place[i] >= 0 && !(scale[place[i]] > 0))
            fail(in->ctx, E_SHAPE, "scale %g of axis %d must be positive", scale[place[i]], i);
        known = known && shape[i];
        most[i] = dim_is(t->shape[i], 0) ? t->shape[i] : onnx_any_size[i];
    }
    if (known)
        infer_set(in, 0, t->dtype, shape, t->rank);
    else
        onnx_set_unknown(in, by < 0 ? 0 : by, t->dtype, shape, t->rank, most);
    for (int i = 0; !by_scale && i < t->rank; i++)
        if (place[i] >= 0) nn_need_elements(in, i);
}

static const Rounding *rounding_of(Ctx *ctx, const Node *node) {
    const char *names[4];
    for (int i = 0; i < 4; i++) names[i] = roundings[i].name;
    return &roundings[is_old(node)
                          ? 4
                          : choose(ctx, node, "nearest_mode", "round_prefer_floor", names, 4)];
}

static Resize resize_of(Lower *lo) {
    static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear"};
    const char *names[7];
    Infer in = onnx_reader(lo);
    Ctx *ctx = lo->ctx;
    const Node *node = lo->node;
    const Type *t = &lower_value(lo, 0)->type;
    int n, mode = choose(ctx, node, "mode", "nearest", modes, 4);
    const Dim *size;
    double scale[RANK_MAX];
    Resize r = {
        .lo = lo, .mode = mode == 3 ? LINEAR : (Mode)mode, .rounding = rounding_of(ctx, node)};
    for (int i = 0; i < 7; i++) names[i] = coordinates[i].name;
    const char *where = is_old(node) ? "asymmetric" : "half_pixel";
    r.where = &coordinates[choose(ctx, node, "coordinate_transformation_mode", where, names, 7)];
    if (r.mode != NEAREST && (t->dtype == STRING || t->dtype == BOOL))
        fail(ctx, E_UNSUPPORTED, "elements of type %s cannot be interpolated: use mode nearest",
             dtype_name(t->dtype));
    r.a = (double)attr_float(ctx, node, "cubic_coeff_a", -0.75f);
    r.extrapolation = (double)attr_float(ctx, node, "extrapolation_value", 0);
    r.exclude = attr_int(ctx, node, "exclude_outside", 0) != 0;
    r.antialias = attr_int(ctx, node, "antialias", 0) != 0 && r.mode != NEAREST;
    operands(ctx, node, &r.roi, &r.scales, &r.sizes);
    r.sizes = not_empty(&in, r.sizes);
    r.nplaces = places(&in, t->rank, r.place);
    double common = 0;
    if (r.sizes >= 0 && infer_known(&in, r.sizes, &size, &n))
        common = common_scale(&in, t, r.place, size);
    if (r.sizes >= 0 && common == 0) r.policy = policy_of(ctx, node);
    bool known = r.sizes < 0 && known_scales(&in, r.scales, scale, &n);
    for (int i = 0; i < t->rank; i++)
        if (r.place[i] >= 0) r.scale[i] = known ? scale[r.place[i]] : common;
    return r;
}

/* ---- repeating elements --------------------------------------------------------------------- */

/* Does nearest read element o / times for every output o? It is enough to look at a block that is
 * not the first one, where a coordinate below 0 is 0 too. Scales that run time tells may be larger
 * than the quotient of the extents. */
static bool repeats(const Resize *r, int axis, Dim from, Dim to, int64_t *times) {
    double s = r->scale[axis];
    bool half = !strcmp(r->where->name, "half_pixel"),
         corner = !strcmp(r->where->name, "asymmetric");
    if (r->mode != NEAREST || !(half || corner)) return false;
    int64_t a, b;
    if (s == 0 && r->sizes >= 0 && dim_is_const(from, &a) && dim_is_const(to, &b) && a &&
        b % a == 0)
        s = (double)(b / a);
    if (s < 1 || s > 1024 || s != floor(s) || dim_mulc(r->lo->ctx, from, (int64_t)s) != to)
        return false;
    for (int k = (int)s; k < 2 * (int)s; k++) {
        double x = half ? (k + 0.5) / s - 0.5 : k / s;
        double at = r->rounding->up ? ceil(x + r->rounding->shift) : floor(x + r->rounding->shift);
        if (at != 1) return false;
    }
    *times = (int64_t)s;
    return true;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Element `place` of an operand. */
static int given(const Resize *r, Map *m, int operand, int place, DType t) {
    Dim at = dim_const(r->lo->ctx, place);
    return body_cvt(&m->body, t, map_read(r->lo->flow, m, lower_in(r->lo, operand), &at));
}

/* The one scale of all axes. */
static int common_value(const Resize *r, Map *m) {
    const Type *t = &lower_value(r->lo, 0)->type;
    int best = -1;
    for (int i = 0; i < t->rank; i++) {
        if (r->place[i] < 0) continue;
        int s = EXPR(m, "$0 / $1", given(r, m, r->sizes, r->place[i], F64),
                     nn_size(m, t->shape[i], F64));
        best = best < 0 ? s : EXPR(m, r->policy == 1 ? "min($0, $1)" : "max($0, $1)", best, s);
    }
    return best;
}

/* The scale of an axis as f64: a number, an operand's element, or the quotient of the extents. */
static int scale_value(const Resize *r, Map *m, int axis, int from, int to) {
    if (r->scale[axis] > 0) return body_const(&m->body, F64, r->scale[axis]);
    if (r->policy) return common_value(r, m);
    if (r->sizes >= 0 || r->scales < 0) return body_prim2(&m->body, P_DIV, to, from);
    return given(r, m, r->scales, r->place[axis], F64);
}

/* An extent of the result that the run gives. Scales must be positive; an empty axis stays so. */
static int resize_size(Lower *lo, Map *m, int axis) {
    Resize r = resize_of(lo);
    int from = nn_size(m, lower_value(lo, 0)->type.shape[axis], F64);
    if (r.sizes >= 0 && !r.policy)
        return EXPR(m, "select($0 > 0 | $1 == 0, $1, highest)", from,
                    given(&r, m, r.sizes, r.place[axis], I64));
    int s = scale_value(&r, m, axis, from, from);
    int size =
        body_cvt(&m->body, I64,
                 EXPR(m, r.policy ? "floor($0 * $1 + 0.5)" : "floor(f64(f32($0 * $1)))", from, s));
    return EXPR(m, "select($0 > 0, $1, highest)", s, size);
}

static int roi_value(const Resize *r, Map *m, int place) {
    Lower *lo = r->lo;
    Infer in = onnx_reader(lo);
    if (r->roi < 0) fail(lo->ctx, E_MODEL, "operand roi is missing: tf_crop_and_resize needs it");
    onnx_need_length(&in, r->roi, 2 * r->nplaces);
    return given(r, m, r->roi, place, F64);
}

/* The coordinate that output o reads. arg[2] is left to hold the input's extent, arg[1] the scale.
 */
static int coordinate(const Resize *r, Map *m, int axis, Dim o, Dim from, Dim to, int *arg) {
    Body *b = &m->body;
    arg[0] = body_cvt(b, F64, body_index(b, o));
    arg[2] = body_cvt(b, F64, body_index(b, from));
    arg[4] = body_cvt(b, F64, body_index(b, to));
    arg[1] = scale_value(r, m, axis, arg[2], arg[4]);
    arg[3] = r->scale[axis] > 0 || r->scales >= 0 ? body_prim2(b, P_MUL, arg[1], arg[2]) : arg[4];
    if (r->sizes >= 0 && r->scale[axis] == 0 && !r->policy) arg[3] = arg[4];
    arg[5] = arg[6] = arg[0];
    if (r->where->crop) {
        arg[5] = roi_value(r, m, r->place[axis]);
        arg[6] = roi_value(r, m, r->place[axis] + r->nplaces);
    }
    return body_expr(b, r->where->text, arg, 7, NULL, 0, F64);
}

/* base[o]: the place of the first tap. Nearest rounds coordinates to f32, as scales are: 1 /
 * 0.33333334 is 3. */
static int base_table(const Resize *r, int axis, Dim from, Dim to, Dim first) {
    Lower *lo = r->lo;
    int table = lower_tmp(lo, internf(lo->ctx, "base%d", axis), I64, &to, 1), arg[8];
    Map *m = lower_map(lo, internf(lo->ctx, "base%d", axis));
    Dim o = map_dim(lo->flow, m, "o", to);
    int x = coordinate(r, m, axis, o, from, to, arg);
    if (r->mode == NEAREST) x = body_cvt(&m->body, F64, body_cvt(&m->body, F32, x));
    int v = body_expr(&m->body, r->mode == NEAREST ? r->rounding->text : "floor($0)",
                      (int[]){x, arg[1]}, 2, NULL, 0, F64);
    v = body_prim2(&m->body, P_ADD, body_cvt(&m->body, I64, v), body_index(&m->body, first));
    map_write(lo->flow, m, table, &o, v, NULL);
    return table;
}

/* Weight of tap $0 (counted from floor of the coordinate) at fraction $1 for a kernel stretched by
 * $2 <= 1. */
static const char *kernel_text(const Resize *r) {
    if (r->mode == LINEAR) return "max(0, 1 - abs(($0 - $1) * $2))";
    return internf(r->lo->ctx,
                   "d = abs(($0 - $1) * $2); select(d <= 1, ((%a) * d - (%a)) * d * d + 1, "
                   "select(d < 2, (((%a) * d - (%a)) * d + (%a)) * d - (%a), 0))",
                   r->a + 2, r->a + 3, r->a, 5 * r->a, 8 * r->a, 4 * r->a);
}

static int weight_table(const Resize *r, int axis, Dim from, Dim to, Dim first, Dim taps, DType t) {
    Lower *lo = r->lo;
    Ctx *ctx = lo->ctx;
    bool normal = r->exclude || r->antialias;
    Dim shape[2] = {to, taps}, at[2];
    int raw = lower_tmp(lo, internf(ctx, "weight%d", axis), normal ? F64 : t, shape, 2), arg[8];
    Map *m = lower_map(lo, internf(ctx, "weight%d", axis));
    Body *b = &m->body;
    at[0] = map_dim(lo->flow, m, "o", to);
    at[1] = map_dim(lo->flow, m, "t", shape[1]);
    int x = coordinate(r, m, axis, at[0], from, to, arg), low = body_prim1(b, P_FLOOR, x);
    int tap = body_cvt(b, F64, body_index(b, dim_add(ctx, at[1], first)));
    int narrow =
        r->antialias ? body_prim2(b, P_MIN, arg[1], body_const(b, F64, 1)) : body_const(b, F64, 1);
    int k[5] = {tap, body_prim2(b, P_SUB, x, low), narrow, body_prim2(b, P_ADD, low, tap), arg[2]};
    int w = body_expr(b, kernel_text(r), k, 3, NULL, 0, F64);
    k[0] = w;
    if (r->exclude) w = body_expr(b, "select($3 < 0 | $3 >= $4, 0, $0)", k, 5, NULL, 0, F64);
    map_write(lo->flow, m, raw, at, body_cvt(b, normal ? F64 : t, w), NULL);
    if (!normal) return raw;
    int sum = lower_tmp(lo, internf(ctx, "total%d", axis), F64, &to, 1);
    m = lower_map(lo, internf(ctx, "total%d", axis));
    at[0] = map_dim(lo->flow, m, "o", to);
    at[1] = map_dim(lo->flow, m, "t", shape[1]);
    map_write(lo->flow, m, sum, at, map_read(lo->flow, m, raw, at), combine_get(ctx, "sum", F64));
    int table = lower_tmp(lo, internf(ctx, "share%d", axis), t, shape, 2);
    m = lower_map(lo, internf(ctx, "share%d", axis));
    at[0] = map_dim(lo->flow, m, "o", to);
    at[1] = map_dim(lo->flow, m, "t", shape[1]);
    w = body_prim2(&m->body, P_DIV, map_read(lo->flow, m, raw, at), map_read(lo->flow, m, sum, at));
    map_write(lo->flow, m, table, at, body_cvt(&m->body, t, w), NULL);
    return table;
}

/* ---- one axis ------------------------------------------------------------------------------- */

/* Place of a tap on an axis: outside, the edge is repeated. */
static Dim tap_index(Lower *lo, Map *m, int base, Dim o, Dim tap, Dim extent) {
    Body *b = &m->body;
    int arg[3] = {map_read(lo->flow, m, base, &o), body_index(b, tap), body_index(b, extent)};
    return body_symbol(b, body_expr(b, "max(min($0 + $1, $2 - 1), 0)", arg, 3, NULL, 0, I64), "r");
}

/* A number as an element of any type: complex without an imaginary part; texts are empty. */
static int outside_value(Body *b, DType t, double v) {
    bool complex = dtype_class(t) == CLASS_COMPLEX, text = dtype_class(t) == CLASS_OBJECT;
    return body_bits(b, t, text ? 0 : bits_of_double(complex ? F32 : t, v));
}

/* Elements whose coordinate tf_crop_and_resize finds outside become the extrapolation value. */
static void extrapolate(const Resize *r, int axis, int from, int to, Dim extent) {
    Lower *lo = r->lo;
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, internf(lo->ctx, "outside%d", axis));
    Dim at[RANK_MAX];
    int arg[8];
    for (int i = 0; i < c.rank; i++)
        at[i] = map_dim(lo->flow, m, internf(lo->ctx, "i%d", i), c.shape[i]);
    arg[7] = coordinate(r, m, axis, at[axis], extent, c.shape[axis], arg);
    int out = body_expr(&m->body, "$7 < 0 | $7 > $2 - 1", arg, 8, NULL, 0, F64);
    int val = body_prim3(&m->body, P_SELECT, out, outside_value(&m->body, c.type, r->extrapolation),
                         map_read(lo->flow, m, from, at));
    map_write(lo->flow, m, to, at, val, NULL);
}

static void nearest_axis(const Resize *r, int axis, int from, int to) {
    Lower *lo = r->lo;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    int base = base_table(r, axis, a.shape[axis], c.shape[axis], dim_const(lo->ctx, 0));
    Map *m = lower_map(lo, internf(lo->ctx, "axis%d", axis));
    Dim at[RANK_MAX], read[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(read, at, sizeof read);
    read[axis] = tap_index(lo, m, base, at[axis], dim_const(lo->ctx, 0), a.shape[axis]);
    map_write(lo->flow, m, to, at, body_cvt(&m->body, c.type, map_read(lo->flow, m, from, read)),
              NULL);
}

/* How many taps an axis has: a kernel that reaches `half` elements to each side is stretched where
 * the axis becomes smaller. Only the run may tell how far. */
static Dim taps_of(const Resize *r, int axis, Dim from, Dim to) {
    Lower *lo = r->lo;
    Ctx *ctx = lo->ctx;
    double s = r->scale[axis];
    int half = r->mode == LINEAR ? 1 : 2;
    int64_t d, e;
    if (!r->antialias) return dim_const(ctx, 2 * half);
    if (s == 0 && !r->policy && r->sizes >= 0 && dim_is_const(from, &d) && dim_is_const(to, &e))
        s = (double)e / (double)d;
    if (s > 0) return dim_const(ctx, 2 * (int64_t)ceil(half / fmin(s, 1)));
    int count = lower_tmp(lo, internf(ctx, "taps%d", axis), I64, NULL, 0);
    Map *m = lower_map(lo, internf(ctx, "taps%d", axis));
    int scale = scale_value(r, m, axis, nn_size(m, from, F64), nn_size(m, to, F64));
    int n = EXPR(m, internf(ctx, "2 * ceil(%d / min($0, 1))", half), scale);
    map_write(lo->flow, m, count, NULL, body_cvt(&m->body, I64, n), NULL);
    Dim most = dim_const(ctx, INT32_MAX), taps = nn_fresh(lo, "taps", most);
    nn_define(lo, taps, count, 0, most);
    return taps;
}

static void weighted_axis(const Resize *r, int axis, int from, int to) {
    Lower *lo = r->lo;
    Ctx *ctx = lo->ctx;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    Dim taps = taps_of(r, axis, a.shape[axis], c.shape[axis]);
    Dim first = dim_sub(ctx, dim_const(ctx, 1), dim_div(ctx, taps, dim_const(ctx, 2)));
    int base = base_table(r, axis, a.shape[axis], c.shape[axis], first);
    int weight = weight_table(r, axis, a.shape[axis], c.shape[axis], first, taps, c.type);
    Map *m = lower_map(lo, internf(ctx, "axis%d", axis));
    Dim at[RANK_MAX], read[RANK_MAX], place[2];
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(read, at, sizeof read);
    place[0] = at[axis];
    place[1] = map_dim(lo->flow, m, "t", taps);
    int w = map_read(lo->flow, m, weight, place);
    read[axis] = tap_index(lo, m, base, at[axis], place[1], a.shape[axis]);
    int v = body_cvt(&m->body, c.type, map_read(lo->flow, m, from, read));
    map_write(lo->flow, m, to, at, body_prim2(&m->body, P_MUL, w, v),
              combine_get(ctx, "sum", c.type));
}

/* ---- all axes ------------------------------------------------------------------------------- */

static bool is_unscaled(const Resize *r, int axis, Dim from, Dim to) {
    if (r->place[axis] < 0) return true;
    bool known = r->sizes >= 0 || r->scale[axis] > 0;
    return known && from == to && !r->where->crop && (r->scale[axis] == 0 || r->scale[axis] == 1);
}

/* All axes that repeat elements, in one map; what remains goes on in *shape. */
static int repeat_axes(const Resize *r, int from, const Dim *to, bool *done, int last) {
    Lower *lo = r->lo;
    const Cont a = lo->flow->cont.at[from];
    int64_t times[RANK_MAX];
    Dim shape[RANK_MAX], at[RANK_MAX];
    int n = 0, left = 0;
    for (int i = 0; i < a.rank; i++) {
        times[i] = 1;
        if (!done[i] && repeats(r, i, a.shape[i], to[i], &times[i])) done[i] = true, n++;
        left += !done[i];
        shape[i] = dim_mulc(lo->ctx, a.shape[i], times[i]);
    }
    if (!n) return from;
    int result = left ? lower_tmp(lo, "repeated", a.type, shape, a.rank) : last;
    Map *m = lower_map(lo, "repeat");
    Dim read[RANK_MAX];
    lower_dims(lo, m, shape, a.rank, at);
    for (int i = 0; i < a.rank; i++)
        read[i] = dim_div(lo->ctx, at[i], dim_const(lo->ctx, times[i]));
    map_write(lo->flow, m, result, at, map_read(lo->flow, m, from, read), NULL);
    return result;
}

static void resize(Resize r, int now, int last) {
    Lower *lo = r.lo;
    const Cont c = lo->flow->cont.at[last], x = lo->flow->cont.at[now];
    bool done[RANK_MAX];
    Dim shape[RANK_MAX];
    DType t = r.mode == NEAREST ? c.type : dtype_is_float(c.type) ? dtype_compute(c.type) : F32;
    for (int i = 0; i < c.rank; i++) done[i] = is_unscaled(&r, i, x.shape[i], c.shape[i]);
    now = repeat_axes(&r, now, c.shape, done, last);
    for (int i = 0; i < c.rank; i++) {
        if (done[i]) continue;
        const Cont a = lo->flow->cont.at[now];
        memcpy(shape, a.shape, sizeof *shape * (size_t)a.rank);
        shape[i] = c.shape[i];
        int next = lower_tmp(lo, internf(lo->ctx, "along%d", i), t, shape, a.rank);
        if (r.mode == NEAREST)
            nearest_axis(&r, i, now, next);
        else
            weighted_axis(&r, i, now, next);
        if (r.where->crop) {
            int inside = next;
            next = lower_tmp(lo, internf(lo->ctx, "cropped%d", i), t, shape, a.rank);
            extrapolate(&r, i, inside, next, a.shape[i]);
        }
        now = next;
    }
    bool rounds = dtype_is_float(lo->flow->cont.at[now].type) && dtype_is_int(c.type);
    if (now != last) lower_pointwise(lo, NULL, rounds ? "rint($0)" : "$0", &now, 1, last);
}

/* Weights are real: parts of complex numbers do not meet. What lies outside has no imaginary one.
 */
static void resize_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0), from[2], to[2];
    if (y < 0) return;
    onnx_define_axes(lo, resize_size);
    Resize r = resize_of(lo);
    if (r.mode == NEAREST || dtype_class(lower_value(lo, 0)->type.dtype) != CLASS_COMPLEX) {
        resize(r, x, y);
        return;
    }
    nn_parts(lo, x, from);
    nn_parts_for(lo, y, to);
    for (int i = 0; i < 2; i++, r.extrapolation = 0) resize(r, from[i], to[i]);
    nn_parts_to(lo, to, y);
}

const OpRow onnx_resize_rows[] = {
    {"", "Resize", 10, 0, resize_infer, resize_lower, NULL, NULL, 0},
    {"", "Upsample", 1, 9, resize_infer, resize_lower, NULL, NULL, 0},
    {0},
};
