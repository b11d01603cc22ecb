/* SPDX-License-Identifier: Apache-2.0 */
/* What operator rows get while they are lowered: containers of values, maps, element-wise bodies.
 *
 * Containers are made on first use. A parameter of one element becomes a literal, and reading a
 * literal of one element gives its constant, so scalars of the model stand in the bodies. A value
 * whose elements are known as Dims is not computed: constants become a literal when somebody reads
 * them, others are written as index values where their node stood. */
#include "graph.h"

#include <string.h>

/* ---- containers of values ------------------------------------------------------------------- */

static const char *base_name(const Lower *lo) {
    const Node *node = lo->node;
    if (!node) return lo->graph->name;
    if (node->name && node->name[0]) return node->name;
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0) return lo->graph->value.at[node->out.at[i]].name;
    return node->row->name;
}

static const char *part_name(const Lower *lo, const char *part) {
    return part ? internf(lo->ctx, "%s.%s", base_name(lo), part) : base_name(lo);
}

DType lower_type(DType t) {
    return t == C128 ? STRING : t;
}

static int value_cont(Lower *lo, const Value *v, ContKind kind) {
    const Type *t = &v->type;
    bool tensor = t->kind == TYPE_TENSOR;
    if (t->kind == TYPE_UNKNOWN || (tensor && t->rank < 0))
        fail(lo->ctx, E_UNSUPPORTED,
             "type of \"%s\" is not known at compile time: give the model's inputs "
             "types and shapes",
             v->name);
    int c = flow_cont(lo->flow, v->name, kind, tensor ? lower_type(t->dtype) : OBJECT, t->shape,
                      tensor ? t->rank : 0);
    lo->flow->cont.at[c].from = v->name;
    if (!tensor) lo->flow->cont.at[c].object = type_str(lo->ctx, t);
    return c;
}

int lower_texts(Lower *lo, const char *name, const char *const *at, const int64_t *bytes,
                int64_t n) {
    int64_t *handle = NEW_ARRAY(lo->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) handle[i] = flow_text(lo->flow, at[i], bytes[i]);
    Dim count = dim_const(lo->ctx, n);
    return lower_literal(lo, name, STRING, &count, 1, handle);
}

static int text_cont(Lower *lo, const Value *v) {
    int64_t n = type_count(&v->type), *handle = NEW_ARRAY(lo->arena, int64_t, n);
    static const char zero[16] = {0};
    const char *pair = v->data;
    for (int64_t i = 0; i < n; i++, pair += 16)
        handle[i] = v->type.dtype == STRING
                        ? flow_text(lo->flow, v->strings[i], v->string_bytes[i])
                        : flow_text(lo->flow, pair, memcmp(pair, zero, 16) ? 16 : 0);
    int c = value_cont(lo, v, CONT_LITERAL);
    lo->flow->cont.at[c].data = handle;
    lo->flow->cont.at[c].data_bytes = 8 * n;
    return c;
}

static int data_cont(Lower *lo, const Value *v) {
    int64_t count = type_count(&v->type);
    if (lower_type(v->type.dtype) == STRING) return text_cont(lo, v);
    bool literal = (count == 0 || count == 1) && v->data;
    int c = value_cont(lo, v, literal ? CONT_LITERAL : CONT_PARAM);
    lo->flow->cont.at[c].data = v->hidden ? NULL : v->data;
    lo->flow->cont.at[c].unseen = v->hidden ? v->data : NULL;
    lo->flow->cont.at[c].data_bytes = v->data_bytes;
    return c;
}

static bool known_const(const Value *v) {
    int64_t count = type_count(&v->type);
    if (!v->known) return false;
    for (int64_t i = 0; i < count; i++)
        if (!dim_is_const(v->known[i], NULL)) return false;
    return true;
}

static int known_literal(Lower *lo, const Value *v) {
    DType t = v->type.dtype;
    int64_t count = type_count(&v->type), bytes = dtype_bytes(t, count), x = 0;
    void *data = arena_alloc(lo->arena, (size_t)bytes);
    for (int64_t i = 0; i < count; i++) {
        dim_is_const(v->known[i], &x);
        mem_set(t, data, i, bits_of_int(t, x));
    }
    int c = value_cont(lo, v, CONT_LITERAL);
    lo->flow->cont.at[c].data = data;
    lo->flow->cont.at[c].data_bytes = bytes;
    return c;
}

int lower_cont(Lower *lo, int value) {
    const Value *v = &lo->graph->value.at[value];
    if (lo->cont[value] >= 0) return lo->cont[value];
    if (v->kind == VALUE_OUTER)
        lo->cont[value] = lower_cont(lo->outer, v->outer);
    else if (v->kind == VALUE_PARAM)
        lo->cont[value] = data_cont(lo, v);
    else if (known_const(v))
        lo->cont[value] = known_literal(lo, v);
    else
        BUG("value \"%s\" is read before it is lowered", v->name);
    return lo->cont[value];
}

int lower_in(Lower *lo, int i) {
    const Node *node = lo->node;
    return i >= node->in.n || node->in.at[i] < 0 ? -1 : lower_cont(lo, node->in.at[i]);
}

const Value *lower_value(const Lower *lo, int i) {
    const Node *node = lo->node;
    return i >= node->in.n || node->in.at[i] < 0 ? NULL : &lo->graph->value.at[node->in.at[i]];
}

int lower_out(Lower *lo, int i) {
    if (i >= lo->node->out.n || lo->node->out.at[i] < 0) return -1;
    int v = lo->node->out.at[i];
    if (lo->cont[v] < 0) lo->cont[v] = value_cont(lo, &lo->graph->value.at[v], CONT_TMP);
    return lo->cont[v];
}

int lower_tmp(Lower *lo, const char *name, DType t, const Dim *shape, int rank) {
    int c = flow_cont(lo->flow, part_name(lo, name), CONT_TMP, lower_type(t), shape, rank);
    lo->flow->cont.at[c].from = base_name(lo);
    return c;
}

int lower_literal(Lower *lo, const char *name, DType t, const Dim *shape, int rank,
                  const void *data) {
    int64_t count = 1, d;
    for (int i = 0; i < rank; i++) {
        if (!dim_is_const(shape[i], &d)) BUG("literal \"%s\" without a constant shape", name);
        count *= d;
    }
    int c = flow_cont(lo->flow, part_name(lo, name), CONT_LITERAL, t, shape, rank);
    Cont *cont = &lo->flow->cont.at[c];
    cont->data_bytes = dtype_bytes(t, count);
    cont->data = arena_copy(lo->arena, data, (size_t)cont->data_bytes);
    return c;
}

int lower_scalar(Lower *lo, const char *name, DType t, double v) {
    uint64_t data[2] = {0, 0};
    mem_set(t, data, 0, bits_of_double(t, v));
    return lower_literal(lo, name, t, NULL, 0, data);
}

/* ---- maps ----------------------------------------------------------------------------------- */

Map *lower_map(Lower *lo, const char *name) {
    return flow_map(lo->flow, lo->into, part_name(lo, name), base_name(lo));
}

void lower_dims(Lower *lo, Map *m, const Dim *shape, int rank, Dim *at) {
    for (int i = 0; i < rank; i++) {
        if (dim_is(shape[i], 1))
            at[i] = dim_const(lo->ctx, 0);
        else
            at[i] = map_dim(lo->flow, m, internf(lo->ctx, "i%d", i), shape[i]);
    }
}

static bool is_whole_dim(const Map *m, Dim at, Dim extent) {
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].sym == at) return m->dim.at[i].extent == extent;
    return false;
}

/* The index of one dim of a broadcast operand; sets *guard when it may leave an empty operand. */
static Dim broadcast_index(Lower *lo, const Map *m, Dim at, Dim extent, bool *guard) {
    Ctx *ctx = lo->ctx;
    if (is_whole_dim(m, at, extent)) return at;
    if (dim_is(extent, 1)) return dim_const(ctx, 0);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    Dim last = dim_addc(ctx, extent, -1);
    if (dim_le(ctx, at, last, &env)) return at;
    if (!dim_ge0(ctx, last, &env)) *guard = true;
    return dim_min(ctx, at, last);
}

static bool is_single(const Cont *c) {
    for (int i = 0; i < c->rank; i++)
        if (!dim_is(c->shape[i], 1)) return false;
    return true;
}

int lower_read_broadcast(Lower *lo, Map *m, int cont, const Dim *dims, int rank) {
    const Cont *c = &lo->flow->cont.at[cont];
    if (c->kind == CONT_LITERAL && is_single(c))
        return body_bits(&m->body, c->type, mem_get(c->type, c->data, 0));
    Dim at[RANK_MAX];
    bool guard = false;
    ASSERT(c->rank <= rank);
    for (int i = 0; i < c->rank; i++)
        at[i] = broadcast_index(lo, m, dims[rank - c->rank + i], c->shape[i], &guard);
    if (!guard) return map_read(lo->flow, m, cont, at);
    return map_read_else(lo->flow, m, cont, at, body_const(&m->body, c->type, 0));
}

void lower_pointwise(Lower *lo, const char *name, const char *expr, const int *from, int nfrom,
                     int to) {
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, name);
    Dim at[RANK_MAX];
    int *arg = NEW_ARRAY(lo->arena, int, nfrom);
    DType literal = dtype_compute(c.type);
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < nfrom; i++) {
        if (from[i] < 0) continue;
        DType t = lo->flow->cont.at[from[i]].type;
        arg[i] =
            body_cvt(&m->body, dtype_compute(t), lower_read_broadcast(lo, m, from[i], at, c.rank));
        if (i == 0) literal = dtype_compute(t);
    }
    int val = body_expr(&m->body, expr, arg, nfrom, at, c.rank, literal);
    map_write(lo->flow, m, to, at, body_cvt(&m->body, c.type, val), NULL);
}

void lower_expr(Lower *lo) {
    int from[16], n = lo->node->in.n, to = lower_out(lo, 0);
    if (!lo->node->row->expr || n > 16) BUG("row \"%s\" has no expression", lo->node->row->name);
    if (to < 0) return;
    for (int i = 0; i < n; i++) from[i] = lower_in(lo, i);
    lower_pointwise(lo, NULL, lo->node->row->expr, from, n, to);
}

void lower_copy(Lower *lo, const char *name, int from, int to) {
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, name);
    Dim at[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    map_write(lo->flow, m, to, at, lower_read_broadcast(lo, m, from, at, c.rank), NULL);
}

void lower_call(Lower *lo, const char *row, const int *in, int nin, const int *out, int nout,
                const int64_t *attr, int nattr, const Dim *define, int ndefine) {
    Call *call = NEW(lo->arena, Call);
    call->name = base_name(lo);
    call->row = call_row(lo->ctx, row);
    if (!call->row) BUG("no call \"%s\"", row);
    call->nin = nin, call->in = arena_copy(lo->arena, in, sizeof *in * (size_t)nin);
    call->nout = nout, call->out = arena_copy(lo->arena, out, sizeof *out * (size_t)nout);
    call->nattr = nattr, call->attr = arena_copy(lo->arena, attr, sizeof *attr * (size_t)nattr);
    call->ndefine = ndefine,
    call->define = arena_copy(lo->arena, define, sizeof *define * (size_t)ndefine);
    call->from = call->name;
    vec_push(lo->arena, lo->into, (Item){.kind = ITEM_CALL, .call = call, .cond = -1});
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* One map per element: known values are few. */
static void write_known(Lower *lo, const Value *v, int cont) {
    int64_t count = type_count(&v->type);
    Dim at[RANK_MAX];
    if (!count) {
        Map *m = lower_map(lo, NULL);
        lower_dims(lo, m, v->type.shape, v->type.rank, at);
        map_write(lo->flow, m, cont, at, body_const(&m->body, v->type.dtype, 0), NULL);
    }
    for (int64_t i = 0; i < count; i++) {
        Map *m = lower_map(lo, internf(lo->ctx, "known%lld", (long long)i));
        int64_t rest = i, d = 1;
        for (int k = v->type.rank; k-- > 0; rest /= d) {
            dim_is_const(v->type.shape[k], &d);
            at[k] = dim_const(lo->ctx, rest % d);
        }
        int val = body_cvt(&m->body, v->type.dtype, body_index(&m->body, v->known[i]));
        map_write(lo->flow, m, cont, at, val, NULL);
    }
}

static bool all_known(const Lower *lo) {
    int used = 0;
    for (int i = 0; i < lo->node->out.n; i++) {
        int v = lo->node->out.at[i];
        if (v < 0) continue;
        if (!lo->graph->value.at[v].known) return false;
        used++;
    }
    return used > 0;
}

static void lower_known(Lower *lo) {
    for (int i = 0; i < lo->node->out.n; i++) {
        int v = lo->node->out.at[i];
        if (v < 0 || (lo->cont[v] < 0 && known_const(&lo->graph->value.at[v]))) continue;
        write_known(lo, &lo->graph->value.at[v], lower_out(lo, i));
    }
}

void lower_nodes(Lower *lo) {
    Where where = lo->ctx->where;
    for (int i = 0; i < lo->graph->node.n; i++) {
        lo->node = &lo->graph->node.at[i];
        if (!node_matters(lo->node)) continue;
        node_where(lo->ctx, lo->node);
        if (all_known(lo) && !(lo->node->row->flags & OP_SIDE))
            lower_known(lo);
        else if (lo->node->row->lower)
            lo->node->row->lower(lo);
        else
            lower_expr(lo);
    }
    lo->ctx->where = where;
}

void lower_graph(Lower *lo, const Graph *sub, Items *into, const int *inputs, int *outputs) {
    Lower inner = *lo;
    inner.graph = sub;
    inner.into = into;
    inner.outer = lo;
    inner.cont = NEW_ARRAY(lo->arena, int, sub->value.n);
    for (int i = 0; i < sub->value.n; i++) inner.cont[i] = -1;
    for (int i = 0; i < sub->input.n; i++) inner.cont[sub->input.at[i]] = inputs[i];
    lower_nodes(&inner);
    for (int i = 0; i < sub->output.n; i++) outputs[i] = lower_cont(&inner, sub->output.at[i]);
}
