/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `place`: every temporary that is not kept inside a kernel gets an address in one arena.
 *
 * A container lives from the first to the last item that touches it. What a region touches lives
 * through the whole region, but for what each iteration of a loop makes anew. Containers of
 * constant size are packed greedily, largest first, each at the lowest offset that no container
 * alive at the same time covers. Those of symbolic size share slots, those first that are largest
 * where all symbols are alike: a slot is taken when it is free meanwhile and provably large enough.
 * Offsets are aligned to 64 bytes. On a machine of blocks of threads containers of no more have
 * memory of their own: where a kernel's numbers lie in what the next one writes, the two could not
 * run side by side. */
#include <limits.h>
#include <stdlib.h>

#include "passes/place.h"

enum { ALIGN = 64 };

typedef struct Life {
    int cont, first, last; /* steps: items, those in a region behind it */
    int writes;            /* of what touched it: maps, calls, loops that carry it */
    bool by_loop;          /* an index is the variable of a loop around it */
    int64_t bytes, offset; /* constant size; bytes = -1: symbolic (then a typical size) */
    Dim size;
} Life;

typedef struct Placing {
    Arena *arena;
    Flow *flow;
    Life *life;         /* by container; first = -1: not in the arena */
    int *writes;        /* by container: all */
    int *step_of_map;   /* where a map really runs: the step of its kernel's root */
    const Item *region; /* the innermost, in that of `around`; NULL: there is none */
    const struct Placing *around;
} Placing;

static void touch(Placing *p, int cont, int step) {
    if (cont < 0) return;
    Life *l = &p->life[cont];
    ContKind kind = p->flow->cont.at[cont].kind;
    if (kind != CONT_TMP && kind != CONT_STATE) return;
    if (l->first < 0 || step < l->first) l->first = step;
    if (step > l->last) l->last = step;
}

static void touch_access(Placing *p, const Access *a, int step, bool write) {
    Life *l = &p->life[a->cont];
    touch(p, a->cont, step);
    l->writes += write;
    for (const Placing *in = p; in->region; in = in->around)
        for (int k = 0; k < a->rank && in->region->var; k++)
            l->by_loop |= dim_uses(a->at[k], in->region->var);
}

static void touch_map(Placing *p, int map, int step) {
    const Map *m = p->flow->map.at[map];
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ)
            touch_access(p, &m->body.val.at[v].read, step, false);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            touch_access(p, &m->write.at[w].to[k], step, true);
}

static void touch_call(Placing *p, const Call *call, int step) {
    for (int k = 0; k < call->nin; k++) touch(p, call->in[k], step);
    for (int k = 0; k < call->nout; k++) {
        touch(p, call->out[k], step);
        if (call->out[k] >= 0) p->life[call->out[k]].writes++;
    }
}

static int number_items(Placing *p, const Items *items, int step) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) p->step_of_map[it->map] = step;
        step = number_items(p, &it->body, step + 1);
        step = number_items(p, &it->other, step);
    }
    return step;
}

static int touch_items(Placing *p, const Items *items, int step);

/* Does each iteration write what it reads of the container? Nobody else writes it, and none of its
 * elements is that of an iteration: the verifier then knows of each read that it stands behind
 * writes of the same iteration. */
static bool made_anew(const Placing *p, const Item *it, const Life *l) {
    if (it->kind != ITEM_LOOP || p->flow->cont.at[l->cont].kind != CONT_TMP) return false;
    return !l->by_loop && l->writes == p->writes[l->cont];
}

/* A loop or branch from step `first` on; returns the step behind it. */
static int touch_region(Placing *p, const Item *it, int first) {
    Placing in = *p;
    int n = p->flow->cont.n;
    in.life = NEW_ARRAY(p->arena, Life, n + 1);
    in.region = it, in.around = p;
    for (int c = 0; c < n; c++) in.life[c] = (Life){.cont = c, .first = -1, .last = -1};
    int end = touch_items(&in, &it->other, touch_items(&in, &it->body, first + 1));
    const int ends[] = {first, end - 1};
    for (int c = 0; c < n; c++) {
        const Life *l = &in.life[c];
        bool anew = made_anew(p, it, l);
        p->life[c].writes += l->writes;
        p->life[c].by_loop |= l->by_loop;
        for (int i = 0; i < 2 && l->first >= 0; i++)
            touch(p, c, !anew ? ends[i] : i ? l->last : l->first);
    }
    for (int i = 0; i < 2; i++) {
        touch(p, it->cond, ends[i]);
        for (int k = 0; k < it->carry.n; k++) {
            p->life[it->carry.at[k].cur].writes += i;
            touch(p, it->carry.at[k].cur, ends[i]);
            touch(p, it->carry.at[k].init, ends[i]);
            touch(p, it->carry.at[k].next, ends[i]);
        }
    }
    return end;
}

static int touch_items(Placing *p, const Items *items, int step) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) touch_map(p, it->map, p->step_of_map[it->map]);
        if (it->kind == ITEM_CALL) touch_call(p, it->call, step);
        bool region = it->kind == ITEM_LOOP || it->kind == ITEM_IF;
        step = region ? touch_region(p, it, step) : step + 1;
    }
    return step;
}

static void count_writes(Placing *p, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        const Map *m = it->kind == ITEM_MAP ? p->flow->map.at[it->map] : NULL;
        for (int w = 0; m && w < m->write.n; w++)
            for (int k = 0; k < m->write.at[w].n; k++) p->writes[m->write.at[w].to[k].cont]++;
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nout; k++)
            if (it->call->out[k] >= 0) p->writes[it->call->out[k]]++;
        for (int k = 0; k < it->carry.n; k++) p->writes[it->carry.at[k].cur]++;
        count_writes(p, &it->body);
        count_writes(p, &it->other);
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
    Flow *f = flow_clone(arena, flow);
    Placing p = {.arena = arena, .flow = f};
    p.life = NEW_ARRAY(arena, Life, f->cont.n + 1);
    p.writes = NEW_ARRAY(arena, int, f->cont.n + 1);
    p.step_of_map = NEW_ARRAY(arena, int, f->map.n + 1);
    for (int i = 0; i < f->cont.n; i++) p.life[i] = (Life){.cont = i, .first = -1, .last = -1};
    count_writes(&p, &f->body);
    number_items(&p, &f->body, 0);
    for (int k = 0; k < f->kernel.n; k++) {
        const Kernel *kernel = f->kernel.at[k];
        int step = p.step_of_map[kernel->map.at[kernel->map.n - 1]];
        for (int i = 0; i < kernel->map.n; i++) p.step_of_map[kernel->map.at[i]] = step;
    }
    touch_items(&p, &f->body, 0);
    drop_kept(&p);
    for (int i = 0; i < f->cont.n; i++) {
        Life *l = &p.life[i];
        if (l->first < 0) continue;
        f->cont.at[i].place = PLACE_ARENA;
        l->size = storage_bytes(&p, &f->cont.at[i]);
        if (!dim_is_const(l->size, &l->bytes)) l->bytes = -1;
        if (env->machine->block_threads && l->bytes == ALIGN) l->first = 0, l->last = INT_MAX;
    }
    int64_t constant = place_constant(&p, arena);
    f->arena_bytes = place_symbolic(&p, arena, constant);
    place_appended(f);
    return f;
}
