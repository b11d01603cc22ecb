/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of codes whose terms the run counts: while they are so few that no sum leaves i32 they are
 * summed as codes, else as what is decoded of them, and sizes choose (ITEM_IF):
 *
 *     map mm [i:S, j:D, k:T] -> o       becomes    if [T <= most] {
 *     map ep [i:S, j:D] o -> y                       map mm_1 [i:S, j:D, k:T] -> o.codes
 *                                                    map ep_1 [i:S, j:D] o.codes -> y
 *                                                  } else { both as they were }
 *
 * What follows element by element and reads nothing else that is computed is in both branches, so
 * that each shares its kernel. */
#include "passes/quantize.h"

Dim terms_left(const Flow *flow, const Map *m) {
    enum { MOST = INT32_MAX / (UINT8_MAX * UINT8_MAX) };
    Dim terms = dim_const(flow->ctx, 1);
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d)) terms = dim_mul(flow->ctx, terms, m->dim.at[d].extent);
    return dim_sub(flow->ctx, dim_const(flow->ctx, MOST), terms);
}

/* The only map that reads what map number `map` writes, and may do so in a branch; or -1. Codes end
 * it, whose readers sum them. */
static int follower(const Quantizing *q, int map) {
    const Uses *u = &q->c.uses;
    const Flow *flow = q->c.flow;
    int cont = flow->map.at[map]->write.at[0].to[0].cont;
    if (flow->cont.at[cont].kind != CONT_TMP || u->held[cont] ||
        dtype_bits(flow->cont.at[cont].type) == 8)
        return -1;
    if (u->writers[cont].n != 1 || u->readers[cont].n != 1) return -1;
    int next = u->readers[cont].at[0];
    const Map *m = flow->map.at[next];
    const Access *to = map_plain_write(m);
    if (!to || map_is_reduction(m) || m->cons.n || u->home[next] != u->home[map]) return -1;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont == cont) continue;
        ContKind kind = flow->cont.at[val->read.cont].kind;
        if (kind != CONT_PARAM && kind != CONT_LITERAL) return -1;
    }
    return u->writers[to->cont].n == 1 ? next : -1;
}

/* The map again, in the branch of codes, which reads `in->other`. */
static Map *again(Quantizing *q, int map, const Instead *in, Items *branch) {
    Map *m = map_again(&q->c, q->c.flow->map.at[map], branch);
    map_rewrite(&q->c, m, NULL, 0, read_other, (void *)in);
    return m;
}

/* A container of its own for what a map of the branch writes. */
static Instead own_result(Quantizing *q, Map *m) {
    Flow *flow = q->c.flow;
    Access *to = arena_copy(flow->arena, m->write.at[0].to, sizeof *to);
    const Cont c = flow->cont.at[to->cont];
    Instead in = {to->cont, flow_cont(flow, internf(flow->ctx, "%s.codes", c.name), CONT_TMP,
                                      c.type, c.shape, c.rank)};
    flow->cont.at[in.other].from = c.from;
    to->cont = in.other;
    m->write.at[0].to = to;
    return in;
}

/* Takes a map out of the list that it stands in, into another. */
static void move(Quantizing *q, int map, Items *to) {
    int at;
    Items *list = items_with(&q->c.flow->body, map, &at);
    vec_push(q->c.flow->arena, to, list->at[at]);
    list->n--;
    for (int i = at; i < list->n; i++) list->at[i] = list->at[i + 1];
}

/* Maps that decode for map number `map` alone. */
static void move_decoders(Quantizing *q, int map, Items *to) {
    const Body *b = &q->c.flow->map.at[map]->body;
    const Uses *u = &q->c.uses;
    for (int v = 0; v < b->val.n; v++) {
        Decoded d;
        int cont = b->val.at[v].read.cont;
        if (b->val.at[v].kind != VAL_READ || u->held[cont] || !decoder_of(q, cont, &d)) continue;
        bool alone =
            q->c.flow->cont.at[cont].kind == CONT_TMP && u->home[u->writer[cont]] == u->home[map];
        for (int r = 0; r < u->readers[cont].n; r++) alone &= u->readers[cont].at[r] == map;
        if (alone) move(q, u->writer[cont], to);
    }
}

int choose_by_terms(Quantizing *q, int map) {
    Flow *flow = q->c.flow;
    Instead in = {-1, -1};
    Items codes = {0}, others = {0};
    uses_count(&q->c);
    move_decoders(q, map, &others);
    vec_push(flow->arena, &others, ((Item){.kind = ITEM_MAP, .map = map, .cond = -1}));
    Map *m = again(q, map, &in, &codes);
    for (int next, last = map; (next = follower(q, last)) >= 0; last = next) {
        in = own_result(q, m);
        m = again(q, next, &in, &codes);
        move(q, next, &others);
    }
    int at;
    Items *list = items_with(&flow->body, map, &at);
    list->at[at] = (Item){.kind = ITEM_IF,
                          .cond = -1,
                          .when = terms_left(flow, flow->map.at[map]),
                          .body = codes,
                          .other = others,
                          .from = flow->map.at[map]->from};
    return codes.at[0].map;
}
