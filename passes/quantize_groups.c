/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions in groups of few channels, of codes. Lanes run along the channels of a group, so
 * fewer than a vector has would leave the others idle: as many groups as fill one become a group,
 * whose weights from one to another are codes of 0. The instructions of the machine's table make
 * these products, too; where that is not sooner than f32 makes those that are needed, sums stay
 * f32. */
#include "passes/dot.h"
#include "passes/quantize.h"

/* Are groups of so many channels worth an instruction? Then `wider` of them become one. */
static bool gains(const Quantizing *q, int64_t channels, int64_t groups, int64_t *wider) {
    const Machine *machine = q->env->machine;
    int64_t lanes = machine->vector_bytes / (int64_t)sizeof(int32_t);
    double speed = dot_flops(machine, U8, I8, 1, 1) / machine->fma_flops;
    *wider = 1;
    if (machine->block_threads || !machine->nuse) return false;
    if (channels < lanes && lanes % channels == 0 && groups % (lanes / channels) == 0)
        *wider = lanes / channels;
    double whole = (double)((channels + lanes - 1) / lanes * lanes);
    return speed * (double)channels > whole;
}

bool sums_groups(const Quantizing *q, const Map *m, Grouped *g) {
    const Flow *flow = q->c.flow;
    const Access *to = &m->write.at[0].to[0];
    *g = (Grouped){-1, -1, -1, 1};
    bool plain = true;
    for (int k = 0; k < to->rank; k++)
        plain &= access_dim(m, to, k) >= 0 || dim_is_const(to->at[k], NULL);
    if (plain) return true;
    Contraction r = map_contraction(flow, m);
    if (!r.is) return false;
    const Val *image = &m->body.val.at[r.a], *weights = &m->body.val.at[r.b];
    for (int d = 0; d < m->dim.n; d++) {
        if (r.role[d] == ROLE_BATCH && access_uses(m, &weights->read, d)) g->groups = d;
        if (r.role[d] == ROLE_N) g->outputs = d;
    }
    if (g->groups < 0 || g->outputs < 0 || weights->has_else) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && access_counts(flow, m, &image->read, g->groups, d) &&
            access_plain(m, &weights->read, d) >= 0)
            g->terms = d;
    if (g->terms < 0 || !access_counts(flow, m, &weights->read, g->groups, g->outputs))
        return false;
    if (!access_counts(flow, m, to, g->groups, g->outputs)) return false;
    int64_t channels = map_extent(m, g->outputs, 0), groups = map_extent(m, g->groups, 0);
    return channels > 1 && groups > 1 && gains(q, channels, groups, &g->wider);
}

/* ---- wider groups ---------------------------------------------------------------------------- */

/* In front of map m the map that makes the weights of wider groups, `zero` between the old ones;
 * its container. */
static int wide_weights(Quantizing *q, int map, const Grouped *g, const Val *weights, Bits zero) {
    Flow *flow = q->c.flow;
    Ctx *ctx = flow->ctx;
    const Map *m = flow->map.at[map];
    const Cont c = flow->cont.at[weights->read.cont];
    int64_t outputs = map_extent(m, g->outputs, 1), terms = map_extent(m, g->terms, 1);
    int term = access_plain(m, &weights->read, g->terms), output = 0;
    while (!dim_uses(weights->read.at[output], m->dim.at[g->outputs].sym)) output++;
    Dim shape[RANK_MAX], at[RANK_MAX], from[RANK_MAX];
    for (int k = 0; k < c.rank; k++) shape[k] = c.shape[k];
    shape[term] = dim_const(ctx, terms * g->wider);
    int wide = flow_cont(flow, internf(ctx, "%s.wide", c.name), CONT_TMP, c.type, shape, c.rank);
    flow->cont.at[wide].from = c.from;
    Items made = {0};
    Map *w = flow_map(flow, &made, internf(ctx, "%s.wide", c.name), c.from);
    for (int k = 0; k < c.rank; k++) from[k] = at[k] = map_dim(flow, w, "i", shape[k]);
    from[term] = dim_mod(ctx, at[term], dim_const(ctx, terms));
    Body *b = &w->body;
    int code = map_read(flow, w, weights->read.cont, from);
    Dim group = dim_mod(ctx, at[output], dim_const(ctx, outputs * g->wider));
    int same = body_prim2(b, P_EQ, body_index(b, dim_div(ctx, group, dim_const(ctx, outputs))),
                          body_index(b, dim_div(ctx, at[term], dim_const(ctx, terms))));
    code = body_prim3(b, P_SELECT, same, code, body_bits(b, c.type, zero));
    map_write(flow, w, wide, at, code, NULL);
    insert_before(q, map, &made);
    return wide;
}

bool widen_groups(Quantizing *q, int map, const Grouped *g, const CodeTerm *weights) {
    Ctx *ctx = q->c.flow->ctx;
    const Body *b = &q->c.flow->map.at[map]->body;
    const Val *code = &b->val.at[weights->code];
    Bits zero = 0;
    if (g->wider == 1) return false;
    if (weights->zero >= 0 && !body_const_bits(b, weights->zero, &zero)) return false;
    Instead w = {.cont = code->read.cont};
    w.other = wide_weights(q, map, g, code, bits_convert(code->type, I32, zero, false));
    Map *m = q->c.flow->map.at[map];
    MapDim *groups = &m->dim.at[g->groups];
    groups->extent = dim_const(ctx, map_extent(m, g->groups, 1) / g->wider);
    for (int i = 0; i < 2; i++) {
        MapDim *dim = &m->dim.at[i ? g->outputs : g->terms];
        dim->extent = dim_mulc(ctx, dim->extent, g->wider);
    }
    DimSubst subst = {groups->sym, dim_mulc(ctx, groups->sym, g->wider)};
    map_rewrite(&q->c, m, &subst, 1, read_other, &w);
    return true;
}
