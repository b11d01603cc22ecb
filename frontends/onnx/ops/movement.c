/* SPDX-License-Identifier: Apache-2.0 */
/* Concat, Split, Pad, CenterCropPad: boxes cut out of and put into larger boxes. */
#include "known.h"
#include "nn.h"
#include "view.h"

#include <string.h>

/* ---- Concat --------------------------------------------------------------------------------- */

static int concat_axis(Ctx *ctx, const Node *node, int rank) {
    if (node->version >= 4 && !node_attr(node, "axis"))
        fail(ctx, E_ATTRIBUTE, "attribute \"axis\" is missing");
    return (int)attr_axis(ctx, node, "axis", 1, rank);
}

/* Elements of some operands may be known, and those of others not. */
static void carry_concat(Infer *in) {
    Dim all[KNOWN_MAX];
    int64_t count = 0, some = 0;
    for (int i = 0; i < in->node->in.n; i++) {
        int64_t n = type_count(&infer_in(in, i)->type);
        const Dim *at = NULL;
        int have = 0;
        if (n < 0 || n > KNOWN_MAX - count) return;
        if (!onnx_known(in, i, &at, &have)) at = infer_partly(in, i, &have);
        for (int64_t k = 0; k < n; k++) {
            all[count++] = at ? at[k] : NULL;
            some += at && at[k];
        }
    }
    if (some || !count) infer_set_known(in, 0, all, (int)count);
}

/* The extents off the axis must agree: a constant one decides. */
static void concat_infer(Infer *in) {
    const Value *first = infer_tensor(in, 0);
    int rank = first->type.rank, axis = concat_axis(in->ctx, in->node, rank);
    Dim shape[RANK_MAX];
    memcpy(shape, first->type.shape, sizeof *shape * (size_t)rank);
    for (int i = 1; i < in->node->in.n; i++) {
        const Value *v = infer_tensor(in, i);
        bool fits = v->type.rank == rank;
        infer_same(in, 0, i);
        for (int k = 0; k < rank && fits; k++) {
            if (k == axis) continue;
            bool ca = dim_is_const(shape[k], NULL), cb = dim_is_const(v->type.shape[k], NULL);
            if (ca && cb) fits = shape[k] == v->type.shape[k];
            if (cb) shape[k] = v->type.shape[k];
        }
        if (!fits)
            fail(in->ctx, E_SHAPE,
                 "\"%s\" of type %s and \"%s\" of type %s cannot be joined along axis %d: other "
                 "extents must be equal",
                 first->name, type_str(in->ctx, &first->type), v->name, type_str(in->ctx, &v->type),
                 axis);
        shape[axis] = dim_add(in->ctx, shape[axis], v->type.shape[axis]);
    }
    infer_set(in, 0, first->type.dtype, shape, rank);
    if (rank == 1) carry_concat(in);
}

static void concat_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    int axis = concat_axis(lo->ctx, lo->node, c.rank);
    Dim offset = dim_const(lo->ctx, 0);
    for (int i = 0; i < lo->node->in.n; i++) {
        int from = lower_in(lo, i);
        Dim at[RANK_MAX], shape[RANK_MAX], read[RANK_MAX];
        memcpy(shape, c.shape, sizeof *shape * (size_t)c.rank);
        shape[axis] = lo->flow->cont.at[from].shape[axis];
        Map *m = lower_map(lo, internf(lo->ctx, "part%d", i));
        lower_dims(lo, m, shape, c.rank, at);
        memcpy(read, at, sizeof read);
        at[axis] = dim_add(lo->ctx, at[axis], offset);
        map_write(lo->flow, m, to, at, lower_read_broadcast(lo, m, from, read, c.rank), NULL);
        offset = dim_add(lo->ctx, offset, shape[axis]);
    }
}

/* ---- Split ---------------------------------------------------------------------------------- */

/* Sizes of the parts: given, or equal with a smaller last one. */
static bool split_sizes(Infer *in, Dim extent, Dim *size, int n) {
    Ctx *ctx = in->ctx;
    const int64_t *list = NULL;
    const Dim *given;
    int count = attr_ints(ctx, in->node, "split", &list);
    if (in->node->in.n > 1 && infer_in(in, 1)) {
        onnx_need_type(in, 1, I64);
        if (!infer_known(in, 1, &given, &count)) return false;
        for (int i = 0; i < count && i < n; i++) size[i] = given[i];
    } else {
        for (int i = 0; i < count && i < n; i++) size[i] = dim_const(ctx, list[i]);
    }
    if (count >= 0 && count != n) fail(ctx, E_SHAPE, "split has %d sizes for %d results", count, n);
    if (count >= 0) return true;
    Dim part = dim_ceildiv(ctx, extent, dim_const(ctx, n)), zero = dim_const(ctx, 0);
    DimEnv env = infer_env(in);
    for (int i = 0; i < n; i++) {
        Dim left = dim_sub(ctx, extent, dim_mulc(ctx, part, i));
        size[i] = dim_simplify(ctx, dim_max(ctx, zero, dim_min(ctx, part, left)), &env);
    }
    return true;
}

/* A size that only run time tells: as the model declares it, else a symbol. */
static Dim unknown_part(Infer *in, int result, const Type *t, int axis) {
    const Type *declared = infer_declared(in, result);
    if (declared && declared->rank == t->rank) return declared->shape[axis];
    return infer_fresh(in, internf(in->ctx, "Split_%d", result), t->shape[axis]);
}

static void split_infer(Infer *in) {
    const Value *v = infer_tensor(in, 0);
    const Type *t = &v->type;
    const Dim *at = NULL;
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, t->rank), n = in->node->out.n, count;
    int64_t place = 0, part;
    Dim *size = NEW_ARRAY(in->arena, Dim, n), shape[RANK_MAX], total = dim_const(in->ctx, 0);
    if (!split_sizes(in, t->shape[axis], size, n)) {
        onnx_need_length(in, 1, n);
        for (int i = 0; i < n; i++) size[i] = unknown_part(in, i, t, axis);
    }
    for (int i = 0; i < n; i++) total = dim_add(in->ctx, total, size[i]);
    if (total != t->shape[axis] && dim_is_const(total, NULL) && dim_is_const(t->shape[axis], NULL))
        fail(in->ctx, E_SHAPE, "sizes add up to %s, axis %d of \"%s\" has %s",
             dim_str(in->ctx, total), axis, v->name, dim_str(in->ctx, t->shape[axis]));
    infer_require(in, total, t->shape[axis], false);
    bool known = t->rank == 1 && onnx_known(in, 0, &at, &count);
    for (int i = 0; i < n; i++) {
        memcpy(shape, t->shape, sizeof *shape * (size_t)t->rank);
        shape[axis] = size[i];
        infer_set(in, i, t->dtype, shape, t->rank);
        if (known && dim_is_const(size[i], &part) && place + part <= count)
            infer_set_known(in, i, at + place, (int)part);
        known = known && dim_is_const(size[i], NULL);
        if (known) place += part;
    }
}

/* Defines the sizes that the run gives. */
static void split_define(Lower *lo, int axis, Dim extent, Dim *size) {
    int checked = onnx_checked_sizes(lo, lower_in(lo, 1), "sum", extent);
    for (int i = 0; i < lo->node->out.n; i++) {
        bool used = lower_out(lo, i) >= 0;
        if (used) onnx_define_result(lo, i, axis, checked, i);
        if (!used) size[i] = nn_fresh(lo, "part", extent);
        if (!used) nn_define(lo, size[i], checked, i, extent);
    }
}

static void split_lower(Lower *lo) {
    int from = lower_in(lo, 0), n = lo->node->out.n;
    const Cont a = lo->flow->cont.at[from];
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, a.rank);
    Infer in = onnx_reader(lo);
    Dim offset = dim_const(lo->ctx, 0), *size = NEW_ARRAY(lo->arena, Dim, n);
    bool known = split_sizes(&in, a.shape[axis], size, n);
    if (!known) split_define(lo, axis, a.shape[axis], size);
    for (int i = 0; i < n; i++) {
        int to = lower_out(lo, i);
        if (to >= 0) {
            const Cont c = lo->flow->cont.at[to];
            Map *m = lower_map(lo, internf(lo->ctx, "part%d", i));
            Dim at[RANK_MAX], read[RANK_MAX];
            lower_dims(lo, m, c.shape, a.rank, at);
            memcpy(read, at, sizeof read);
            read[axis] = dim_add(lo->ctx, at[axis], offset);
            map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, !known), NULL);
            size[i] = c.shape[axis];
        }
        offset = dim_add(lo->ctx, offset, size[i]);
    }
}

/* ---- Pad ------------------------------------------------------------------------------------ */

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;

static PadMode pad_mode(Ctx *ctx, const Node *node) {
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *mode = attr_string(ctx, node, "mode", "constant");
    for (int i = 0; i < 4; i++)
        if (!strcmp(mode, names[i])) return (PadMode)i;
    fail(ctx, E_ATTRIBUTE,
         "attribute \"mode\" is \"%s\": it must be constant, reflect, edge or wrap", mode);
}

/* Padding before and after each axis; false when only run time knows. */
static bool pad_amounts(Infer *in, int rank, Dim *before, Dim *after) {
    const Dim *pads;
    const int64_t *list, *axes = NULL;
    int n, naxes = -1;
    if (in->node->version < 11) {
        n = attr_ints(in->ctx, in->node, in->node->version < 2 ? "paddings" : "pads", &list);
        Dim *at = NEW_ARRAY(in->arena, Dim, n < 0 ? 0 : n);
        for (int i = 0; i < n; i++) at[i] = dim_const(in->ctx, list[i]);
        pads = at;
    } else {
        infer_tensor(in, 1);
        onnx_need_type(in, 1, I64);
        naxes = onnx_ints(in, 3, NULL, &axes);
        if (!infer_known(in, 1, &pads, &n) || naxes == -2) return false;
    }
    int half = naxes >= 0 ? naxes : rank;
    if (n != 2 * half)
        fail(in->ctx, E_SHAPE, "there are %d pads for %d axes: each needs two", n, half);
    for (int i = 0; i < rank; i++) before[i] = after[i] = dim_const(in->ctx, 0);
    for (int i = 0; i < half; i++) {
        int64_t axis = naxes < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            fail(in->ctx, E_ATTRIBUTE, "axis %lld is out of range for rank %d", (long long)axes[i],
                 rank);
        before[axis] = pads[i];
        after[axis] = pads[half + i];
    }
    return true;
}

/* How many axes have pads, where operands tell: one may have a length that only run time knows. */
static int padded_axes(Infer *in, int rank) {
    if (!infer_in(in, 3)) return rank;
    int pads = onnx_vector_length(in, 1), axes = onnx_vector_length(in, 3);
    return pads >= 0 ? pads / 2 : axes >= 0 ? axes : rank;
}

/* Extents where the amounts are not known: of axes that get none they stay. */
static void unpadded(Infer *in, const Type *t, Dim *shape) {
    const int64_t *axes = NULL;
    int n = infer_in(in, 3) ? onnx_ints(in, 3, NULL, &axes) : -1;
    for (int i = 0; i < t->rank; i++) shape[i] = n < 0 ? NULL : t->shape[i];
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + t->rank : axes[i];
        if (axis >= 0 && axis < t->rank) shape[axis] = NULL;
    }
}

static void pad_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    Dim before[RANK_MAX], after[RANK_MAX], shape[RANK_MAX];
    PadMode mode = pad_mode(in->ctx, in->node);
    nn_need_one(in->ctx, infer_in(in, 2), 1);
    if (!pad_amounts(in, t->rank, before, after)) {
        unpadded(in, t, shape);
        int axes = padded_axes(in, t->rank);
        if (infer_in(in, 3)) onnx_need_length(in, 3, axes);
        onnx_need_length(in, 1, 2 * axes);
        onnx_set_unknown(in, 1, t->dtype, shape, t->rank, onnx_any_size);
        return;
    }
    for (int i = 0; i < t->rank; i++) {
        shape[i] = dim_add(in->ctx, t->shape[i], dim_add(in->ctx, before[i], after[i]));
        int64_t d;
        if (dim_is_const(shape[i], &d) && d < 0)
            fail(in->ctx, E_SHAPE, "pads of axis %d cut more than its extent %s", i,
                 dim_str(in->ctx, t->shape[i]));
    }
    infer_set(in, 0, t->dtype, shape, t->rank);
    for (int i = 0; i < t->rank && mode != PAD_CONSTANT; i++) nn_need_elements(in, i);
}

/* Where index `at` of a padded axis reads. */
static Dim pad_index(Ctx *ctx, PadMode mode, Dim at, Dim before, Dim extent, const DimEnv *env) {
    Dim i = dim_sub(ctx, at, before), last = dim_addc(ctx, extent, -1), zero = dim_const(ctx, 0);
    if (dim_is(before, 0) && dim_le(ctx, i, last, env)) return i;
    if (mode == PAD_EDGE) i = dim_max(ctx, zero, dim_min(ctx, i, last));
    if (mode == PAD_WRAP && !dim_is(extent, 0)) i = dim_mod(ctx, i, extent);
    if (mode == PAD_REFLECT) {
        Dim period = dim_mulc(ctx, last, 2);
        if (dim_is(period, 0)) return zero;
        i = dim_mod(ctx, i, period);
        i = dim_min(ctx, i, dim_sub(ctx, period, i));
    }
    return dim_simplify(ctx, i, env);
}

/* The value outside: an attribute before opset 11, an operand after; 0 without one. */
static int pad_value(Lower *lo, Map *m, DType t) {
    Dim zero = dim_const(lo->ctx, 0);
    if (lo->node->version < 11)
        return body_const(&m->body, t, (double)attr_float(lo->ctx, lo->node, "value", 0));
    int c = lower_in(lo, 2);
    if (c < 0) return body_const(&m->body, t, 0);
    return lower_read_broadcast(lo, m, c, &zero, 1);
}

/* A pad read at run time: before (side 0) or after an axis. */
static int pad_read(Lower *lo, Map *m, int axis, int rank, int side) {
    int pads = lower_in(lo, 1), axes = lower_in(lo, 3), val = body_const(&m->body, I64, 0);
    Infer in = onnx_reader(lo);
    int n = padded_axes(&in, rank);
    for (int i = 0; i < n; i++) {
        Dim at = dim_const(lo->ctx, i), place = dim_const(lo->ctx, i + side * n);
        if (axes < 0 && i != axis) continue;
        int here = map_read(lo->flow, m, pads, &place);
        if (axes < 0) return here;
        int arg[3] = {body_cvt(&m->body, I64, map_read(lo->flow, m, axes, &at)), here, val};
        const char *text =
            internf(lo->ctx, "select($0 == %d | $0 == %d, $1, $2)", axis, axis - rank);
        val = body_expr(&m->body, text, arg, 3, NULL, 0, I64);
    }
    return val;
}

/* An axis without elements has nothing to repeat: only zeros can be given for it. */
static int pad_size(Lower *lo, Map *m, int axis) {
    const Type *t = &lower_value(lo, 0)->type;
    int arg[3] = {body_index(&m->body, t->shape[axis]), pad_read(lo, m, axis, t->rank, 0),
                  pad_read(lo, m, axis, t->rank, 1)};
    const char *grown = pad_mode(lo->ctx, lo->node) == PAD_CONSTANT
                            ? "$0 + $1 + $2"
                            : "select($0 > 0 | $1 + $2 == 0, $0 + $1 + $2, highest)";
    return body_expr(&m->body, grown, arg, 3, NULL, 0, I64);
}

/* How much stands before and after each axis; of values of the tensor, parts may be boxes: inside,
 * and before and after each axis. */
typedef struct Padding {
    PadMode mode;
    int from, to, rank;
    bool known; /* before the run */
    const Dim *extent;
    Dim before[RANK_MAX], after[RANK_MAX];
} Padding;

enum { INSIDE, BEFORE, AFTER };

/* An axis' index into the tensor for index d of a part. */
static Dim box_index(Ctx *ctx, const Padding *b, int axis, int part, Dim d) {
    Dim last = dim_addc(ctx, b->extent[axis], -1), zero = dim_const(ctx, 0);
    if (part == INSIDE) return d;
    if (b->mode == PAD_EDGE) return part == BEFORE ? zero : last;
    if (b->mode == PAD_WRAP)
        return part == BEFORE ? dim_add(ctx, d, dim_sub(ctx, b->extent[axis], b->before[axis])) : d;
    return part == BEFORE ? dim_sub(ctx, b->before[axis], d)
                          : dim_sub(ctx, dim_addc(ctx, last, -1), d);
}

/* Copies of the boxes that have `part` in the axes before `axis`. */
static void copy_boxes(Lower *lo, const Padding *b, int axis, int *part) {
    if (axis < b->rank) {
        const Dim extent[] = {b->extent[axis], b->before[axis], b->after[axis]};
        for (int p = INSIDE; p <= AFTER; p++) {
            part[axis] = p;
            if (!dim_is(extent[p], 0)) copy_boxes(lo, b, axis + 1, part);
        }
        return;
    }
    Map *m = lower_map(lo, "box");
    Dim at[RANK_MAX], read[RANK_MAX], write[RANK_MAX];
    for (int i = 0; i < b->rank; i++) {
        const Dim extent[] = {b->extent[i], b->before[i], b->after[i]};
        const Dim first[] = {b->before[i], dim_const(lo->ctx, 0),
                             dim_add(lo->ctx, b->before[i], b->extent[i])};
        at[i] = nn_dim(lo, m, internf(lo->ctx, "i%d", i), extent[part[i]]);
        read[i] = box_index(lo->ctx, b, i, part[i], at[i]);
        write[i] = dim_add(lo->ctx, first[part[i]], at[i]);
    }
    map_write(lo->flow, m, b->to, write, map_read(lo->flow, m, b->from, read), NULL);
}

/* What is >= 0 where the parts are boxes: pads must not reach beyond what they repeat. NULL: they
 * are none, as pads may cut, or boxes would be many. */
static Dim room_of_boxes(Lower *lo, const Padding *b, const DimEnv *env) {
    int padded = 0;
    Dim room = dim_const(lo->ctx, 0);
    for (int i = 0; i < b->rank; i++) {
        bool none = dim_is(b->before[i], 0) && dim_is(b->after[i], 0);
        padded += !none;
        if (none) continue; /* of any extent, also none */
        if (!dim_ge0(lo->ctx, b->before[i], env) || !dim_ge0(lo->ctx, b->after[i], env))
            return NULL;
        Dim reach = b->mode == PAD_EDGE ? dim_const(lo->ctx, 1)
                                        : dim_max(lo->ctx, b->before[i], b->after[i]);
        if (b->mode == PAD_REFLECT) reach = dim_addc(lo->ctx, reach, 1);
        room = dim_min(lo->ctx, room, dim_sub(lo->ctx, b->extent[i], reach));
    }
    room = dim_simplify(lo->ctx, room, env);
    bool never = dim_is_const(room, NULL) && !dim_is(room, 0);
    return padded <= 3 && !never ? room : NULL;
}

/* Element by element, whatever the pads are. */
static void pad_each(Lower *lo, Padding *b) {
    const Cont c = lo->flow->cont.at[b->to];
    Dim at[RANK_MAX], read[RANK_MAX];
    Map *m = lower_map(lo, NULL);
    lower_dims(lo, m, c.shape, c.rank, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    bool inside = b->mode != PAD_CONSTANT && b->known;
    for (int i = 0; i < c.rank; i++) {
        if (!b->known) b->before[i] = body_symbol(&m->body, pad_read(lo, m, i, c.rank, 0), "p");
        read[i] = pad_index(lo->ctx, b->mode, at[i], b->before[i], b->extent[i], &env);
        inside = inside && dim_ge0(lo->ctx, dim_addc(lo->ctx, b->extent[i], -1), &env);
    }
    int val = inside ? map_read(lo->flow, m, b->from, read)
                     : map_read_else(lo->flow, m, b->from, read, pad_value(lo, m, c.type));
    map_write(lo->flow, m, b->to, at, val, NULL);
}

/* Where sizes that only the run knows may be too small for boxes, they choose. */
static void pad_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from];
    Infer in = onnx_reader(lo);
    Padding b = {pad_mode(lo->ctx, lo->node), from, to, a.rank, .extent = a.shape};
    b.known = pad_amounts(&in, a.rank, b.before, b.after);
    if (!b.known) onnx_define_axes(lo, pad_size);
    DimEnv env = flow_env(lo->arena, lo->flow);
    Dim room = b.known && b.mode != PAD_CONSTANT ? room_of_boxes(lo, &b, &env) : NULL;
    if (!room) {
        pad_each(lo, &b);
    } else if (dim_ge0(lo->ctx, room, &env)) {
        copy_boxes(lo, &b, 0, (int[RANK_MAX]){0});
    } else {
        Items *into = lo->into;
        Item choice = {.kind = ITEM_IF, .cond = -1, .when = room, .from = lo->node->name};
        lo->into = &choice.body;
        copy_boxes(lo, &b, 0, (int[RANK_MAX]){0});
        lo->into = &choice.other;
        pad_each(lo, &b);
        lo->into = into;
        vec_push(lo->arena, into, choice);
    }
}

/* ---- CenterCropPad: each axis is cut or padded around its middle ---------------------------- */

/* Where each axis stands in the shape operand; -1: it is not resized. Returns how many are. */
static int center_places(Infer *in, int rank, int *place) {
    const int64_t *axes;
    bool flag[RANK_MAX];
    int n = attr_ints(in->ctx, in->node, "axes", &axes);
    onnx_axes(in, -1, "axes", rank, flag);
    for (int i = 0; i < rank; i++) place[i] = n < 0 ? i : -1;
    for (int i = 0; i < n; i++) place[axes[i] < 0 ? axes[i] + rank : axes[i]] = i;
    return n < 0 ? rank : n;
}

static void center_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    const Dim *want;
    Dim shape[RANK_MAX];
    int n, place[RANK_MAX], count = center_places(in, t->rank, place);
    onnx_need_length(in, 1, count);
    bool known = infer_known(in, 1, &want, &n);
    for (int i = 0; i < t->rank; i++)
        shape[i] = place[i] < 0 ? t->shape[i] : known ? want[place[i]] : NULL;
    if (known)
        infer_set(in, 0, t->dtype, shape, t->rank);
    else
        onnx_set_unknown(in, 1, t->dtype, shape, t->rank, onnx_any_size);
}

static int center_size(Lower *lo, Map *m, int axis) {
    Infer in = onnx_reader(lo);
    int place[RANK_MAX];
    center_places(&in, lower_value(lo, 0)->type.rank, place);
    Dim at = dim_const(lo->ctx, place[axis]);
    return body_cvt(&m->body, I64, map_read(lo->flow, m, lower_in(lo, 1), &at));
}

static void center_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    Ctx *ctx = lo->ctx;
    onnx_define_axes(lo, center_size);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX], two = dim_const(ctx, 2);
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < c.rank; i++) {
        Dim cut = dim_max(ctx, dim_sub(ctx, a.shape[i], c.shape[i]), dim_const(ctx, 0));
        Dim pad = dim_max(ctx, dim_sub(ctx, c.shape[i], a.shape[i]), dim_const(ctx, 0));
        read[i] = dim_sub(ctx, dim_add(ctx, at[i], dim_div(ctx, cut, two)), dim_div(ctx, pad, two));
    }
    int val = map_read_else(lo->flow, m, from, read, body_const(&m->body, a.type, 0));
    map_write(lo->flow, m, to, at, val, NULL);
}

/* ---- rows ----------------------------------------------------------------------------------- */

const OpRow onnx_movement_rows[] = {
    {"", "Concat", 1, 0, concat_infer, concat_lower, NULL, NULL, 0},
    {"", "Split", 1, 0, split_infer, split_lower, NULL, NULL, 0},
    {"", "Pad", 1, 0, pad_infer, pad_lower, NULL, NULL, 0},
    {"", "CenterCropPad", 18, 0, center_infer, center_lower, NULL, NULL, 0},
    {0},
};
