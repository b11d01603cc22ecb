/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `narrow_steps`: factors as steps of warps round them.
 *
 * With fast mathematics a product of f32 goes by a step that rounds what it multiplies (ten bits of
 * fraction for tensor cores' TF32), where tiles of such steps hold it. The flow says so: both
 * factors stand in the function by which the step rounds, sums stay f32. A product of two factors
 * of 11 bits is exact, so each term is off by the rounding of its factors, at most 2^-10 + 2^-22 of
 * itself. Halves have steps of their own. Rows of scores that weigh values (weigh.h) have no such
 * steps and stay as they are. */
#include <math.h>

#include "passes/compose.h"
#include "passes/narrow.h"
#include "passes/schedule.h"
#include "passes/weigh.h"

typedef struct Rounding {
    Editing e;
    const Machine *machine;
    bool *weighs; /* by map: it is of a kernel of scores and what they weigh */
    Prim by;
    const Access *factor[2]; /* of the map at hand */
} Rounding;

/* The machine's first step that rounds what it multiplies of f32; NULL: none. */
static const WarpStep *rounding_step(const Machine *machine) {
    for (int i = 0; i < machine->nstep; i++)
        if (machine->step[i]->round && machine->step[i]->a == F32 && machine->step[i]->b == F32)
            return machine->step[i];
    return NULL;
}

static void find_weighings(Rounding *r) {
    const Flow *flow = r->e.flow;
    r->weighs = NEW_ARRAY(r->e.arena, bool, flow->map.n + 1);
    for (int last = 0; last < flow->map.n; last++) {
        int maps[WEIGH_MAPS + 1], n = weighing_maps(flow, r->e.uses.writer, last, maps);
        Weighing w;
        WeighTile tile;
        if (!n || !weighing_find(flow, maps, n, &w) ||
            !weighing_tile(flow, r->machine, maps, &w, &tile))
            continue;
        for (int i = 0; i < n; i++) r->weighs[maps[i]] = true;
    }
}

/* A BodyReadFn: the factors, rounded. */
static int read_rounded(void *user, Body *b, const Val *read) {
    const Rounding *r = user;
    if (!access_equal(&read->read, r->factor[0]) && !access_equal(&read->read, r->factor[1]))
        return -1;
    int v = read->has_else ? body_read_else(b, read->read, read->type, read->arg[0])
                           : body_read(b, read->read, read->type);
    return body_prim1(b, r->by, v);
}

static void round_map(Rounding *r, Map *m, const WarpStep *step) {
    Contraction c = map_contraction(r->e.flow, m);
    Product p;
    if (!narrow_factors(m, &c) || c.a == c.b || !product_sizes(r->e.flow, r->machine, m, step, &p))
        return;
    if (product_seconds(&p) == INFINITY) return;
    if (m->body.val.at[c.a].type != F32 || m->body.val.at[c.b].type != F32) return;
    r->factor[0] = &m->body.val.at[c.a].read, r->factor[1] = &m->body.val.at[c.b].read;
    map_rewrite(&r->e, m, NULL, 0, read_rounded, r);
}

Flow *pass_narrow_steps(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_narrow_steps(Arena *arena, const Flow *flow, const PassEnv *env) {
    Rounding r = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .machine = env->machine};
    const WarpStep *step = env->math == MATH_FAST ? rounding_step(env->machine) : NULL;
    if (!step) return r.e.flow;
    r.by = step->round;
    uses_count(&r.e);
    find_weighings(&r);
    for (int i = 0; i < r.e.flow->map.n; i++)
        if (!r.weighs[i]) round_map(&r, r.e.flow->map.at[i], step);
    return r.e.flow;
}
