/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `clean`: updates that go into a box are a map.
 *
 * An assignment to a slice, x[:, 3:7] = u, comes as a call that writes where indices say, for these
 * may be any. Where they are known to count along a box, each element of the result can tell by
 * itself whether it is new:
 *
 *     y[i,j] = 3 <= j < 7 ? u[i,j-3] : x[i,j]
 *
 * Then what reads y may read u and x instead, and nobody needs the indices. */
#include <string.h>

#include "passes/clean.h"

/* An index of the data, over the places of the updates: from `first` on, by one with index `by` of
 * these, or the same for all (-1). */
typedef struct Counted {
    int64_t first;
    int by;
} Counted;

typedef struct Assignment {
    Editing *e;
    const Call *call;
    int data, at, updates, to; /* containers; at[p.., k]: index k of the data for update p.. */
    int depth, places;         /* indices of the data that are given; of `at` but the last */
    Counted index[RANK_MAX];   /* by index of the data */
} Assignment;

static int64_t element(const Cont *c, int64_t n) {
    return bits_to_int(c->type, mem_get(c->type, c->data, n));
}

static bool known_numbers(const Flow *flow, const Cont *c) {
    bool whole = dtype_class(c->type) == CLASS_INT || dtype_class(c->type) == CLASS_UINT;
    return (c->kind == CONT_PARAM || c->kind == CONT_LITERAL) && c->data && whole &&
           dim_is_const(dim_product(flow->ctx, c->shape, c->rank), NULL);
}

/* Do the elements number offset, offset + stride, .. of a known container count by one along one of
 * its first `rank` indices, or along none? */
static bool data_counts(const Cont *c, int rank, int64_t offset, int64_t stride, Counted *out) {
    int64_t extent[RANK_MAX], all = 1, step = 0, along = 1;
    *out = (Counted){0, -1};
    for (int k = 0; k < rank; k++) dim_is_const(c->shape[k], &extent[k]), all *= extent[k];
    if (all < 1) return false;
    out->first = element(c, offset);
    for (int k = rank - 1; k >= 0 && out->by < 0; k--) {
        if (extent[k] > 1 && element(c, offset + along * stride) != out->first)
            out->by = k, step = along;
        else
            along *= extent[k];
    }
    for (int64_t n = 0; n < all; n++) {
        int64_t count = out->by < 0 ? 0 : n / step % extent[out->by];
        if (element(c, offset + n * stride) != out->first + count) return false;
    }
    return true;
}

/* What the map writes, over its dims: a number, a dim, a constant container that counts, or a sum
 * of such. */
static bool value_counts(const Flow *flow, const Map *m, int v, Counted *out) {
    const Val *val = &m->body.val.at[v];
    Dim coef, rest, at = val->index;
    Counted more;
    if (val->kind == VAL_PRIM && val->prim == P_CVT && (val->type == I32 || val->type == I64))
        return value_counts(flow, m, val->arg[0], out);
    if (val->kind == VAL_PRIM && val->prim == P_ADD) {
        if (!value_counts(flow, m, val->arg[0], out) || !value_counts(flow, m, val->arg[1], &more))
            return false;
        bool both = out->by >= 0 && more.by >= 0;
        *out = (Counted){out->first + more.first, out->by >= 0 ? out->by : more.by};
        return !both;
    }
    if (val->kind == VAL_CONST) {
        *out = (Counted){bits_to_int(val->type, val->bits), -1};
        return true;
    }
    if (val->kind == VAL_READ) {
        const Cont *c = &flow->cont.at[val->read.cont];
        if (val->has_else || !known_numbers(flow, c) || !data_counts(c, c->rank, 0, 1, out))
            return false;
        at = out->by < 0 ? dim_const(flow->ctx, 0) : val->read.at[out->by];
        at = dim_addc(flow->ctx, at, out->first);
    } else if (val->kind != VAL_INDEX) {
        return false;
    }
    *out = (Counted){0, -1};
    if (dim_is_const(at, &out->first)) return true;
    for (int d = 0; d < m->dim.n; d++)
        if (dim_affine(flow->ctx, at, &m->dim.at[d].sym, 1, &coef, &rest) && dim_is(coef, 1) &&
            dim_is_const(rest, &out->first)) {
            out->by = d;
            return true;
        }
    return false;
}

/* A map that gives one index of the data for all updates: which, and over their places. */
static bool map_counts(Assignment *a, const Map *m, int *which, Counted *out) {
    const Flow *flow = a->e->flow;
    const Cont *c = &flow->cont.at[a->at];
    const Access *to = map_plain_write(m);
    int64_t k;
    if (!to || m->cons.n || !dim_is_const(to->at[a->places], &k) ||
        !value_counts(flow, m, m->write.at[0].val[0], out))
        return false;
    *which = (int)k;
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

static bool find_indices(Assignment *a) {
    const Editing *e = a->e;
    const Cont *c = &e->flow->cont.at[a->at];
    bool found[RANK_MAX] = {false};
    if (known_numbers(e->flow, c)) {
        for (int k = 0; k < a->depth; k++)
            if (!data_counts(c, a->places, k, a->depth, &a->index[k])) return false;
        return true;
    }
    const IntVec *writers = &e->uses.writers[a->at];
    for (int i = 0; i < writers->n; i++) {
        Counted index;
        int k;
        if (!map_counts(a, e->flow->map.at[writers->at[i]], &k, &index) || k >= a->depth ||
            found[k])
            return false;
        found[k] = true, a->index[k] = index;
    }
    return writers->n == a->depth;
}

/* Do the indices stay within the data, no two updates at one place? One that is the same for all
 * goes with an index of the updates that is 0 alone. */
static bool is_box(Assignment *a) {
    Flow *flow = a->e->flow;
    const Cont *c = &flow->cont.at[a->data], *at = &flow->cont.at[a->at];
    bool counted[RANK_MAX] = {false};
    for (int k = 0; k < a->depth; k++) {
        int by = a->index[k].by;
        if (by >= 0 && counted[by]) return false;
        if (by >= 0) counted[by] = true;
    }
    for (int k = 0; k < a->depth; k++) {
        Counted *index = &a->index[k];
        for (int p = 0; p < a->places && index->by < 0; p++)
            if (!counted[p] && dim_is(at->shape[p], 1)) index->by = p, counted[p] = true;
        int64_t extent, size;
        if (index->by < 0 || !dim_is_const(at->shape[index->by], &extent) ||
            !dim_is_const(c->shape[k], &size))
            return false;
        if (index->first < 0) index->first += size;
        if (index->first < 0 || index->first + extent > size) return false;
    }
    for (int p = 0; p < a->places; p++)
        if (!counted[p] && !dim_is(at->shape[p], 1)) return false;
    return true;
}

static bool find_assignment(Editing *e, const Call *call, Assignment *a) {
    const Flow *flow = e->flow;
    if (strcmp(call->row->name, "scatter_nd") != 0 || call->attr[0] != 0) return false;
    *a = (Assignment){e, call, call->in[0], call->in[1], call->in[2], call->out[0], 0, 0, {{0}}};
    const Cont *at = &flow->cont.at[a->at], *to = &flow->cont.at[a->to];
    const Cont *u = &flow->cont.at[a->updates];
    int64_t depth;
    if (at->rank < 1 || !dim_is_const(at->shape[at->rank - 1], &depth)) return false;
    if (depth < 1 || depth > to->rank) return false;
    a->depth = (int)depth, a->places = at->rank - 1;
    int rest = to->rank - a->depth;
    bool moved = dtype_class(to->type) != CLASS_OBJECT && u->type == to->type &&
                 flow->cont.at[a->data].type == to->type;
    return moved && u->rank == a->places + rest && dims_equal(u->shape, at->shape, a->places) &&
           dims_equal(u->shape + a->places, to->shape + a->depth, rest) && find_indices(a) &&
           is_box(a);
}

static Item assign(const Assignment *a) {
    Flow *flow = a->e->flow;
    const Cont to = flow->cont.at[a->to];
    Items made = {0};
    Map *m = flow_map(flow, &made, a->call->name, a->call->from);
    Dim at[RANK_MAX], in[RANK_MAX];
    for (int k = 0; k < to.rank; k++)
        at[k] = map_dim(flow, m, internf(flow->ctx, "i%d", k), to.shape[k]);
    for (int p = 0; p < a->places; p++) in[p] = dim_const(flow->ctx, 0);
    for (int k = 0; k < a->depth; k++)
        in[a->index[k].by] = dim_addc(flow->ctx, at[k], -a->index[k].first);
    for (int k = a->depth; k < to.rank; k++) in[a->places + k - a->depth] = at[k];
    int old = map_read(flow, m, a->data, at);
    map_write(flow, m, a->to, at, map_read_else(flow, m, a->updates, in, old), NULL);
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
