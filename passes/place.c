/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `place`: every temporary that is not kept inside a kernel gets an address in one arena.
 *
 * A container lives from the first to the last top-level item that touches it (what a region
 * touches lives through the whole region). Containers of constant size are packed greedily, largest
 * first, each at the lowest offset that no container alive at the same time covers. Those of
 * symbolic size share slots, those first that are largest where all symbols are alike: a slot is
 * taken when it is free meanwhile and provably large enough. Offsets are aligned to 64 bytes. */
#include <stdlib.h>

#include "passes/place.h"

enum { ALIGN = 64 };

typedef struct Life {
    int cont, first, last; /* top-level steps */
    int64_t bytes, offset; /* constant size; bytes = -1: symbolic (then a typical size) */
    Dim size;
} Life;

typedef struct Placing {
    Flow *flow;
    Life *life;       /* by container; first = -1: not in the arena */
    int *step_of_map; /* where a map really runs: the step of its kernel's root */
} Placing;

static void touch(Placing *p, int cont, int step) {
    if (cont < 0) return;
    Life *l = &p->life[cont];
    ContKind kind = p->flow->cont.at[cont].kind;
    if (kind != CONT_TMP && kind != CONT_STATE) return;
    if (l->first < 0 || step < l->first) l->first = step;
    if (step > l->last) l->last = step;
}

static void touch_map(Placing *p, int map, int step) {
    const Map *m = p->flow->map.at[map];
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) touch(p, m->body.val.at[v].read.cont, step);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) touch(p, m->write.at[w].to[k].cont, step);
}

static void number_items(Placing *p, const Items *items, int step, bool top) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (top) step = i;
        if (it->kind == ITEM_MAP) p->step_of_map[it->map] = step;
        number_items(p, &it->body, step, false);
        number_items(p, &it->other, step, false);
    }
}

static void touch_items(Placing *p, const Items *items, int step, bool top) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (top) step = i;
        if (it->kind == ITEM_MAP) touch_map(p, it->map, p->step_of_map[it->map]);
        if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nin; k++) touch(p, it->call->in[k], step);
            for (int k = 0; k < it->call->nout; k++) touch(p, it->call->out[k], step);
        }
        if (it->kind == ITEM_LOOP || it->kind == ITEM_IF) touch(p, it->cond, step);
        for (int k = 0; k < it->carry.n; k++) {
            touch(p, it->carry.at[k].cur, step);
            touch(p, it->carry.at[k].init, step);
            touch(p, it->carry.at[k].next, step);
        }
        touch_items(p, &it->body, step, false);
        touch_items(p, &it->other, step, false);
    }
}

/* Containers that a kernel keeps inside need no memory. */
static void drop_kept(Placing *p) {
    for (int k = 0; k < p->flow->kernel.n; k++) {
        const Kernel *kernel = p->flow->kernel.at[k];
        for (int i = 0; i < kernel->line.n; i++) {
            const Line *line = &kernel->line.at[i];
            if (line->kind != LINE_KEEP || line->storage == KEEP_ARENA) continue;
            p->life[line->cont].first = -1;
            p->flow->cont.at[line->cont].place = PLACE_KERNEL;
        }
    }
}

/* Sizes that are known only while running count with their upper bounds. */
static Dim storage_bytes(Placing *p, const Cont *c) {
    Ctx *ctx = p->flow->ctx;
    Dim box[RANK_MAX];
    int rank = cont_storage(ctx, c, box);
    Dim bits = dim_mulc(ctx, dim_product(ctx, box, rank), dtype_bits(c->type));
    for (int i = p->flow->symbol.n - 1; i >= 0; i--) {
        DimSubst bound = {p->flow->symbol.at[i].sym, p->flow->symbol.at[i].upper};
        if (bound.to && symbol_bounded(&p->flow->symbol.at[i]))
            bits = dim_subst(ctx, bits, &bound, 1);
    }
    Dim bytes = dim_ceildiv(ctx, bits, dim_const(ctx, 8));
    return dim_mulc(ctx, dim_ceildiv(ctx, bytes, dim_const(ctx, ALIGN)), ALIGN);
}

static bool overlap(const Life *a, const Life *b) {
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *a, const void *b) {
    const Life *x = *(Life *const *)a, *y = *(Life *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->cont - y->cont;
}

/* Lowest offset for `l` among the already placed; `placed` is sorted by offset. */
static int64_t lowest_gap(Life *const *placed, int n, const Life *l) {
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (!overlap(placed[i], l)) continue;
        if (placed[i]->offset >= at + l->bytes) break;
        int64_t end = placed[i]->offset + placed[i]->bytes;
        if (end > at) at = end;
    }
    return at;
}

static int64_t place_constant(Placing *p, Arena *arena) {
    int n = 0, ncont = p->flow->cont.n;
    Life **order = NEW_ARRAY(arena, Life *, ncont + 1),
         **placed = NEW_ARRAY(arena, Life *, ncont + 1);
    for (int i = 0; i < ncont; i++)
        if (p->life[i].first >= 0 && p->life[i].bytes >= 0) order[n++] = &p->life[i];
    qsort(order, (size_t)n, sizeof *order, by_size);
    int64_t top = 0;
    for (int i = 0; i < n; i++) {
        order[i]->offset = lowest_gap(placed, i, order[i]);
        if (order[i]->offset + order[i]->bytes > top) top = order[i]->offset + order[i]->bytes;
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > order[i]->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = order[i];
        p->flow->cont.at[order[i]->cont].offset = dim_const(p->flow->ctx, order[i]->offset);
    }
    return top;
}

typedef struct Slot {
    Dim size, offset;
    VEC(const Life *) life; /* of what lies there */
} Slot;

static bool slot_is_free(const Slot *slot, const Life *l) {
    for (int i = 0; i < slot->life.n; i++)
        if (overlap(slot->life.at[i], l)) return false;
    return true;
}

/* A slot that is free: one of this size, else the last that is provably larger, which is the
 * smallest of those; -1: none. */
static int find_slot(Ctx *ctx, const DimEnv *env, const Slot *slot, int n, const Life *l) {
    int found = -1;
    for (int s = 0; s < n; s++) {
        if (!slot_is_free(&slot[s], l)) continue;
        if (slot[s].size == l->size) return s;
        if (dim_le(ctx, l->size, slot[s].size, env)) found = s;
    }
    return found;
}

/* What symbols count as where sizes are put into an order. */
static bool typical(void *user, Dim sym, int64_t *out) {
    (void)user, (void)sym;
    *out = 64;
    return true;
}

static Dim place_symbolic(Placing *p, Arena *arena, int64_t base) {
    Ctx *ctx = p->flow->ctx;
    int n = 0, nslot = 0, ncont = p->flow->cont.n;
    Life **order = NEW_ARRAY(arena, Life *, ncont + 1);
    Slot *slot = NEW_ARRAY(arena, Slot, ncont + 1);
    for (int i = 0; i < ncont; i++) {
        Life *l = &p->life[i];
        if (l->first < 0 || l->bytes >= 0) continue;
        if (!dim_eval(l->size, typical, NULL, &l->bytes)) l->bytes = 0;
        order[n++] = l;
    }
    qsort(order, (size_t)n, sizeof *order, by_size);
    DimEnv env = flow_env(arena, p->flow);
    Dim top = dim_const(ctx, base);
    for (int i = 0; i < n; i++) {
        int use = find_slot(ctx, &env, slot, nslot, order[i]);
        if (use < 0) {
            use = nslot++;
            slot[use] = (Slot){.size = order[i]->size, .offset = top};
            top = dim_add(ctx, top, order[i]->size);
        }
        vec_push(arena, &slot[use].life, order[i]);
        p->flow->cont.at[order[i]->cont].offset = slot[use].offset;
    }
    return top;
}

Flow *pass_place(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_place(Arena *arena, const Flow *flow, const PassEnv *env) {
    (void)env;
    Flow *f = flow_clone(arena, flow);
    Placing p = {f, NEW_ARRAY(arena, Life, f->cont.n + 1), NEW_ARRAY(arena, int, f->map.n + 1)};
    for (int i = 0; i < f->cont.n; i++) p.life[i] = (Life){.cont = i, .first = -1, .last = -1};
    number_items(&p, &f->body, 0, true);
    for (int k = 0; k < f->kernel.n; k++) {
        const Kernel *kernel = f->kernel.at[k];
        int step = p.step_of_map[kernel->map.at[kernel->map.n - 1]];
        for (int i = 0; i < kernel->map.n; i++) p.step_of_map[kernel->map.at[i]] = step;
    }
    touch_items(&p, &f->body, 0, true);
    drop_kept(&p);
    for (int i = 0; i < f->cont.n; i++) {
        Life *l = &p.life[i];
        if (l->first < 0) continue;
        f->cont.at[i].place = PLACE_ARENA;
        l->size = storage_bytes(&p, &f->cont.at[i]);
        if (!dim_is_const(l->size, &l->bytes)) l->bytes = -1;
    }
    int64_t constant = place_constant(&p, arena);
    f->arena_bytes = place_symbolic(&p, arena, constant);
    place_appended(f);
    return f;
}
