/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel fetches ahead: weights, lines of the next panel while a reduction goes through this
 * one; and what its last map reads besides the sums of a tile, before these are made. */
#include <string.h>

#include "passes/nests_leaf.h"

/* Where the number of tiles is not known, so many share a panel, those of all rows: were there
 * fewer than those counted on, the rest would come late, and what more of them ask for again is
 * near. */
enum { OPEN_TILES = 2 };

/* As many lines are asked for at once, in front of the loops that they keep pace with. */
enum { LINE_BITS = 512, LINES_AT_ONCE = 12 };

/* Bits of the panel for an index of the reduction. */
static int64_t panel_bits(const Leaf *f) {
    return dtype_bits(f->lo->flow->cont.at[f->plan->prefetch].type) *
           f->span[f->plan->lane_dim].cap;
}

/* Tiles that meet a panel one after the other. */
typedef struct Meeting {
    Dim tile;      /* the number of the one at hand */
    int64_t tiles; /* how many share a panel */
    int open;      /* dims of which the run alone knows how many tiles they have */
    Dim extent;    /* of the last one of these */
    int64_t size;  /* and a whole tile's */
    bool shorter;  /* is this one not? */
} Meeting;

/* Of loops over panels, the root's or its own, one forgets those in front. */
static void forget(Meeting *m, Ctx *ctx) {
    *m = (Meeting){.tile = dim_const(ctx, 0), .tiles = 1};
}

/* Has the map loops of its own inside of the root's? */
static bool has_loops(const Leaf *f) {
    return f->plan != &f->lo->plan[f->lo->nplan - 1] && f->plan->tile.n;
}

static Meeting meeting_of(const Leaf *f) {
    const Lowering *lo = f->lo;
    const MapPlan *root = &lo->plan[lo->nplan - 1];
    bool own = has_loops(f);
    const TileLoops *loops = own ? &f->plan->tile : &root->tile;
    int64_t whole[RANK_MAX * 2];
    Meeting m;
    forget(&m, lo->ctx);
    for (int d = 0; d < f->map->dim.n; d++)
        whole[d] = own && f->box[d].cap > 0 ? f->box[d].cap : map_usual(lo->flow, f->map, d);
    for (int t = 0; t < loops->n; t++) {
        int d = own ? loops->at[t].dim : lo->al.at[f->plan - lo->plan][loops->at[t].dim];
        int64_t size = loops->at[t].size, n;
        if (d == f->plan->lane_dim) forget(&m, lo->ctx);
        if (d < 0 || map_reduces(f->map, d) || size >= whole[d]) continue;
        n = (whole[d] + size - 1) / size;
        Dim extent = own ? f->box[d].extent : f->map->dim.at[d].extent;
        bool open = !dim_is_const(extent, NULL);
        if (open && n > OPEN_TILES) n = OPEN_TILES;
        whole[d] = size;
        if (d == f->plan->lane_dim) continue;
        Dim start = own ? dim_sub(lo->ctx, f->span[d].start, f->box[d].start) : f->span[d].start;
        Dim at = dim_div(lo->ctx, start, dim_const(lo->ctx, size));
        at = dim_mod(lo->ctx, at, dim_const(lo->ctx, n));
        m.tile = dim_add(lo->ctx, dim_mulc(lo->ctx, m.tile, n), at);
        m.tiles *= n;
        if (!open) continue;
        m.open++;
        m.extent = extent;
        m.size = size, m.shorter = f->span[d].cap < size;
    }
    return m;
}

/* An element of the panels, by its number, at the first of the lanes. */
static Dim panel_at(Leaf *f, const Access *read, Dim lane, Access *at) {
    Lowering *lo = f->lo;
    f->value[f->plan->lane_dim] = lane;
    *at = storage_access(f, read, false);
    return lowering_simplify(lo, nest_flat(lo->nest, at));
}

/* Sets the indices of reduced dims from number `from` on to 0, or to their last ones. */
static void set_reduced(Leaf *f, int from, bool last) {
    for (int d = from; d < f->map->dim.n; d++)
        if (map_reduces(f->map, d))
            f->value[d] = last ? dim_addc(f->lo->ctx, f->map->dim.at[d].extent, -1)
                               : dim_const(f->lo->ctx, 0);
}

/* How many elements a panel has in a row where its reduced dims run from number `from` on; 0: they
 * do not lie in one. */
static int64_t run_of(Leaf *f, const Access *read, int from) {
    Lowering *lo = f->lo;
    const Span *panel = &f->span[f->plan->lane_dim];
    int64_t run = panel->cap, extent, size;
    Access at;
    for (int d = from; d < f->map->dim.n; d++) {
        if (!map_reduces(f->map, d)) continue;
        if (!dim_is_const(f->map->dim.at[d].extent, &extent)) return 0;
        run *= extent;
    }
    set_reduced(f, from, false);
    Dim first = panel_at(f, read, panel->start, &at);
    set_reduced(f, from, true);
    Dim last = panel_at(f, read, dim_addc(lo->ctx, panel->start, panel->cap - 1), &at);
    bool known = dim_is_const(dim_sub(lo->ctx, last, first), &size);
    return known && size == run - 1 ? run : 0;
}

/* The first reduced dim of a run: behind those that count parts of weights which lie apart. */
static int first_of_run(Leaf *f, const Access *read, int64_t *run) {
    Dim now[RANK_MAX * 2];
    int from = 0;
    memcpy(now, f->value, sizeof now);
    *run = run_of(f, read, 0);
    for (int d = 0; d < f->map->dim.n && !*run; d++)
        if (map_reduces(f->map, d)) *run = run_of(f, read, from = d + 1);
    memcpy(f->value, now, sizeof now);
    return from;
}

/* Sets indices of the map's own loops, and gives the first lane, of the panel that comes next:
 * where several products have a part each of the terms it is not the one that lies behind. */
static Dim next_panel(Leaf *f, const Access *read) {
    Lowering *lo = f->lo;
    const TileLoops *loops = &f->plan->tile;
    Dim carry = dim_const(lo->ctx, 1);
    for (int t = loops->n - 1; t >= 0; t--) {
        int d = loops->at[t].dim;
        int64_t extent, size = loops->at[t].size;
        if (map_reduces(f->map, d) || !access_uses(f->map, read, d)) continue;
        if (!dim_is_const(f->box[d].extent, &extent)) break;
        Dim step = dim_const(lo->ctx, size), all = dim_const(lo->ctx, (extent + size - 1) / size);
        Dim from = dim_sub(lo->ctx, f->span[d].start, f->box[d].start);
        Dim number = dim_add(lo->ctx, dim_div(lo->ctx, from, step), carry);
        carry = dim_div(lo->ctx, number, all);
        if (t) number = dim_mod(lo->ctx, number, all);
        f->value[d] = dim_add(lo->ctx, f->box[d].start, dim_mulc(lo->ctx, number, size));
    }
    return f->value[f->plan->lane_dim];
}

/* The place in the next panel that a tile of rows has come to: of as many equal parts, each goes
 * through one from its beginning to its end while it goes through this panel. Asked for line by
 * line, over the whole time, weights come at the memory's speed. False: panels have no one size. */
static bool next_place(Leaf *f, const Access *read, int64_t tiles, Dim tile, Access *at) {
    Lowering *lo = f->lo;
    const Span *panel = &f->span[f->plan->lane_dim];
    Dim now[RANK_MAX * 2], next = dim_addc(lo->ctx, panel->start, panel->cap);
    int64_t size, run;
    int begin = first_of_run(f, read, &run);
    Dim here = panel_at(f, read, panel->start, at);
    memcpy(now, f->value, sizeof now);
    set_reduced(f, begin, false);
    Dim first = panel_at(f, read, panel->start, at);
    if (has_loops(f) && access_slides(f->map, read)) next = next_panel(f, read);
    Dim from = panel_at(f, read, next, at);
    memcpy(f->value, now, sizeof now);
    if (!run && dim_is_const(dim_sub(lo->ctx, from, first), &size)) run = size;
    if (!run || !at->rank) return false;
    Dim done = dim_add(lo->ctx, dim_mulc(lo->ctx, tile, run), dim_sub(lo->ctx, here, first));
    Dim *index = arena_copy(lo->arena, at->at, (size_t)at->rank * sizeof *index);
    Dim *last = &index[at->rank - 1];
    *last = dim_add(lo->ctx, *last, dim_div(lo->ctx, done, dim_const(lo->ctx, tiles)));
    *last = lowering_simplify(lo, *last);
    at->at = index;
    return true;
}

/* A tile's part of the lines of so many bits of a panel. */
static int64_t lines_of(int64_t bits, int64_t tiles) {
    return (bits + LINE_BITS * tiles - 1) / (LINE_BITS * tiles);
}

/* Lines of the next panel, as many as keep pace with a step that reads so many bits of this one:
 * side by side or, where they are more than a few, in a loop. */
static void prefetch_lines(Leaf *f, const Access *read, int64_t bits, const Meeting *m,
                           Stmts *into) {
    enum { FEW = 4 };
    Lowering *lo = f->lo;
    Access at;
    if (!next_place(f, read, m->tiles, m->tile, &at)) return;
    int mark = lo->env.n;
    int64_t line = LINE_BITS / dtype_bits(lo->flow->cont.at[read->cont].type);
    int64_t lines = lines_of(bits, m->tiles);
    Dim more = dim_const(lo->ctx, 0);
    if (lines > FEW) {
        Dim count = dim_const(lo->ctx, lines), var = lowering_var(lo, "line", count);
        more = dim_mulc(lo->ctx, var, line);
        into = &nest_for(lo->nest, into, var, count, LOOP_SEQ)->body;
    }
    for (int64_t i = 0; i < (lines > FEW ? 1 : lines); i++) {
        Dim *index = arena_copy(lo->arena, at.at, (size_t)at.rank * sizeof *index);
        Dim *last = &index[at.rank - 1];
        *last = dim_add(lo->ctx, *last, dim_addc(lo->ctx, more, i * line));
        Stmt *s = nest_stmt(lo->nest, into, STMT_PREFETCH);
        s->at = (Access){at.cont, at.rank, index};
    }
    lo->env.n = mark;
}

/* Where the run counts rows, whole tiles alone ask: one for the whole panel, where it is the only
 * one and others are behind it; and nothing where there are none, as a panel that is met once is
 * part of a stream (schedule_tiled.c). */
static void prefetch_read(Leaf *f, const Access *read, int64_t bits, Stmts *into) {
    Lowering *lo = f->lo;
    Meeting m = meeting_of(f), alone;
    if (m.open != 1 || m.tiles != OPEN_TILES) {
        prefetch_lines(f, read, bits, &m, into);
        return;
    }
    if (m.shorter) return;
    Stmt *some = nest_if(lo->nest, into), *one = nest_if(lo->nest, into);
    vec_push(lo->arena, &some->guard, dim_addc(lo->ctx, m.extent, -OPEN_TILES * m.size));
    prefetch_lines(f, read, bits, &m, &some->body);
    forget(&alone, lo->ctx);
    vec_push(lo->arena, &one->guard, dim_addc(lo->ctx, m.extent, -m.size - 1));
    vec_push(lo->arena, &one->guard,
             dim_sub(lo->ctx, dim_const(lo->ctx, OPEN_TILES * m.size - 1), m.extent));
    prefetch_lines(f, read, bits, &alone, &one->body);
}

static void prefetch_step(Leaf *f, int64_t bits, Stmts *into) {
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d)) f->value[d] = f->span[d].start;
    for (int v = 0; v < f->map->body.val.n; v++) {
        const Val *val = &f->map->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == f->plan->prefetch)
            prefetch_read(f, &val->read, bits, into);
    }
}

/* Finding the place takes a division where several tiles share a panel, in the innermost loop more
 * than its multiply-adds leave time for: so it stands in front of the outermost loops in which no
 * more than a few lines are asked for. */
bool prefetch_panel(Leaf *f, const bool *inside, bool innermost, Stmts *into) {
    int lane = f->plan->lane_dim;
    int64_t steps = 1;
    if (f->plan->prefetch < 0 || f->plan->fetch >= 0 || lane < 0 || f->span[lane].cap < 0)
        return true;
    for (int d = 0; d < f->map->dim.n; d++) {
        if (!inside[d]) continue;
        if (f->span[d].cap < 0 || f->span[d].cap > INT32_MAX / steps) return false;
        steps *= f->span[d].cap;
    }
    if (!innermost && lines_of(panel_bits(f) * steps, meeting_of(f).tiles) > LINES_AT_ONCE)
        return false;
    for (int d = 0; d < f->map->dim.n; d++)
        if (inside[d]) f->value[d] = f->span[d].start;
    prefetch_step(f, panel_bits(f) * steps, into);
    return true;
}

void prefetch_block(Leaf *f, Stmts *into) {
    const Span *block = &f->span[f->plan->fetch];
    f->value[f->plan->fetch] = block->start;
    prefetch_step(f, panel_bits(f) * block->cap, into);
}

/* ---- what results are made of besides sums ------------------------------------------------------
 */

/* A line at a time along the lanes, one index after the other along the other dims. */
static void fetch_dim(Leaf *f, const Access *read, int d, Stmts *into) {
    Lowering *lo = f->lo;
    if (d == f->map->dim.n) {
        nest_stmt(lo->nest, into, STMT_PREFETCH)->at = storage_access(f, read, false);
        return;
    }
    const Span *span = &f->span[d];
    int64_t line = LINE_BITS / dtype_bits(lo->flow->cont.at[read->cont].type);
    Dim step = dim_const(lo->ctx, d == f->plan->lane_dim ? line : 1);
    Dim count = lowering_simplify(lo, dim_ceildiv(lo->ctx, span->extent, step));
    int mark = lo->env.n;
    f->value[d] = span->start;
    if (access_uses(f->map, read, d) && !dim_is(count, 1)) {
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), count);
        into = &nest_for(lo->nest, into, var, count, LOOP_SEQ)->body;
        f->value[d] = dim_add(lo->ctx, span->start, dim_mul(lo->ctx, var, step));
    }
    fetch_dim(f, read, d + 1, into);
    lo->env.n = mark;
}

void fetch_besides(Lowering *lo, const Span *root, Stmts *into) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    Leaf f = {.plan = plan, .map = plan->map, .lo = lo};
    if (lo->machine->block_threads || map_is_reduction(plan->map)) return;
    for (int i = 0; i < lo->kernel->line.n; i++) {
        const Line *line = &lo->kernel->line.at[i];
        if (line->kind != LINE_PREFETCH || line->map != lo->nplan - 1) continue;
        plan_box(lo, lo->nplan - 1, root, f.span);
        for (int v = 0; v < plan->map->body.val.n; v++) {
            const Val *val = &plan->map->body.val.at[v];
            if (val->kind == VAL_READ && val->read.cont == line->cont)
                fetch_dim(&f, &val->read, 0, into);
        }
    }
}
