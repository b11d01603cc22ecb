/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `batch`: kernels that handle a batch of images run for a few images at a time, one kernel
 * after the other, where what they hand on then stays in a cache.
 *
 * A run of kernels whose maps all have a dim of the same extent, the first index of all that they
 * write, goes into a loop over blocks of it. Containers that only they use hold one block and are
 * written anew in each iteration. What that saves and costs is counted in seconds: bytes between
 * two uses of a container tell which level of memory it comes from, for the whole batch and for a
 * block; weights are read again in each iteration, and threads wait for each other after each
 * kernel. Runs and the size of blocks are those that save most in all. Each result is computed of
 * the same terms; how `schedule` orders a sum may hang on how many images a block has. */
#include "passes/compose.h"
#include "passes/recipe.h"

/* A batch known only at run time counts as so many images; a block has so many at most. */
enum { USUAL_IMAGES = 8, BLOCK_MOST = 1024 };
/* Seconds until all threads have seen that a kernel is done. */
static const double WAIT = 2e-6;
/* A run has to save so much of the time it takes: threads that share an image each read what the
 * others make of it. Measured on Zen 3, on two threads: where 0.09 is promised (wavenet, batch 6)
 * it took 1.08 of the time, where 0.16 to 0.33 are (mobilenet_v2, batch 16) 0.88. */
static const double WORTH = 0.15;
/* Rows of a product in one block that keep tiles busy; with fewer it takes so much longer. */
enum { ROWS_LEAST = 64 };
static const double THIN = 3;

/* A container that units hand on. */
typedef struct Handed {
    int first, last; /* units */
    double bytes;    /* moved by all accesses */
} Handed;

/* A kernel, or what is none: a call, a loop, a branch. */
typedef struct Unit {
    Item item; /* what is no map */
    IntVec map;
    const char *name; /* of the kernel's last map */
    IntVec by_image;  /* containers that it reads or writes image by image */
    Dim batch;        /* its extent; NULL: the kernel cannot run in blocks */
    int64_t images;   /* so many */
    int64_t rows;     /* of its product with least rows, for one image; INT64_MAX: there is none */
    double seconds;   /* of its products */
    int earliest; /* first unit of a run with this one: it reads all images of what others make */
    double fixed, batched; /* bytes that it is the first to touch, or reads from outside: the same
                              ones for all images; of its batch */
    int64_t block;         /* images at a time; 0: all */
    bool fits;             /* may it run with as many as are being weighed? */
    VEC(Handed) handed;    /* what it makes first of */
} Unit;

typedef struct Batching {
    Arena *arena;
    Flow *flow;
    const PassEnv *env;
    Uses uses;
    VEC(Unit) unit;
    int *unit_of;            /* by map */
    double *fixed, *batched; /* of all units before one */
} Batching;

/* ---- units ------------------------------------------------------------------------------------
 */

/* Dim d of the map is the access' first index and stands in no other. */
static bool by_image(const Map *m, const Access *a, int d) {
    return a->rank && access_plain(m, a, d) == 0;
}

/* The dim that counts images: the first index of all that the map writes; or -1. */
static int batch_dim(const Map *m) {
    const Access *to = &m->write.at[0].to[0];
    int d = to->rank ? access_dim(m, to, 0) : -1;
    if (d < 0 || m->dim.at[d].seq) return -1;
    bool plain = true;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) plain &= by_image(m, &m->write.at[w].to[k], d);
    for (int v = 0; v < m->body.val.n && plain; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ)
            plain = !access_uses(m, &val->read, d) || by_image(m, &val->read, d);
        if (val->kind == VAL_INDEX) plain = !dim_uses(val->index, m->dim.at[d].sym);
    }
    for (int c = 0; c < m->cons.n; c++) plain &= !dim_uses(m->cons.at[c], m->dim.at[d].sym);
    return plain ? d : -1;
}

static int64_t images_of(Dim batch) {
    return extent_or(batch, USUAL_IMAGES);
}

/* Bytes of a container, of one image where it is known by images. */
static double cont_bytes(const Batching *b, int cont, bool batched) {
    const Cont *c = &b->flow->cont.at[cont];
    double bytes = (double)dtype_bits(c->type) / 8;
    for (int k = batched; k < c->rank; k++) bytes *= (double)usual_extent(b->flow, c->shape[k]);
    return bytes;
}

/* Is it a temporary that only maps of units first to last use? */
static bool inside(const Batching *b, int cont, int first, int last) {
    if (b->flow->cont.at[cont].kind != CONT_TMP || b->uses.held[cont]) return false;
    const IntVec *of[] = {&b->uses.readers[cont], &b->uses.writers[cont]};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < of[i]->n; k++) {
            int u = b->unit_of[of[i]->at[k]];
            if (u < first || u > last) return false;
        }
    return true;
}

/* Is it read for all images at once, after it was made? Then units that make it stand before. */
static void note_whole(Batching *b, Unit *u, int cont) {
    for (int k = 0; k < b->uses.writers[cont].n; k++) {
        int by = b->unit_of[b->uses.writers[cont].at[k]];
        if (by + 1 > u->earliest) u->earliest = by + 1;
    }
}

static void note_access(Batching *b, int unit, const Map *m, const Access *a, int d, bool made) {
    Unit *u = &b->unit.at[unit];
    bool batched = by_image(m, a, d);
    if (b->flow->cont.at[a->cont].kind == CONT_STATE) u->batch = NULL;
    if (!batched) note_whole(b, u, a->cont);
    if (batched) vec_push(b->arena, &u->by_image, a->cont);
    bool first = made || !b->uses.writers[a->cont].n;
    if (!first || inside(b, a->cont, unit, unit)) return;
    if (batched)
        u->batched += (double)u->images * cont_bytes(b, a->cont, true);
    else
        u->fixed += cont_bytes(b, a->cont, false);
}

/* Rows of a product: results that meet the same weights, those of one image. */
static int64_t product_rows(const Batching *b, const Map *m, int batch) {
    Contraction r = map_contraction(b->flow, m);
    int64_t rows = 1;
    if (!r.is || r.role[batch] != ROLE_M) return INT64_MAX;
    for (int d = 0; d < m->dim.n; d++)
        if (r.role[d] == ROLE_M && d != batch) rows *= map_usual(b->flow, m, d);
    return rows;
}

static void note_map(Batching *b, int unit, const Map *m) {
    Unit *u = &b->unit.at[unit];
    int d = batch_dim(m);
    Dim batch = d < 0 ? NULL : m->dim.at[d].extent;
    if (m == b->flow->map.at[u->map.at[0]]) u->batch = batch;
    if (batch != u->batch || !batch || images_of(batch) < 2) u->batch = NULL;
    if (!u->batch) return;
    u->images = images_of(batch);
    int64_t rows = product_rows(b, m, d);
    if (rows < u->rows) u->rows = rows;
    double volume = map_usual_volume(b->flow, m) / (double)map_usual(b->flow, m, d);
    if (rows < INT64_MAX) u->seconds += 2 * (double)u->images * volume / b->env->machine->fma_flops;
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ)
            note_access(b, unit, m, &m->body.val.at[v].read, d, false);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            note_access(b, unit, m, &m->write.at[w].to[k], d, true);
}

static int position_of(const Items *items, int map) {
    for (int i = 0; i < items->n; i++)
        if (items->at[i].kind == ITEM_MAP && items->at[i].map == map) return i;
    return -1;
}

/* Maps in a loop or a branch belong to the unit that it is. */
static void number_maps(Batching *b, const Items *items, int unit) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) b->unit_of[it->map] = unit;
        number_maps(b, &it->body, unit);
        number_maps(b, &it->other, unit);
    }
}

/* Units in the order in which they run: a kernel where its last map stands. */
static void find_units(Batching *b) {
    const Items *body = &b->flow->body;
    const Kernel **ends = arena_array(b->arena, (size_t)body->n + 1, sizeof *ends);
    bool *early = NEW_ARRAY(b->arena, bool, body->n + 1);
    for (int k = 0; k < b->flow->kernel.n; k++) {
        const Kernel *kernel = b->flow->kernel.at[k];
        for (int i = 0; i < kernel->map.n; i++) {
            int at = position_of(body, kernel->map.at[i]);
            if (at < 0) break;
            early[at] = i < kernel->map.n - 1;
            if (!early[at]) ends[at] = kernel;
        }
    }
    for (int i = 0; i < body->n; i++) {
        Unit u = {.item = body->at[i], .rows = INT64_MAX};
        if (early[i]) continue;
        for (int k = 0; ends[i] && k < ends[i]->map.n; k++)
            vec_push(b->arena, &u.map, ends[i]->map.at[k]);
        if (!ends[i] && u.item.kind == ITEM_MAP) vec_push(b->arena, &u.map, u.item.map);
        for (int k = 0; k < u.map.n; k++) b->unit_of[u.map.at[k]] = b->unit.n;
        number_maps(b, &u.item.body, b->unit.n);
        number_maps(b, &u.item.other, b->unit.n);
        if (u.map.n) u.name = b->flow->map.at[u.map.at[u.map.n - 1]]->name;
        vec_push(b->arena, &b->unit, u);
    }
    for (int i = 0; i < b->unit.n; i++) {
        Unit *u = &b->unit.at[i];
        for (int k = 0; k < u->map.n; k++) note_map(b, i, b->flow->map.at[u->map.at[k]]);
        if (u->earliest > i) u->batch = NULL; /* all images of what it makes itself */
    }
}

static void find_handed(Batching *b) {
    for (int c = 0; c < b->flow->cont.n; c++) {
        const IntVec *readers = &b->uses.readers[c], *writers = &b->uses.writers[c];
        if (b->flow->cont.at[c].kind != CONT_TMP || b->uses.held[c] || !writers->n) continue;
        Handed h = {b->unit.n, -1, 0};
        for (int k = 0; k < writers->n + readers->n; k++) {
            int u = b->unit_of[k < writers->n ? writers->at[k] : readers->at[k - writers->n]];
            if (u < h.first) h.first = u;
            if (u > h.last) h.last = u;
        }
        Unit *u = h.first < h.last ? &b->unit.at[h.first] : NULL;
        if (!u || !u->batch) continue;
        h.bytes = (double)(u->images * (writers->n + readers->n)) * cont_bytes(b, c, true);
        vec_push(b->arena, &u->handed, h);
    }
}

static void sum_bytes(Batching *b) {
    b->fixed = NEW_ARRAY(b->arena, double, b->unit.n + 1);
    b->batched = NEW_ARRAY(b->arena, double, b->unit.n + 1);
    for (int i = 0; i < b->unit.n; i++) {
        b->fixed[i + 1] = b->fixed[i] + b->unit.at[i].fixed;
        b->batched[i + 1] = b->batched[i] + b->unit.at[i].batched;
    }
}

/* ---- blocks that layouts allow -----------------------------------------------------------------
 */

/* Do all blocks of so many images lie alike where images share vectors? */
static bool lies_alike(const Batching *b, int cont, int64_t block) {
    const Layout *y = b->flow->cont.at[cont].layout;
    Ctx *ctx = b->flow->ctx;
    Dim first = flow_layout_sym(ctx, 0), number = dim_sym(ctx, "block");
    DimSubst next = {first, dim_add(ctx, first, dim_mulc(ctx, number, block))};
    for (int k = 0; y && k < y->rank; k++)
        if (dim_uses(dim_sub(ctx, dim_subst(ctx, y->map[k], &next, 1), y->map[k]), first))
            return false;
    return true;
}

static bool unit_fits(const Batching *b, const Unit *u, int64_t block) {
    bool fits = u->batch;
    for (int i = 0; i < u->by_image.n && fits; i++) fits = lies_alike(b, u->by_image.at[i], block);
    return fits;
}

/* ---- what it saves ----------------------------------------------------------------------------
 */

/* Bytes a second of the level that holds what units first to last touch of a part of all images. */
static double bandwidth(const Batching *b, int first, int last, double part) {
    double fixed = b->fixed[last + 1] - b->fixed[first];
    double batched = b->batched[last + 1] - b->batched[first];
    return machine_bandwidth(b->env->machine, fixed + part * batched);
}

/* Seconds by which what is handed on comes sooner when so many images of all stay between. */
static double saved(const Batching *b, const Handed *h, double part) {
    return h->bytes *
           (1 / bandwidth(b, h->first, h->last, 1) - 1 / bandwidth(b, h->first, h->last, part));
}

static bool is_thin(const Unit *u, int64_t block) {
    return u->rows < INT64_MAX && u->rows * block < ROWS_LEAST;
}

/* The best runs that end at or before each unit, in blocks of so many of the batch. */
typedef struct Best {
    double gain;
    int first; /* of the run that ends here; -1: none does */
} Best;

/* Runs that end at unit `last`, longer and longer. */
static void best_ending(const Batching *b, Dim batch, int64_t block, int last, Best *best) {
    double images = (double)images_of(batch), part = (double)block / images;
    double again = images / (double)block - 1;
    double gain = 0, thin = 0, time = 0;
    const MemoryLevel *memory = &b->env->machine->level[b->env->machine->nlevels - 1];
    int earliest = 0;
    best[last + 1] = (Best){best[last].gain, -1};
    for (int first = last; first >= 0; first--) {
        const Unit *u = &b->unit.at[first];
        if (u->earliest > earliest) earliest = u->earliest;
        if (u->batch != batch || !u->fits || first < earliest) break;
        if (is_thin(u, block)) thin += THIN * u->seconds;
        time += u->seconds + (u->fixed + u->batched) / memory->bandwidth;
        for (int i = 0; i < u->handed.n; i++)
            if (u->handed.at[i].last <= last) gain += saved(b, &u->handed.at[i], part);
        double weights = (b->fixed[last + 1] - b->fixed[first]) / bandwidth(b, first, last, part);
        double cost = again * (weights + (last - first + 1) * WAIT) + thin;
        double all = best[first].gain + gain - cost - WORTH * time;
        if (all > best[last + 1].gain) best[last + 1] = (Best){all, first};
    }
}

/* The runs that save most in blocks of that size; notes them when they beat `most`. */
static double choose_runs(Batching *b, Dim batch, int64_t block, double most) {
    Best *best = NEW_ARRAY(b->arena, Best, b->unit.n + 1);
    best[0] = (Best){0, -1};
    for (int i = 0; i < b->unit.n; i++) b->unit.at[i].fits = unit_fits(b, &b->unit.at[i], block);
    for (int last = 0; last < b->unit.n; last++) best_ending(b, batch, block, last, best);
    if (best[b->unit.n].gain <= most) return most;
    for (int i = 0; i < b->unit.n; i++)
        if (b->unit.at[i].batch == batch) b->unit.at[i].block = 0;
    for (int end = b->unit.n; end > 0;) {
        int first = best[end].first;
        for (int i = first; first >= 0 && i < end; i++) b->unit.at[i].block = block;
        end = first < 0 ? end - 1 : first;
    }
    return best[b->unit.n].gain;
}

/* The next larger number of images of a block that divides all batches of that extent; 0: there is
 * none. */
static int64_t next_block(Dim batch, int64_t block) {
    int64_t images;
    if (!dim_is_const(batch, &images)) return block ? 0 : 1;
    for (block++; block < images && block <= BLOCK_MOST; block++)
        if (images % block == 0) return block;
    return 0;
}

static void choose(Batching *b) {
    for (int i = 0; i < b->unit.n; i++) {
        Dim batch = b->unit.at[i].batch;
        bool seen = !batch;
        for (int k = 0; k < i; k++) seen |= b->unit.at[k].batch == batch;
        double most = 0;
        for (int64_t block = seen ? 0 : 1; block; block = next_block(batch, block))
            most = choose_runs(b, batch, block, most);
    }
}

/* As a recipe says of a kernel's last map, or as chosen: whole, or images at a time. */
static void follow_recipe(Batching *b, Unit *u) {
    const char *words[64] = {"whole"};
    int64_t block[64] = {0};
    int n = 1, chosen = 0;
    for (int64_t k = 1; k && n < 63; k = next_block(u->batch, k)) {
        if (!unit_fits(b, u, k)) continue;
        if (k == u->block) chosen = n;
        block[n] = k;
        words[n++] = internf(b->flow->ctx, "images%lld", (long long)k);
    }
    u->block = block[recipe_decide(b->env, "batch", u->name, words, chosen)];
}

/* ---- loops ------------------------------------------------------------------------------------
 */

typedef struct Run {
    int first, last; /* units */
    int64_t block;
    Item loop;
} Run;

/* The container with so many images; false when its layout joins them with something else. */
static bool shrink(Batching *b, int cont, Dim images) {
    Cont *c = &b->flow->cont.at[cont];
    Dim *shape = arena_copy(b->arena, c->shape, (size_t)c->rank * sizeof *shape);
    Dim first = flow_layout_sym(b->flow->ctx, 0);
    if (c->layout) {
        Layout *y = NEW(b->arena, Layout);
        *y = *c->layout;
        Dim *box = arena_copy(b->arena, y->box, (size_t)y->rank * sizeof *box);
        for (int k = 0; k < y->rank; k++) {
            if (!dim_uses(y->map[k], first)) continue;
            if (y->map[k] != first || y->box[k] != shape[0]) return false;
            box[k] = images;
        }
        y->box = box;
        c->layout = y;
    }
    shape[0] = images;
    c->shape = shape;
    return true;
}

/* The access in a loop: of a container that holds one block alone, as it is. */
static Access in_loop(const Batching *b, const Run *r, const bool *shrunk, const Access *a,
                      Dim sym) {
    Ctx *ctx = b->flow->ctx;
    if (!a->rank || a->at[0] != sym || shrunk[a->cont]) return *a;
    Dim *at = arena_copy(b->arena, a->at, (size_t)a->rank * sizeof *at);
    at[0] = dim_add(ctx, dim_mulc(ctx, r->loop.var, r->block), sym);
    return (Access){a->cont, a->rank, at};
}

static void move_map(Batching *b, const Run *r, const bool *shrunk, Map *m) {
    int d = batch_dim(m);
    Dim sym = m->dim.at[d].sym;
    m->dim.at[d].extent = dim_const(b->flow->ctx, r->block);
    for (int v = 0; v < m->body.val.n; v++) {
        Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ) val->read = in_loop(b, r, shrunk, &val->read, sym);
    }
    for (int w = 0; w < m->write.n; w++) {
        Write *write = &m->write.at[w];
        Access *to = arena_copy(b->arena, write->to, (size_t)write->n * sizeof *to);
        for (int k = 0; k < write->n; k++) to[k] = in_loop(b, r, shrunk, &to[k], sym);
        write->to = to;
    }
}

static void make_loop(Batching *b, Run *r, Items *out) {
    Flow *flow = b->flow;
    Dim batch = b->unit.at[r->first].batch;
    bool *shrunk = NEW_ARRAY(b->arena, bool, flow->cont.n + 1);
    r->loop = (Item){.kind = ITEM_LOOP, .cond = -1, .var = loop_var(flow, "block", r->first)};
    r->loop.trip = dim_ceildiv(flow->ctx, batch, dim_const(flow->ctx, r->block));
    for (int c = 0; c < flow->cont.n; c++)
        if (b->uses.writers[c].n && inside(b, c, r->first, r->last) && flow->cont.at[c].rank &&
            flow->cont.at[c].shape[0] == batch)
            shrunk[c] = shrink(b, c, dim_const(flow->ctx, r->block));
    for (int i = r->first; i <= r->last; i++)
        for (int k = 0; k < b->unit.at[i].map.n; k++) {
            int map = b->unit.at[i].map.at[k];
            move_map(b, r, shrunk, flow->map.at[map]);
            vec_push(b->arena, &r->loop.body, ((Item){.kind = ITEM_MAP, .map = map, .cond = -1}));
        }
    vec_push(b->arena, out, r->loop);
    flow->loops = true;
}

/* Units in their order, neighbours with blocks of the same size in one loop. */
static void make_loops(Batching *b) {
    Items out = {0};
    for (int i = 0; i < b->unit.n; i++) {
        const Unit *u = &b->unit.at[i];
        Run r = {i, i, u->block, {0}};
        if (!u->block) {
            for (int k = 0; k < u->map.n; k++)
                vec_push(b->arena, &out,
                         ((Item){.kind = ITEM_MAP, .map = u->map.at[k], .cond = -1}));
            if (!u->map.n) vec_push(b->arena, &out, u->item);
            continue;
        }
        for (; r.last + 1 < b->unit.n; r.last++) {
            const Unit *next = &b->unit.at[r.last + 1];
            if (next->block != u->block || next->batch != u->batch || next->earliest > i) break;
        }
        make_loop(b, &r, &out);
        i = r.last;
    }
    b->flow->body = out;
}

Flow *pass_batch(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_batch(Arena *arena, const Flow *flow, const PassEnv *env) {
    Batching b = {.arena = arena, .flow = flow_clone(arena, flow), .env = env};
    if (env->machine->block_threads) return b.flow;
    Editing e = {.arena = arena, .flow = b.flow};
    uses_count(&e);
    b.uses = e.uses;
    b.unit_of = NEW_ARRAY(arena, int, b.flow->map.n + 1);
    find_units(&b);
    find_handed(&b);
    sum_bytes(&b);
    choose(&b);
    bool any = false;
    for (int i = 0; i < b.unit.n; i++) {
        Unit *u = &b.unit.at[i];
        if (u->batch && (u->block || recipe_find(env, "batch", u->name))) follow_recipe(&b, u);
        any |= u->block > 0;
    }
    if (any) make_loops(&b);
    return b.flow;
}
