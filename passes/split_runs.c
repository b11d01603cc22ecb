/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `split`: running sums (products, extrema), each step of which needs the one before,
 * on a machine of threads that has more of them than there are sums.
 *
 * What runs is cut into stretches of a few steps. All stretches run side by side, each from its own
 * beginning; another map goes from one stretch's end to the next, and a third puts in front of each
 * element what the stretches before it came to. The ends run the same way while they are many. So
 * a long sum takes a few dozen steps, for three times its bytes. Where it is cut depends on its
 * length alone. */
#include "passes/split.h"

/* Steps of a stretch; a sum of fewer than LEAST stays whole. */
enum { STRETCH = 64, LEAST = 4 * STRETCH, LENGTHS = 4 };

/* A map that does nothing but run along a dim: what `read` has of the step before, and another
 * value, by an associative primitive. */
typedef struct Run {
    int dim, read;
    Prim prim;
    bool first; /* what stood before is the first operand */
} Run;

/* The only sequential dim, or -1. */
static int run_dim(const Map *m) {
    int dim = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq && dim >= 0) return -1;
        if (m->dim.at[d].seq) dim = d;
    }
    return dim;
}

/* Is the value what the step before left, or a constant where there is none? */
static bool is_before(const Flow *flow, const Map *m, const Run *r, int val) {
    const Val *v = &m->body.val.at[val];
    const Access *to = &m->write.at[0].to[0];
    Dim sym = m->dim.at[r->dim].sym;
    DimSubst back = {sym, dim_addc(flow->ctx, sym, -1)};
    if (v->kind != VAL_READ || v->read.cont != to->cont || !v->has_else) return false;
    if (!body_const_bits(&m->body, v->arg[0], NULL)) return false;
    for (int k = 0; k < to->rank; k++)
        if (dim_subst(flow->ctx, to->at[k], &back, 1) != v->read.at[k]) return false;
    return true;
}

static bool find_run(const Flow *flow, const Map *m, Run *r) {
    r->dim = run_dim(m);
    if (r->dim < 0 || m->write.n != 1 || m->write.at[0].combine || m->cons.n) return false;
    const Access *to = &m->write.at[0].to[0];
    const Val *v = &m->body.val.at[m->write.at[0].val[0]];
    if (v->kind != VAL_PRIM ||
        (v->prim != P_ADD && v->prim != P_MUL && v->prim != P_MIN && v->prim != P_MAX))
        return false;
    r->first = is_before(flow, m, r, v->arg[0]);
    r->read = v->arg[!r->first];
    r->prim = v->prim;
    int reads = 0;
    for (int i = 0; i < m->body.val.n; i++)
        reads += m->body.val.at[i].kind == VAL_READ && m->body.val.at[i].read.cont == to->cont;
    return reads == 1 && is_before(flow, m, r, r->read);
}

/* In stretches of how many steps: as a recipe says, or of STRETCH where steps are many and sums
 * are few; 0: whole. */
static int stretch_of(const Flow *flow, const PassEnv *env, const Map *m, const Run *r) {
    const char *words[LENGTHS + 2] = {"whole"};
    int64_t steps = map_usual(flow, m, r->dim);
    double sums = map_usual_volume(flow, m) / (double)steps;
    bool few = steps >= LEAST && sums < env->machine->live_threads;
    for (int i = 0; i < LENGTHS; i++)
        words[i + 1] = internf(flow->ctx, "steps%d", STRETCH / 2 << i);
    int chosen = recipe_decide(env, "split", m->name, words, few ? 2 : 0);
    return chosen ? STRETCH / 2 << (chosen - 1) : 0;
}

/* A map that is cut: its stretches, of which `full` have all their steps, and what these leave. */
typedef struct Cut {
    Editing *e;
    Map *m;
    int dims; /* of m, as it was */
    Run run;
    int64_t steps;
    Dim parts, full;
    int stretch, ends;
} Cut;

/* Indices by m's dims but the one that runs, then these; their number. */
static int index_of(const Cut *c, const Dim *at, Dim part, Dim step, Dim *index) {
    int n = 0;
    for (int d = 0; d < c->dims; d++)
        if (d != c->run.dim) index[n++] = at[d];
    index[n++] = part;
    if (step) index[n++] = step;
    return n;
}

/* A map with m's dims but the one that runs; at[d]: what stands there for dim d of m. */
static Map *map_beside(const Cut *c, Items *into, const char *name, Dim *at) {
    Flow *flow = c->e->flow;
    const Map *m = c->m;
    Map *n = flow_map(flow, into, internf(flow->ctx, "%s.%s", m->name, name), m->from);
    for (int d = 0; d < m->dim.n; d++)
        if (d != c->run.dim)
            at[d] = map_dim(flow, n, dim_sym_name(m->dim.at[d].sym), m->dim.at[d].extent);
    return n;
}

/* What a container holds at an index, or else nothing. */
static int read_before(const Cut *c, Body *b, int cont, const Dim *index) {
    const Body *own = &c->m->body;
    const Val *read = &own->val.at[c->run.read], *none = &own->val.at[read->arg[0]];
    const Cont *from = &c->e->flow->cont.at[cont];
    return body_read_else(b, (Access){cont, from->rank, index}, read->type,
                          body_bits(b, none->type, none->bits));
}

/* to[at] = what `ends` holds of the stretch before, and the stretch's own at `step`. */
static void write_sum(const Cut *c, Map *n, const Dim *at, Dim part, Dim step, int to,
                      const Dim *place) {
    Flow *flow = c->e->flow;
    Dim *before = NEW_ARRAY(flow->arena, Dim, MAP_DIMS), own[MAP_DIMS];
    index_of(c, at, dim_addc(flow->ctx, part, -1), NULL, before);
    index_of(c, at, part, step, own);
    int left = read_before(c, &n->body, c->ends, before);
    int right = map_read(flow, n, c->stretch, own);
    int sum =
        body_prim2(&n->body, c->run.prim, c->run.first ? left : right, c->run.first ? right : left);
    map_write(flow, n, to, place, sum, NULL);
}

/* ends[p] = ends[p-1] + stretch[p, steps-1] */
static Map *put_ends(const Cut *c, Items *into) {
    Ctx *ctx = c->e->flow->ctx;
    Dim at[MAP_DIMS], index[MAP_DIMS];
    Map *n = map_beside(c, into, "ends", at);
    Dim part = map_dim(c->e->flow, n, "part", c->full);
    n->dim.at[n->dim.n - 1].seq = true;
    index_of(c, at, part, NULL, index);
    write_sum(c, n, at, part, dim_const(ctx, c->steps - 1), c->ends, index);
    return n;
}

/* to[p*steps + i] = ends[p-1] + stretch[p, i] */
static void put_sums(const Cut *c, Items *into) {
    Flow *flow = c->e->flow;
    Ctx *ctx = flow->ctx;
    const Map *m = c->m;
    const Access *to = &m->write.at[0].to[0];
    const MapDim run = m->dim.at[c->run.dim];
    Dim at[MAP_DIMS], place[RANK_MAX];
    DimSubst subst[MAP_DIMS];
    Map *n = map_beside(c, into, "sums", at);
    Dim part = map_dim(flow, n, "part", c->parts);
    Dim step = map_dim(flow, n, dim_sym_name(run.sym), dim_const(ctx, c->steps));
    at[c->run.dim] = dim_add(ctx, dim_mulc(ctx, part, c->steps), step);
    for (int d = 0; d < m->dim.n; d++) subst[d] = (DimSubst){m->dim.at[d].sym, at[d]};
    for (int k = 0; k < to->rank; k++) place[k] = dim_subst(ctx, to->at[k], subst, m->dim.n);
    if (c->parts != c->full)
        vec_push(flow->arena, &n->cons,
                 dim_sub(ctx, dim_addc(ctx, run.extent, -1), at[c->run.dim]));
    write_sum(c, n, at, part, step, to->cont, place);
}

/* The step before, of the stretch. */
typedef struct Before {
    const Cut *c;
    int cont;
    const Dim *index;
} Before;

static int in_stretch(void *user, Body *b, const Val *read) {
    const Before *s = user;
    return read->read.cont == s->cont ? read_before(s->c, b, s->c->stretch, s->index) : -1;
}

/* The map becomes its stretches. */
static void cut_map(const Cut *c) {
    Flow *flow = c->e->flow;
    Ctx *ctx = flow->ctx;
    Map *m = c->m;
    const MapDim run = m->dim.at[c->run.dim];
    Dim at[MAP_DIMS], *index = NEW_ARRAY(flow->arena, Dim, MAP_DIMS),
                      *before = NEW_ARRAY(flow->arena, Dim, MAP_DIMS);
    for (int d = 0; d < c->dims; d++) at[d] = m->dim.at[d].sym;
    Dim part = map_dim(flow, m, "part", c->parts);
    int rank = index_of(c, at, part, run.sym, index);
    index_of(c, at, part, dim_addc(ctx, run.sym, -1), before);
    DimSubst whole = {run.sym, dim_add(ctx, dim_mulc(ctx, part, c->steps), run.sym)};
    Before user = {c, m->write.at[0].to[0].cont, before};
    map_rewrite(c->e, m, &whole, 1, in_stretch, &user);
    m->dim.at[c->run.dim].extent = dim_const(ctx, c->steps);
    if (c->parts != c->full)
        vec_push(flow->arena, &m->cons, dim_sub(ctx, dim_addc(ctx, run.extent, -1), whole.to));
    m->write.at[0].to = arena_copy(flow->arena, &(Access){c->stretch, rank, index}, sizeof(Access));
}

/* The ends run in the same way: they are cut too, while they are many. */
void split_run(Editing *e, const PassEnv *env, Map *m, Items *into) {
    Flow *flow = e->flow;
    Ctx *ctx = flow->ctx;
    Cut c = {.e = e, .m = m, .dims = m->dim.n};
    Dim at[MAP_DIMS], shape[MAP_DIMS];
    int64_t extent;
    if (!find_run(flow, m, &c.run)) return;
    c.steps = stretch_of(flow, env, m, &c.run);
    if (!c.steps) return;
    for (int d = 0; d < m->dim.n; d++) at[d] = m->dim.at[d].extent;
    c.parts = c.full = dim_div(ctx, at[c.run.dim], dim_const(ctx, c.steps));
    if (!dim_is_const(at[c.run.dim], &extent) || extent % c.steps)
        c.parts = dim_addc(ctx, c.full, 1);
    DType t = flow->cont.at[m->write.at[0].to[0].cont].type;
    int rank = index_of(&c, at, c.parts, dim_const(ctx, c.steps), shape);
    c.stretch = flow_cont(flow, internf(ctx, "%s.stretch", m->name), CONT_TMP, t, shape, rank);
    index_of(&c, at, c.full, NULL, shape);
    c.ends = flow_cont(flow, internf(ctx, "%s.end", m->name), CONT_TMP, t, shape, rank - 1);
    Map *ends = put_ends(&c, into);
    split_run(e, env, ends, into);
    put_sums(&c, into);
    cut_map(&c);
}
