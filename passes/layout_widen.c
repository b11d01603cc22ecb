/* SPDX-License-Identifier: Apache-2.0 */
/* Small floats that contractions read element by element are stored widened.
 *
 * A product of halves is one of their values in f32. What stands in lanes is widened a vector at a
 * time and shared by the rows of a tile; what the lanes are multiplied by is widened alone, in
 * every tile again. A temporary of such values, rounded where it is written, is kept in f32: twice
 * the bytes, one conversion each. */
#include "passes/layout.h"

/* Is every use of val its conversion to f32? */
static bool only_widened(const Map *m, int val) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            if (m->write.at[w].val[k] == val) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *u = &m->body.val.at[v];
        if (u->kind == VAL_READ && u->has_else && u->arg[0] == val) return false;
        for (int i = 0; u->kind == VAL_PRIM && i < prim_row(u->prim)->arity; i++)
            if (u->arg[i] == val && (u->prim != P_CVT || u->type != F32)) return false;
    }
    return true;
}

/* May all readers of cont take f32, and does a contraction multiply its lanes by it? */
static bool readers_widen(const Layouts *l, int cont) {
    bool scalar = false;
    for (int r = 0; r < l->readers[cont].n; r++) {
        const Map *m = l->flow->map.at[l->readers[cont].at[r]];
        Contraction c = map_contraction(l->flow, m);
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || val->read.cont != cont) continue;
            if (val->sym || !only_widened(m, v)) return false;
            for (int d = 0; c.is && v == c.a && d < m->dim.n; d++)
                scalar |= c.role[d] == ROLE_N && map_extent(m, d, l->lanes) > l->lanes;
        }
    }
    return scalar;
}

static bool widens(const Layouts *l, int cont) {
    const Cont *c = &l->flow->cont.at[cont];
    if (c->kind != CONT_TMP || c->type != F16 || c->layout || l->held[cont]) return false;
    for (int w = 0; w < l->writers[cont].n; w++) {
        const Map *m = l->flow->map.at[l->writers[cont].at[w]];
        for (int i = 0; i < m->write.n; i++)
            if (m->write.at[i].combine) return false;
    }
    return readers_widen(l, cont);
}

static int read_wide(void *user, Body *b, const Val *read) {
    const bool *wide = user;
    DType t = wide[read->read.cont] ? F32 : read->type;
    if (!read->has_else) return body_read(b, read->read, t);
    return body_read_else(b, read->read, t, body_cvt(b, t, read->arg[0]));
}

static void widen_map(Layouts *l, Map *m, bool *wide) {
    Body made = {.arena = l->arena};
    int *map = NEW_ARRAY(l->arena, int, m->body.val.n + 1);
    body_inline(&made, &m->body, NULL, 0, NULL, read_wide, wide, map);
    for (int w = 0; w < m->write.n; w++) {
        int *val = NEW_ARRAY(l->arena, int, m->write.at[w].n);
        for (int k = 0; k < m->write.at[w].n; k++) {
            val[k] = map[m->write.at[w].val[k]];
            if (wide[m->write.at[w].to[k].cont]) val[k] = body_cvt(&made, F32, val[k]);
        }
        m->write.at[w].val = val;
    }
    m->body = made;
}

void layout_widen(Layouts *l) {
    bool *wide = NEW_ARRAY(l->arena, bool, l->flow->cont.n + 1), any = false;
    for (int c = 0; c < l->flow->cont.n; c++) any |= wide[c] = widens(l, c);
    if (!any) return;
    for (int c = 0; c < l->flow->cont.n; c++)
        if (wide[c]) l->flow->cont.at[c].type = F32;
    for (int m = 0; m < l->flow->map.n; m++) widen_map(l, l->flow->map.at[m], wide);
}
