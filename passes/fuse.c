/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `fuse`: which maps share a kernel.
 *
 * First, element-wise maps move into what reads them (fuse_inline.c), and, on a machine of blocks
 * of threads, maps that make one number stand where that can be made: with the kernel that makes
 * what they read, or they would take one each. Then every map that is left starts as a kernel of
 * its own. Walking the maps in order, the kernels that produce what a map reads are joined to it
 * when that keeps an intermediate out of memory without computing anything twice:
 *
 * - an epilogue: the producer ends in a reduction (a contraction, a pool, a sum) whose result the
 * map reads element for element; the result then stays in registers;
 * - parts: the producer makes sums that one map weighs and adds up (parts.h);
 * - a strip: an element-wise map makes what windows of a reduction read, and that is too large to
 * stay near: it is made strip by strip inside;
 * - near: an element-wise map makes what a product reads on many pages at a time: it is made tile
 * by tile;
 * - a row: all maps of both kernels agree on some outer dims (no reduction runs over them, every
 * access between them uses them alike), what they hand on for one index of these fits the inner
 * caches, and enough indices remain to keep all cores busy. Normalisations and softmax become one
 * pass; contractions join when their operands stay in the inner caches too, which makes attention
 * one kernel.
 *
 * A kernel runs where its last map stands, so a producer may move down only if nobody in between
 * reads what it writes. Nothing here looks at operators: only at accesses, combines and sizes. */
#include "passes/fuse.h"
#include "passes/near.h"
#include "passes/parts.h"

static void add_reader(Fusing *f, int cont, int map) {
    if (cont >= 0) vec_push(f->arena, &f->readers[cont], map);
}

static void survey(Fusing *f, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = f->flow->map.at[it->map];
            f->position[it->map] = f->next++;
            f->home[it->map] = items;
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ)
                    add_reader(f, m->body.val.at[v].read.cont, it->map);
            continue;
        }
        if (it->kind == ITEM_CALL)
            for (int k = 0; k < it->call->nin; k++) add_reader(f, it->call->in[k], -1);
        else
            add_reader(f, it->cond, -1);
        for (int k = 0; k < it->carry.n; k++) {
            add_reader(f, it->carry.at[k].init, -1);
            add_reader(f, it->carry.at[k].next, -1);
        }
        survey(f, &it->body);
        survey(f, &it->other);
    }
}

/* ---- is joining legal ----------------------------------------------------------------------- */

/* A reader of what g writes that runs before `into`, or whose place is not known (-1, with the
 * container); -2: none. Then g may run where `into` does. */
int sinking_past(const Fusing *f, const Group *g, const Group *into, int *at) {
    for (int i = 0; i < g->map.n; i++) {
        const Map *m = f->flow->map.at[g->map.at[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++) {
                int cont = *at = m->write.at[w].to[k].cont;
                for (int r = 0; r < f->readers[cont].n; r++) {
                    int reader = f->readers[cont].at[r];
                    if (reader < 0 && f->flow->cont.at[cont].kind == CONT_TMP) return reader;
                    if (reader < 0) continue;
                    const Group *by = &f->group[f->group_of[reader]];
                    if (by != g && by != into && by->last < into->last) return reader;
                }
            }
    }
    return -2;
}

static bool may_sink(const Fusing *f, const Group *g, const Group *into) {
    int cont;
    return sinking_past(f, g, into, &cont) == -2;
}

/* Read by nobody outside g and into: needs no memory when they are joined. */
static bool private(const Fusing *f, int cont, const Group *g, const Group *into) {
    if (f->flow->cont.at[cont].kind != CONT_TMP || f->writer[cont] < 0) return false;
    for (int r = 0; r < f->readers[cont].n; r++) {
        int reader = f->readers[cont].at[r];
        if (reader < 0) return false;
        const Group *by = &f->group[f->group_of[reader]];
        if (by != g && by != into) return false;
    }
    return true;
}

static bool reads_covering(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (val->has_else || !access_covers(m, &val->read)) return false;
    }
    return true;
}

/* ---- is it worth it ------------------------------------------------------------------------- */

/* Is g's last map a reduction behind element-wise maps alone (strips)? */
static bool ends_in_reduction(const Fusing *f, const Group *g) {
    for (int i = 0; i < g->map.n; i++)
        if (map_is_reduction(f->flow->map.at[g->map.at[i]]) != (i == g->map.n - 1)) return false;
    return true;
}

/* Does every output dim of m index `cont`? Else tiles along that dim would compute it again. */
static bool outputs_index(const Map *m, const Access *read) {
    for (int d = 0; d < m->dim.n; d++) {
        bool one = map_reduces(m, d) || map_extent(m, d, fuse_unknown) == 1;
        if (!one && !access_uses(m, read, d)) return false;
    }
    return true;
}

/* Bytes of what g hands to into alone. */
static double between(const Fusing *f, const Group *g, const Group *into) {
    double bytes = 0;
    for (int i = 0; i < g->map.n; i++) {
        const Map *m = f->flow->map.at[g->map.at[i]];
        for (int w = 0; w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++) {
                const Cont *c = &f->flow->cont.at[m->write.at[w].to[k].cont];
                if (!private(f, m->write.at[w].to[k].cont, g, into)) continue;
                double size = (double)dtype_bits(c->type) / 8;
                for (int d = 0; d < c->rank; d++)
                    size *= (double)extent_or(c->shape[d], unknown_row);
                bytes += size;
            }
    }
    return bytes;
}

/* An element-wise map whose result windows read, too large for a core's caches: a strip of it is
 * made where it is read, some rows of the window twice. */
static bool strip(const Fusing *f, const Group *g, const Group *into, int cont) {
    const Map *p = f->flow->map.at[g->map.at[0]], *c = f->flow->map.at[into->map.at[0]];
    if (g->map.n != 1 || into->map.n != 1 || !map_plain_write(p) || map_is_reduction(p) ||
        !map_is_reduction(c))
        return false;
    if (!plain_writes(p)) return false; /* of rows made of several dims a strip would be all */
    if (f->flow->cont.at[cont].layout || !private(f, cont, g, into)) return false;
    if (f->env->machine->block_threads) return false;
    if (p->cons.n || c->cons.n || c->write.at[0].n != 1) return false;
    for (int v = 0; v < c->body.val.n; v++) {
        const Val *val = &c->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (!access_slides(c, &val->read) || !outputs_index(c, &val->read)) return false;
    }
    return between(f, g, into) > (double)f->env->machine->level[1].bytes;
}

/* An element-wise map that makes what a product reads a few columns of at a time, a term on each
 * page: made where they are read, these lie together. */
static bool near(const Fusing *f, const Group *g, const Group *into, int cont) {
    const Map *p = f->flow->map.at[g->map.at[0]], *c = f->flow->map.at[into->map.at[0]];
    if (g->map.n != 1 || into->map.n != 1 || !map_plain_write(p) || map_is_reduction(p) ||
        p->cons.n || !private(f, cont, g, into))
        return false;
    int v = near_read(f->env->machine, f->flow, f->readers, f->writer, c);
    return v >= 0 && c->body.val.at[v].read.cont == cont;
}

/* A product, and what adds its parts up: they stay near, tile by tile. */
static bool in_parts(const Fusing *f, const Group *g, int adder) {
    bool part[MAP_DIMS];
    return !f->env->machine->block_threads &&
           parts_adder(f->flow, f->readers, g->map.at[0], part) == adder;
}

/* Do the product's rows share an operand, and does the reader take several of its results for each
 * of its own (the gates of a cell)? A block of threads would make these for one row alone, and
 * fetch the operand for each of many rows again. */
static bool takes_rows_apart(const Fusing *f, const Map *product, const Map *reader, int cont) {
    enum { FEW_ROWS = 8 };
    Contraction r = map_contraction(f->flow, product);
    return f->env->machine->block_threads && reads_of(reader, cont) > 1 && r.is &&
           contraction_usual(f->flow, product, &r, ROLE_M) > FEW_ROWS;
}

/* An element-wise map behind a product; one whose indices run in order would keep tiles waiting. */
static bool epilogue(const Fusing *f, const Group *g, const Group *into, int cont) {
    const Map *p = f->flow->map.at[g->map.at[g->map.n - 1]];
    const Map *c = f->flow->map.at[into->map.at[0]];
    if (into->map.n != 1 || map_is_reduction(c) || c->cons.n || p->cons.n) return false;
    if (has_seq(c)) return false;
    bool added = g->map.n == 2 && in_parts(f, g, g->map.at[1]);
    if (!added && (!ends_in_reduction(f, g) || !wants_tiles(f->flow, p))) return false;
    const Write *w = &p->write.at[0];
    if (w->n != 1 || w->combine->nstate != 1 || takes_rows_apart(f, p, c, cont)) return false;
    return private(f, cont, g, into) && reads_covering(c, cont) && plain_writes(p);
}

bool continues_rows(const Map *maker, const Map *m, const Access *read) {
    if (map_is_reduction(maker)) return false;
    for (int k = 0; k < read->rank; k++)
        if (access_dim(m, read, k) < 0 && !dim_is(read->at[k], 0)) return false;
    return true;
}

/* Reads between the kernels must have a box within the producer's: none outside (a fused producer
 * has no halo) but behind the ends of rows, none that depends on data. */
static bool unboxed_between(const Fusing *f, const Group *g, const Group *into) {
    for (int i = 0; i < into->map.n; i++) {
        const Map *m = f->flow->map.at[into->map.at[i]];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || (!val->has_else && !access_by_value(m, &val->read)))
                continue;
            int w = f->writer[val->read.cont];
            if (w < 0 || continues_rows(f->flow->map.at[w], m, &val->read)) continue;
            if (&f->group[f->group_of[w]] == g) return true;
        }
    }
    return false;
}

static bool joins(const Fusing *f, const Group *g, const Group *into, int cont) {
    if (g == into || g->gone || g->complete || g->home != into->home || !may_sink(f, g, into))
        return false;
    const Map *first = f->flow->map.at[g->map.at[0]], *last = f->flow->map.at[into->map.at[0]];
    if (unboxed_between(f, g, into) || turned_behind(first, last, cont)) return false;
    if (!map_is_reduction(first) && turned_copy(last, cont) && !private(f, cont, g, into))
        return false; /* what is stored anyway is turned in registers by a kernel of its own */
    RowsJoin rows = {&g->map, &into->map, between(f, g, into)};
    if (g->map.n == 1 && into->map.n == 1 && in_parts(f, g, into->map.at[0])) return true;
    return epilogue(f, g, into, cont) || strip(f, g, into, cont) || near(f, g, into, cont) ||
           rows_join(f->arena, f->flow, f->env->machine, &rows);
}

void groups_join(Fusing *f, Group *g, Group *into) {
    IntVec all = {0};
    for (int i = 0; i < g->map.n; i++) vec_push(f->arena, &all, g->map.at[i]);
    for (int i = 0; i < into->map.n; i++) vec_push(f->arena, &all, into->map.at[i]);
    for (int i = 1; i < all.n; i++)
        for (int k = i; k > 0 && f->position[all.at[k]] < f->position[all.at[k - 1]]; k--) {
            int t = all.at[k];
            all.at[k] = all.at[k - 1];
            all.at[k - 1] = t;
        }
    into->map = all;
    for (int i = 0; i < all.n; i++) f->group_of[all.at[i]] = (int)(into - f->group);
    g->gone = true;
}

/* Joins the producers of what map reads; a join may bring new ones, so until none joins. */
static void fuse_into(Fusing *f, int map) {
    Group *into = &f->group[f->group_of[map]];
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < into->map.n && !again; i++) {
            const Map *m = f->flow->map.at[into->map.at[i]];
            for (int v = 0; v < m->body.val.n && !again; v++) {
                const Val *val = &m->body.val.at[v];
                if (val->kind != VAL_READ || f->writer[val->read.cont] < 0) continue;
                Group *g = &f->group[f->group_of[f->writer[val->read.cont]]];
                if (!joins(f, g, into, val->read.cont)) continue;
                groups_join(f, g, into);
                again = true;
            }
        }
    }
}

/* The maps of a kernel in strips stand alone: they read and write with it what others do not. */
static void join_strips(Fusing *f, int root) {
    StripMaps m;
    Group *into = &f->group[root];
    if (!strip_maps(f->flow, f->writer, f->readers, root, &m)) return;
    int first = m.apart && !strip_makes_rows(f->flow, f->env->machine, &m);
    for (int i = first; i < m.n; i++)
        if (f->home[m.map[i]] != into->home || f->group[m.map[i]].gone ||
            f->group[m.map[i]].complete)
            return;
    for (int i = first; i < m.n - 1; i++) groups_join(f, &f->group[m.map[i]], into);
    into->complete = true;
}

/* Must m stand behind that item? */
static bool stands_behind(const Flow *flow, const Map *m, const Item *item) {
    if (item->kind != ITEM_MAP) return true;
    const Map *before = flow->map.at[item->map];
    int to = m->write.at[0].to[0].cont;
    if (map_reads(before, to)) return true;
    for (int w = 0; w < before->write.n; w++)
        for (int k = 0; k < before->write.at[w].n; k++) {
            int cont = before->write.at[w].to[k].cont;
            if (cont == to || map_reads(m, cont)) return true;
        }
    return false;
}

static void bring_numbers(const Flow *flow, Items *items) {
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        bring_numbers(flow, &items->at[i].body);
        bring_numbers(flow, &items->at[i].other);
        const Map *m = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
        if (!m || m->dim.n || m->write.n != 1 || m->write.at[0].n != 1) continue;
        int at = i;
        for (; at > 0 && !stands_behind(flow, m, &items->at[at - 1]); at--)
            items->at[at] = items->at[at - 1];
        items->at[at] = it;
    }
}

static void order_maps(const Items *items, IntVec *out, Arena *arena) {
    for (int i = 0; i < items->n; i++) {
        if (items->at[i].kind == ITEM_MAP) vec_push(arena, out, items->at[i].map);
        order_maps(&items->at[i].body, out, arena);
        order_maps(&items->at[i].other, out, arena);
    }
}

Flow *pass_fuse(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_fuse(Arena *arena, const Flow *flow, const PassEnv *env) {
    Fusing f = {.arena = arena, .flow = flow_clone(arena, flow), .env = env};
    fuse_inline(arena, f.flow, env);
    if (env->machine->block_threads) bring_numbers(f.flow, &f.flow->body);
    copy_prologues(arena, f.flow, env->machine);
    int nmap = f.flow->map.n, ncont = f.flow->cont.n;
    f.group = NEW_ARRAY(arena, Group, nmap + 1);
    f.group_of = NEW_ARRAY(arena, int, nmap + 1);
    f.position = NEW_ARRAY(arena, int, nmap + 1);
    f.home = NEW_ARRAY(arena, const Items *, nmap + 1);
    f.readers = arena_array(arena, (size_t)ncont + 1, sizeof *f.readers);
    survey(&f, &f.flow->body);
    f.writer = flow_writers(arena, f.flow);
    for (int c = 0; c < ncont; c++)
        if (f.flow->cont.at[c].kind == CONT_OUT) add_reader(&f, c, -1);
    IntVec order = {0};
    order_maps(&f.flow->body, &order, arena);
    for (int i = 0; i < order.n; i++) {
        int m = order.at[i];
        f.group[m] = (Group){.home = f.home[m], .last = f.position[m]};
        vec_push(arena, &f.group[m].map, m);
        f.group_of[m] = m;
    }
    groups_by_recipe(&f);
    for (int i = 0; i < order.n; i++) join_strips(&f, order.at[i]);
    for (int i = 0; i < order.n; i++) join_weighing(&f, order.at[i]);
    for (int i = 0; i < order.n; i++)
        if (!f.group[f.group_of[order.at[i]]].complete) fuse_into(&f, order.at[i]);
    for (int i = 0; i < order.n; i++) join_prologue(&f, order.at[i]);
    for (int i = 0; i < order.n; i++) {
        Group *g = &f.group[order.at[i]];
        if (!g->gone) kernel_new(f.flow, env->machine, g->map.at, g->map.n);
    }
    return f.flow;
}
