/* SPDX-License-Identifier: Apache-2.0 */
/* Building flows: containers, maps, accesses, ranges.
 *
 * Names are how the text refers to containers and maps, so they are unique in a flow, and dim names
 * are unique against everything a map's indices can see. A clashing name gets its number appended.
 */
#include "eval.h"

#include <ctype.h>
#include <string.h>

Flow *flow_new(Arena *arena, const char *name) {
    Flow *flow = NEW(arena, Flow);
    flow->arena = arena;
    flow->ctx = arena_ctx(arena);
    flow->name = intern(flow->ctx, name);
    flow->arena_bytes = dim_const(flow->ctx, 0);
    return flow;
}

/* ---- strings ----------------------------------------------------------------------------- */

int64_t flow_text(Flow *flow, const char *at, int64_t n) {
    const char *key = intern_n(flow->ctx, n ? at : "", (size_t)n);
    if (!flow->text_number) {
        flow->text_number = table_new(flow->arena);
        flow_text(flow, "", 0);
    }
    intptr_t number = (intptr_t)table_get(flow->text_number, key);
    if (number) return number - 1;
    vec_push(flow->arena, &flow->text, (FlowText){key, n});
    table_put(flow->text_number, key, (void *)(intptr_t)flow->text.n);
    return flow->text.n - 1;
}

/* ---- names ------------------------------------------------------------------------------- */

static const char *cont_name(const Flow *flow, int i) {
    return flow->cont.at[i].name;
}

static const char *map_name(const Flow *flow, int i) {
    return flow->map.at[i]->name;
}

/* Takes up what was added without asking; from the first on when some went. */
static void take_names(const Flow *flow, TakenNames *taken, int n,
                       const char *(*name_of)(const Flow *flow, int i)) {
    if (!taken->at || taken->n > n) *taken = (TakenNames){table_new(flow->arena), 0};
    for (; taken->n < n; taken->n++)
        if (!table_get(taken->at, name_of(flow, taken->n)))
            table_put(taken->at, name_of(flow, taken->n), (void *)(intptr_t)1);
}

/* The suffix counts how often a name was asked for: what else there is changes no name, so that
 * recipes hold when one of their decisions is another. */
static const char *name_unique(const Flow *flow, TakenNames *taken, const char *name, int n,
                               const char *(*name_of)(const Flow *flow, int i)) {
    const char *first = intern(flow->ctx, name), *unique = first;
    take_names(flow, taken, n, name_of);
    intptr_t next = (intptr_t)table_get(taken->at, first);
    for (; table_get(taken->at, unique); next++)
        unique = internf(flow->ctx, "%s_%d", name, (int)next);
    if (unique != first) table_put(taken->at, first, (void *)next);
    return unique;
}

static bool loop_named(const Items *items, Dim sym) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_MAP || item->kind == ITEM_CALL) continue;
        if (item->kind == ITEM_LOOP && (item->var == sym || item->done == sym)) return true;
        if (loop_named(&item->body, sym) || loop_named(&item->other, sym)) return true;
    }
    return false;
}

static bool sym_taken(const Flow *flow, const Map *map, Dim sym) {
    for (int i = 0; i < map->dim.n; i++)
        if (map->dim.at[i].sym == sym) return true;
    for (int i = 0; i < flow->symbol.n; i++)
        if (flow->symbol.at[i].sym == sym) return true;
    for (int i = 0; i < map->body.val.n; i++)
        if (map->body.val.at[i].sym == sym) return true;
    return flow->loops && loop_named(&flow->body, sym);
}

/* A dim's name as an identifier without dots: kernel lines write `map.dim`. */
static const char *dim_name(Arena *arena, const char *name) {
    char *s = arena_printf(arena, "%s%s", isalpha((unsigned char)name[0]) ? "" : "d", name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    return s;
}

/* ---- containers and maps ----------------------------------------------------------------- */

int flow_cont(Flow *flow, const char *name, ContKind kind, DType t, const Dim *shape, int rank) {
    if (rank < 0 || rank > RANK_MAX) BUG("container \"%s\" of rank %d", name, rank);
    name = name_unique(flow, &flow->cont_names, name, flow->cont.n, cont_name);
    Cont cont = {.name = name, .kind = kind, .type = t};
    cont.rank = rank;
    cont.shape = arena_copy(flow->arena, shape, (size_t)rank * sizeof *shape);
    vec_push(flow->arena, &flow->cont, cont);
    return flow->cont.n - 1;
}

Map *flow_map(Flow *flow, Items *into, const char *name, const char *from) {
    Map *map = NEW(flow->arena, Map);
    map->name = name_unique(flow, &flow->map_names, name, flow->map.n, map_name);
    map->from = from ? intern(flow->ctx, from) : NULL;
    map->body.arena = flow->arena;
    Item item = {.kind = ITEM_MAP, .map = flow->map.n, .cond = -1};
    vec_push(flow->arena, into, item);
    vec_push(flow->arena, &flow->map, map);
    return map;
}

Items *items_with(Items *items, int map, int *at) {
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        *at = i;
        if (it->kind == ITEM_MAP && it->map == map) return items;
        Items *inner = items_with(&it->body, map, at);
        if (!inner) inner = items_with(&it->other, map, at);
        if (inner) return inner;
    }
    return NULL;
}

bool items_insert_beside(Flow *flow, Items *items, int map, bool after, const Items *made) {
    int at;
    Items *list = items_with(items, map, &at);
    if (list) items_insert(flow, list, at + after, made);
    return list;
}

void items_rebuild(Flow *flow, Items *items, ItemFn *fn, void *user) {
    Items out = {0};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        items_rebuild(flow, &it.body, fn, user);
        items_rebuild(flow, &it.other, fn, user);
        fn(user, it, items, &out);
    }
    *items = out;
}

void items_insert(Flow *flow, Items *items, int at, const Items *made) {
    Items out = {0};
    for (int i = 0; i < at; i++) vec_push(flow->arena, &out, items->at[i]);
    for (int i = 0; i < made->n; i++) vec_push(flow->arena, &out, made->at[i]);
    for (int i = at; i < items->n; i++) vec_push(flow->arena, &out, items->at[i]);
    *items = out;
}

Dim map_dim(Flow *flow, Map *map, const char *name, Dim extent) {
    name = dim_name(flow->arena, name);
    MapDim dim = {.sym = dim_sym(flow->ctx, name), .extent = extent};
    for (int n = 1; sym_taken(flow, map, dim.sym); n++)
        dim.sym = dim_sym(flow->ctx, internf(flow->ctx, "%s%d", name, n));
    vec_push(flow->arena, &map->dim, dim);
    return dim.sym;
}

static Access access_to(Flow *flow, int cont, const Dim *at) {
    if (cont < 0 || cont >= flow->cont.n) BUG("access to container %d of %d", cont, flow->cont.n);
    int rank = flow->cont.at[cont].rank;
    Access access = {.cont = cont, .rank = rank};
    access.at = arena_copy(flow->arena, at, (size_t)rank * sizeof *at);
    return access;
}

int map_read(Flow *flow, Map *map, int cont, const Dim *at) {
    Access access = access_to(flow, cont, at);
    return body_read(&map->body, access, flow->cont.at[cont].type);
}

int map_read_else(Flow *flow, Map *map, int cont, const Dim *at, int otherwise) {
    Access access = access_to(flow, cont, at);
    return body_read_else(&map->body, access, flow->cont.at[cont].type, otherwise);
}

void map_write(Flow *flow, Map *map, int cont, const Dim *at, int val, const Combine *combine) {
    map_write_tuple(flow, map, 1, &cont, &at, 1, &val, combine);
}

void map_write_tuple(Flow *flow, Map *map, int n, const int *conts, const Dim *const *at,
                     int nstate, const int *vals, const Combine *combine) {
    Access *to = NEW_ARRAY(flow->arena, Access, n);
    for (int i = 0; i < n; i++) to[i] = access_to(flow, conts[i], at[i]);
    Write write = {.n = n, .to = to, .combine = combine, .nstate = nstate};
    write.val = arena_copy(flow->arena, vals, (size_t)nstate * sizeof *vals);
    vec_push(flow->arena, &map->write, write);
}

bool map_reduces(const Map *map, int dim) {
    Dim sym = map->dim.at[dim].sym;
    for (int w = 0; w < map->write.n; w++)
        for (int i = 0; i < map->write.at[w].n; i++)
            for (int k = 0; k < map->write.at[w].to[i].rank; k++)
                if (dim_uses(map->write.at[w].to[i].at[k], sym)) return false;
    return true;
}

/* ---- layouts ----------------------------------------------------------------------------- */

Dim flow_layout_sym(Ctx *ctx, int k) {
    return dim_sym(ctx, internf(ctx, "_%d", k));
}

bool layout_equal(const Layout *a, const Layout *b) {
    if (a == b) return true;
    if (!a || !b || a->rank != b->rank || a->has_fill != b->has_fill || a->fill != b->fill ||
        a->marks != b->marks)
        return false;
    for (int k = 0; k < a->rank; k++)
        if (a->map[k] != b->map[k] || a->box[k] != b->box[k]) return false;
    return true;
}

int cont_storage(Ctx *ctx, const Cont *cont, Dim *box) {
    (void)ctx;
    int rank = cont->layout ? cont->layout->rank : cont->rank;
    const Dim *from = cont->layout ? cont->layout->box : cont->shape;
    for (int k = 0; k < rank; k++) box[k] = from[k];
    return rank;
}

int cont_address(Ctx *ctx, const Cont *cont, const Dim *logical, const DimEnv *env, Dim *at) {
    if (!cont->layout) {
        for (int k = 0; k < cont->rank; k++) at[k] = logical[k];
        return cont->rank;
    }
    DimSubst subst[RANK_MAX];
    for (int k = 0; k < cont->rank; k++) subst[k] = (DimSubst){flow_layout_sym(ctx, k), logical[k]};
    for (int k = 0; k < cont->layout->rank; k++)
        at[k] = dim_simplify(ctx, dim_subst(ctx, cont->layout->map[k], subst, cont->rank), env);
    return cont->layout->rank;
}

/* ---- ranges ------------------------------------------------------------------------------ */

typedef VEC(DimRange) Ranges;

static DimRange symbol_range(Ctx *ctx, const Symbol *s) {
    DimRange range = {s->sym, dim_const(ctx, s->lo), NULL};
    if (s->hi != INT64_MAX) range.hi = dim_const(ctx, s->hi);
    if (s->upper) range.hi = range.hi ? dim_min(ctx, range.hi, s->upper) : s->upper;
    return range;
}

/* Loop variables, in a loop that may end early below the number of iterations. */
static void loop_ranges(Arena *arena, const Items *items, Ranges *out) {
    Ctx *ctx = arena_ctx(arena);
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_MAP || item->kind == ITEM_CALL) continue;
        Dim zero = dim_const(ctx, 0);
        if (item->kind == ITEM_LOOP && item->var) {
            Dim end = item->done ? item->done : item->trip;
            Dim hi = end ? dim_addc(ctx, end, -1) : NULL;
            vec_push(arena, out, (DimRange){item->var, zero, hi});
        }
        loop_ranges(arena, &item->body, out);
        loop_ranges(arena, &item->other, out);
    }
}

DimEnv flow_env(Arena *arena, const Flow *flow) {
    Ranges ranges = {0};
    for (int i = 0; i < flow->symbol.n; i++)
        vec_push(arena, &ranges, symbol_range(flow->ctx, &flow->symbol.at[i]));
    if (flow->loops) loop_ranges(arena, &flow->body, &ranges);
    return (DimEnv){ranges.at, ranges.n};
}

/* A constraint bounds the last dim that stands in it with coefficient 1 or -1. */
static void constrain(Ctx *ctx, const Map *map, Dim cons, DimRange *dims) {
    for (int d = map->dim.n - 1; d >= 0; d--) {
        if (!dim_uses(cons, dims[d].sym)) continue;
        Dim coef, rest;
        if (!dim_affine(ctx, cons, &dims[d].sym, 1, &coef, &rest)) return;
        if (dim_is(coef, 1)) dims[d].lo = dim_max(ctx, dims[d].lo, dim_mulc(ctx, rest, -1));
        if (dim_is(coef, -1)) dims[d].hi = dim_min(ctx, dims[d].hi, rest);
        return;
    }
}

DimEnv map_env(Arena *arena, const Flow *flow, const Map *map) {
    DimEnv outer = flow_env(arena, flow);
    DimRange *ranges = NEW_ARRAY(arena, DimRange, outer.n + map->dim.n);
    for (int i = 0; i < outer.n; i++) ranges[i] = outer.at[i];
    DimRange *dims = ranges + outer.n;
    for (int d = 0; d < map->dim.n; d++) {
        const MapDim *dim = &map->dim.at[d];
        dims[d] =
            (DimRange){dim->sym, dim_const(flow->ctx, 0), dim_addc(flow->ctx, dim->extent, -1)};
    }
    for (int c = 0; c < map->cons.n; c++) constrain(flow->ctx, map, map->cons.at[c], dims);
    return (DimEnv){ranges, outer.n + map->dim.n};
}

int64_t tensor_count(const Tensor *t) {
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dim[k];
    return n;
}

bool cont_uses(const Cont *c, Dim sym) {
    for (int d = 0; d < c->rank; d++)
        if (dim_uses(c->shape[d], sym)) return true;
    for (int d = 0; c->layout && d < c->layout->rank; d++)
        if (dim_uses(c->layout->box[d], sym)) return true;
    return false;
}

bool symbol_bounded(const Symbol *symbol) {
    int64_t most = symbol->hi;
    if (symbol->upper && !dim_is_const(symbol->upper, &most)) return true;
    return most < INT32_MAX;
}

/* ---- source nodes -----------------------------------------------------------------------------
 */

static bool names_have(const char *names, const char *name, size_t n) {
    for (;; names++) {
        size_t k = strcspn(names, "\n");
        if (k == n && !memcmp(names, name, n)) return true;
        names += k;
        if (!*names) return false;
    }
}

const char *from_join(Ctx *ctx, const char *a, const char *b) {
    if (!a || !b) return a ? a : b;
    Arena *arena = arena_new(ctx);
    Text both = {.arena = arena};
    text_put(&both, a);
    for (;; b++) {
        size_t n = strcspn(b, "\n");
        if (!names_have(text_str(&both), b, n)) {
            text_put(&both, "\n");
            text_put_n(&both, b, n);
        }
        b += n;
        if (!*b) break;
    }
    const char *joined = intern(ctx, text_str(&both));
    arena_free(arena);
    return joined;
}

const char *from_words(Ctx *ctx, const char *from) {
    Text out = {.arena = ctx_arena(ctx)};
    for (; from && *from; from++)
        text_put_n(&out, *from == '\n' ? ", " : from, *from == '\n' ? 2 : 1);
    return text_str(&out);
}
