/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/converted.h"

int converted_copy(Editing *e, Conversions *c, int cont, DType type, const Items *home,
                   Items *into) {
    Flow *flow = e->flow;
    for (int i = 0; i < c->done.n; i++)
        if (c->done.at[i].from == cont && c->done.at[i].home == home) return c->done.at[i].to;
    const Cont x = flow->cont.at[cont];
    const char *name = internf(flow->ctx, "%s.%s.%d", x.name, dtype_name(type), flow->cont.n);
    int to = flow_cont(flow, name, CONT_TMP, type, x.shape, x.rank);
    Map *m = flow_map(flow, into, name, x.from);
    Dim at[RANK_MAX];
    for (int k = 0; k < x.rank; k++) at[k] = map_dim(flow, m, "i", x.shape[k]);
    int value = map_read(flow, m, cont, at);
    map_write(flow, m, to, at, body_cvt(&m->body, type, value), NULL);
    vec_push(e->arena, &c->done, ((Converted){cont, to, home}));
    return to;
}

int converted_read(Body *b, const Val *read, int cont, DType type) {
    Access other = read->read;
    other.cont = cont;
    if (!read->has_else) return body_cvt(b, F32, body_read(b, other, type));
    return body_cvt(b, F32, body_read_else(b, other, type, body_cvt(b, type, read->arg[0])));
}
