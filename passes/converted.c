/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/converted.h"

bool converted_alike(const Flow *flow, const Converted *one) {
    const Cont *from = &flow->cont.at[one->from];
    return dims_equal(from->shape, flow->cont.at[one->to].shape, from->rank);
}

int converted_filled(Editing *e, Conversions *c, int cont, DType type, const Dim *shape,
                     const Items *home, Items *into) {
    Flow *flow = e->flow;
    const Cont x = flow->cont.at[cont];
    for (int i = 0; i < c->done.n; i++) {
        const Converted *one = &c->done.at[i];
        if (one->from == cont && one->home == home &&
            dims_equal(flow->cont.at[one->to].shape, shape, x.rank))
            return one->to;
    }
    const char *name = internf(flow->ctx, "%s.%s", x.name, dtype_name(type));
    int to = flow_cont(flow, name, CONT_TMP, type, shape, x.rank);
    Map *m = flow_map(flow, into, name, x.from);
    Dim at[RANK_MAX];
    for (int k = 0; k < x.rank; k++) at[k] = map_dim(flow, m, "i", shape[k]);
    Access from = {cont, x.rank, arena_copy(e->arena, at, (size_t)x.rank * sizeof *at)};
    int value = dims_equal(x.shape, shape, x.rank)
                    ? body_read(&m->body, from, x.type)
                    : body_read_else(&m->body, from, x.type, body_const(&m->body, x.type, 0));
    map_write(flow, m, to, at, body_cvt(&m->body, type, value), NULL);
    vec_push(e->arena, &c->done, ((Converted){cont, to, home}));
    return to;
}

static bool plainly_written(const Map *m, int cont) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            if (m->write.at[w].to[k].cont == cont &&
                (m->write.at[w].combine || m->write.at[w].n != 1))
                return false;
    return true;
}

bool converted_written(const Editing *e, int cont) {
    const Cont *x = &e->flow->cont.at[cont];
    if (x->kind != CONT_STATE || x->layout || e->uses.held[cont]) return false;
    for (int i = 0; i < e->flow->map.n; i++)
        if (!plainly_written(e->flow->map.at[i], cont)) return false;
    return true;
}

int converted_state(Editing *e, Conversions *c, int cont, DType type) {
    Flow *flow = e->flow;
    for (int i = 0; i < c->done.n; i++)
        if (c->done.at[i].from == cont && !c->done.at[i].home) return c->done.at[i].to;
    const Cont x = flow->cont.at[cont];
    const char *name = internf(flow->ctx, "%s.%s", x.name, dtype_name(type));
    int to = flow_cont(flow, name, CONT_STATE, type, x.shape, x.rank);
    for (int i = 0; i < flow->map.n; i++) {
        Map *m = flow->map.at[i];
        for (int w = 0, n = m->write.n; w < n; w++) {
            if (m->write.at[w].to[0].cont != cont) continue;
            int value = body_cvt(&m->body, type, m->write.at[w].val[0]);
            map_write(flow, m, to, m->write.at[w].to[0].at, value, NULL);
        }
    }
    vec_push(e->arena, &c->done, ((Converted){cont, to, NULL}));
    return to;
}

int converted_copy(Editing *e, Conversions *c, int cont, DType type, const Items *home,
                   Items *into) {
    return converted_filled(e, c, cont, type, e->flow->cont.at[cont].shape, home, into);
}

/* The map that writes all of a container, element for element, beside the map that copies it and
 * for other readers, too; or NULL. */
static Map *other_writer(const Editing *e, int from, int copy) {
    const Uses *u = &e->uses;
    int writer = u->writer[from];
    if (writer < 0 || copy < 0 || u->home[writer] != u->home[copy]) return NULL;
    Map *m = e->flow->map.at[writer];
    const Access *to = map_plain_write(m);
    bool shared =
        u->held[from] || u->readers[from].n > 1 || e->flow->cont.at[from].kind != CONT_TMP;
    return shared && to && !m->cons.n && writes_whole(e->flow, m, to) ? m : NULL;
}

void converted_join(Editing *e, const Conversions *c) {
    uses_count(e);
    for (int i = 0; i < c->done.n; i++) {
        int from = c->done.at[i].from, to = c->done.at[i].to, copy = e->uses.writer[to];
        Map *m = other_writer(e, from, copy);
        if (!m || !converted_alike(e->flow, &c->done.at[i])) continue;
        int value = body_cvt(&m->body, e->flow->cont.at[to].type, m->write.at[0].val[0]);
        map_write(e->flow, m, to, m->write.at[0].to[0].at, value, NULL);
        e->flow->map.at[copy]->write.n = 0;
    }
    drop_unneeded(e);
}

int converted_read(Body *b, const Val *read, int cont, DType type) {
    Access other = read->read;
    other.cont = cont;
    if (!read->has_else) return body_cvt(b, F32, body_read(b, other, type));
    return body_cvt(b, F32, body_read_else(b, other, type, body_cvt(b, type, read->arg[0])));
}
