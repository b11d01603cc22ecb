/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `narrow`: the types that contractions take their operands in.
 *
 * Small floats that a contraction widens to f32, time and again, are widened once where they are
 * weights: in the constant part, if their products take longer than twice the bytes from memory.
 * The values are the same.
 *
 * With fast mathematics: products of f32 in bf16 where an instruction of the machine multiplies
 * groups of them and adds in f32. The operands of a contraction with weights, floats of 32 bits or
 * halves that it widens, are rounded to bf16, each once: the weights in the constant part, the
 * others by what computes them, beside what they were if others read that. A product of two bf16 is
 * exact in f32, so each term is off by the rounding of its factors, at most 2^-7 + 2^-16 of itself.
 * Worth it where the time by FLOP and by bytes of weights as bf16, and the rounding are less than
 * the time before. Rows that are no whole blocks, or not whole for steps on tiles, may be filled up
 * with zeros, of the weights too. */
#include "passes/narrow.h"
#include "passes/prepare.h"

#include <math.h>

enum {
    WHOLE = 16, /* a block of channels, as layout cuts them */
    STEPS = 4
};
static const int64_t unknown_extent = 64;

typedef struct Narrowing {
    Editing e;
    const Machine *machine;
    double left; /* bytes that weights may become more */
    bool narrow; /* are products in bf16 allowed? */
    Conversions conversions;
    int known;          /* containers whose uses were counted */
    int from[2], to[2]; /* operands of the map at hand, and what they become */
    int fill;           /* its reduced dim that is filled up with zeros, or -1 ... */
    int64_t filled;     /* ... to so many */
    Items front;        /* what comes before all else */
} Narrowing;

const Instruction *narrow_row(const Machine *machine) {
    for (int i = 0; i < machine->nuse; i++)
        if (machine->use[i]->a == BF16 && machine->use[i]->b == BF16 && machine->use[i]->c == F32)
            return machine->use[i];
    return NULL;
}

static bool is_zero(const Body *b, int val) {
    Bits bits;
    return body_const_bits(b, val, &bits) && bits == 0;
}

/* Is the read a factor of the product, as f32 or widened to it? */
static bool is_factor(const Body *b, const Val *product, int read) {
    DType type = b->val.at[read].type;
    if (type == F32) return product->arg[0] == read || product->arg[1] == read;
    return (type == F16 || type == BF16) && (read_converted(b, product->arg[0], F32) == read ||
                                             read_converted(b, product->arg[1], F32) == read);
}

bool narrow_factors(const Map *m, const Contraction *r) {
    if (!r->is || m->cons.n || m->write.at[0].combine->simple != P_ADD) return false;
    const Val *product = &m->body.val.at[m->write.at[0].val[0]];
    if (m->write.at[0].combine->type[0] != F32 || product->kind != VAL_PRIM ||
        product->prim != P_MUL || product->type != F32)
        return false;
    int read[2] = {r->a, r->b};
    for (int i = 0; i < 2; i++) {
        const Val *v = &m->body.val.at[read[i]];
        if (!is_factor(&m->body, product, read[i]) || access_by_value(m, &v->read)) return false;
        if (v->has_else && !is_zero(&m->body, v->arg[0])) return false;
    }
    return true;
}

static double container_elements(const Flow *flow, int cont) {
    double n = 1;
    for (int k = 0; k < flow->cont.at[cont].rank; k++)
        n *= (double)extent_or(flow->cont.at[cont].shape[k], unknown_extent);
    return n;
}

/* Made of weights and literals alone, in a few steps? What this pass made stands behind `known`. */
static bool is_constant(const Narrowing *n, int cont, int steps) {
    ContKind kind = n->e.flow->cont.at[cont].kind;
    if (kind == CONT_PARAM || kind == CONT_LITERAL) return true;
    if (kind != CONT_TMP || cont >= n->known || n->e.uses.writer[cont] < 0 || !steps) return false;
    const Body *b = &n->e.flow->map.at[n->e.uses.writer[cont]]->body;
    for (int v = 0; v < b->val.n; v++)
        if (b->val.at[v].kind == VAL_READ && !is_constant(n, b->val.at[v].read.cont, steps - 1))
            return false;
    return true;
}

static double longer(double a, double b) {
    return a > b ? a : b;
}

static double container_bytes(const Flow *flow, int cont) {
    return container_elements(flow, cont) * dtype_bits(flow->cont.at[cont].type) / 8;
}

/* Elements of an operand in all, or of a state what the map reads of it. */
static double operand_elements(const Narrowing *n, const Map *m, const Access *read) {
    double elements = 1;
    if (!converted_written(&n->e, read->cont)) return container_elements(n->e.flow, read->cont);
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, read, d)) elements *= (double)map_extent(m, d, unknown_extent);
    return elements;
}

/* Seconds that rounding an operand to bf16 takes: a cycle for half a vector, and bytes. What a map
 * computes is rounded by that map, beside what it was if others read that; else by a kernel. */
static double rounding_seconds(const Narrowing *n, const Map *m, const Access *read) {
    const Uses *u = &n->e.uses;
    int cont = read->cont;
    const Cont *x = &n->e.flow->cont.at[cont];
    double elements = operand_elements(n, m, read), bytes = 0;
    if (x->type == BF16) return 0;
    bool computed = converted_written(&n->e, cont) || (x->kind == CONT_TMP && cont < n->known &&
                                                       u->writer[cont] >= 0 && !u->held[cont]);
    if (!computed || n->fill >= 0)
        bytes = container_bytes(n->e.flow, cont) + 2 * elements;
    else if (u->readers[cont].n > 1)
        bytes = 2 * elements;
    double half = n->machine->vector_bytes / 4 / 2;
    return elements / half * machine_cycle(n->machine) +
           bytes / machine_bandwidth(n->machine, bytes);
}

static double product_flops(const Narrowing *n, const Map *m, const Contraction *r, DType a,
                            DType b, int64_t side) {
    return dot_flops(n->machine, a, b, contraction_rows(m, r, unknown_extent), side);
}

/* Seconds that products in bf16 and the rounding take, where `side` reduced elements stand side by
 * side. */
static double narrow_seconds(const Narrowing *n, const Map *m, const Contraction *r, int64_t side) {
    const Val *a = &m->body.val.at[r->a], *b = &m->body.val.at[r->b];
    double more = n->fill >= 0 ? (double)n->filled / (double)map_extent(m, n->fill, 1) : 1;
    double flop = 2 * map_volume(m, unknown_extent) * more;
    double small = 2 * container_elements(n->e.flow, b->read.cont) * more;
    int columns = contraction_longest(m, r, ROLE_N); /* which lanes run along */
    int64_t lanes = n->machine->vector_bytes / 4;
    if (columns >= 0) flop *= idle_lanes(map_extent(m, columns, lanes), lanes);
    double compute = flop / product_flops(n, m, r, BF16, BF16, side);
    return longer(compute, small / machine_bandwidth(n->machine, small)) +
           rounding_seconds(n, m, &a->read);
}

static double seconds_before(const Narrowing *n, const Map *m, const Contraction *r, int64_t side) {
    const Val *a = &m->body.val.at[r->a], *b = &m->body.val.at[r->b];
    double weights = container_bytes(n->e.flow, b->read.cont);
    double compute =
        2 * map_volume(m, unknown_extent) / product_flops(n, m, r, a->type, b->type, side);
    return longer(compute, weights / machine_bandwidth(n->machine, weights));
}

/* The index that is dim d, all of it, if no other index uses it; or -1. */
static int index_of(const Flow *flow, const Map *m, const Access *a, int d) {
    int at = access_plain(m, a, d);
    bool all = at >= 0 && flow->cont.at[a->cont].shape[at] == m->dim.at[d].extent;
    return all ? at : -1;
}

/* The one reduced dim of a product whose rows could be filled up, for steps on tiles or to whole
 * blocks; or -1. */
static int dim_to_fill(const Narrowing *n, const Map *m, const Contraction *r, int64_t *filled) {
    const Instruction *row = narrow_row(n->machine);
    const MatrixStep *step = matrix_of(n->machine, row->name);
    const Val *a = &m->body.val.at[r->a], *b = &m->body.val.at[r->b];
    int fill = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (r->role[d] != ROLE_K) continue;
        if (fill >= 0) return -1;
        fill = d;
    }
    int64_t extent = fill < 0 ? -1 : map_extent(m, fill, -1);
    if (extent < 0 || a->has_else || b->has_else) return -1;
    if (a->type != F32 || b->type != F32 || converted_written(&n->e, a->read.cont)) return -1;
    int64_t whole = step ? (int64_t)step->groups * row->group : WHOLE;
    *filled = (extent + whole - 1) / whole * whole;
    bool side_by_side = index_of(n->e.flow, m, &a->read, fill) == a->read.rank - 1;
    bool can = side_by_side && index_of(n->e.flow, m, &b->read, fill) >= 0;
    return can && *filled > extent ? fill : -1;
}

/* Sums of products of an operand with weights, the reduced dim in whole blocks or filled up, where
 * more products a step and fewer bytes of weights save more than rounding takes. */
static bool narrows(Narrowing *n, const Map *m, Contraction *r) {
    *r = map_contraction(n->e.flow, m);
    n->fill = -1;
    if (!narrow_factors(m, r)) return false;
    if (is_constant(n, m->body.val.at[r->a].read.cont, STEPS)) return false;
    if (!is_constant(n, m->body.val.at[r->b].read.cont, STEPS)) return false;
    int64_t side = 0;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, 1);
        if (m->dim.at[d].seq || r->role[d] == ROLE_BATCH) return false;
        if (r->role[d] == ROLE_K && extent % WHOLE == 0 && extent > side) side = extent;
    }
    bool done = m->body.val.at[r->a].type == BF16 && m->body.val.at[r->b].type == BF16;
    if (side && done) return true;
    double before = seconds_before(n, m, r, side);
    double after = side ? narrow_seconds(n, m, r, side) : INFINITY;
    n->fill = dim_to_fill(n, m, r, &n->filled);
    if (n->fill >= 0 && narrow_seconds(n, m, r, n->filled) >= after) n->fill = -1;
    return (n->fill >= 0 ? narrow_seconds(n, m, r, n->filled) : after) < before;
}

bool narrow_widens(const Machine *machine, const Flow *flow, const Map *m, int weights) {
    DType t = flow->cont.at[weights].type;
    double compute = 2 * map_volume(m, unknown_extent) / machine->fma_flops;
    double memory = machine->level[machine->nlevels - 1].bandwidth;
    return (t == F16 || t == BF16) && compute > 4 * container_elements(flow, weights) / memory;
}

/* A sum of products with weights of small floats, which take longer than reading these as f32. */
static bool widens(Narrowing *n, const Map *m, Contraction *r) {
    const Machine *machine = n->machine;
    if (machine->block_threads) return false;
    *r = map_contraction(n->e.flow, m);
    if (!r->is || m->write.at[0].combine->simple != P_ADD) return false;
    const Val *product = &m->body.val.at[m->write.at[0].val[0]], *w = &m->body.val.at[r->b];
    if (product->kind != VAL_PRIM || product->prim != P_MUL || product->type != F32) return false;
    if (w->has_else || access_by_value(m, &w->read)) return false;
    int cont = w->read.cont;
    if (n->e.flow->cont.at[cont].kind != CONT_PARAM || n->e.uses.readers[cont].n != 1) return false;
    double grows = 2 * container_elements(n->e.flow, cont);
    if (grows > n->left || !is_factor(&m->body, product, r->b) ||
        !narrow_widens(machine, n->e.flow, m, cont))
        return false;
    n->left -= grows;
    return true;
}

static int read_small(void *user, Body *b, const Val *read) {
    const Narrowing *n = user;
    int k = read->read.cont == n->from[0] ? 0 : 1;
    return converted_read(b, read, n->to[k], BF16);
}

/* A BodyReadFn: the operand that was widened. */
static int read_wide(void *user, Body *b, const Val *read) {
    const Narrowing *n = user;
    if (read->read.cont != n->from[1]) return -1;
    Access wide = read->read;
    wide.cont = n->to[1];
    return body_read(b, wide, F32);
}

static void convert(Narrowing *n, int k, DType type, const Items *home, Items *into) {
    n->to[k] = n->from[k];
    if (n->e.flow->cont.at[n->from[k]].type == type) return;
    n->to[k] = converted_written(&n->e, n->from[k])
                   ? converted_state(&n->e, &n->conversions, n->from[k], type)
                   : converted_copy(&n->e, &n->conversions, n->from[k], type, home, into);
}

/* A window over an image of a few channels. */
static bool narrows_window(Narrowing *n, Map *m, Items *into) {
    Contraction r = map_contraction(n->e.flow, m);
    if (!r.is || is_constant(n, m->body.val.at[r.a].read.cont, STEPS)) return false;
    if (!is_constant(n, m->body.val.at[r.b].read.cont, STEPS)) return false;
    if (!narrow_window(&n->e, n->machine, m, into, &n->front)) return false;
    m->write.n = 0;
    return true;
}

/* An operand filled up along the map's dim `fill`. */
static void convert_filled(Narrowing *n, int k, const Map *m, const Access *read, const Items *home,
                           Items *into) {
    const Cont *x = &n->e.flow->cont.at[read->cont];
    Dim *shape = arena_copy(n->e.arena, x->shape, (size_t)x->rank * sizeof *shape);
    shape[index_of(n->e.flow, m, read, n->fill)] = dim_const(n->e.flow->ctx, n->filled);
    n->to[k] = converted_filled(&n->e, &n->conversions, read->cont, BF16, shape, home, into);
}

static void narrow_map(Narrowing *n, Map *m, const Contraction *r, const Items *items, Items *out) {
    const Access *read[] = {&m->body.val.at[r->a].read, &m->body.val.at[r->b].read};
    for (int k = 0; k < 2; k++) {
        n->from[k] = read[k]->cont;
        bool first = k == 1 && n->e.flow->cont.at[n->from[1]].kind != CONT_TMP;
        const Items *home = first ? NULL : items;
        if (n->fill >= 0)
            convert_filled(n, k, m, read[k], home, first ? &n->front : out);
        else
            convert(n, k, BF16, home, first ? &n->front : out);
    }
    if (n->fill >= 0) m->dim.at[n->fill].extent = dim_const(n->e.flow->ctx, n->filled);
    map_rewrite(&n->e, m, NULL, 0, read_small, n);
}

/* An ItemFn. */
static void narrow_item(void *user, Item it, const Items *home, Items *out) {
    Narrowing *n = user;
    Map *m = it.kind == ITEM_MAP ? n->e.flow->map.at[it.map] : NULL;
    Contraction r;
    if (m && n->narrow && narrows(n, m, &r)) {
        narrow_map(n, m, &r, home, out);
    } else if (m && n->narrow && narrows_window(n, m, out)) {
        return;
    } else if (m && widens(n, m, &r)) {
        n->from[1] = m->body.val.at[r.b].read.cont;
        convert(n, 1, F32, NULL, &n->front);
        map_rewrite(&n->e, m, NULL, 0, read_wide, n);
    }
    vec_push(n->e.arena, out, it);
}

Flow *pass_narrow(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_narrow(Arena *arena, const Flow *flow, const PassEnv *env) {
    Narrowing n = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .machine = env->machine};
    n.left = growth_most;
    n.narrow = env->math == MATH_FAST && narrow_row(env->machine);
    Items *body = &n.e.flow->body;
    uses_count(&n.e);
    n.known = flow->cont.n;
    items_rebuild(n.e.flow, body, narrow_item, &n);
    items_insert(n.e.flow, body, 0, &n.front);
    if (n.narrow) narrow_stored(&n.e, &n.conversions);
    converted_join(&n.e, &n.conversions);
    return n.e.flow;
}
