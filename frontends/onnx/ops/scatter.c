/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter, ScatterElements, ScatterND, TensorScatter. The first three write where data says, in
 * order: calls. TensorScatter writes one run per batch, so each element can tell by itself whether
 * it is new. */
#include "nn.h"
#include "view.h"

#include <string.h>

enum { NONE, ADD, MUL, MAX, MIN }; /* as the calls take it */

static int64_t reduction_of(Ctx *ctx, const Node *node) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *how = attr_string(ctx, node, "reduction", "none");
    for (int i = NONE; i <= MIN; i++)
        if (!strcmp(how, names[i])) return i;
    fail(ctx, E_ATTRIBUTE,
         "attribute \"reduction\" is \"%s\": it must be none, add, mul, max or min", how);
}

static void check_types(Infer *in) {
    DType t = infer_tensor(in, 1)->type.dtype;
    infer_same(in, 0, 2);
    if (t != I32 && t != I64)
        fail(in->ctx, E_TYPE, "indices \"%s\" have type %s: they must be i32 or i64",
             infer_in(in, 1)->name, dtype_name(t));
    if (reduction_of(in->ctx, in->node) == MUL && infer_in(in, 0)->type.dtype == STRING)
        fail(in->ctx, E_TYPE,
             "attribute \"reduction\" is \"mul\", but texts have no product: use none, add, max "
             "or min");
}

_Noreturn static void misfit(Infer *in) {
    fail(in->ctx, E_SHAPE, "data %s, indices %s and updates %s do not fit",
         type_str(in->ctx, &infer_in(in, 0)->type), type_str(in->ctx, &infer_in(in, 1)->type),
         type_str(in->ctx, &infer_in(in, 2)->type));
}

static bool may_equal(Dim a, Dim b) {
    return a == b || !dim_is_const(a, NULL) || !dim_is_const(b, NULL);
}

/* Pairs are replaced as texts as well; only combining looks into them. */
static void scatter(Lower *lo, const char *call, int indices, const int64_t *attr, int nattr) {
    DType t = lower_value(lo, 0)->type.dtype;
    int to = lower_out(lo, 0);
    if (to < 0) return;
    if (attr[nattr - 1] == NONE) t = lower_type(t);
    int in[] = {nn_pairs(lo, lower_in(lo, 0), t), indices, nn_pairs(lo, lower_in(lo, 2), t)};
    int out = nn_pairs_for(lo, to, t);
    lower_call(lo, call, in, 3, &out, 1, attr, nattr, NULL, 0);
    nn_pairs_to(lo, out, to);
}

static void scatter_elements_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *i = &infer_tensor(in, 1)->type,
               *u = &infer_tensor(in, 2)->type;
    check_types(in);
    if (t->rank < 1 || t->rank != i->rank || i->rank != u->rank) misfit(in);
    for (int k = 0; k < i->rank; k++)
        if (!may_equal(i->shape[k], u->shape[k])) misfit(in);
    attr_axis(in->ctx, in->node, "axis", 0, t->rank);
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

/* The map that alone writes a container, element by element; NULL: none does. */
static const Map *writer_of(const Flow *flow, int cont) {
    const Map *writer = NULL;
    for (int i = 0; i < flow->map.n; i++) {
        const Map *m = flow->map.at[i];
        for (int w = 0; w < m->write.n; w++) {
            if (m->write.at[w].to[0].cont != cont) continue;
            if (writer || m->write.n > 1 || m->write.at[w].combine) return NULL;
            writer = m;
        }
    }
    return writer;
}

/* Do indices name whole rows of the data, as they are the same along all dims but the first? */
static bool names_rows(Lower *lo) {
    const Type *t = &lower_value(lo, 0)->type, *i = &lower_value(lo, 1)->type,
               *u = &lower_value(lo, 2)->type;
    const Map *m = writer_of(lo->flow, lower_in(lo, 1));
    if (!m || t->rank < 2 || !dims_equal(i->shape, u->shape, t->rank)) return false;
    for (int k = 1; k < t->rank; k++) {
        Dim at = m->write.at[0].to[0].at[k];
        bool varies = !dim_is(at, 0) && (!dim_sym_name(at) || body_uses(&m->body, at));
        if (varies || t->shape[k] != u->shape[k]) return false;
    }
    return true;
}

/* The first element of each row of indices, as scatter_nd takes them. */
static int first_elements(Lower *lo) {
    int all = lower_in(lo, 1);
    const Cont *c = &lo->flow->cont.at[all];
    Dim at[RANK_MAX], shape[] = {c->shape[0], dim_const(lo->ctx, 1)};
    int to = lower_tmp(lo, "rows", c->type, shape, 2);
    Map *m = lower_map(lo, "rows");
    lower_dims(lo, m, shape, 2, at);
    for (int k = 2; k < lo->flow->cont.at[all].rank; k++) at[k] = at[1];
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, all, at), NULL);
    return to;
}

static void scatter_elements_lower(Lower *lo) {
    int rank = lower_value(lo, 0)->type.rank;
    int64_t attr[2] = {attr_axis(lo->ctx, lo->node, "axis", 0, rank),
                       reduction_of(lo->ctx, lo->node)};
    if (attr[0] == 0 && names_rows(lo))
        scatter(lo, "scatter_nd", first_elements(lo), &attr[1], 1);
    else
        scatter(lo, "scatter_elements", lower_in(lo, 1), attr, 2);
}

static void scatter_nd_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *i = &infer_tensor(in, 1)->type,
               *u = &infer_tensor(in, 2)->type;
    int depth = t->rank + i->rank - 1 - u->rank;
    check_types(in);
    if (i->rank < 1 || depth < 1 || depth > t->rank) misfit(in);
    if (!may_equal(i->shape[i->rank - 1], dim_const(in->ctx, depth))) misfit(in);
    infer_require(in, i->shape[i->rank - 1], dim_const(in->ctx, depth), false);
    for (int k = 0; k < i->rank - 1; k++)
        if (!may_equal(i->shape[k], u->shape[k])) misfit(in);
    for (int k = depth; k < t->rank; k++)
        if (!may_equal(t->shape[k], u->shape[i->rank - 1 + k - depth])) misfit(in);
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

static void scatter_nd_lower(Lower *lo) {
    int64_t how = reduction_of(lo->ctx, lo->node);
    scatter(lo, "scatter_nd", lower_in(lo, 1), &how, 1);
}

/* ---- TensorScatter: rows start[b] .. of a cache are replaced, in circular mode modulo its length
 */

static void tensor_scatter_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *u = &infer_tensor(in, 1)->type;
    infer_same(in, 0, 1);
    if (t->rank < 2 || u->rank != t->rank)
        fail(in->ctx, E_SHAPE, "cache %s and update %s must have one rank, at least 2",
             type_str(in->ctx, t), type_str(in->ctx, u));
    if (attr_axis(in->ctx, in->node, "axis", -2, t->rank) == 0)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"axis\" must not be the batch axis 0");
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

static void tensor_scatter_lower(Lower *lo) {
    int to = lower_out(lo, 0), update = lower_in(lo, 1), start = lower_in(lo, 2);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to], u = lo->flow->cont.at[update];
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", -2, c.rank);
    const char *mode = attr_string(lo->ctx, lo->node, "mode", "linear");
    if (strcmp(mode, "linear") && strcmp(mode, "circular"))
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": it must be linear or circular",
             mode);
    Map *m = lower_map(lo, NULL);
    Body *b = &m->body;
    Dim at[RANK_MAX], read[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(read, at, sizeof read);
    int zero = body_const(b, I64, 0);
    int arg[3] = {body_index(b, at[axis]), zero, body_index(b, c.shape[axis])};
    if (start >= 0) arg[1] = body_cvt(b, I64, lower_read_broadcast(lo, m, start, at, 1));
    int offset = body_expr(b, mode[0] == 'l' ? "$0 - $1" : "($0 - $1) % $2", arg, 3, NULL, 0, I64);
    int test[2] = {offset, body_index(b, u.shape[axis])};
    int fresh = body_expr(b, "$0 >= 0 & $0 < $1", test, 2, NULL, 0, I64);
    read[axis] = body_symbol(b, offset, "r");
    int val = map_read_else(lo->flow, m, update, read, body_const(b, c.type, 0));
    val = body_prim3(b, P_SELECT, fresh, val, map_read(lo->flow, m, lower_in(lo, 0), at));
    map_write(lo->flow, m, to, at, val, NULL);
}

const OpRow onnx_scatter_rows[] = {
    {"", "Scatter", 9, 0, scatter_elements_infer, scatter_elements_lower, NULL, NULL, 0},
    {"", "ScatterElements", 11, 0, scatter_elements_infer, scatter_elements_lower, NULL, NULL, 0},
    {"", "ScatterND", 11, 0, scatter_nd_infer, scatter_nd_lower, NULL, NULL, 0},
    {"", "TensorScatter", 24, 0, tensor_scatter_infer, tensor_scatter_lower, NULL, NULL, 0},
    {0},
};
