/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction on one box:
 *
 *     loops over output dims that are neither unrolled nor lanes
 *       accumulators for the unrolled and lane dims, set to the identity
 *       reduction loops in the order of the `reduce` line
 *         unrolled output dims, lanes: acc = merge(acc, value)
 *       fold of the lanes, when the lane dim is reduced
 *       unrolled output dims, lanes: store finish(acc)
 *
 * A container kept in registers is itself the accumulator. A product summed is a fused multiply-add
 * on the state. */
#include "passes/access.h"
#include "passes/margin.h"
#include "passes/nests_leaf.h"

static Dim zero(const Lowering *lo) {
    return dim_const(lo->ctx, 0);
}

static bool lane_reduced(const Leaf *f) {
    return f->plan->lane_dim >= 0 && map_reduces(f->map, f->plan->lane_dim);
}

/* Results of a chunk of lanes: of all threads that share them. */
static int64_t chunk_width(const Leaf *f) {
    return f->plan->lanes * (int64_t)(f->plan->spread ? f->plan->spread : 1);
}

/* Index of a state in `buf` now: offsets of the unrolled dims, the chunk, the lane. */
static Access state_access(Leaf *f, int buf, const Lane *lane) {
    Lowering *lo = f->lo;
    Dim *at = NEW_ARRAY(lo->arena, Dim, RANK_MAX * 2);
    int n = 0;
    for (int d = 0; d < f->map->dim.n; d++) {
        if (map_reduces(f->map, d) || d == f->plan->lane_dim || !f->plan->unroll[d]) continue;
        at[n++] = lowering_simplify(lo, dim_sub(lo->ctx, f->value[d], f->span[d].start));
    }
    if (lanes_in_row(f) && !lane_reduced(f)) {
        int d = f->plan->lane_dim;
        Dim e = dim_sub(lo->ctx, f->value[d], f->span[d].start);
        at[n++] = lowering_simplify(lo, dim_div(lo->ctx, e, dim_const(lo->ctx, chunk_width(f))));
    }
    if (lanes_in_row(f)) at[n++] = lane->var ? lane->var : zero(lo);
    return (Access){buf, n, at};
}

Access reduce_state(Leaf *f, int s, const Lane *lane) {
    if (f->acc[s] < 0) return target_access(f, &f->write->to[s]);
    return state_access(f, f->acc[s], lane);
}

/* Can the registers that the result is kept in be the accumulators? */
static bool own_registers(const Leaf *f) {
    const Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    int cont = f->write->to[0].cont, buf = lo->local[cont].buf;
    return c->nstate == 1 && !c->finish.val.n && !lane_reduced(f) && !f->plan->block && buf >= 0 &&
           lo->nest->buf.at[buf].kind == BUF_REG && lo->flow->cont.at[cont].type == c->type[0];
}

/* A buffer for each state; registers are set to the identity. */
static void declare_states(Leaf *f, BufKind kind, const char *base, int *buf, Stmts *into) {
    Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    Dim box[RANK_MAX * 2];
    int n = 0;
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d) && d != f->plan->lane_dim && f->plan->unroll[d])
            box[n++] = dim_const(lo->ctx, f->span[d].cap);
    if (lanes_in_row(f) && !lane_reduced(f)) {
        int64_t cap = f->span[f->plan->lane_dim].cap, w = chunk_width(f);
        box[n++] = dim_const(lo->ctx, (cap + w - 1) / w);
    }
    if (lanes_in_row(f)) box[n++] = dim_const(lo->ctx, f->plan->lanes);
    for (int s = 0; s < c->nstate; s++) {
        const char *name = internf(lo->ctx, "%s.%d", base, lo->fresh++);
        buf[s] = nest_buf(lo->nest, name, kind, c->type[s], box, n);
        Stmt *decl = nest_decl(lo->nest, into, buf[s]);
        decl->has_init = f->total != buf;
        decl->init = c->identity[s];
    }
}

/* Are there results whose number is not known? Steps on tiles take them, from an array. */
static bool open_results(const Leaf *f) {
    bool open = false;
    for (int d = 0; d < f->map->dim.n; d++)
        open |= f->plan->use && !map_reduces(f->map, d) && d != f->plan->lane_dim &&
                f->plan->unroll[d] && !dim_is_const(f->span[d].extent, NULL);
    return open;
}

static void declare_accumulators(Leaf *f, Stmts *into) {
    f->acc[0] = -1;
    BufKind kind = open_results(f) ? BUF_TILE : BUF_REG;
    if (!own_registers(f)) declare_states(f, kind, "acc", f->acc, into);
}

/* A product that is summed: as one operation where the machine has it. */
static bool fuses(const Leaf *f, const Val *v) {
    bool product = v->kind == VAL_PRIM && v->prim == P_MUL && v->type == f->write->combine->type[0];
    return product && (type_is_integral(v->type) || !f->lo->machine->rounds_twice);
}

void reduce_merge(Leaf *f, Body *b, const int *acc, const int *value, int *out) {
    const Combine *c = f->write->combine;
    const Val *v = &b->val.at[value[0]];
    if (c->simple == P_ADD && fuses(f, v)) {
        out[0] = body_prim3(b, P_FMA, v->arg[0], v->arg[1], acc[0]);
        return;
    }
    int params[2 * COMBINE_STATES];
    for (int s = 0; s < c->nstate; s++) {
        params[s] = acc[s];
        params[c->nstate + s] = body_cvt(b, c->type[s], value[s]);
    }
    if (c->simple != PRIM_NONE) {
        out[0] = body_prim2(b, c->simple, params[0], params[1]);
        return;
    }
    int *map = NEW_ARRAY(f->lo->arena, int, c->merge.val.n);
    body_inline(b, &c->merge, NULL, 0, params, NULL, NULL, map);
    for (int s = 0; s < c->nstate; s++) out[s] = map[c->merged[s]];
}

/* Lanes beyond the end of an output dim have accumulators that nobody stores: rather than masked,
 * they compute what they may. */
static bool lanes_idle(Leaf *f, const Lane *lane) {
    if (!lane->guard || !lane->row || lane_reduced(f)) return false;
    for (int v = 0; v < f->map->body.val.n; v++)
        if (f->map->body.val.at[v].kind == VAL_READ &&
            !reads_whole(f, &f->map->body.val.at[v], lane))
            return false;
    return true;
}

/* The same of results that constraints cut off. */
static bool results_idle(Leaf *f) {
    Access at;
    for (int v = 0; v < f->map->body.val.n; v++)
        if (f->map->body.val.at[v].kind == VAL_READ &&
            !reads_inside(f, &f->map->body.val.at[v], &at))
            return false;
    return true;
}

static void update_once(Leaf *f, const Lane *lane, Stmts *into) {
    Lane mine = *lane;
    bool idle = lanes_idle(f, lane);
    f->apart = !idle && !lane_reduced(f) && may_read_apart(f, lane) ? lane : NULL;
    if (idle || f->apart) mine.guard = NULL;
    f->idle = f->map->cons.n && results_idle(f);
    Stmt *s = open_body(f, &mine, into);
    f->idle = false, f->apart = NULL;
    const Combine *c = f->write->combine;
    int *map = NEW_ARRAY(f->lo->arena, int, f->map->body.val.n);
    inline_body(f, &mine, &s->code, map);
    int acc[COMBINE_STATES], value[COMBINE_STATES], out[COMBINE_STATES];
    Access at[COMBINE_STATES];
    for (int k = 0; k < c->nstate; k++) {
        at[k] = reduce_state(f, k, &mine);
        acc[k] = body_read(&s->code, at[k], c->type[k]);
        value[k] = map[f->write->val[k]];
    }
    if (leaf_factored(f)) value[0] = leaf_product(f, &s->code, map, f->write->val[0], false);
    reduce_merge(f, &s->code, acc, value, out);
    for (int k = 0; k < c->nstate; k++) body_store(f, s, at[k], out[k]);
    finish_body(f, s);
}

static void update_body(Leaf *f, const Lane *lane, Stmts *into) {
    for_sizes(f, lane, update_once, into);
}

/* Opens the output dims that are unrolled. */
static Stmts *open_unrolled(Leaf *f, Stmts *into) {
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d) && d != f->plan->lane_dim && f->plan->unroll[d])
            into = open_dim(f, d, into);
    return into;
}

void reduce_states(Leaf *f, Stmts *into, LaneFn *fn) {
    int mark = f->lo->env.n;
    lane_chunks(f, open_unrolled(f, into), fn);
    f->lo->env.n = mark;
}

/* Notes chunks of lanes of which some may not compute. */
static void note_partial(Leaf *f, const Lane *lane, Stmts *into) {
    (void)into;
    f->partial |= lane->guard && !lanes_idle(f, lane);
}

/* Where steps on tiles may follow, the last vector's lanes beyond the end compute, and it is one of
 * the loop over vectors, as they want it. */
static void update_states(Leaf *f, Stmts *into) {
    int d = f->plan->lane_dim, mark = f->lo->env.n;
    int64_t extent, w = f->plan->lanes;
    Span whole = d < 0 ? (Span){0} : f->span[d];
    if (d >= 0 && f->lo->machine->nmatrix && f->plan->unroll[d] &&
        dim_is_const(whole.extent, &extent) && extent > w && extent % w) {
        Stmts none = {0};
        f->partial = false;
        lane_chunks(f, open_unrolled(f, &none), note_partial);
        f->lo->env.n = mark;
        if (!f->partial) f->span[d].extent = dim_const(f->lo->ctx, (extent + w - 1) / w * w);
    }
    reduce_states(f, into, update_body);
    if (d >= 0) f->span[d] = whole;
}

/* A chunk of reduced lanes for every result, each of which is a chain of its own. */
static void update_chains(Leaf *f, const Lane *lane, Stmts *into) {
    int mark = f->lo->env.n;
    update_body(f, lane, open_unrolled(f, into));
    f->lo->env.n = mark;
}

typedef struct ReduceLevel {
    Leaf *f;
    int level;
} ReduceLevel;

static void reduce_tile(Lowering *lo, void *user, Span tile, Stmts *into) {
    ReduceLevel *r = user;
    (void)lo;
    int d = r->f->plan->reduce.at[r->level].dim;
    Span whole = r->f->span[d];
    r->f->span[d] = tile;
    reduce_loops(r->f, r->level + 1, into);
    r->f->span[d] = whole;
}

/* The outermost blocks of a reduction whose operands are staged: one loop, whose last block may be
 * shorter. */
static void reduce_staged(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    const TileLoop *t = &f->plan->reduce.at[0];
    Span whole = f->span[t->dim], *span = &f->span[t->dim];
    int mark = lo->env.n;
    Dim size = dim_const(lo->ctx, t->size), offset = zero(lo);
    Dim count = lowering_simplify(lo, dim_ceildiv(lo->ctx, whole.extent, size));
    if (!dim_is(count, 1)) {
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[t->dim].sym), count);
        into = &nest_for(lo->nest, into, var, count, LOOP_SEQ)->body;
        offset = dim_mulc(lo->ctx, var, t->size);
    }
    Dim rest = dim_sub(lo->ctx, whole.extent, offset);
    *span = (Span){dim_add(lo->ctx, whole.start, offset),
                   lowering_simplify(lo, dim_min(lo->ctx, size, rest)), t->size};
    bool even = dim_is(lowering_simplify(lo, dim_mod(lo->ctx, whole.extent, size)), 0);
    if (even) span->extent = size;
    stage_reads(f, into);
    reduce_loops(f, 1, into);
    unstage_reads(f);
    nest_stmt(lo->nest, into, STMT_SYNC);
    *span = whole;
    lo->env.n = mark;
}

/* Where reduction loops from `level` on open, and dims that the `reduce` line does not name, from
 * `rest` on: a part of the next panel, unless one was fetched around them. */
static void fetch_ahead(Leaf *f, int level, int rest, Stmts *into) {
    const TileLoops *loops = &f->plan->reduce;
    bool inside[RANK_MAX * 2] = {false}, innermost = true;
    if (f->fetched) return;
    for (int d = 0; d < f->map->dim.n; d++) inside[d] = map_reduces(f->map, d) && d >= rest;
    for (int i = 0; i < loops->n; i++) inside[loops->at[i].dim] = false;
    for (int i = level; i < loops->n; i++) inside[loops->at[i].dim] = true;
    if (f->plan->lane_dim >= 0) inside[f->plan->lane_dim] = false;
    for (int d = 0; d < f->map->dim.n; d++) innermost &= !inside[d] || f->plan->unroll[d];
    for (int i = level; i < loops->n; i++) innermost &= !loops->at[i].size;
    f->fetched = prefetch_panel(f, inside, innermost, into);
}

/* Behind a guard, where dim d is opened and may be skipped: some of the tile reads more than zeros
 * of a margin by its index. */
static Stmts *meets_some(Leaf *f, int d, Stmts *into) {
    Lowering *lo = f->lo;
    MarginRead r;
    if (!f->plan->skip[d] || !margin_read(lo->flow, f->map, d, &r)) return into;
    const Span *span = &f->span[r.result];
    bool whole = f->plan->unroll[r.result] || r.result == f->plan->lane_dim;
    Dim first = whole ? span->start : f->value[r.result];
    Dim more = whole ? dim_mulc(lo->ctx, dim_addc(lo->ctx, span->extent, -1), r.step) : zero(lo);
    DimSubst at[] = {{f->map->dim.at[d].sym, f->value[d]}, {f->map->dim.at[r.result].sym, first}};
    Dim least = dim_subst(lo->ctx, r.val->read.at[r.at], at, 2);
    Stmt *some = nest_if(lo->nest, into);
    vec_push(lo->arena, &some->guard, dim_sub(lo->ctx, dim_add(lo->ctx, least, more), r.low));
    vec_push(lo->arena, &some->guard, dim_addc(lo->ctx, dim_sub(lo->ctx, r.high, least), -1));
    return &some->body;
}

void reduce_loops(Leaf *f, int level, Stmts *into) {
    Lowering *lo = f->lo;
    int mark = lo->env.n;
    bool named[RANK_MAX * 2] = {false}, fetched = f->fetched;
    if (!level && f->plan->stage.n) {
        reduce_staged(f, into);
        return;
    }
    for (int i = 0; i < f->plan->reduce.n; i++) named[f->plan->reduce.at[i].dim] = true;
    for (; level < f->plan->reduce.n; level++) {
        const TileLoop *t = &f->plan->reduce.at[level];
        if (t->dim == f->plan->lane_dim) continue;
        fetch_ahead(f, level, 0, into);
        if (t->size > 0) {
            Tiling how = {
                .name = dim_sym_name(f->map->dim.at[t->dim].sym), .size = t->size, .lanes = 1};
            ReduceLevel next = {f, level};
            for_tiles(lo, into, &how, f->span[t->dim], reduce_tile, &next);
            lo->env.n = mark;
            bool groups = level == f->plan->reduce.n - 2 && t->dim == f->plan->fetch;
            if (groups) prefetch_block(f, into);
            f->fetched = fetched;
            return;
        }
        into = meets_some(f, t->dim, open_dim(f, t->dim, into));
    }
    for (int d = 0; d < f->map->dim.n; d++) {
        if (!map_reduces(f->map, d) || d == f->plan->lane_dim || named[d]) continue;
        fetch_ahead(f, level, d, into);
        into = meets_some(f, d, open_dim(f, d, into));
    }
    fetch_ahead(f, level, f->map->dim.n, into);
    if (lane_reduced(f))
        lane_chunks(f, into, update_chains);
    else
        update_states(f, into);
    f->fetched = fetched;
    lo->env.n = mark;
}

/* Folds the lanes of a row, or what the threads have, into `row`, a register for each state. */
static void fold_lanes(Leaf *f, int *row, Stmts *into) {
    Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    Access *src = NEW_ARRAY(lo->arena, Access, c->nstate),
           *dst = NEW_ARRAY(lo->arena, Access, c->nstate);
    for (int s = 0; s < c->nstate; s++) {
        row[s] = nest_buf(lo->nest, internf(lo->ctx, "sum.%d", lo->fresh++), BUF_REG, c->type[s],
                          NULL, 0);
        nest_decl(lo->nest, into, row[s]);
        src[s] = reduce_state(f, s, &(Lane){NULL, 1, NULL, false});
        dst[s] = (Access){row[s], 0, NULL};
    }
    if (lanes_in_row(f)) {
        Stmt *s = nest_stmt(lo->nest, into, STMT_FOLD);
        s->combine = c;
        s->lanes = f->plan->lanes;
        s->src = src;
        s->dst = dst;
        s->from = f->map->from;
    }
    if (!f->plan->spread) return;
    Fold fold = {c, f->plan->spread, lanes_in_row(f) ? dst : src, dst, f->map->from};
    fold_threads(lo, &fold, into);
}

/* Stores the results that are kept in registers (`own`: by every thread for itself), or the
 * others. */
static void store_some(Leaf *f, Lane *lane, const int *row, bool own, Stmts *into) {
    Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    Stmt *s = nest_body(lo->nest, lane_loop(f, lane, into));
    int state[COMBINE_STATES], value[COMBINE_STATES];
    for (int k = 0; k < c->nstate; k++) {
        Access at = lane_reduced(f) ? (Access){row[k], 0, NULL} : reduce_state(f, k, lane);
        state[k] = value[k] = body_read(&s->code, at, c->type[k]);
    }
    if (c->finish.val.n) {
        int *map = NEW_ARRAY(lo->arena, int, c->finish.val.n);
        body_inline(&s->code, &c->finish, NULL, 0, state, NULL, NULL, map);
        for (int k = 0; k < f->write->n; k++) value[k] = map[c->finished[k]];
    }
    for (int k = 0; k < f->write->n; k++) {
        const Access *to = &f->write->to[k];
        if (lo->thread && own != (lo->keep[to->cont] == KEEP_REG)) continue;
        int val = body_cvt(&s->code, lo->flow->cont.at[to->cont].type, value[k]);
        body_store(f, s, target_access(f, to), val);
    }
    finish_body(f, s);
}

/* A result that all threads of a block have, and the kernel goes on with, it finds in their
 * registers, wherever else it is stored. */
static void find_in_registers(const Leaf *f, int row) {
    const Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    int cont = f->write->to[0].cont;
    bool all = !f->plan->groups || f->plan->among < 0;
    for (int d = 0; d < f->map->dim.n; d++)
        all &= map_reduces(f->map, d) || dim_is(f->span[d].extent, 1);
    if (!all || !f->plan->spread || lo->keep[cont] != KEEP_ARENA || c->nstate > 1 ||
        c->finish.val.n || c->type[0] != lo->flow->cont.at[cont].type)
        return;
    Access one = {row, 0, NULL};
    lo->local[cont].one = arena_copy(lo->arena, &one, sizeof one);
}

/* Of threads that share lanes, each has a result that was folded, or that none was needed for. */
static void store_body(Leaf *f, const Lane *lane, Stmts *into) {
    Lowering *lo = f->lo;
    Lane mine = *lane;
    const Stmts *outside = into;
    into = open_guards(f, &mine, true, into);
    int row[COMBINE_STATES];
    bool all = lane_reduced(f) || !f->plan->spread || f->plan->parts, own = false, shared = false;
    if (lane_reduced(f)) fold_lanes(f, row, into);
    for (int k = 0; k < f->write->n; k++)
        *(lo->keep[f->write->to[k].cont] == KEEP_REG ? &own : &shared) = true;
    if (!lo->thread) own = false;
    if (own) store_some(f, &mine, row, true, into);
    if (shared || !own) store_some(f, &mine, row, false, all ? one_thread(lo, into) : into);
    if (lane_reduced(f) && into == outside) find_in_registers(f, row[0]);
}

static void store_results(Leaf *f, Stmts *into) {
    if (f->acc[0] < 0) return;
    if (!lane_reduced(f)) {
        reduce_states(f, into, store_body);
        return;
    }
    int mark = f->lo->env.n;
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d) && d != f->plan->lane_dim && f->plan->unroll[d])
            into = open_dim(f, d, into);
    store_body(f, &(Lane){NULL, 1, NULL, false}, into);
    f->lo->env.n = mark;
}

/* total = identity */
static void clear_body(Leaf *f, const Lane *lane, Stmts *into) {
    Stmt *s = nest_body(f->lo->nest, lane_loop(f, lane, into));
    const Combine *c = f->write->combine;
    for (int k = 0; k < c->nstate; k++)
        body_store(f, s, state_access(f, f->total[k], lane),
                   body_bits(&s->code, c->type[k], c->identity[k]));
    finish_body(f, s);
}

/* total = merge(total, acc), or the block's factors times acc */
static void total_body(Leaf *f, const Lane *lane, Stmts *into) {
    Stmt *s = nest_body(f->lo->nest, lane_loop(f, lane, into));
    const Combine *c = f->write->combine;
    int total[COMBINE_STATES], acc[COMBINE_STATES], out[COMBINE_STATES];
    Access at[COMBINE_STATES];
    for (int k = 0; k < c->nstate; k++) {
        at[k] = state_access(f, f->total[k], lane);
        total[k] = body_read(&s->code, at[k], c->type[k]);
        acc[k] = body_read(&s->code, reduce_state(f, k, lane), c->type[k]);
    }
    if (leaf_factored(f)) {
        int *map = NEW_ARRAY(f->lo->arena, int, f->map->body.val.n);
        inline_body(f, lane, &s->code, map);
        int factor = leaf_product(f, &s->code, map, f->write->val[0], true);
        if (factor >= 0) acc[0] = body_prim2(&s->code, P_MUL, acc[0], factor);
    }
    reduce_merge(f, &s->code, total, acc, out);
    for (int k = 0; k < c->nstate; k++) body_store(f, s, at[k], out[k]);
    finish_body(f, s);
}

static void reduce_block(Lowering *lo, void *user, Span tile, Stmts *into) {
    Leaf *f = user;
    (void)lo;
    Span *span = &f->span[f->plan->partial], whole = *span;
    *span = tile;
    f->value[f->plan->partial] = tile.start;
    declare_accumulators(f, into);
    reduce_loops(f, 0, into);
    reduce_states(f, into, total_body);
    *span = whole;
}

/* Sums of many terms: each block's in registers, from zero; their total in a small array, so that
 * no term goes through more roundings than a block and the blocks have. */
static void reduce_blocks(Leaf *f, Stmts *into) {
    int d = f->plan->partial;
    Tiling how = {.name = dim_sym_name(f->map->dim.at[d].sym), .size = f->plan->block, .lanes = 1};
    declare_states(f, BUF_TILE, "total", f->total, into);
    reduce_states(f, into, clear_body);
    for_tiles(f->lo, into, &how, f->span[d], reduce_block, f);
    for (int s = 0; s < f->write->combine->nstate; s++) f->acc[s] = f->total[s];
}

static void reduce_box(Leaf *f, Stmts *into) {
    int mark = f->lo->env.n;
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d) && d != f->plan->lane_dim && !f->plan->unroll[d])
            into = open_dim(f, d, into);
    if (f->plan->block) {
        reduce_blocks(f, into);
    } else {
        declare_accumulators(f, into);
        if (f->plan->parts)
            reduce_parts(f, into);
        else
            reduce_loops(f, 0, into);
    }
    store_results(f, into);
    f->lo->env.n = mark;
}

static void reduce_chunk(Lowering *lo, void *user, Span tile, Stmts *into) {
    (void)lo;
    Leaf *f = user;
    Span whole = f->span[f->plan->lane_dim];
    f->span[f->plan->lane_dim] = tile;
    reduce_box(f, into);
    f->span[f->plan->lane_dim] = whole;
}

/* The same for threads: one loop, whose last chunk is not full. */
static void reduce_spread(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    const Span *span = &f->span[f->plan->lane_dim];
    int64_t w = chunk_width(f);
    int mark = lo->env.n;
    Dim width = dim_const(lo->ctx, w);
    Dim chunks = lowering_simplify(lo, dim_ceildiv(lo->ctx, span->extent, width));
    if (dim_is(chunks, 1) || (span->cap >= 0 && span->cap <= w)) {
        reduce_box(f, into);
        return;
    }
    Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[f->plan->lane_dim].sym), chunks);
    Dim offset = dim_mulc(lo->ctx, var, w);
    Dim rest = lowering_simplify(lo, dim_sub(lo->ctx, span->extent, offset));
    bool full = dim_is(lowering_simplify(lo, dim_mod(lo->ctx, span->extent, width)), 0);
    Span chunk = {dim_add(lo->ctx, span->start, offset),
                  full ? width : dim_min(lo->ctx, width, rest), w};
    reduce_chunk(lo, f, chunk, &nest_for(lo->nest, into, var, chunks, LOOP_SEQ)->body);
    lo->env.n = mark;
}

/* A lane dim that is an output and not unrolled is cut into chunks around the whole reduction. */
void reduce_map(Leaf *f, Stmts *into) {
    int d = f->plan->lane_dim;
    f->write = &f->map->write.at[0];
    if (d < 0 || lane_reduced(f) || f->plan->unroll[d]) {
        reduce_box(f, into);
        return;
    }
    if (f->plan->spread) {
        reduce_spread(f, into);
        return;
    }
    Tiling how = {.name = dim_sym_name(f->map->dim.at[d].sym),
                  .size = f->plan->lanes,
                  .lanes = f->plan->lanes};
    for_tiles(f->lo, into, &how, f->span[d], reduce_chunk, f);
}
