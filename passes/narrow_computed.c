/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `narrow_computed`: with fast mathematics, products of two computed factors in bf16 (those of
 * attention), as `narrow` has those with weights.
 *
 * Both factors are rounded, each once. The one that stands in lanes gets a container of the
 * product's own dims, the lanes' last and the reduced one in front, so that `layout` can store it
 * in groups as the instruction takes them. A reduced dim that does not fill the last step is
 * continued by zeros in both. Where the machine has tiles, lanes that do not fill the last vector
 * are too: of results that nobody reads there is then room. */
#include "passes/narrow.h"
#include "passes/operand.h"

/* A length that is not known. */
enum { LONG = 256 };

typedef struct Computed {
    Editing e;
    const Machine *machine;
    Conversions conversions;
    /* Of the map at hand: */
    Contraction r;
    int k, lane;           /* the reduced dim, the one that runs in lanes */
    Dim extent;            /* of the reduced dim, whole steps */
    Dim lanes;             /* of the other, whole vectors */
    Access from[2], to[2]; /* the factors, and what holds them in bf16 */
} Computed;

static bool is_computed(const Computed *c, const Access *a) {
    ContKind kind = c->e.flow->cont.at[a->cont].kind;
    return kind != CONT_PARAM && kind != CONT_LITERAL;
}

/* The only reduced dim, side by side in the first factor; -1: there are several. */
static int reduced_dim(const Computed *c, const Map *m) {
    int k = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq) return -1;
        if (!map_reduces(m, d)) continue;
        if (k >= 0) return -1;
        k = d;
    }
    int64_t group = narrow_row(c->machine)->group;
    return k >= 0 && access_stride(c->e.flow, m, &m->body.val.at[c->r.a].read, k, group) == 1 ? k
                                                                                              : -1;
}

static int longest_dim(const Computed *c, const Map *m) {
    int best = -1;
    for (int d = 0; d < m->dim.n; d++)
        if (c->r.role[d] == ROLE_N &&
            (best < 0 || map_usual(c->e.flow, m, d) > map_usual(c->e.flow, m, best)))
            best = d;
    return best;
}

/* Whole steps of the instruction, or of the machine's tiles. */
static int64_t step_of(const Machine *machine) {
    const Instruction *row = narrow_row(machine);
    const MatrixStep *step = matrix_of(machine, row->name);
    return step ? (int64_t)step->groups * row->group : row->group;
}

/* What dim d counts as: products grow with the square of a length, rounding does not, and where
 * short ones are multiplied it matters little. */
static int64_t length_of(const Computed *c, const Map *m, int d) {
    int64_t usual = map_usual(c->e.flow, m, d);
    bool open = c->r.role[d] != ROLE_BATCH && !dim_is_const(m->dim.at[d].extent, NULL);
    return open && usual < LONG ? LONG : usual;
}

/* Elements of the map's dims that the access uses. */
static double long_elements(const Computed *c, const Map *m, const Access *a) {
    double n = 1;
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, a, d)) n *= (double)length_of(c, m, d);
    return n;
}

/* Does the product save more than rounding both factors and storing one of them in groups, an
 * element at a time, takes? */
static bool pays(const Computed *c, const Map *m) {
    const Machine *machine = c->machine;
    int64_t rows = 1, depth = step_of(machine);
    int64_t side = (length_of(c, m, c->k) + depth - 1) / depth * depth;
    double flop = 2;
    for (int d = 0; d < m->dim.n; d++) {
        flop *= (double)length_of(c, m, d);
        if (c->r.role[d] == ROLE_M) rows *= length_of(c, m, d);
    }
    double a = long_elements(c, m, &m->body.val.at[c->r.a].read);
    double b = long_elements(c, m, &m->body.val.at[c->r.b].read);
    double rounding =
        6 * (a + b) / machine_bandwidth(machine, 6 * (a + b)) + b * machine_cycle(machine);
    DType types[] = {m->body.val.at[c->r.a].type, m->body.val.at[c->r.b].type};
    double before = flop / dot_flops(machine, types[0], types[1], rows, side);
    return flop / dot_flops(machine, BF16, BF16, rows, side) + rounding < before;
}

/* Does the reduced dim have to be continued? */
static bool continued(const Computed *c, const Map *m) {
    return c->extent != m->dim.at[c->k].extent;
}

/* May the map have more results along the lanes than others read, where these fill no vector? */
static bool may_widen(const Computed *c, const Map *m) {
    const Access *to = &m->write.at[0].to[0];
    const Flow *flow = c->e.flow;
    const IntVec *readers = &c->e.uses.readers[to->cont];
    if (!matrix_of(c->machine, narrow_row(c->machine)->name)) return false;
    if (flow->cont.at[to->cont].kind != CONT_TMP || c->e.uses.held[to->cont]) return false;
    if (c->e.uses.writers[to->cont].n != 1 || access_whole(c->e.flow, m, to, c->lane) < 0)
        return false;
    if (access_whole(c->e.flow, m, &m->body.val.at[c->r.b].read, c->lane) < 0) return false;
    return !read_beyond(flow, readers, to->cont);
}

/* Lanes in whole vectors; of a number that is not known, in the pairs that a step takes. */
static Dim whole_lanes(const Computed *c, const Map *m) {
    Dim extent = m->dim.at[c->lane].extent;
    int64_t vector = c->machine->vector_bytes / 4;
    if (!may_widen(c, m)) return extent;
    int64_t step = dim_is_const(extent, NULL) ? vector : 2 * vector;
    return dim_round_up(c->e.flow->ctx, extent, dim_const(c->e.flow->ctx, step));
}

static bool narrows(Computed *c, const Map *m) {
    Ctx *ctx = c->e.flow->ctx;
    c->r = map_contraction(c->e.flow, m);
    if (m->dim.n >= RANK_MAX || !narrow_factors(m, &c->r)) return false;
    const Val *a = &m->body.val.at[c->r.a], *b = &m->body.val.at[c->r.b];
    if (a->has_else || b->has_else || !is_computed(c, &a->read) || !is_computed(c, &b->read))
        return false;
    c->k = reduced_dim(c, m), c->lane = longest_dim(c, m);
    if (c->k < 0 || c->lane < 0 || !access_uses(m, &b->read, c->k)) return false;
    Dim step = dim_const(ctx, step_of(c->machine));
    c->extent = dim_round_up(ctx, m->dim.at[c->k].extent, step);
    c->lanes = whole_lanes(c, m);
    bool rows = access_whole(c->e.flow, m, &a->read, c->k) >= 0 &&
                access_whole(c->e.flow, m, &b->read, c->k) >= 0;
    return (rows || !continued(c, m)) && !access_repeats(c->e.flow, m, &b->read) && pays(c, m);
}

/* Makes what holds the factor that the product reads so in bf16. */
static Access rounded(Computed *c, const Map *m, const Access *a, int lane, Items *into) {
    OperandCopy copy = {m, *a, c->k, lane, c->extent, c->lanes, BF16};
    return operand_copy(c->e.flow, &copy, dtype_name(BF16), into);
}

/* A BodyReadFn: the factors that were rounded. */
static int read_rounded(void *user, Body *b, const Val *read) {
    const Computed *c = user;
    for (int i = 0; i < 2; i++)
        if (access_equal(&read->read, &c->from[i]))
            return body_cvt(b, F32, body_read(b, c->to[i], BF16));
    return -1;
}

static void narrow_map(Computed *c, Map *m, const Items *home, Items *into) {
    c->from[0] = m->body.val.at[c->r.a].read, c->from[1] = m->body.val.at[c->r.b].read;
    if (continued(c, m)) {
        c->to[0] = rounded(c, m, &c->from[0], -1, into);
    } else {
        c->to[0] = c->from[0];
        c->to[0].cont = converted_copy(&c->e, &c->conversions, c->from[0].cont, BF16, home, into);
    }
    c->to[1] = rounded(c, m, &c->from[1], c->lane, into);
    map_rewrite(&c->e, m, NULL, 0, read_rounded, c);
    const Access *to = &m->write.at[0].to[0];
    int at = access_whole(c->e.flow, m, to, c->lane);
    m->dim.at[c->k].extent = c->extent;
    if (c->lanes == m->dim.at[c->lane].extent) return;
    m->dim.at[c->lane].extent = c->lanes;
    Cont *results = &c->e.flow->cont.at[to->cont];
    Dim *shape = arena_copy(c->e.arena, results->shape, (size_t)results->rank * sizeof *shape);
    shape[at] = c->lanes;
    results->shape = shape;
}

/* An ItemFn. */
static void narrow_item(void *user, Item it, const Items *home, Items *out) {
    Computed *c = user;
    Map *m = it.kind == ITEM_MAP ? c->e.flow->map.at[it.map] : NULL;
    if (m && narrows(c, m)) narrow_map(c, m, home, out);
    vec_push(c->e.arena, out, it);
}

Flow *pass_narrow_computed(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_narrow_computed(Arena *arena, const Flow *flow, const PassEnv *env) {
    Computed c = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .machine = env->machine};
    if (env->math != MATH_FAST || !narrow_row(env->machine) || env->machine->block_threads)
        return c.e.flow;
    uses_count(&c.e);
    items_rebuild(c.e.flow, &c.e.flow->body, narrow_item, &c);
    drop_unneeded(&c.e);
    return c.e.flow;
}
