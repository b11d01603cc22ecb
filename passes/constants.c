/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `constants`: what depends on weights alone is computed now.
 *
 * First, inside every map, the largest subexpressions that read only weights, over fewer elements
 * than the map has iterations (the scale of a normalisation per channel, say), move into maps of
 * their own. Then all maps and calls that read only weights and what such made are evaluated, and
 * what they wrote becomes weights. Large results (more than SMALL elements) of a plain
 * rearrangement stay maps where no other result that is computed follows from them: layouts do that
 * without another copy. With a packing other than build only calls that read literals are
 * evaluated: the maps become the constant part of the flow. */
#include "passes/compose.h"
#include "passes/prepare.h"

enum { SMALL = 1 << 16, TURN_BYTES = 32 << 20 };

/* Who writes a container. */
typedef struct Writers {
    int n; /* maps and calls */
    const Items *items;
    bool other; /* loops, what cannot be computed now or stands in several lists of items */
} Writers;

typedef struct ConstantCall {
    const Call *call;
    bool taken; /* constant */
} ConstantCall;

typedef struct Folding {
    Arena *arena;
    Flow *flow;
    bool *constant; /* by container: follows from weights */
    bool late;      /* weights are not looked at: what follows from them is computed later */
    int next;
    const Items *all;       /* the program */
    Writers *writers;       /* by container */
    bool *taken;            /* by map: constant */
    VEC(ConstantCall) call; /* those that may be */
    Items work;             /* constant maps and calls, in the order of the program */
} Folding;

static bool is_constant(const Folding *f, int cont) {
    const Cont *c = &f->flow->cont.at[cont];
    if (dtype_class(c->type) == CLASS_OBJECT) return false;
    if (c->kind == CONT_PARAM && f->late) return true;
    return ((c->kind == CONT_PARAM || c->kind == CONT_LITERAL) && c->data) || f->constant[cont];
}

/* ---- subexpressions ------------------------------------------------------------------------- */

typedef struct Hoist {
    Folding *f;
    Map *map;
    bool *fixed;            /* by Val: reads only constants, no dims as values */
    bool (*uses)[MAP_DIMS]; /* by Val: dims its reads use */
} Hoist;

static void mark_access(Hoist *h, int v, const Access *a) {
    for (int d = 0; d < h->map->dim.n; d++)
        for (int k = 0; k < a->rank; k++)
            if (dim_uses(a->at[k], h->map->dim.at[d].sym)) h->uses[v][d] = true;
}

static void mark_symbol(void *user, Dim sym) {
    struct {
        const Map *map;
        bool ok;
    } *u = user;
    for (int d = 0; d < u->map->dim.n; d++)
        if (u->map->dim.at[d].sym == sym) return;
    u->ok = false;
}

/* Indices made of the map's own dims only (no run-time symbols, no values). */
static bool plain_index(const Map *map, const Access *a) {
    struct {
        const Map *map;
        bool ok;
    } u = {map, true};
    for (int k = 0; k < a->rank; k++) dim_symbols(a->at[k], mark_symbol, &u);
    return u.ok;
}

static void mark_vals(Hoist *h) {
    const Body *b = &h->map->body;
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        if (val->sym) continue;
        if (val->kind == VAL_CONST) h->fixed[v] = true;
        if (val->kind == VAL_READ && !val->has_else && is_constant(h->f, val->read.cont) &&
            plain_index(h->map, &val->read)) {
            h->fixed[v] = true;
            mark_access(h, v, &val->read);
        }
        if (val->kind != VAL_PRIM) continue;
        h->fixed[v] = true;
        for (int a = 0; a < prim_row(val->prim)->arity; a++) {
            h->fixed[v] &= h->fixed[val->arg[a]];
            for (int d = 0; d < MAP_DIMS; d++) h->uses[v][d] |= h->uses[val->arg[a]][d];
        }
    }
}

/* Only converted from what is read, to no narrower type: moving it would read more bytes. */
static bool widened_read(const Hoist *h, int v) {
    const Body *body = &h->map->body;
    const Val *from = &body->val.at[body_unconverted(body, v)];
    return from->kind == VAL_READ && dtype_bits(body->val.at[v].type) > dtype_bits(from->type);
}

/* Elements of v over the dims it uses; -1 when not worth moving: not an operation, or as large as
 * the map. */
static int64_t hoist_size(const Hoist *h, int v) {
    const Val *val = &h->map->body.val.at[v];
    if (!h->fixed[v] || val->kind != VAL_PRIM || widened_read(h, v)) return -1;
    int64_t n = 1;
    bool fewer = false;
    for (int d = 0; d < h->map->dim.n; d++) {
        int64_t extent = map_extent(h->map, d, -1);
        if (h->uses[v][d]) n = extent < 0 || n < 0 ? -1 : n * extent;
        fewer |= !h->uses[v][d] && extent != 1;
    }
    return fewer && n >= 0 && n <= SMALL ? n : -1;
}

/* A new map that computes v over the dims it uses; returns its container. */
static int hoist_map(Hoist *h, int v, Items *into) {
    Folding *f = h->f;
    Ctx *ctx = f->flow->ctx;
    Dim shape[RANK_MAX], at[RANK_MAX];
    DimSubst subst[MAP_DIMS];
    int rank = 0;
    Map *m = flow_map(f->flow, into, internf(ctx, "%s.c%d", h->map->name, f->next), h->map->from);
    for (int d = 0; d < h->map->dim.n; d++) {
        if (!h->uses[v][d]) continue;
        shape[rank] = h->map->dim.at[d].extent;
        at[rank] = map_dim(f->flow, m, dim_sym_name(h->map->dim.at[d].sym), shape[rank]);
        subst[rank] = (DimSubst){h->map->dim.at[d].sym, at[rank]};
        rank++;
    }
    DType type = h->map->body.val.at[v].type;
    int cont = flow_cont(f->flow, internf(ctx, "%s.const%d", h->map->name, f->next++), CONT_TMP,
                         type, shape, rank);
    int *map = NEW_ARRAY(f->arena, int, h->map->body.val.n);
    body_inline(&m->body, &h->map->body, subst, rank, NULL, NULL, NULL, map);
    int root = map[v];
    body_prune(&m->body, &root, 1);
    map_write(f->flow, m, cont, at, root, NULL);
    return cont;
}

static void replace_hoisted(Hoist *h, const int *cont) {
    Body out = {.arena = h->f->arena};
    const Body *b = &h->map->body;
    int *map = NEW_ARRAY(h->f->arena, int, b->val.n);
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        if (cont[v] >= 0) {
            Dim *at = NEW_ARRAY(h->f->arena, Dim, RANK_MAX);
            int rank = 0;
            for (int d = 0; d < h->map->dim.n; d++)
                if (h->uses[v][d]) at[rank++] = h->map->dim.at[d].sym;
            map[v] = body_read(&out, (Access){cont[v], rank, at}, val->type);
            continue;
        }
        map[v] = body_copy_val(&out, val, map);
    }
    int n = 0, *roots = NEW_ARRAY(h->f->arena, int, h->map->write.n *COMBINE_STATES + 1);
    for (int w = 0; w < h->map->write.n; w++)
        for (int k = 0; k < h->map->write.at[w].nstate; k++)
            roots[n++] = map[h->map->write.at[w].val[k]];
    body_prune(&out, roots, n);
    n = 0;
    for (int w = 0; w < h->map->write.n; w++) {
        h->map->write.at[w].val =
            arena_copy(h->f->arena, &roots[n], (size_t)h->map->write.at[w].nstate * sizeof *roots);
        n += h->map->write.at[w].nstate;
    }
    h->map->body = out;
}

/* Moves out Vals that qualify and have a user that does not. */
static void hoist(Folding *f, Map *map, Items *into) {
    Hoist h = {f, map, NEW_ARRAY(f->arena, bool, map->body.val.n + 1), NULL};
    h.uses = arena_array(f->arena, (size_t)map->body.val.n + 1, sizeof *h.uses);
    mark_vals(&h);
    int *cont = NEW_ARRAY(f->arena, int, map->body.val.n + 1), n = map->body.val.n;
    bool any = false;
    for (int v = 0; v < n; v++) {
        cont[v] = -1;
        if (hoist_size(&h, v) < 0) continue;
        bool top = false;
        for (int u = v + 1; u < n; u++)
            for (int a = 0; map->body.val.at[u].kind == VAL_PRIM &&
                            a < prim_row(map->body.val.at[u].prim)->arity;
                 a++)
                top |= map->body.val.at[u].arg[a] == v && hoist_size(&h, u) < 0;
        for (int w = 0; w < map->write.n; w++)
            for (int k = 0; k < map->write.at[w].nstate; k++) top |= map->write.at[w].val[k] == v;
        if (!top) continue;
        cont[v] = hoist_map(&h, v, into);
        any = true;
    }
    if (any) replace_hoisted(&h, cont);
}

/* ---- evaluation ----------------------------------------------------------------------------- */

static bool computes(const Map *m) {
    bool any = m->write.n && m->write.at[0].combine != NULL;
    for (int v = 0; v < m->body.val.n; v++) any |= m->body.val.at[v].kind == VAL_PRIM;
    return any;
}

/* Are all reads of a map constant, its domain, and where it writes? */
static bool constant_map(const Folding *f, const Map *m) {
    for (int d = 0; d < m->dim.n; d++)
        if (map_extent(m, d, -1) < 0 || m->dim.at[d].seq) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && !is_constant(f, val->read.cont)) return false;
        if (val->kind == VAL_READ && !plain_index(m, &val->read)) return false;
        if (val->kind == VAL_INDEX && !plain_index(m, &(Access){.rank = 1, .at = &val->index}))
            return false;
    }
    return map_volume(m, 1) <= CONSTANT_VOLUME;
}

static bool constant_container(const Folding *f, int cont) {
    const Cont *c = &f->flow->cont.at[cont];
    if (c->kind != CONT_TMP || dtype_class(c->type) == CLASS_OBJECT) return false;
    for (int d = 0; d < c->rank; d++)
        if (!dim_is_const(c->shape[d], NULL)) return false;
    return true;
}

static bool is_carried(const Item *loop, int cont) {
    for (int c = 0; loop && c < loop->carry.n; c++)
        if (loop->carry.at[c].next == cont) return true;
    return false;
}

/* May what the map writes be computed now, as far as that alone tells? `in` is the loop around, or
 * NULL. */
static bool writes_now(const Folding *f, const Item *in, const Map *m) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            const Access *to = &m->write.at[w].to[k];
            if (!constant_container(f, to->cont) || is_carried(in, to->cont)) return false;
            if (!plain_index(m, to)) return false;
        }
    return true;
}

/* Constants of the text, strings among them. */
static bool is_literal(const Folding *f, int cont) {
    return f->flow->cont.at[cont].kind == CONT_LITERAL && f->flow->cont.at[cont].data;
}

/* May a call be computed now, as far as that alone tells? Calls fail where data asks for it, so a
 * run must come there; the user's own and what has no operands may do something else. */
static bool calls_now(const Folding *f, const Items *items, const Call *call) {
    bool now = items == f->all && !call->ndefine && call->nin && !call_is_extern(call->row);
    for (int k = 0; k < call->nin && f->late; k++)
        now &= call->in[k] < 0 || is_literal(f, call->in[k]);
    for (int k = 0; k < call->nout; k++)
        now &= call->out[k] < 0 || constant_container(f, call->out[k]);
    return now;
}

static void note_writer(Folding *f, int cont, const Items *items, bool now) {
    Writers *to = &f->writers[cont];
    to->other |= !now || (to->n && to->items != items);
    to->items = items;
    to->n++;
}

/* The maps of the items, those of branches and loops too: what follows from weights may be computed
 * whether a run comes there or not; and calls. What loops or several lists of items write may not.
 */
static void find_writers(Folding *f, const Items *items, const Item *in) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        bool now = it->kind == ITEM_CALL && calls_now(f, items, it->call);
        if (now) vec_push(f->arena, &f->call, ((ConstantCall){it->call, true}));
        if (it->kind == ITEM_MAP)
            now = f->taken[it->map] = writes_now(f, in, f->flow->map.at[it->map]);
        IntVec conts = item_writes(f->arena, f->flow, it);
        for (int k = 0; k < conts.n; k++) note_writer(f, conts.at[k], items, now);
        for (int k = 0; k < it->carry.n; k++) f->writers[it->carry.at[k].cur].other = true;
        find_writers(f, &it->body, it->kind == ITEM_LOOP ? it : in);
        find_writers(f, &it->other, in);
    }
}

/* Is all that the map writes computed now? */
static bool results_constant(const Folding *f, const Map *m) {
    bool all = true;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            all = all && f->constant[m->write.at[w].to[k].cont];
    return all;
}

static void leave_map(Folding *f, int map) {
    const Map *m = f->flow->map.at[map];
    f->taken[map] = false;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) f->constant[m->write.at[w].to[k].cont] = false;
}

static bool constant_call(const Folding *f, const Call *call) {
    bool all = true;
    for (int k = 0; k < call->nin; k++)
        all &= call->in[k] < 0 || is_constant(f, call->in[k]) || is_literal(f, call->in[k]);
    for (int k = 0; k < call->nout; k++) all &= call->out[k] < 0 || f->constant[call->out[k]];
    return all;
}

/* Leaves calls that are not constant; were there any? */
static bool leave_calls(Folding *f) {
    bool any = false;
    for (int i = 0; i < f->call.n; i++) {
        ConstantCall *c = &f->call.at[i];
        if (!c->taken || constant_call(f, c->call)) continue;
        any = true, c->taken = false;
        for (int k = 0; k < c->call->nout; k++)
            if (c->call->out[k] >= 0) f->constant[c->call->out[k]] = false;
    }
    return any;
}

/* Does the map alone write its results, and only moves much? Layouts do that without a copy. */
static bool moves_much(const Folding *f, const Map *m) {
    bool alone = true;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            alone &= f->writers[m->write.at[w].to[k].cont].n == 1;
    return alone && !computes(m) && map_volume(m, 1) > SMALL;
}

static bool is_wanted(const Map *m, const bool *wanted) {
    bool any = false;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) any |= wanted[m->write.at[w].to[k].cont];
    return any;
}

/* Much that is only moved is left where no result that is computed now follows from it. */
static void leave_moves(Folding *f) {
    bool *wanted = NEW_ARRAY(f->arena, bool, f->flow->cont.n + 1); /* by container */
    bool *kept = NEW_ARRAY(f->arena, bool, f->flow->map.n + 1);
    for (int i = 0; i < f->call.n; i++)
        for (int k = 0; f->call.at[i].taken && k < f->call.at[i].call->nin; k++)
            if (f->call.at[i].call->in[k] >= 0) wanted[f->call.at[i].call->in[k]] = true;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < f->flow->map.n; i++) {
            const Map *m = f->flow->map.at[i];
            if (!f->taken[i] || kept[i] || (moves_much(f, m) && !is_wanted(m, wanted))) continue;
            kept[i] = again = true;
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ) wanted[m->body.val.at[v].read.cont] = true;
        }
    }
    for (int i = 0; i < f->flow->map.n; i++)
        if (f->taken[i] && !kept[i]) leave_map(f, i);
}

/* What can be computed now, each with all others that write what it writes: of all that might, what
 * reads or writes something else is left until nothing changes. */
static void find_constant(Folding *f, const Items *items) {
    f->taken = NEW_ARRAY(f->arena, bool, f->flow->map.n + 1);
    f->writers = NEW_ARRAY(f->arena, Writers, f->flow->cont.n + 1);
    f->all = items;
    find_writers(f, items, NULL);
    for (int c = 0; c < f->flow->cont.n; c++)
        f->constant[c] = f->writers[c].n && !f->writers[c].other;
    for (bool again = true; again;) {
        again = leave_calls(f);
        for (int m = 0; m < f->flow->map.n; m++) {
            const Map *map = f->flow->map.at[m];
            if (!f->taken[m] || (results_constant(f, map) && constant_map(f, map))) continue;
            leave_map(f, m);
            again = true;
        }
    }
    leave_moves(f);
}

bool *constants_weights(Arena *arena, Flow *flow, const PassEnv *env) {
    Folding f = {.arena = arena, .flow = flow, .late = env->packing != PACK_BUILD};
    f.constant = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    find_constant(&f, &flow->body);
    for (int c = 0; c < flow->cont.n; c++) f.constant[c] |= flow->cont.at[c].kind == CONT_PARAM;
    return f.constant;
}

static bool is_taken(const Folding *f, const Item *it) {
    bool taken = it->kind == ITEM_MAP && f->taken[it->map];
    for (int i = 0; it->kind == ITEM_CALL && i < f->call.n; i++)
        if (f->call.at[i].call == it->call) taken = f->call.at[i].taken;
    return taken;
}

/* Moves the constant maps and calls out of the items. */
static Items take_constant(Folding *f, const Items *items) {
    Items left = {0};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        if (is_taken(f, &it)) {
            vec_push(f->arena, &f->work, it);
            continue;
        }
        it.body = take_constant(f, &it.body);
        it.other = take_constant(f, &it.other);
        vec_push(f->arena, &left, it);
    }
    return left;
}

/* By container: is it read? What the item writes becomes a state. */
static void mark_item(Arena *arena, Flow *part, const Item *it, bool *read) {
    const Map *m = it->kind == ITEM_MAP ? part->map.at[it->map] : NULL;
    IntVec conts = item_writes(arena, part, it);
    for (int k = 0; k < conts.n; k++) part->cont.at[conts.at[k]].kind = CONT_STATE;
    for (int v = 0; m && v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) read[m->body.val.at[v].read.cont] = true;
    for (int k = 0; !m && k < it->call->nin; k++)
        if (it->call->in[k] >= 0) read[it->call->in[k]] = true;
}

/* Some constant maps and calls as a flow of their own: what they write are its outputs, what
 * earlier ones wrote are weights. Results live as long as the context, as all weights do; all else
 * is gone when this returns. */
static void evaluate_some(Folding *f, const Item *work, int n) {
    Arena *arena = arena_new(f->flow->ctx);
    Flow *part = flow_clone(arena, f->flow);
    part->body = (Items){0};
    part->require.n = 0;
    IntVec outs = {0};
    bool *read = NEW_ARRAY(arena, bool, part->cont.n + 1); /* the evaluator copies weights */
    for (int i = 0; i < n; i++) {
        vec_push(arena, &part->body, work[i]);
        mark_item(arena, part, &work[i], read);
    }
    for (int c = 0; c < part->cont.n; c++) {
        Cont *cont = &part->cont.at[c];
        bool out = cont->kind == CONT_STATE && f->constant[c];
        if (out) vec_push(arena, &outs, c);
        cont->kind = out                                                           ? CONT_OUT
                     : cont->kind == CONT_IN || cont->kind == CONT_OUT || !read[c] ? CONT_TMP
                                                                                   : cont->kind;
    }
    part->symbol.n = 0;
    Tensor *result = NEW_ARRAY(arena, Tensor, outs.n + 1);
    flow_eval(arena, part, NULL, result, 2);
    for (int i = 0; i < outs.n; i++) {
        Cont *c = &f->flow->cont.at[outs.at[i]];
        c->kind = f->late ? CONT_LITERAL : CONT_PARAM;
        c->data_bytes = dtype_bytes(c->type, tensor_count(&result[i]));
        c->data = ctx_keep(f->flow->ctx, result[i].data, (size_t)c->data_bytes);
    }
    arena_free(arena);
}

/* Counts a write of the container off those that it still waits for; its bytes, if that was the
 * first, and how many more are waited for. */
static double count_write(const Folding *f, int cont, int *left, int *waiting) {
    const Cont *c = &f->flow->cont.at[cont];
    int *n = &left[cont];
    *waiting += *n ? -1 : f->writers[cont].n - 1;
    if (*n) {
        --*n;
        return 0;
    }
    *n = f->writers[cont].n - 1;
    int64_t count = 1;
    for (int d = 0; d < c->rank; d++) count *= extent_or(c->shape[d], 0);
    return (double)dtype_bytes(c->type, count);
}

/* In turns of so many bytes, each of whole containers, that what the evaluator holds besides the
 * results is little. */
static void evaluate(Folding *f) {
    int *left = NEW_ARRAY(f->arena, int, f->flow->cont.n + 1), waiting = 0, from = 0;
    double held = 0;
    for (int i = 0; i < f->work.n; i++) {
        IntVec conts = item_writes(f->arena, f->flow, &f->work.at[i]);
        for (int k = 0; k < conts.n; k++) held += count_write(f, conts.at[k], left, &waiting);
        if (i + 1 < f->work.n && (waiting || held < TURN_BYTES)) continue;
        evaluate_some(f, &f->work.at[from], i + 1 - from);
        from = i + 1, held = 0;
    }
}

/* The constant maps become the constant part, but calls, which read literals alone, are computed.
 * All weights stand in it, in the model's shape, whatever views of them later passes take. */
static void put_off(Folding *f) {
    IntVec maps = {0};
    for (int i = 0; i < f->work.n; i++) {
        const Item *it = &f->work.at[i];
        if (it->kind == ITEM_MAP) vec_push(f->arena, &maps, it->map);
        if (it->kind == ITEM_CALL) evaluate_some(f, it, 1);
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nout; k++)
            if (it->call->out[k] >= 0) f->constant[it->call->out[k]] = false;
    }
    Flow *part = constant_part(f->arena, f->flow, maps.at, maps.n);
    for (int c = 0; c < f->flow->cont.n; c++) {
        Cont *cont = &f->flow->cont.at[c];
        if (cont->kind == CONT_PARAM && dtype_class(cont->type) != CLASS_OBJECT)
            constant_part_weight(part, cont);
        if (!f->constant[c]) continue;
        cont->kind = CONT_PARAM;
        cont->from = NULL;
    }
    f->flow->prepare = part;
}

Flow *pass_constants(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_constants(Arena *arena, const Flow *flow, const PassEnv *env) {
    Folding f = {.arena = arena, .flow = flow_clone(arena, flow)};
    f.late = env->packing != PACK_BUILD;
    constants_decode(arena, f.flow, env);
    Items moved = {0};
    int nmap = f.flow->map.n;
    f.constant = NEW_ARRAY(arena, bool, f.flow->cont.n + 1);
    for (int m = 0; m < nmap; m++) hoist(&f, f.flow->map.at[m], &moved);
    Items all = moved;
    for (int i = 0; i < f.flow->body.n; i++) vec_push(arena, &all, f.flow->body.at[i]);
    f.flow->body = all;
    f.constant = NEW_ARRAY(arena, bool, f.flow->cont.n + 1);
    find_constant(&f, &all);
    Items left = take_constant(&f, &all);
    if (!f.work.n && !f.late) return f.flow;
    if (f.late)
        put_off(&f);
    else
        evaluate(&f);
    f.flow->body = left;
    flow_compact(f.flow);
    return f.flow;
}
