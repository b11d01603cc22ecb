/* SPDX-License-Identifier: Apache-2.0 */
/* What the neural-network families share: see nn.h. */
#include "nn.h"

#include <string.h>

/* ---- types ----------------------------------------------------------------------------------- */

Shape shape_of(const Type *t) {
    Shape s = {.rank = t->rank};
    ASSERT(t->rank <= RANK_MAX);
    for (int i = 0; i < t->rank; i++) s.at[i] = t->shape[i];
    return s;
}

_Noreturn void nn_misfit(const Infer *in, int i, int j, const char *rule) {
    const Value *a = infer_in(in, i), *b = infer_in(in, j);
    if (i == j || !b)
        fail(in->ctx, E_SHAPE, "operand \"%s\" of type %s: %s", a->name,
             type_str(in->ctx, &a->type), rule);
    fail(in->ctx, E_SHAPE, "operands \"%s\" of type %s and \"%s\" of type %s: %s", a->name,
         type_str(in->ctx, &a->type), b->name, type_str(in->ctx, &b->type), rule);
}

void nn_need_one(Ctx *ctx, const Value *v, int rank) {
    if (!v) return;
    bool one = v->type.kind == TYPE_TENSOR && v->type.rank <= rank;
    for (int k = 0; one && k < v->type.rank; k++) one = dim_is(v->type.shape[k], 1);
    if (one || (v->type.kind == TYPE_TENSOR && v->type.rank < 0)) return;
    fail(ctx, E_SHAPE,
         "operand \"%s\" of type %s must be a tensor of one element, of rank %d at most", v->name,
         type_str(ctx, &v->type), rank);
}

Dim nn_agree(const Infer *in, Dim a, Dim b, int i, int j, const char *rule) {
    bool ca = dim_is_const(a, NULL), cb = dim_is_const(b, NULL);
    if (a != b && ca && cb) nn_misfit(in, i, j, rule);
    infer_require(in, a, b, false);
    return cb ? b : a;
}

const Type *nn_ranked(const Infer *in, int i, int lo, int hi) {
    const Value *v = infer_tensor(in, i);
    if (v->type.rank < lo || v->type.rank > hi)
        fail(in->ctx, E_SHAPE,
             "operand \"%s\" of type %s has rank %d: the operator takes rank %d to %d", v->name,
             type_str(in->ctx, &v->type), v->type.rank, lo, hi);
    return &v->type;
}

bool nn_is_float(DType t) {
    return dtype_class(t) == CLASS_FLOAT;
}

void nn_same_as(Infer *in, int result, int operand) {
    const Type *t = &infer_tensor(in, operand)->type;
    infer_set(in, result, t->dtype, t->shape, t->rank);
}

void nn_infer_same(Infer *in) {
    nn_same_as(in, 0, 0);
}

bool nn_absent(const Node *node, int operand) {
    return operand < 0 || operand >= node->in.n || node->in.at[operand] < 0;
}

static void dims_to_ints(Ctx *ctx, const Value *v, const Dim *at, int n, int64_t *to) {
    for (int i = 0; i < n; i++)
        if (!dim_is_const(at[i], &to[i]))
            fail(ctx, E_UNSUPPORTED,
                 "operand \"%s\" is not constant: the operator needs its values at compile time; "
                 "make "
                 "it an initializer, or fix the model's dims with --dim",
                 v->name);
}

int nn_ints(Ctx *ctx, const Graph *graph, const Node *node, int operand, const char *attr,
            const int64_t **ints) {
    if (nn_absent(node, operand)) return attr ? attr_ints(ctx, node, attr, ints) : -1;
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Value *v = infer_in(&in, operand);
    const Dim *at = NULL;
    int n = 0;
    if (!infer_known(&in, operand, &at, &n))
        fail(ctx, E_UNSUPPORTED,
             "operand \"%s\" is computed at run time: the operator needs its values at compile "
             "time; make "
             "it an initializer",
             v->name);
    int64_t *to = NEW_ARRAY(g->arena, int64_t, n ? n : 1);
    dims_to_ints(ctx, v, at, n, to);
    *ints = to;
    return n;
}

void nn_axes(Ctx *ctx, const int64_t *axes, int n, int rank, bool *flag) {
    for (int i = 0; i < rank; i++) flag[i] = n <= 0;
    for (int i = 0; i < n; i++) {
        if (axes[i] < -rank || axes[i] >= rank)
            fail(ctx, E_ATTRIBUTE,
                 "axis %lld is out of range: a tensor of rank %d has axes %d to %d",
                 (long long)axes[i], rank, -rank, rank - 1);
        flag[axes[i] < 0 ? axes[i] + rank : axes[i]] = true;
    }
}

int nn_kept(const Dim *from, const bool *flag, int rank, Dim *to) {
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (!flag[i]) to[n++] = from[i];
    return n;
}

Dim nn_extent(Ctx *ctx, const Dim *shape, const bool *flag, int rank) {
    Dim product = dim_const(ctx, 1);
    for (int i = 0; i < rank; i++)
        if (flag[i]) product = dim_mul(ctx, product, shape[i]);
    return product;
}

/* ---- lowering -------------------------------------------------------------------------------- */

Dim nn_dim(Lower *lo, Map *m, const char *name, Dim extent) {
    return dim_is(extent, 1) ? dim_const(lo->ctx, 0) : map_dim(lo->flow, m, name, extent);
}

void nn_dims(Lower *lo, Map *m, const char *names, const Dim *shape, int rank, Dim *at) {
    int n = (int)strlen(names);
    for (int i = 0; i < rank; i++) {
        char one[2] = {i < n ? names[i] : 'i', 0};
        at[i] = nn_dim(lo, m, i < n ? one : internf(lo->ctx, "i%d", i), shape[i]);
    }
}

Map *nn_map_over(Lower *lo, const char *name, const char *names, int cont, Dim *at) {
    Map *m = lower_map(lo, name);
    nn_dims(lo, m, names, nn_cont(lo, cont)->shape, nn_cont(lo, cont)->rank, at);
    return m;
}

int nn_read_as(Lower *lo, Map *m, int cont, const Dim *at, DType t) {
    const Cont *c = nn_cont(lo, cont);
    bool single = c->kind == CONT_LITERAL;
    for (int i = 0; i < c->rank; i++) single = single && dim_is(c->shape[i], 1);
    if (single)
        return body_cvt(&m->body, t, body_bits(&m->body, c->type, mem_get(c->type, c->data, 0)));
    return body_cvt(&m->body, t, map_read(lo->flow, m, cont, at));
}

int nn_read(Lower *lo, Map *m, int cont, const Dim *at) {
    return nn_read_as(lo, m, cont, at, dtype_compute(nn_cont(lo, cont)->type));
}

int nn_read_else(Lower *lo, Map *m, int cont, const Dim *at, double otherwise, DType t) {
    int outside = body_const(&m->body, nn_cont(lo, cont)->type, otherwise);
    return body_cvt(&m->body, t, map_read_else(lo->flow, m, cont, at, outside));
}

int nn_read_broadcast(Lower *lo, Map *m, int cont, const Dim *dims, int rank, DType t) {
    return body_cvt(&m->body, t, lower_read_broadcast(lo, m, cont, dims, rank));
}

void nn_write(Lower *lo, Map *m, int cont, const Dim *at, int val) {
    map_write(lo->flow, m, cont, at, body_cvt(&m->body, nn_cont(lo, cont)->type, val), NULL);
}

void nn_reduce(Lower *lo, Map *m, int cont, const Dim *at, int val, const char *combine) {
    const Combine *c = combine_get(lo->ctx, combine, m->body.val.at[val].type);
    if (!c) BUG("no combine \"%s\"", combine);
    map_write(lo->flow, m, cont, at, val, c);
}

int nn_tmp(Lower *lo, const char *name, DType t, const Dim *shape, int rank) {
    return lower_tmp(lo, name, dtype_compute(t), shape, rank);
}

int nn_tmp_like(Lower *lo, const char *name, DType t, int cont) {
    const Cont c = *nn_cont(lo, cont);
    return lower_tmp(lo, name, t, c.shape, c.rank);
}

Shape nn_shape(const Lower *lo, int cont) {
    const Cont *c = nn_cont(lo, cont);
    Shape s = {.rank = c->rank};
    for (int i = 0; i < c->rank; i++) s.at[i] = c->shape[i];
    return s;
}

int nn_size(Map *m, Dim size, DType t) {
    return body_cvt(&m->body, t, body_index(&m->body, size));
}

void nn_between(Lower *lo, Map *m, Dim d, Dim bound, Dim extent) {
    Ctx *ctx = lo->ctx;
    DimEnv env = map_env(lo->arena, lo->flow, m);
    Dim low = dim_sub(ctx, d, bound), high = dim_addc(ctx, dim_sub(ctx, extent, d), -1);
    if (!dim_ge0(ctx, low, &env)) vec_push(lo->arena, &m->cons, low);
    if (!dim_ge0(ctx, high, &env)) vec_push(lo->arena, &m->cons, high);
}

void nn_fill(Lower *lo, const char *name, int cont, double v) {
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, name, "", cont, at);
    map_write(lo->flow, m, cont, at, body_const(&m->body, nn_cont(lo, cont)->type, v), NULL);
}

Dim nn_fresh(Lower *lo, const char *name, Dim upper) {
    Flow *flow = lo->flow;
    Dim sym = NULL;
    for (int i = 0; !sym; i++) {
        sym = dim_sym(lo->ctx, i ? internf(lo->ctx, "%s_%d", name, i) : intern(lo->ctx, name));
        for (int k = 0; k < flow->symbol.n && sym; k++)
            if (flow->symbol.at[k].sym == sym) sym = NULL;
    }
    vec_push(lo->arena, &flow->symbol, (Symbol){sym, 0, INT64_MAX, upper});
    return sym;
}

bool nn_data_size(const Lower *lo, Dim size) {
    for (int i = 0; i < lo->flow->symbol.n; i++)
        if (lo->flow->symbol.at[i].sym == size) return lo->flow->symbol.at[i].upper != NULL;
    return false;
}

void nn_define(Lower *lo, Dim size, int from, int64_t index, Dim upper) {
    int64_t hi = INT64_MAX;
    dim_is_const(upper, &hi);
    lower_call(lo, "value", &from, 1, NULL, 0, (int64_t[]){index, 0, hi}, 3, &size, 1);
}

static bool var_taken(const Items *items, Dim var) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->var == var || var_taken(&item->body, var) || var_taken(&item->other, var))
            return true;
    }
    return false;
}

/* Is it the variable of a loop in the node's own graphs, which are lowered inside this loop? */
static bool var_inside(const Node *node, Dim var) {
    for (int i = 0; i < node->attr.n; i++) {
        const Graph *g = node->attr.at[i].kind == ATTR_GRAPH ? node->attr.at[i].graph : NULL;
        for (int k = 0; g && k < g->symbol.n; k++)
            if (g->symbol.at[k].sym == var) return true;
        for (int k = 0; g && k < g->node.n; k++)
            if (var_inside(&g->node.at[k], var)) return true;
    }
    return false;
}

Item *nn_loop(Lower *lo, Dim var, Dim trip) {
    Flow *flow = lo->flow;
    Item loop = {.kind = ITEM_LOOP, .var = var, .trip = trip, .cond = -1, .from = lo->node->name};
    for (int i = 0; !loop.var; i++) {
        loop.var = dim_sym(lo->ctx, i ? internf(lo->ctx, "t%d", i) : intern(lo->ctx, "t"));
        bool taken = var_taken(&flow->body, loop.var) || var_inside(lo->node, loop.var);
        for (int k = 0; k < flow->symbol.n; k++)
            taken = taken || flow->symbol.at[k].sym == loop.var;
        if (taken) loop.var = NULL;
    }
    vec_push(lo->arena, lo->into, loop);
    flow->loops = true;
    return &lo->into->at[lo->into->n - 1];
}

int nn_scalar(Lower *lo, const char *name, int cont, DType t, double otherwise) {
    Dim at[RANK_MAX];
    if (cont < 0) return lower_scalar(lo, name, t, otherwise);
    if (nn_cont(lo, cont)->rank == 0 && nn_cont(lo, cont)->type == t) return cont;
    int to = lower_tmp(lo, name, t, NULL, 0);
    Map *m = lower_map(lo, name);
    for (int i = 0; i < RANK_MAX; i++) at[i] = dim_const(lo->ctx, 0);
    nn_write(lo, m, to, NULL, nn_read_as(lo, m, cont, at, t));
    return to;
}

int64_t nn_int(const Lower *lo, const char *name, int64_t otherwise) {
    return attr_int(lo->ctx, lo->node, name, otherwise);
}

float nn_float(const Lower *lo, const char *name, float otherwise) {
    return attr_float(lo->ctx, lo->node, name, otherwise);
}

const char *nn_lit(const Lower *lo, double v) {
    return internf(lo->ctx, "(%a)", v);
}

/* ---- windows --------------------------------------------------------------------------------- */

void nn_attr_n(Ctx *ctx, const Node *node, const char *name, int n, int64_t otherwise,
               int64_t *to) {
    const int64_t *at = NULL;
    int have = attr_ints(ctx, node, name, &at);
    if (have >= 0 && have != n)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"%s\" has %d values: %d are needed, from the operand's spatial rank", name,
             have, n);
    for (int i = 0; i < n; i++) to[i] = have < 0 ? otherwise : at[i];
}

static void check_least(Ctx *ctx, const char *name, const int64_t *v, int n, int64_t least) {
    for (int i = 0; i < n; i++)
        if (v[i] < least || v[i] > INT32_MAX)
            fail(ctx, E_ATTRIBUTE, "attribute \"%s\" holds %lld: it must be at least %lld", name,
                 (long long)v[i], (long long)least);
}

static void window_kernel(Ctx *ctx, const Node *node, const Dim *kernel, Window *w) {
    int64_t said[SPATIAL_MAX], size;
    nn_attr_n(ctx, node, "kernel_shape", w->n, -1, said);
    for (int i = 0; i < w->n; i++) {
        bool sized = kernel && dim_is_const(kernel[i], &size);
        if (sized && said[i] >= 0 && said[i] != size)
            fail(ctx, E_SHAPE,
                 "attribute \"kernel_shape\" says %lld, but the weights' window is %lld wide: "
                 "make them equal or drop the attribute",
                 (long long)said[i], (long long)size);
        if (sized) said[i] = size;
        w->kernel[i] = kernel && said[i] < 0 ? kernel[i] : dim_const(ctx, said[i]);
        if (dim_is_const(w->kernel[i], NULL)) check_least(ctx, "kernel_shape", &said[i], 1, 1);
    }
    nn_attr_n(ctx, node, "strides", w->n, 1, w->stride);
    check_least(ctx, "strides", w->stride, w->n, 1);
    nn_attr_n(ctx, node, "dilations", w->n, 1, w->dilation);
    check_least(ctx, "dilations", w->dilation, w->n, 1);
}

Dim nn_span(Ctx *ctx, const Window *w, int i) {
    return dim_addc(ctx, dim_mulc(ctx, dim_addc(ctx, w->kernel[i], -1), w->dilation[i]), 1);
}

/* SAME pads so that out = ceil(in / stride): the last window begins (-in mod stride) - stride
 * elements behind the operand's end. The odd element goes to the end for SAME_UPPER. */
static void pad_same(Ctx *ctx, Window *w, int i, bool upper) {
    Dim stride = dim_const(ctx, w->stride[i]), zero = dim_const(ctx, 0);
    w->out[i] = dim_ceildiv(ctx, w->in[i], stride);
    Dim total = dim_sub(ctx, dim_mod(ctx, dim_mulc(ctx, w->in[i], -1), stride), stride);
    total = dim_max(ctx, dim_add(ctx, total, nn_span(ctx, w, i)), zero);
    total = dim_simplify(ctx, total, &(DimEnv){0});
    Dim half = dim_div(ctx, total, dim_const(ctx, 2)), rest = dim_sub(ctx, total, half);
    w->begin[i] = upper ? half : rest;
    w->end[i] = upper ? rest : half;
}

/* In ceil mode the last window must start inside the input or its left padding. */
static Dim window_extent(Ctx *ctx, const Window *w, int i, bool ceil_mode) {
    Dim stride = dim_const(ctx, w->stride[i]), start = dim_add(ctx, w->in[i], w->begin[i]);
    Dim room = dim_sub(ctx, dim_add(ctx, start, w->end[i]), nn_span(ctx, w, i));
    if (!ceil_mode) return dim_addc(ctx, dim_div(ctx, room, stride), 1);
    Dim out = dim_addc(ctx, dim_ceildiv(ctx, room, stride), 1);
    return dim_min(ctx, out, dim_ceildiv(ctx, start, stride));
}

static void check_extent(Ctx *ctx, const Window *w, int i) {
    int64_t out;
    if (!dim_is_const(w->out[i], &out) || out >= 0) return;
    fail(ctx, E_SHAPE,
         "window %s with dilation %lld does not fit spatial dim %d of extent %s: enlarge the "
         "input or its pads",
         dim_str(ctx, w->kernel[i]), (long long)w->dilation[i], i, dim_str(ctx, w->in[i]));
}

Window nn_window(Ctx *ctx, const Node *node, const Dim *in, int n, const Dim *kernel) {
    Window w = {.n = n};
    int64_t pads[2 * SPATIAL_MAX];
    if (n < 1 || n > SPATIAL_MAX)
        fail(ctx, E_SHAPE, "operand has %d spatial dims: the operator takes 1 to %d", n,
             SPATIAL_MAX);
    const char *mode = attr_string(ctx, node, "auto_pad", "NOTSET");
    bool upper = !strcmp(mode, "SAME_UPPER"), lower = !strcmp(mode, "SAME_LOWER");
    bool valid = !strcmp(mode, "VALID");
    if (!upper && !lower && !valid && strcmp(mode, "NOTSET") != 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"auto_pad\" is \"%s\": use NOTSET, SAME_UPPER, SAME_LOWER or VALID", mode);
    window_kernel(ctx, node, kernel, &w);
    nn_attr_n(ctx, node, "pads", 2 * n, 0, pads);
    check_least(ctx, "pads", pads, 2 * n, INT32_MIN);
    for (int i = 0; i < n; i++) {
        w.in[i] = in[i];
        w.begin[i] = dim_const(ctx, valid ? 0 : pads[i]);
        w.end[i] = dim_const(ctx, valid ? 0 : pads[n + i]);
        if (upper || lower)
            pad_same(ctx, &w, i, upper);
        else
            w.out[i] = window_extent(ctx, &w, i, attr_int(ctx, node, "ceil_mode", 0) != 0);
        check_extent(ctx, &w, i);
        if (!dim_is(w.begin[i], 0) || !dim_is(w.end[i], 0)) w.padded = true;
        if (attr_int(ctx, node, "ceil_mode", 0)) w.padded = true;
    }
    return w;
}

void nn_require_ge(const Infer *in, Dim a, Dim b) {
    DimEnv env = infer_env(in);
    if (!dim_le(in->ctx, b, a, &env)) infer_require(in, dim_max(in->ctx, a, b), a, false);
}

void nn_need_elements(Infer *in, int axis) {
    const Value *x = infer_tensor(in, 0), *y = infer_out(in, 0);
    int64_t size;
    if (!y || x->type.shape[axis] == y->type.shape[axis]) return;
    Dim from = x->type.shape[axis], to = y->type.shape[axis];
    if (dim_is(from, 0) && dim_is_const(to, &size) && size > 0)
        fail(in->ctx, E_SHAPE,
             "axis %d of \"%s\" is empty and cannot become %lld: ask for 0, or give the input "
             "elements",
             axis, x->name, (long long)size);
    nn_require_ge(in, from, dim_min(in->ctx, to, dim_const(in->ctx, 1)));
}

void nn_window_require(const Infer *in, const Window *w, const Dim *kernel) {
    Ctx *ctx = in->ctx;
    for (int i = 0; i < w->n; i++) {
        if (dim_is_const(kernel[i], NULL)) continue;
        infer_require(in, kernel[i], w->kernel[i], false);
        nn_require_ge(in, w->kernel[i], dim_const(ctx, 1));
        nn_require_ge(in, w->out[i], dim_const(ctx, 0));
    }
}

Dim nn_tap(Ctx *ctx, const Window *w, int i, Dim o, Dim r) {
    Dim at = dim_add(ctx, dim_mulc(ctx, o, w->stride[i]), dim_mulc(ctx, r, w->dilation[i]));
    return dim_sub(ctx, at, w->begin[i]);
}

Dim nn_row_index(Ctx *ctx, const Dim *at, const Dim *shape, int rank) {
    Dim index = dim_const(ctx, 0);
    for (int i = 0; i < rank; i++) index = dim_add(ctx, dim_mul(ctx, index, shape[i]), at[i]);
    return index;
}
