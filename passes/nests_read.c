/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that may be outside their logical box: by a guarded read before the body where that knows
 * when all lanes are inside, otherwise by a clamped index and a select. An index into a container
 * that may be empty cannot be clamped: there the body stands twice, once for each case. */
#include "passes/nests_leaf.h"

int read_conditions(Leaf *f, const Access *read, Dim *cond) {
    Lowering *lo = f->lo;
    DimEnv env = lowering_env(lo);
    const Cont *c = &lo->flow->cont.at[read->cont];
    int n = 0;
    for (int k = 0; k < read->rank; k++) {
        Dim above = dim_sub(lo->ctx, dim_addc(lo->ctx, c->shape[k], -1), read->at[k]);
        if (!dim_ge0(lo->ctx, read->at[k], &env)) cond[n++] = read->at[k];
        if (!dim_ge0(lo->ctx, above, &env)) cond[n++] = above;
    }
    return n;
}

/* Does a condition depend on what the body reads? */
static bool uses_values(const Leaf *f, const Dim *cond, int n) {
    for (int i = 0; i < n; i++)
        for (int v = 0; v < f->map->body.val.n; v++)
            if (f->map->body.val.at[v].sym && dim_uses(cond[i], f->map->body.val.at[v].sym))
                return true;
    return false;
}

int guarded_buf(const Leaf *f, const Access *read) {
    for (int i = 0; i < f->guarded.n; i++)
        if (access_equal(&f->guarded.at[i].read, read)) return f->guarded.at[i].buf;
    return -1;
}

/* What must be >= 0 for the container of a read to have elements, as far as that is not proven: it
 * has along dims whose index is inside. */
static int rooms(const Leaf *f, const Access *read, Dim *room) {
    Lowering *lo = f->lo;
    DimEnv env = lowering_env(lo);
    const Cont *c = &lo->flow->cont.at[read->cont];
    int n = 0;
    for (int k = 0; k < c->rank; k++) {
        Dim last = dim_addc(lo->ctx, c->shape[k], -1);
        bool inside = dim_ge0(lo->ctx, read->at[k], &env) &&
                      dim_ge0(lo->ctx, dim_sub(lo->ctx, last, read->at[k]), &env);
        if (!inside && !dim_ge0(lo->ctx, last, &env)) room[n++] = last;
    }
    return n;
}

/* The read at its index cut to what is there; the other value where that may be nothing. */
static int clamped_read(Leaf *f, Body *b, const Val *read) {
    Lowering *lo = f->lo;
    const Cont *c = &lo->flow->cont.at[read->read.cont];
    Dim *at = NEW_ARRAY(lo->arena, Dim, read->read.rank + 1), room[RANK_MAX];
    for (int k = 0; k < read->read.rank; k++) {
        Dim top = dim_addc(lo->ctx, c->shape[k], -1), zero = dim_const(lo->ctx, 0);
        at[k] =
            lowering_simplify(lo, dim_max(lo->ctx, zero, dim_min(lo->ctx, read->read.at[k], top)));
    }
    Access to = lowering_access(lo, read->read.cont, at, false);
    bool filled = !rooms(f, &read->read, room);
    for (int i = 0; i < f->nsized; i++)
        filled |= f->sized[i].cont == read->read.cont && f->sized[i].filled;
    return filled ? body_read(b, to, read->type) : body_read_else(b, to, read->type, read->arg[0]);
}

int select_read(Leaf *f, Body *b, const Val *read, const Dim *cond, int n) {
    for (int i = 0; i < f->nsized; i++)
        if (f->sized[i].cont == read->read.cont && !f->sized[i].filled) return read->arg[0];
    int inside = -1, none = body_bits(b, I64, 0);
    for (int i = 0; i < n; i++) {
        int ok = body_prim2(b, P_GE, body_index(b, cond[i]), none);
        inside = inside < 0 ? ok : body_prim2(b, P_AND, inside, ok);
    }
    return body_prim3(b, P_SELECT, inside, clamped_read(f, b, read), read->arg[0]);
}

/* What must be >= 0 for every lane to be inside, where `cond` says so of each; NULL: not known. */
static Dim whole_vector(const Leaf *f, Dim cond, const Lane *lane) {
    Dim coef, rest;
    int64_t step;
    if (lane->guard || !dim_affine(f->lo->ctx, cond, &lane->var, 1, &coef, &rest) ||
        !dim_is_const(coef, &step))
        return NULL;
    return step < 0 ? dim_addc(f->lo->ctx, rest, step * (lane->width - 1)) : rest;
}

/* buf[lane] = the read, in those lanes where all `cond` hold. */
static void fill_guarded(Leaf *f, const Lane *lane, int buf, const Val *read, const Dim *cond,
                         int n, Stmts *into) {
    Lowering *lo = f->lo;
    Stmts *body = lane_loop(f, lane, into);
    for (int i = 0; i < n; i++) vec_push(lo->arena, &into->at[into->n - 1]->guard, cond[i]);
    Stmt *s = nest_body(lo->nest, body);
    Access from = lowering_access(lo, read->read.cont, read->read.at, false);
    int got = body_read(&s->code, from, read->type);
    Dim *lane_at = arena_copy(lo->arena, &lane->var, sizeof(Dim));
    body_store(f, s, (Access){buf, lane->row ? 1 : 0, lane_at}, got);
}

static Stmts *behind(Lowering *lo, const Dim *guard, int n, Stmts *into) {
    if (!n) return into;
    Stmt *s = nest_if(lo->nest, into);
    for (int i = 0; i < n; i++) vec_push(lo->arena, &s->guard, guard[i]);
    return &s->body;
}

/* Fills buf behind guards: the first `nsame` of cond are the same for all lanes; `nby` more differ
 * from lane to lane (the ends of a row): where all lanes are inside, no masks are needed. */
static void fill_behind(Leaf *f, const Lane *lane, int buf, const Val *read, const Dim *cond,
                        int nsame, int nby, Stmts *into) {
    Ctx *ctx = f->lo->ctx;
    Dim all[RANK_MAX * 4], least = NULL;
    int n = nsame;
    for (int i = 0; i < nsame; i++) all[i] = cond[i];
    for (int i = nsame; i < nsame + nby; i++) {
        Dim whole = whole_vector(f, cond[i], lane);
        if (whole) all[n++] = whole;
    }
    if (n == nsame + nby) {
        fill_guarded(f, lane, buf, read, NULL, 0, behind(f->lo, all, n, into));
        for (int i = nsame; i < n; i++) least = least ? dim_min(ctx, least, all[i]) : all[i];
    }
    if (!nby) return;
    if (least) all[nsame] = dim_addc(ctx, dim_mulc(ctx, least, -1), -1);
    into = behind(f->lo, all, nsame + (least != NULL), into);
    fill_guarded(f, lane, buf, read, cond + nsame, nby, into);
}

/* Val v of the map's body, a read, at the present values of its dims. */
static Val read_now(Leaf *f, int v) {
    Lowering *lo = f->lo;
    DimSubst subst[RANK_MAX * 2];
    int n = dim_substs(f, subst);
    Val val = f->map->body.val.at[v];
    Dim *at = NEW_ARRAY(lo->arena, Dim, val.read.rank + 1);
    for (int k = 0; k < val.read.rank; k++) at[k] = dim_subst(lo->ctx, val.read.at[k], subst, n);
    val.read.at = at;
    return val;
}

/* The same, and when it is inside. */
static int outside(Leaf *f, int v, Val *val, Dim *cond) {
    *val = read_now(f, v);
    return read_conditions(f, &val->read, cond);
}

static bool may_guard(const Leaf *f, const Val *val, const Dim *cond, int n) {
    return f->map->body.val.at[val->arg[0]].kind == VAL_CONST && !uses_values(f, cond, n);
}

/* A buffer of what a read finds in each lane, `init` where it is not read. */
static int read_buffer(Leaf *f, const Lane *lane, const Val *read, Bits init, Stmts *into) {
    Lowering *lo = f->lo;
    Dim width = dim_const(lo->ctx, lane->width);
    const char *name = internf(lo->ctx, "in.%d", lo->fresh++);
    int buf = nest_buf(lo->nest, name, BUF_REG, read->type, &width, lane->row ? 1 : 0);
    Stmt *decl = nest_decl(lo->nest, into, buf);
    decl->has_init = true;
    decl->init = init;
    vec_push(lo->arena, &f->guarded, ((GuardedRead){read->read, buf}));
    return buf;
}

/* Before a body: a buffer per read that may be outside; it holds the else value and, behind
 * guards, what is read. */
static void guard_read(Leaf *f, const Lane *lane, int v, Stmts *into) {
    Val val;
    Dim cond[RANK_MAX * 2], sorted[RANK_MAX * 4];
    int n = outside(f, v, &val, cond), nsame = 0, nby = 0;
    if (!n || !may_guard(f, &val, cond, n)) return;
    for (int by = 0; by < 2; by++)
        for (int i = 0; i < n; i++) {
            if ((lane->row && dim_uses(cond[i], lane->var)) != by) continue;
            sorted[nsame + nby] = cond[i];
            *(by ? &nby : &nsame) += 1;
        }
    int buf = read_buffer(f, lane, &val, f->map->body.val.at[val.arg[0]].bits, into);
    fill_behind(f, lane, buf, &val, sorted, nsame, nby, into);
}

static bool may_be_outside(const Leaf *f, int v) {
    const Val *val = &f->map->body.val.at[v];
    return val->kind == VAL_READ && val->has_else && !f->lo->local[val->read.cont].staged;
}

static bool uses_lane(const Val *read, const Lane *lane) {
    bool uses = false;
    for (int k = 0; k < read->read.rank; k++) uses |= dim_uses(read->read.at[k], lane->var);
    return uses;
}

/* Do constraints cut off lanes? Those have results that the others must not touch. */
static bool cuts_lanes(const Leaf *f) {
    bool cuts = false;
    for (int i = 0; i < f->map->cons.n; i++)
        cuts |= dim_uses(f->map->cons.at[i], f->map->dim.at[f->plan->lane_dim].sym);
    return cuts;
}

bool may_read_apart(Leaf *f, const Lane *lane) {
    if (!lane->guard || !lane->row || f->lo->thread || f->plan->use || cuts_lanes(f)) return false;
    for (int v = 0; v < f->map->body.val.n; v++) {
        const Val *val = &f->map->body.val.at[v];
        Access at;
        if (val->kind != VAL_READ) continue;
        if (val->has_else || access_by_value(f->map, &val->read)) return false;
        Val now = read_now(f, v);
        if (!uses_lane(&now, lane) && !reads_inside(f, val, &at)) return false;
    }
    return true;
}

/* Before a body: what the lanes up to the end read; 0 in the others. */
static void read_apart(Leaf *f, int v, Stmts *into) {
    if (f->map->body.val.at[v].kind != VAL_READ) return;
    Val now = read_now(f, v);
    if (!uses_lane(&now, f->apart)) return;
    int buf = read_buffer(f, f->apart, &now, 0, into);
    fill_guarded(f, f->apart, buf, &now, NULL, 0, into);
}

void guard_reads(Leaf *f, const Lane *lane, Stmts *into) {
    f->guarded.n = 0;
    for (int v = 0; v < f->map->body.val.n; v++)
        if (may_be_outside(f, v)) guard_read(f, lane, v, into);
    for (int v = 0; f->apart && v < f->map->body.val.n; v++) read_apart(f, v, into);
}

/* Runs fn for each case of the containers of `n` reads: with elements, without. */
static void each_case(Leaf *f, const Lane *lane, LaneFn *fn, const Access *read, int n,
                      Stmts *into) {
    if (!n) {
        fn(f, lane, into);
        return;
    }
    Ctx *ctx = f->lo->ctx;
    Dim room[RANK_MAX], least;
    int nroom = rooms(f, read, room), at = f->nsized++;
    f->sized[at] = (Sized){read->cont, true};
    each_case(f, lane, fn, read + 1, n - 1, behind(f->lo, room, nroom, into));
    f->sized[at].filled = false;
    least = room[0];
    for (int i = 1; i < nroom; i++) least = dim_min(ctx, least, room[i]);
    Dim none = dim_addc(ctx, dim_mulc(ctx, least, -1), -1);
    each_case(f, lane, fn, read + 1, n - 1, behind(f->lo, &none, 1, into));
    f->nsized--;
}

void for_sizes(Leaf *f, const Lane *lane, LaneFn *fn, Stmts *into) {
    Dim cond[RANK_MAX * 2];
    Access sized[SIZED_MAX];
    int n = 0;
    for (int v = 0; v < f->map->body.val.n; v++) {
        Val val;
        if (!may_be_outside(f, v)) continue;
        int by = outside(f, v, &val, cond);
        bool clamps = by && !may_guard(f, &val, cond, by) && rooms(f, &val.read, cond);
        for (int i = 0; i < n; i++) clamps &= sized[i].cont != val.read.cont;
        if (clamps && n < SIZED_MAX) sized[n++] = val.read;
    }
    each_case(f, lane, fn, sized, n, into);
}
