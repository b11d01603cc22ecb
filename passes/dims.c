/* SPDX-License-Identifier: Apache-2.0 */
/* Making dims plain: those of extent 1 go; p with accesses p/c and p%c, where c divides its extent,
 * becomes p0*c + p1; and two dims that all accesses know as p0*c + p1 alone, c the extent of p1,
 * become one. */
#include <string.h>

#include "passes/compose.h"

typedef struct Factor {
    Dim sym, by;
} Factor;

static void factor_in(Dim d, Dim sym, Factor *out) {
    for (int t = 0; t < d->nterms && !out->by; t++)
        for (int a = 0; a < d->term[t].natoms && !out->by; a++) {
            const Atom *atom = d->term[t].atom[a];
            if (atom->kind == ATOM_SYM) continue;
            if ((atom->kind == ATOM_DIV || atom->kind == ATOM_MOD) && atom->a == sym &&
                !dim_is(atom->b, 1)) {
                *out = (Factor){sym, atom->b};
                return;
            }
            factor_in(atom->a, sym, out);
            factor_in(atom->b, sym, out);
        }
}

static void factor_of(const Map *m, Dim sym, Factor *out) {
    for (int v = 0; v < m->body.val.n && !out->by; v++) {
        const Val *val = &m->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank && !out->by; k++)
            factor_in(val->read.at[k], sym, out);
    }
    for (int w = 0; w < m->write.n && !out->by; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            for (int d = 0; d < m->write.at[w].to[k].rank && !out->by; d++)
                factor_in(m->write.at[w].to[k].at[d], sym, out);
}

static void split(Editing *c, Map *m, int d, Dim by, Dim count) {
    Ctx *ctx = c->flow->ctx;
    Dim old = m->dim.at[d].sym;
    const char *name = dim_sym_name(old);
    bool seq = m->dim.at[d].seq;
    for (int i = m->dim.n; i > d + 1; i--) {
        if (i == m->dim.n) vec_push(c->arena, &m->dim, m->dim.at[i - 1]);
        m->dim.at[i] = m->dim.at[i - 1];
    }
    MapDim inner = {dim_sym(ctx, internf(ctx, "%s_i", name)), by, seq};
    if (d + 1 == m->dim.n)
        vec_push(c->arena, &m->dim, inner);
    else
        m->dim.at[d + 1] = inner;
    m->dim.at[d] = (MapDim){dim_sym(ctx, internf(ctx, "%s_o", name)), count, seq};
    DimSubst subst = {old, dim_add(ctx, dim_mul(ctx, m->dim.at[d].sym, by), inner.sym)};
    DimEnv env = map_env(c->arena, c->flow, m);
    map_rewrite(c, m, &subst, 1, simplify_read, &env);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            Dim *at = (Dim *)m->write.at[w].to[k].at;
            for (int i = 0; i < m->write.at[w].to[k].rank; i++)
                at[i] = dim_simplify(ctx, at[i], &env);
        }
}

typedef struct Units {
    const Flow *flow;
    DimEnv env;
} Units;

/* A BodyReadFn: where a constant index is outside of its container, a read is its other value. */
static int read_outside(void *user, Body *b, const Val *read) {
    Units *u = user;
    const Cont *c = &u->flow->cont.at[read->read.cont];
    for (int k = 0; read->has_else && k < read->read.rank; k++) {
        int64_t at, size;
        if (dim_is_const(read->read.at[k], &at) &&
            (at < 0 || (dim_is_const(c->shape[k], &size) && at >= size)))
            return read->arg[0];
    }
    return simplify_read(&u->env, b, read);
}

/* A dim of extent 1 is the constant 0. */
static bool drop_unit_dims(Editing *c, Map *m) {
    DimSubst subst[MAP_DIMS];
    int n = 0, left = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (dim_is(m->dim.at[d].extent, 1))
            subst[n++] = (DimSubst){m->dim.at[d].sym, dim_const(c->flow->ctx, 0)};
        else
            m->dim.at[left++] = m->dim.at[d];
    }
    if (!n) return false;
    m->dim.n = left;
    Units u = {c->flow, map_env(c->arena, c->flow, m)};
    map_rewrite(c, m, subst, n, read_outside, &u);
    return true;
}

bool split_chosen(Editing *c, Map *m, const bool *chosen) {
    bool changed = false, may[MAP_DIMS];
    memcpy(may, chosen, sizeof may);
    for (int d = 0; d < m->dim.n && m->dim.n < MAP_DIMS - 1; d++) {
        Factor f = {NULL, NULL};
        Dim count;
        if (may[d]) factor_of(m, m->dim.at[d].sym, &f);
        if (!f.by || m->dim.at[d].seq ||
            !dim_divides(c->flow->ctx, m->dim.at[d].extent, f.by, &count))
            continue;
        split(c, m, d, f.by, count);
        memmove(may + d + 1, may + d, (size_t)(MAP_DIMS - d - 1) * sizeof *may);
        changed = true;
        d--;
    }
    return changed;
}

bool split_dims(Editing *c, Map *m) {
    bool all[MAP_DIMS], changed = drop_unit_dims(c, m);
    for (int d = 0; d < MAP_DIMS; d++) all[d] = true;
    return split_chosen(c, m, all) || changed;
}

/* ---- two dims that are one ------------------------------------------------------------------- */

/* Is d, where `subst` stands for the inner dim, without the outer one? */
static bool loses(Ctx *ctx, Dim d, const DimSubst *subst, Dim outer) {
    return !dim_uses(dim_subst(ctx, d, subst, 1), outer);
}

static bool access_loses(Ctx *ctx, const Access *a, const DimSubst *subst, Dim outer) {
    for (int k = 0; k < a->rank; k++)
        if (!loses(ctx, a->at[k], subst, outer)) return false;
    return true;
}

static bool map_loses(Ctx *ctx, const Map *m, const DimSubst *subst, Dim outer) {
    for (int i = 0; i < m->cons.n; i++)
        if (!loses(ctx, m->cons.at[i], subst, outer)) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && !access_loses(ctx, &val->read, subst, outer)) return false;
        if (val->kind == VAL_INDEX && !loses(ctx, val->index, subst, outer)) return false;
    }
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            if (!access_loses(ctx, &m->write.at[w].to[k], subst, outer)) return false;
    return true;
}

/* The outer dim becomes both. */
static void join(Editing *c, Map *m, int outer, int inner, const DimSubst *subst, Dim joined) {
    Ctx *ctx = c->flow->ctx;
    Dim extent = dim_mul(ctx, m->dim.at[outer].extent, m->dim.at[inner].extent);
    m->dim.at[outer] = (MapDim){.sym = joined, .extent = extent};
    m->dim.n--;
    for (int d = inner; d < m->dim.n; d++) m->dim.at[d] = m->dim.at[d + 1];
    map_rewrite(c, m, subst, 1, NULL, NULL);
}

bool join_dims(Editing *c, Map *m) {
    Ctx *ctx = c->flow->ctx;
    for (int outer = 0; outer < m->dim.n; outer++)
        for (int inner = 0; inner < m->dim.n; inner++) {
            const MapDim *o = &m->dim.at[outer], *i = &m->dim.at[inner];
            if (outer == inner) continue;
            Dim joined = dim_sym(ctx, internf(ctx, "%s_j", dim_sym_name(o->sym)));
            DimSubst subst = {i->sym, dim_sub(ctx, joined, dim_mul(ctx, o->sym, i->extent))};
            if (!map_loses(ctx, m, &subst, o->sym)) continue;
            join(c, m, outer, inner, &subst, joined);
            return true;
        }
    return false;
}
