/* SPDX-License-Identifier: Apache-2.0 */
/* Composing maps, shared by `clean` (views) and `fuse` (element-wise maps): where containers are
 * used, bodies rewritten over other dims and reads, a producer's body put where a reader reads what
 * it makes, and maps dropped that nobody needs any more. Every value stays as it is bit for bit. */
#include "passes/compose.h"

/* ---- uses ----------------------------------------------------------------------------------- */

static void hold(Uses *u, int cont) {
    if (cont >= 0) u->held[cont] = true;
}

static void ask(Uses *u, int cont) {
    hold(u, cont);
    if (cont >= 0) u->asked[cont]++;
}

static void count_items(Editing *c, const Items *items) {
    Uses *u = &c->uses;
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = c->flow->map.at[it->map];
            u->home[it->map] = items;
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ)
                    vec_push(c->arena, &u->readers[m->body.val.at[v].read.cont], it->map);
            for (int w = 0; w < m->write.n; w++)
                for (int k = 0; k < m->write.at[w].n; k++)
                    vec_push(c->arena, &u->writers[m->write.at[w].to[k].cont], it->map);
            continue;
        }
        if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nin; k++) ask(u, it->call->in[k]);
            for (int k = 0; k < it->call->nout; k++) hold(u, it->call->out[k]);
        } else {
            ask(u, it->cond);
        }
        for (int k = 0; k < it->carry.n; k++) {
            ask(u, it->carry.at[k].cur);
            ask(u, it->carry.at[k].init);
            ask(u, it->carry.at[k].next);
        }
        count_items(c, &it->body);
        count_items(c, &it->other);
    }
}

void uses_count(Editing *c) {
    int ncont = c->flow->cont.n, nmap = c->flow->map.n;
    Uses *u = &c->uses;
    u->writer = flow_writers(c->arena, c->flow);
    u->writers = arena_array(c->arena, (size_t)ncont + 1, sizeof *u->writers);
    u->readers = arena_array(c->arena, (size_t)ncont + 1, sizeof *u->readers);
    u->held = NEW_ARRAY(c->arena, bool, ncont + 1);
    u->asked = NEW_ARRAY(c->arena, int, ncont + 1);
    u->home = NEW_ARRAY(c->arena, const Items *, nmap + 1);
    count_items(c, &c->flow->body);
}

IntVec item_writes(Arena *arena, const Flow *flow, const Item *it) {
    const Map *m = it->kind == ITEM_MAP ? flow->map.at[it->map] : NULL;
    IntVec conts = {0};
    for (int w = 0; m && w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            vec_push(arena, &conts, m->write.at[w].to[k].cont);
    for (int k = 0; it->kind == ITEM_CALL && k < it->call->nout; k++)
        if (it->call->out[k] >= 0) vec_push(arena, &conts, it->call->out[k]);
    return conts;
}

/* ---- rewriting one map ---------------------------------------------------------------------- */

Dim dim_computed(Ctx *ctx, Prim op, Dim a, Dim b) {
    DimSubst of[] = {{dim_sym(ctx, "a"), a}, {dim_sym(ctx, "b"), b}};
    if (!a || !b || (op != P_ADD && op != P_SUB && op != P_MUL)) return NULL;
    Dim value = op == P_ADD   ? dim_add(ctx, of[0].sym, of[1].sym)
                : op == P_SUB ? dim_sub(ctx, of[0].sym, of[1].sym)
                              : dim_mul(ctx, of[0].sym, of[1].sym);
    return dim_try_subst(ctx, value, of, 2);
}

Dim loop_var(const Flow *flow, const char *name, int from) {
    for (;; from++) {
        Dim var = dim_sym(flow->ctx, internf(flow->ctx, "%s%d", name, from));
        bool taken = false;
        for (int i = 0; i < flow->symbol.n; i++) taken |= flow->symbol.at[i].sym == var;
        for (int i = 0; i < flow->map.n; i++)
            for (int d = 0; d < flow->map.at[i]->dim.n; d++)
                taken |= flow->map.at[i]->dim.at[d].sym == var;
        if (!taken) return var;
    }
}

Map *map_again(Editing *e, const Map *m, Items *into) {
    Arena *arena = e->flow->arena;
    Map *copy = flow_map(e->flow, into, m->name, m->from);
    const char *name = copy->name;
    *copy = *m;
    copy->name = name;
    copy->dim.at = arena_copy(arena, m->dim.at, (size_t)m->dim.n * sizeof *m->dim.at);
    copy->cons.at = arena_copy(arena, m->cons.at, (size_t)m->cons.n * sizeof *m->cons.at);
    copy->write.at = arena_copy(arena, m->write.at, (size_t)m->write.n * sizeof *m->write.at);
    return copy;
}

void map_rewrite(Editing *c, Map *m, const DimSubst *subst, int n, BodyReadFn *read, void *user) {
    Body out = {.arena = c->arena};
    int *map = NEW_ARRAY(c->arena, int, m->body.val.n + 1);
    body_inline(&out, &m->body, subst, n, NULL, read, user, map);
    int nroot = 0, *roots = NEW_ARRAY(c->arena, int, m->write.n *COMBINE_STATES + 1);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].nstate; k++) roots[nroot++] = map[m->write.at[w].val[k]];
    body_prune(&out, roots, nroot);
    nroot = 0;
    for (int w = 0; w < m->write.n; w++) {
        Write *wr = &m->write.at[w];
        wr->val = arena_copy(c->arena, &roots[nroot], (size_t)wr->nstate * sizeof *roots);
        nroot += wr->nstate;
        Access *to = arena_copy(c->arena, wr->to, (size_t)wr->n * sizeof *to);
        for (int k = 0; k < wr->n; k++) {
            Dim *at = NEW_ARRAY(c->arena, Dim, to[k].rank + 1);
            for (int d = 0; d < to[k].rank; d++)
                at[d] = dim_subst(c->flow->ctx, to[k].at[d], subst, n);
            to[k].at = at;
        }
        wr->to = to;
    }
    for (int i = 0; i < m->cons.n; i++)
        m->cons.at[i] = dim_subst(c->flow->ctx, m->cons.at[i], subst, n);
    m->body = out;
}

int simplify_read(void *user, Body *b, const Val *read) {
    const DimEnv *env = user;
    Ctx *ctx = arena_ctx(b->arena);
    Dim at[RANK_MAX];
    for (int k = 0; k < read->read.rank; k++) at[k] = dim_simplify(ctx, read->read.at[k], env);
    Access to = {read->read.cont, read->read.rank,
                 arena_copy(b->arena, at, (size_t)read->read.rank * sizeof *at)};
    return read->has_else ? body_read_else(b, to, read->type, read->arg[0])
                          : body_read(b, to, read->type);
}

int read_other(void *user, Body *b, const Val *read) {
    const Instead *i = user;
    if (read->read.cont != i->cont) return -1;
    Access from = {i->other, read->read.rank, read->read.at};
    return read->has_else ? body_read_else(b, from, read->type, read->arg[0])
                          : body_read(b, from, read->type);
}

/* ---- dead writes ----------------------------------------------------------------------------- */

static bool write_needed(const Editing *c, const Write *write) {
    for (int k = 0; k < write->n; k++) {
        int cont = write->to[k].cont;
        ContKind kind = c->flow->cont.at[cont].kind;
        if (kind == CONT_OUT || c->uses.held[cont] || c->uses.readers[cont].n) return true;
    }
    return false;
}

/* Drops what a map writes for nobody; true: something went. */
static bool drop_writes(Editing *c, Map *m) {
    int n = 0, before = m->write.n;
    for (int w = 0; w < before; w++)
        if (write_needed(c, &m->write.at[w])) m->write.at[n++] = m->write.at[w];
    m->write.n = n;
    if (n && n < before) map_rewrite(c, m, NULL, 0, NULL, NULL);
    return n < before;
}

/* A call that gives temporaries only, which nobody takes, and no size. */
static bool call_needed(const Editing *c, const Call *call) {
    bool gives = false;
    for (int i = 0; i < call->nout; i++) {
        int cont = call->out[i];
        if (cont < 0) continue;
        gives = true;
        if (c->flow->cont.at[cont].kind != CONT_TMP || c->uses.asked[cont] ||
            c->uses.readers[cont].n)
            return true;
    }
    return !gives || call->ndefine;
}

static bool item_needed(const Editing *c, const Item *it) {
    if (it->kind == ITEM_MAP) return c->flow->map.at[it->map]->write.n > 0;
    return it->kind != ITEM_CALL || call_needed(c, it->call);
}

/* Last item first: what a dropped call took may go at once. */
static bool drop_items(Editing *c, Items *items) {
    int n = items->n, before = items->n;
    bool dropped = false;
    for (int i = before - 1; i >= 0; i--) {
        Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) dropped |= drop_writes(c, c->flow->map.at[it->map]);
        if (!item_needed(c, it)) {
            for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++)
                if (it->call->in[k] >= 0) c->uses.asked[it->call->in[k]]--;
            continue;
        }
        dropped |= drop_items(c, &it->body);
        dropped |= drop_items(c, &it->other);
        items->at[--n] = *it;
    }
    for (int i = n; i < before; i++) items->at[i - n] = items->at[i];
    items->n = before - n;
    return dropped || n > 0;
}

void drop_unneeded(Editing *c) {
    uses_count(c);
    while (drop_items(c, &c->flow->body)) uses_count(c);
    flow_compact(c->flow);
    uses_count(c);
}

/* ---- composing ------------------------------------------------------------------------------ */

/* The one plain write of a map without sequential dims, or NULL. */
const Access *map_plain_write(const Map *m) {
    if (m->write.n != 1 || m->write.at[0].combine || m->write.at[0].n != 1) return NULL;
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq) return NULL;
    return &m->write.at[0].to[0];
}

/* Every dim of the written container is one dim of the map, over its whole extent. */
bool writes_whole(const Flow *flow, const Map *m, const Access *to) {
    bool seen[MAP_DIMS] = {false};
    const Cont *cont = &flow->cont.at[to->cont];
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(m, to, k);
        if (d < 0) {
            if (dim_is(cont->shape[k], 1) && dim_is(to->at[k], 0)) continue;
            return false;
        }
        if (seen[d] || m->dim.at[d].extent != cont->shape[k]) return false;
        seen[d] = true;
    }
    return true;
}

int joined_digits(const Flow *flow, const Map *m, Dim at, int *digit) {
    Ctx *ctx = flow->ctx;
    Dim rest = at, step = dim_const(ctx, 1);
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        if (dim_is(dim->extent, 1) || !dim_uses(rest, dim->sym)) continue;
        Dim left = dim_sub(ctx, rest, dim_mul(ctx, step, dim->sym));
        if (dim_uses(left, dim->sym)) continue;
        digit[n++] = d, rest = left, step = dim_mul(ctx, step, dim->extent), d = -1;
    }
    return dim_is(rest, 0) ? n : 0;
}

bool joined_dims(const Flow *flow, const Map *m, Dim at, int *outer, int *inner) {
    int digit[MAP_DIMS];
    if (joined_digits(flow, m, at, digit) != 2) return false;
    *inner = digit[0], *outer = digit[1];
    return true;
}

bool writes_joined(const Flow *flow, const Map *m, const Access *to) {
    bool seen[MAP_DIMS] = {false};
    const Cont *cont = &flow->cont.at[to->cont];
    for (int k = 0; k < to->rank; k++) {
        int digit[MAP_DIMS], n = joined_digits(flow, m, to->at[k], digit);
        if (!n && dim_is(cont->shape[k], 1) && dim_is(to->at[k], 0)) continue;
        Dim extent = dim_const(flow->ctx, 1);
        for (int i = 0; i < n; i++) {
            if (seen[digit[i]]) return false;
            seen[digit[i]] = true;
            extent = dim_mul(flow->ctx, extent, m->dim.at[digit[i]].extent);
        }
        if (!n || extent != cont->shape[k]) return false;
    }
    return true;
}

int reads_of(const Map *m, int cont) {
    int n = 0;
    for (int v = 0; v < m->body.val.n; v++)
        n += m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == cont;
    return n;
}

/* Is every dim of the map in one index of the access, alone or joined with others? */
static bool meets_once(const Flow *flow, const Map *m, const Access *a) {
    bool seen[MAP_DIMS] = {false};
    int left = 0;
    for (int d = 0; d < m->dim.n; d++) left += !dim_is(m->dim.at[d].extent, 1);
    for (int k = 0; k < a->rank; k++) {
        int digit[MAP_DIMS], n = joined_digits(flow, m, a->at[k], digit);
        if (!n && !dim_is_const(a->at[k], NULL)) return false;
        for (int i = 0; i < n; i++) {
            if (seen[digit[i]]) return false;
            seen[digit[i]] = true, left--;
        }
    }
    return !left;
}

bool reads_once(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == cont &&
            (val->has_else || !access_covers(m, &val->read)))
            return false;
    }
    return true;
}

bool reads_joined(const Flow *flow, const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == cont &&
            (val->has_else || !meets_once(flow, m, &val->read)))
            return false;
    }
    return true;
}

typedef struct Compose {
    Editing *c;
    const Map *producer;
    const Access *to;
    const Map *reader;
    DimEnv env;
} Compose;

/* What the producer's dims are where it writes the element that `read` asks for. */
static int producer_dims(const Compose *p, const Access *read, DimSubst *subst) {
    Ctx *ctx = p->c->flow->ctx;
    const Map *m = p->producer;
    for (int d = 0; d < m->dim.n; d++) subst[d] = (DimSubst){m->dim.at[d].sym, dim_const(ctx, 0)};
    for (int k = 0; k < p->to->rank; k++) {
        int digit[MAP_DIMS], n = joined_digits(p->c->flow, m, p->to->at[k], digit);
        Dim rest = read->at[k];
        for (int i = 0; i < n; i++) {
            Dim extent = m->dim.at[digit[i]].extent;
            subst[digit[i]].to = i < n - 1 ? dim_mod(ctx, rest, extent) : rest;
            if (i < n - 1) rest = dim_div(ctx, rest, extent);
        }
    }
    return m->dim.n;
}

/* A read of the producer's container becomes the producer's body at that index. */
static int composed(void *user, Body *b, const Val *read) {
    Compose *p = user;
    if (read->read.cont != p->to->cont) return -1;
    DimSubst subst[MAP_DIMS];
    int n = producer_dims(p, &read->read, subst);
    if (read->has_else) {
        const Val *from = &p->producer->body.val.at[p->producer->write.at[0].val[0]];
        Dim *at = NEW_ARRAY(b->arena, Dim, from->read.rank + 1);
        for (int k = 0; k < from->read.rank; k++)
            at[k] = dim_simplify(p->c->flow->ctx,
                                 dim_subst(p->c->flow->ctx, from->read.at[k], subst, n), &p->env);
        return body_read_else(b, (Access){from->read.cont, from->read.rank, at}, from->type,
                              read->arg[0]);
    }
    int *map = NEW_ARRAY(b->arena, int, p->producer->body.val.n + 1);
    body_inline(b, &p->producer->body, subst, n, NULL, simplify_read, &p->env, map);
    int val = map[p->producer->write.at[0].val[0]];
    return body_cvt(b, p->c->flow->cont.at[p->to->cont].type, val);
}

void compose_map(Editing *c, const Map *producer, const Access *to, Map *reader) {
    Compose p = {c, producer, to, reader, map_env(c->arena, c->flow, reader)};
    map_rewrite(c, reader, NULL, 0, composed, &p);
    reader->from = from_join(c->flow->ctx, reader->from, producer->from);
}
