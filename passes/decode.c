/* SPDX-License-Identifier: Apache-2.0 */
/* What weights are decoded by. */
#include "passes/decode.h"

#include <math.h>

bool is_weight(const Cont *c) {
    return c->kind == CONT_PARAM || c->kind == CONT_LITERAL;
}

double cont_bits(const Cont *c) {
    double bits = dtype_bits(c->type);
    for (int k = 0; k < c->rank; k++) bits *= (double)extent_or(c->shape[k], 0);
    return bits;
}

/* The element-wise map that alone makes a container, or NULL. */
static const Map *made_by(const Editing *e, int cont) {
    int writer = e->uses.writer[cont];
    if (e->flow->cont.at[cont].kind != CONT_TMP || e->uses.held[cont] || writer < 0) return NULL;
    const Map *m = e->flow->map.at[writer];
    const Access *to = map_plain_write(m);
    return to && !m->cons.n && writes_joined(e->flow, m, to) ? m : NULL;
}

double decode_bits(const Editing *e, int cont) {
    const Cont *c = &e->flow->cont.at[cont];
    if (is_weight(c)) return cont_bits(c);
    const Map *m = made_by(e, cont);
    double bits = 0;
    for (int v = 0; m && v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_INDEX) return INFINITY;
        if (val->kind != VAL_READ) continue;
        if (val->has_else || access_by_value(m, &val->read)) return INFINITY;
        bits += decode_bits(e, val->read.cont);
    }
    return m ? bits : INFINITY;
}

void decode_into(Editing *e, Map *m, int cont) {
    const Map *from = made_by(e, cont);
    compose_map(e, from, map_plain_write(from), m);
    for (int v = 0; v < from->body.val.n; v++)
        if (from->body.val.at[v].kind == VAL_READ &&
            !is_weight(&e->flow->cont.at[from->body.val.at[v].read.cont]))
            decode_into(e, m, from->body.val.at[v].read.cont);
}

Map map_saved(Arena *arena, const Map *m) {
    Map saved = *m;
    saved.dim.at = arena_copy(arena, m->dim.at, (size_t)m->dim.n * sizeof *m->dim.at);
    saved.write.at = arena_copy(arena, m->write.at, (size_t)m->write.n * sizeof *m->write.at);
    return saved;
}
