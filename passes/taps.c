/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `taps`: windows meet only what is there.
 *
 * A tap of a window that lies in the margin multiplies zeros. Where all results' do (a window
 * spread wider than the image, three frames over one), the window loses the tap. Where those of
 * many results do (a spread window on a small image), the domain is cut into boxes of results with
 * the same taps, a map each, whose results are disjoint: most read no margin at all.
 *
 * Zero times infinity is lost, so strict mathematics does without this pass. */
#include "passes/compose.h"
#include "passes/margin.h"

enum { SEGMENTS = 8, SLIDES = 4, COLUMNS = 4, CUTS = 27 };
/* What a cut must leave of the products at most, and how many these must be. */
static const double left_most = 0.8, volume_least = 1 << 22;

/* Results `from` .. from + count - 1 along a dim, and the taps that all of them meet something by.
 */
typedef struct Segment {
    int64_t from, count, tap, taps;
} Segment;

/* Tap dim r slides along result dim d, neighbours `step` indices apart. Result i meets something by
 * tap `tap` + i * `next` alone, or results fall into segments. */
typedef struct Slide {
    int d, r, n;
    int64_t step;
    bool alone;
    int64_t tap, next;
    Segment segment[SEGMENTS];
} Slide;

/* A sum of products of which one factor is 0 outside of its container: that read, or -1. */
static int zero_outside(const Flow *flow, const Map *m) {
    Contraction c;
    Bits other = 0;
    if (!adds_products(flow, m, &c)) return -1;
    const Val *read = &m->body.val.at[c.a], *product = &m->body.val.at[c.product];
    if (!read->has_else || !body_const_bits(&m->body, read->arg[0], &other) || other) return -1;
    bool factor = body_unconverted(&m->body, product->arg[0]) == c.a ||
                  body_unconverted(&m->body, product->arg[1]) == c.a;
    return factor ? c.a : -1;
}

/* Adds result i, which meets something by taps from .. to; more than SEGMENTS are counted only. */
static void add_result(Slide *s, int64_t i, int64_t from, int64_t to) {
    Segment *last = s->n && s->n <= SEGMENTS ? &s->segment[s->n - 1] : NULL;
    if (i == 0) s->tap = from;
    if (i == 1) s->next = from - s->tap;
    s->alone &= from == to && from == s->tap + i * s->next;
    if (last && last->tap == from && last->taps == to - from + 1) {
        last->count++;
        return;
    }
    if (s->n < SEGMENTS) s->segment[s->n] = (Segment){i, 1, from, to - from + 1};
    if (s->n <= SEGMENTS) s->n++;
}

/* The segments of index k of the read; false: it is no slide over known sizes, or some result meets
 * nothing at all. */
static bool find_segments(const Flow *flow, const Map *m, const Access *a, int k, Slide *s) {
    int64_t size, first;
    Sliding at;
    if (!dim_is_const(flow->cont.at[a->cont].shape[k], &size) ||
        !index_slides(flow, m, a->at[k], &at) || !slides_alone(m, a, k, &at) ||
        !dim_is_const(at.first, &first))
        return false;
    s->d = at.result, s->r = at.tap;
    if (m->dim.at[s->d].seq || m->dim.at[s->r].seq) return false;
    int64_t results = map_extent(m, s->d, -1), taps = map_extent(m, s->r, -1);
    if (results < 1 || taps < 2) return false;
    s->n = 0, s->step = at.apart, s->alone = results > 1, s->next = 0;
    for (int64_t i = 0; i < results; i++) {
        int64_t from = 0, to = taps - 1, place = first + i * at.step;
        while (from <= to && (place + from * at.apart < 0 || place + from * at.apart >= size))
            from++;
        while (from <= to && (place + to * at.apart < 0 || place + to * at.apart >= size)) to--;
        if (from > to) return false;
        add_result(s, i, from, to);
    }
    if (s->alone) s->n = 1;
    return s->n <= SEGMENTS;
}

/* Is that worth it? A row of results must not fall into short pieces; windows of neighbours may go
 * through tiles instead (algorithm.c), whose weights would be there once for each box. */
static bool worth(const PassEnv *env, const Map *m, const Slide *s, bool row) {
    double left = 0;
    int64_t all = map_extent(m, s->d, 1) * map_extent(m, s->r, 1), shortest = INT64_MAX;
    for (int i = 0; i < s->n; i++) {
        left += (double)(s->segment[i].count * s->segment[i].taps);
        if (s->segment[i].count < shortest) shortest = s->segment[i].count;
    }
    if (s->n == 1) return s->alone || left < (double)all;
    return left <= left_most * (double)all && map_volume(m, 1) >= volume_least &&
           (!row || shortest >= COLUMNS) && s->step > 1 && !env->machine->block_threads;
}

static int find_slides(const Flow *flow, const PassEnv *env, const Map *m, Slide *slide) {
    int read = zero_outside(flow, m), n = 0, cuts = 1;
    const Access *a = read < 0 ? NULL : &m->body.val.at[read].read;
    for (int k = 0; a && k < a->rank && n < SLIDES; k++) {
        Slide *s = &slide[n];
        if (!find_segments(flow, m, a, k, s) || !worth(env, m, s, k == a->rank - 1)) continue;
        if (cuts * s->n > CUTS) continue;
        cuts *= s->n, n++;
    }
    return n;
}

/* ---- the maps ------------------------------------------------------------------------------- */

typedef struct Cutting {
    Editing e;
    const PassEnv *env;
    DimEnv dims; /* of the map that is being made */
} Cutting;

/* A BodyReadFn: a read that stays in its container needs no other value. */
static int read_inside(void *user, Body *b, const Val *read) {
    const Cutting *c = user;
    Ctx *ctx = c->e.flow->ctx;
    const Cont *cont = &c->e.flow->cont.at[read->read.cont];
    for (int k = 0; read->has_else && k < read->read.rank; k++)
        if (!dim_ge0(ctx, read->read.at[k], &c->dims) ||
            !dim_le(ctx, dim_addc(ctx, read->read.at[k], 1), cont->shape[k], &c->dims))
            return -1;
    return read->has_else ? body_read(b, read->read, read->type) : -1;
}

/* The dim runs over `count` indices from `from` on. */
static void narrow_dim(Ctx *ctx, Map *m, int d, int64_t from, int64_t count, DimSubst *subst) {
    MapDim *dim = &m->dim.at[d];
    Dim index = count == 1 ? dim_const(ctx, 0) : dim->sym;
    *subst = (DimSubst){dim->sym, dim_addc(ctx, index, from)};
    dim->extent = dim_const(ctx, count);
}

/* The results stay; the tap of each is known. */
static void take_alone(Ctx *ctx, Map *m, const Slide *s, DimSubst *subst) {
    MapDim *tap = &m->dim.at[s->r];
    Dim result = m->dim.at[s->d].sym;
    subst[0] = (DimSubst){result, result};
    subst[1] = (DimSubst){tap->sym, dim_addc(ctx, dim_mulc(ctx, result, s->next), s->tap)};
    tap->extent = dim_const(ctx, 1);
}

/* Box number k of those that the slides' segments make, in m, which holds the whole. */
static void cut_map(Cutting *c, Map *m, const Slide *slide, int n, int k) {
    Ctx *ctx = c->e.flow->ctx;
    DimSubst subst[2 * SLIDES];
    int left = 0;
    m->dim.at = arena_copy(c->e.arena, m->dim.at, (size_t)m->dim.n * sizeof *m->dim.at);
    for (int i = n - 1; i >= 0; k /= slide[i--].n) {
        const Segment *s = &slide[i].segment[k % slide[i].n];
        if (slide[i].alone) {
            take_alone(ctx, m, &slide[i], &subst[2 * i]);
            continue;
        }
        narrow_dim(ctx, m, slide[i].d, s->from, s->count, &subst[2 * i]);
        narrow_dim(ctx, m, slide[i].r, s->tap, s->taps, &subst[2 * i + 1]);
    }
    for (int d = 0; d < m->dim.n; d++)
        if (!dim_is(m->dim.at[d].extent, 1)) m->dim.at[left++] = m->dim.at[d];
    m->dim.n = left;
    c->dims = map_env(c->e.arena, c->e.flow, m);
    map_rewrite(&c->e, m, subst, 2 * n, read_inside, c);
}

/* An ItemFn. */
static void cut_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    Cutting *c = user;
    Flow *flow = c->e.flow;
    Slide slide[SLIDES];
    Map *m = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
    int n = m ? find_slides(flow, c->env, m, slide) : 0, cuts = n ? 1 : 0;
    for (int s = 0; s < n; s++) cuts *= slide[s].n;
    for (int k = 1; k < cuts; k++) {
        Map *part = flow_map(flow, out, internf(flow->ctx, "%s.box%d", m->name, k), m->from);
        const char *name = part->name;
        *part = *m;
        part->name = name;
        part->write.at = arena_copy(c->e.arena, m->write.at, sizeof *m->write.at);
        cut_map(c, part, slide, n, k);
    }
    if (cuts) cut_map(c, m, slide, n, 0);
    vec_push(flow->arena, out, it);
}

Flow *pass_taps(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_taps(Arena *arena, const Flow *flow, const PassEnv *env) {
    Cutting c = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .env = env};
    if (env->math != MATH_STRICT) items_rebuild(c.e.flow, &c.e.flow->body, cut_item, &c);
    return c.e.flow;
}
