/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `clean`: updates that go into a box are a map.
 *
 * An assignment to a slice, x[:, 3:9:2] = u, comes as a call that writes where indices say, for
 * these may be any. Where they are known to count along a box, each element of the result can tell
 * by itself whether it is new:
 *
 *     y[i,j] = 3 <= j < 9 and (j-3) % 2 = 0 ? u[i,(j-3)/2] : x[i,j]
 *
 * Then what reads y may read u and x instead, and nobody needs the indices. */
#include <string.h>

#include "passes/clean.h"

/* An index of the data, over the places of the updates: first + step * their index `by`, or the
 * same for all (-1). */
typedef struct Counted {
    Dim first;
    int64_t step;
    int by;
} Counted;

enum { VALUES = 200 }; /* of bodies that are followed for an index */

typedef struct Assignment {
    Editing *e;
    const Call *call;
    int data, at, updates, to; /* containers; at[p..] or at[p.., k] say where update p.. goes */
    int axis;                  /* the one index that `at` gives, or -1: each place gives several */
    int depth, places;         /* indices of the data that are given; of `at` that count updates */
    Counted index[RANK_MAX];   /* by index of the data */
} Assignment;

/* No index is as far as that, and sums of some stay in 64 bits. */
static const int64_t far = (int64_t)1 << 48;

static int64_t element(const Cont *c, int64_t n) {
    int64_t value = bits_to_int(c->type, mem_get(c->type, c->data, n));
    return value > far ? far : value < -far ? -far : value;
}

static bool known_numbers(const Flow *flow, const Cont *c) {
    bool whole = dtype_class(c->type) == CLASS_INT || dtype_class(c->type) == CLASS_UINT;
    return (c->kind == CONT_PARAM || c->kind == CONT_LITERAL) && c->data && whole &&
           dim_is_const(dim_product(flow->ctx, c->shape, c->rank), NULL);
}

/* Do the elements number offset, offset + stride, .. of a known container count along one of its
 * first `rank` indices, or along none? */
static bool data_counts(Ctx *ctx, const Cont *c, int rank, int64_t offset, int64_t stride,
                        Counted *out) {
    int64_t extent[RANK_MAX], all = 1, along = 1, step = 0;
    int by = -1;
    for (int k = 0; k < rank; k++) dim_is_const(c->shape[k], &extent[k]), all *= extent[k];
    if (all < 1) return false;
    int64_t first = element(c, offset);
    for (int k = rank - 1; k >= 0 && by < 0; k--) {
        if (extent[k] > 1) step = element(c, offset + along * stride) - first;
        if (step)
            by = k;
        else
            along *= extent[k];
    }
    for (int64_t n = 0; n < all; n++) {
        int64_t count = by < 0 ? 0 : n / along % extent[by];
        if (element(c, offset + n * stride) != first + step * count) return false;
    }
    *out = (Counted){dim_const(ctx, first), step, by};
    return true;
}

static Dim counted_at(Ctx *ctx, const Counted *c, const Dim *at) {
    return c->by < 0 ? c->first : dim_add(ctx, c->first, dim_mulc(ctx, at[c->by], c->step));
}

static Dim value_of(const Editing *e, const Map *m, int v, int *left);

/* What is read there: of a known container that counts, or as the map that alone wrote it says. */
static Dim read_of(const Editing *e, const Access *read, int *left) {
    const Flow *flow = e->flow;
    const Cont *c = &flow->cont.at[read->cont];
    Counted counts;
    if (known_numbers(flow, c))
        return data_counts(flow->ctx, c, c->rank, 0, 1, &counts)
                   ? counted_at(flow->ctx, &counts, read->at)
                   : NULL;
    int writer = e->uses.writer[read->cont];
    const Map *m = writer < 0 ? NULL : flow->map.at[writer];
    const Access *to = m && !e->uses.held[read->cont] ? map_plain_write(m) : NULL;
    if (!to || !writes_whole(flow, m, to)) return NULL;
    DimSubst subst[RANK_MAX];
    int n = 0;
    for (int k = 0; k < to->rank; k++)
        if (access_dim(m, to, k) >= 0) subst[n++] = (DimSubst){to->at[k], read->at[k]};
    Dim value = value_of(e, m, m->write.at[0].val[0], left);
    return value ? dim_subst(flow->ctx, value, subst, n) : NULL;
}

/* What a map computes of numbers and its dims, of what is read if that is all; NULL: it is more. */
static Dim value_of(const Editing *e, const Map *m, int v, int *left) {
    const Val *val = &m->body.val.at[v];
    Ctx *ctx = e->flow->ctx;
    if (dtype_class(val->type) != CLASS_INT || (*left)-- <= 0) return NULL;
    if (val->kind == VAL_INDEX) return val->index;
    if (val->kind == VAL_CONST) return dim_const(ctx, bits_to_int(val->type, val->bits));
    if (val->kind == VAL_READ) return val->has_else ? NULL : read_of(e, &val->read, left);
    if (val->kind != VAL_PRIM) return NULL;
    if (val->prim == P_CVT) return value_of(e, m, val->arg[0], left);
    if (prim_row(val->prim)->arity != 2) return NULL;
    return dim_computed(ctx, val->prim, value_of(e, m, val->arg[0], left),
                        value_of(e, m, val->arg[1], left));
}

/* first + step * one of the map's dims, which becomes `by`; first of sizes alone. */
static bool dim_counts(const Flow *flow, const Map *m, Dim value, Counted *out) {
    Dim coef, rest;
    *out = (Counted){value, 0, -1};
    for (int d = 0; d < m->dim.n; d++) {
        if (!dim_uses(out->first, m->dim.at[d].sym)) continue;
        if (out->by >= 0 || !dim_affine(flow->ctx, value, &m->dim.at[d].sym, 1, &coef, &rest) ||
            !dim_is_const(coef, &out->step))
            return false;
        out->first = rest, out->by = d;
    }
    return made_of_sizes(flow, out->first);
}

/* A map that gives one index of the data for all updates, over their places. */
static bool map_counts(const Assignment *a, const Map *m, const Access *to, Counted *out) {
    const Flow *flow = a->e->flow;
    const Cont *c = &flow->cont.at[a->at];
    int left = VALUES;
    Dim value = m->cons.n ? NULL : value_of(a->e, m, m->write.at[0].val[0], &left);
    if (!value || !dim_counts(flow, m, value, out)) return false;
    int by = out->by;
    out->by = -1;
    for (int p = 0; p < a->places; p++) {
        int d = access_dim(m, to, p);
        bool one = dim_is(c->shape[p], 1) && dim_is(to->at[p], 0);
        if (!one && (d < 0 || m->dim.at[d].extent != c->shape[p])) return false;
        if (!one && d == by) out->by = p;
    }
    return by < 0 || out->by >= 0;
}

/* What places give by data: each index of several, or the one. */
static bool find_known(Assignment *a, const Cont *c) {
    Ctx *ctx = a->e->flow->ctx;
    if (a->axis >= 0) return data_counts(ctx, c, a->places, 0, 1, &a->index[a->axis]);
    for (int k = 0; k < a->depth; k++)
        if (!data_counts(ctx, c, a->places, k, a->depth, &a->index[k])) return false;
    return true;
}

static bool find_indices(Assignment *a) {
    const Editing *e = a->e;
    const Cont *c = &e->flow->cont.at[a->at];
    bool found[RANK_MAX] = {false};
    for (int k = 0; k < a->depth; k++) /* of one index alone; the others are those of the updates */
        a->index[k] = (Counted){dim_const(e->flow->ctx, 0), 1, k};
    if (known_numbers(e->flow, c)) return find_known(a, c);
    const IntVec *writers = &e->uses.writers[a->at];
    for (int i = 0; i < writers->n; i++) {
        const Map *m = e->flow->map.at[writers->at[i]];
        const Access *to = map_plain_write(m);
        int64_t k = a->axis;
        if (!to || (k < 0 && !dim_is_const(to->at[a->places], &k)) || k >= a->depth || found[k] ||
            !map_counts(a, m, to, &a->index[k]))
            return false;
        found[k] = true;
    }
    return writers->n == (a->axis < 0 ? a->depth : 1);
}

/* What sizes are where the container has elements. */
static DimEnv with_elements(const Flow *flow, const Cont *c) {
    DimEnv env = flow_env(flow->arena, flow);
    DimRange *range = arena_copy(flow->arena, env.at, (size_t)env.n * sizeof *range);
    Dim one = dim_const(flow->ctx, 1);
    for (int i = 0; i < env.n; i++)
        for (int k = 0; k < c->rank; k++)
            if (c->shape[k] == range[i].sym)
                range[i].lo = range[i].lo ? dim_max(flow->ctx, range[i].lo, one) : one;
    return (DimEnv){range, env.n};
}

/* Are indices of the data from `first` on, one for each of so many updates, proven to be some? */
static bool stays_inside(Ctx *ctx, const DimEnv *env, Counted *index, Dim extent, Dim size) {
    Dim others = dim_computed(ctx, P_MUL, dim_addc(ctx, extent, -1), dim_const(ctx, index->step));
    Dim last = dim_computed(ctx, P_ADD, index->first, others);
    if (!last) return false;
    Dim low = index->step < 0 ? last : index->first, high = index->step < 0 ? index->first : last;
    if (dim_le(ctx, high, dim_const(ctx, -1), env)) { /* from the end */
        index->first = dim_add(ctx, index->first, size);
        low = dim_add(ctx, low, size), high = dim_add(ctx, high, size);
    }
    return dim_ge0(ctx, low, env) && dim_le(ctx, high, dim_addc(ctx, size, -1), env);
}

/* Do the indices stay within the data, if there is any, no two updates at one place? One that is
 * the same for all goes with an index of the updates that is 0 alone. */
static bool is_box(Assignment *a) {
    const Flow *flow = a->e->flow;
    const Cont *c = &flow->cont.at[a->data], *at = &flow->cont.at[a->at];
    DimEnv env = with_elements(flow, c);
    bool counted[RANK_MAX] = {false};
    for (int k = 0; k < a->depth; k++)
        if (a->index[k].by >= 0) counted[a->index[k].by] = true;
    for (int k = 0; k < a->depth; k++) {
        Counted *index = &a->index[k];
        for (int p = 0; p < a->places && index->by < 0; p++)
            if (!counted[p] && dim_is(at->shape[p], 1))
                index->by = p, index->step = 1, counted[p] = true;
        if (index->by < 0 ||
            !stays_inside(flow->ctx, &env, index, at->shape[index->by], c->shape[k]))
            return false;
    }
    for (int p = 0; p < a->places; p++)
        if (!counted[p] && !dim_is(at->shape[p], 1)) return false;
    return true;
}

/* Of a call that replaces elements of a container: which, and where the others go. */
static bool find_call(Editing *e, const Call *call, Assignment *a) {
    bool nd = !strcmp(call->row->name, "scatter_nd");
    if ((!nd && strcmp(call->row->name, "scatter_elements") != 0) || call->in[0] < 0) return false;
    *a = (Assignment){.e = e,
                      .call = call,
                      .data = call->in[0],
                      .at = call->in[1],
                      .updates = call->in[2],
                      .to = call->out[0]};
    const Cont *at = &e->flow->cont.at[a->at], *to = &e->flow->cont.at[a->to];
    int64_t depth = to->rank;
    if (at->rank < 1 || (nd && !dim_is_const(at->shape[at->rank - 1], &depth))) return false;
    a->axis = nd ? -1 : (int)call->attr[0];
    a->depth = (int)depth, a->places = nd ? at->rank - 1 : at->rank;
    return call->attr[!nd] == 0 && depth >= 1 && depth <= to->rank && (nd || a->axis >= 0);
}

static bool find_assignment(Editing *e, const Call *call, Assignment *a) {
    const Flow *flow = e->flow;
    if (!find_call(e, call, a)) return false;
    const Cont *at = &flow->cont.at[a->at], *to = &flow->cont.at[a->to];
    const Cont *u = &flow->cont.at[a->updates];
    int rest = to->rank - a->depth;
    bool moved = dtype_class(to->type) != CLASS_OBJECT && u->type == to->type &&
                 flow->cont.at[a->data].type == to->type;
    return moved && u->rank == a->places + rest && dims_equal(u->shape, at->shape, a->places) &&
           dims_equal(u->shape + a->places, to->shape + a->depth, rest) && find_indices(a) &&
           is_box(a);
}

static Item assign(const Assignment *a) {
    Flow *flow = a->e->flow;
    Ctx *ctx = flow->ctx;
    const Cont to = flow->cont.at[a->to];
    Items made = {0};
    Map *m = flow_map(flow, &made, a->call->name, a->call->from);
    Dim at[RANK_MAX], in[RANK_MAX];
    for (int k = 0; k < to.rank; k++) at[k] = map_dim(flow, m, internf(ctx, "i%d", k), to.shape[k]);
    for (int p = 0; p < a->places; p++) in[p] = NULL;
    int old = map_read(flow, m, a->data, at), on = -1;
    for (int k = 0; k < a->depth; k++) {
        const Counted *index = &a->index[k];
        Dim *by = &in[index->by], behind = dim_sub(ctx, at[k], index->first);
        bool only = !*by;
        if (only) *by = dim_div(ctx, behind, dim_const(ctx, index->step));
        if (only && (index->step == 1 || index->step == -1)) continue;
        behind = dim_sub(ctx, behind, dim_mulc(ctx, *by, index->step));
        int here =
            body_prim2(&m->body, P_EQ, body_index(&m->body, behind), body_const(&m->body, I64, 0));
        on = on < 0 ? here : body_prim2(&m->body, P_AND, on, here);
    }
    for (int p = 0; p < a->places; p++)
        if (!in[p]) in[p] = dim_const(ctx, 0);
    for (int k = a->depth; k < to.rank; k++) in[a->places + k - a->depth] = at[k];
    int value = map_read_else(flow, m, a->updates, in, old);
    if (on >= 0) value = body_prim3(&m->body, P_SELECT, on, value, old);
    map_write(flow, m, a->to, at, value, NULL);
    return made.at[0];
}

/* Not in loops, where a call may go on in what it is handed. */
static bool assign_all(Editing *e, Items *items) {
    bool changed = false;
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        Assignment a;
        if (it->kind == ITEM_IF) changed |= assign_all(e, &it->body) | assign_all(e, &it->other);
        if (it->kind != ITEM_CALL || !find_assignment(e, it->call, &a)) continue;
        *it = assign(&a);
        changed = true;
    }
    return changed;
}

bool assign_boxes(Editing *c) {
    bool changed = assign_all(c, &c->flow->body);
    if (changed) uses_count(c);
    return changed;
}
