/* SPDX-License-Identifier: Apache-2.0 */
/* Views: composed into their readers, or into the producers of what they copy. */
#include "passes/clean.h"

int copied(const Editing *c, const Map *m) {
    const Access *to = map_plain_write(m);
    if (!to || m->cons.n) return -1;
    int v = m->write.at[0].val[0];
    const Val *val = &m->body.val.at[v];
    bool copy =
        val->kind == VAL_READ && !val->has_else && val->type == c->flow->cont.at[to->cont].type;
    return copy && m->body.val.n == 1 ? v : -1;
}

static bool reads_with_else(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == cont && val->has_else) return true;
    }
    return false;
}

/* Where the copy's own index is a number (an extent of 1), does the reader's say the same? Else
 * being outside there would be forgotten with the index. */
static bool inside_units(const Map *m, const Access *to, const Map *reader) {
    for (int v = 0; v < reader->body.val.n; v++) {
        const Val *val = &reader->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != to->cont || !val->has_else) continue;
        for (int k = 0; k < to->rank; k++)
            if (access_dim(m, to, k) < 0 && val->read.at[k] != to->at[k]) return false;
    }
    return true;
}

/* Is being outside the copy the same as being outside its source? Yes for permutations. */
static bool same_outside(const Editing *c, const Map *m, const Access *to, const Access *from) {
    const Cont *source = &c->flow->cont.at[from->cont];
    int used = 0;
    for (int k = 0; k < from->rank; k++) {
        int d = access_dim(m, from, k);
        if (d < 0 && !(dim_is(from->at[k], 0) && dim_is(source->shape[k], 1))) return false;
        if (d < 0) continue;
        if (m->dim.at[d].extent != source->shape[k]) return false;
        used++;
    }
    int written = 0;
    for (int k = 0; k < to->rank; k++) written += access_dim(m, to, k) >= 0;
    return used == written;
}

static bool distinct(const IntVec *readers, int i) {
    for (int k = 0; k < i; k++)
        if (readers->at[k] == readers->at[i]) return false;
    return true;
}

/* Has a body of constants alone? */
static bool is_constant(const Map *m) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind != VAL_CONST) return false;
    return true;
}

/* Does the map reduce what it reads of another container, too, as products do? */
static bool reduces_another(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont == cont) continue;
        for (int d = 0; d < m->dim.n; d++)
            if (map_reduces(m, d) && access_uses(m, &val->read, d)) return true;
    }
    return false;
}

/* Does the map reduce the container along an index that the copy joins of several dims? */
static bool reduces_joined(const Map *m, const Map *copy, const Access *to) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != to->cont) continue;
        for (int k = 0; k < to->rank; k++)
            for (int d = 0; d < m->dim.n && access_dim(copy, to, k) < 0; d++)
                if (map_reduces(m, d) && dim_uses(val->read.at[k], m->dim.at[d].sym)) return true;
    }
    return false;
}

/* Does a norm read what the copy writes: do maps reduce it alone, and others only compute from it?
 * A processor wants sums over one dim. */
static bool is_normalized(const Editing *c, const Map *copy, const Access *to) {
    const IntVec *readers = &c->uses.readers[to->cont];
    bool reduced = false;
    for (int i = 0; i < readers->n; i++) {
        const Map *m = c->flow->map.at[readers->at[i]];
        if (reduces_another(m, to->cont) || copied(c, m) >= 0) return false;
        if (!c->blocks && reduces_joined(m, copy, to)) return false;
        reduced |= map_is_reduction(m);
    }
    return reduced && !c->uses.asked[to->cont];
}

/* May readers read what the copy (-1: constant) reads? Where it joins dims to one, they divide
 * their index and their dims split by that: only a copy that repeats its source, so that they read
 * less without it, is worth that, or one that norms read (groups of channels), but never products,
 * which would no longer find their terms side by side. */
static bool may_view(const Editing *c, const Map *m, const Access *to, int copy) {
    bool repeats = false;
    for (int d = 0; copy >= 0 && d < m->dim.n; d++)
        repeats |= !access_uses(m, &m->body.val.at[copy].read, d);
    bool splits = repeats || (copy >= 0 && is_normalized(c, m, to));
    return splits ? writes_joined(c->flow, m, to) : writes_whole(c->flow, m, to);
}

bool inline_view(Editing *c, int map) {
    const Map *m = c->flow->map.at[map];
    const Access *to = map_plain_write(m);
    if (!to || m->cons.n || c->flow->cont.at[to->cont].kind != CONT_TMP ||
        c->uses.writer[to->cont] != map)
        return false;
    int copy = copied(c, m), cont = to->cont;
    if ((copy < 0 && !is_constant(m)) || !may_view(c, m, to, copy)) return false;
    const IntVec *readers = &c->uses.readers[cont];
    bool changed = false;
    for (int i = 0; i < readers->n; i++) {
        Map *reader = c->flow->map.at[readers->at[i]];
        if (!distinct(readers, i) || !reads_of(reader, cont)) continue;
        bool other = reads_with_else(reader, cont);
        if (other && (copy < 0 || !same_outside(c, m, to, &m->body.val.at[copy].read) ||
                      !inside_units(m, to, reader)))
            continue;
        compose_map(c, m, to, reader);
        changed = true;
    }
    return changed;
}

/* ---- copies written in place ---------------------------------------------------------------- */

/* Index of the copy's target for index `at` of its source. */
static const Dim *target_index(Editing *c, const Map *copy, const Access *from, const Access *to,
                               const Dim *at) {
    DimSubst subst[MAP_DIMS];
    int n = 0;
    for (int d = 0; d < copy->dim.n; d++) {
        subst[n] = (DimSubst){copy->dim.at[d].sym, dim_const(c->flow->ctx, 0)};
        for (int k = 0; k < from->rank; k++)
            if (from->at[k] == copy->dim.at[d].sym) subst[n].to = at[k];
        n++;
    }
    Dim *out = NEW_ARRAY(c->arena, Dim, to->rank + 1);
    for (int k = 0; k < to->rank; k++) out[k] = dim_subst(c->flow->ctx, to->at[k], subst, n);
    return out;
}

typedef struct Redirect {
    Editing *c;
    const Map *copy;
    const Access *from, *to;
} Redirect;

static int redirected(void *user, Body *b, const Val *read) {
    Redirect *r = user;
    if (read->read.cont != r->from->cont) return -1;
    const Dim *at = target_index(r->c, r->copy, r->from, r->to, read->read.at);
    return body_read(b, (Access){r->to->cont, r->to->rank, at}, read->type);
}

/* The copy covers all of its source, element for element. */
static bool covers_source(const Editing *c, const Map *m, const Access *from) {
    const Cont *source = &c->flow->cont.at[from->cont];
    for (int k = 0; k < from->rank; k++) {
        int d = access_dim(m, from, k);
        if (d < 0 ? !dim_is(source->shape[k], 1) : m->dim.at[d].extent != source->shape[k])
            return false;
    }
    return access_covers(m, from);
}

/* Does an item define a size of the container? */
static bool defines_size(const Item *it, const Cont *cont) {
    bool any = it->done && cont_uses(cont, it->done);
    for (int k = 0; it->kind == ITEM_CALL && k < it->call->ndefine; k++)
        any |= cont_uses(cont, it->call->define[k]);
    for (int i = 0; i < it->body.n; i++) any |= defines_size(&it->body.at[i], cont);
    for (int i = 0; i < it->other.n; i++) any |= defines_size(&it->other.at[i], cont);
    return any;
}

/* Are the sizes of what the copy writes known where its source is written, by the first of
 * `writers`? All stand in one list. */
static bool sized_before(const Editing *c, int map, const IntVec *writers, const Cont *cont) {
    const Items *home = c->uses.home[map];
    bool behind = false;
    for (int i = 0; i < home->n; i++) {
        const Item *it = &home->at[i];
        if (it->kind == ITEM_MAP && it->map == map) break;
        for (int k = 0; it->kind == ITEM_MAP && k < writers->n; k++)
            behind |= writers->at[k] == it->map;
        if (behind && defines_size(it, cont)) return false;
    }
    return true;
}

bool forward_copy(Editing *c, int map) {
    const Map *m = c->flow->map.at[map];
    int v = copied(c, m);
    if (v < 0) return false;
    const Access *to = &m->write.at[0].to[0];
    const Access from = m->body.val.at[v].read;
    if (c->flow->cont.at[from.cont].kind != CONT_TMP || c->uses.held[from.cont]) return false;
    if (c->uses.held[to->cont] || !covers_source(c, m, &from)) return false;
    const IntVec *writers = &c->uses.writers[from.cont], *readers = &c->uses.readers[from.cont];
    if (!writers->n) return false;
    for (int i = 0; i < writers->n; i++)
        if (c->uses.home[writers->at[i]] != c->uses.home[map]) return false;
    if (!sized_before(c, map, writers, &c->flow->cont.at[to->cont])) return false;
    for (int i = 0; i < readers->n; i++) {
        const Map *reader = c->flow->map.at[readers->at[i]];
        if (reads_with_else(reader, from.cont) || reader->body.val.n > BODY_MAX) return false;
    }
    for (int i = 0; i < writers->n; i++) {
        Map *w = c->flow->map.at[writers->at[i]];
        for (int k = 0; k < w->write.n; k++) {
            Access *acc =
                arena_copy(c->arena, w->write.at[k].to, (size_t)w->write.at[k].n * sizeof *acc);
            for (int j = 0; j < w->write.at[k].n; j++)
                if (acc[j].cont == from.cont)
                    acc[j] = (Access){to->cont, to->rank, target_index(c, m, &from, to, acc[j].at)};
            w->write.at[k].to = acc;
        }
    }
    Redirect r = {c, m, &from, to};
    for (int i = 0; i < readers->n; i++)
        if (readers->at[i] != map && distinct(readers, i))
            map_rewrite(c, c->flow->map.at[readers->at[i]], NULL, 0, redirected, &r);
    Map *dead = c->flow->map.at[map];
    dead->write.n = 0;
    return true;
}
