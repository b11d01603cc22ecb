/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise maps that make pieces of what one map reads, put into it.
 *
 * The halves of a container (turned pairs of a rotary embedding) come from maps of their own, and
 * one element-wise map reads it whole: three kernels, of which two only move. Where the pieces are
 * of one size the reader becomes a map over one piece that writes an element of each: what several
 * pieces read is read once, and the container is gone. For machines of blocks of threads, where a
 * launch costs more than such a map. */
#include "passes/fuse.h"

enum { PIECES_MOST = 4 };

typedef struct Piece {
    const Map *by;
    const Access *to;
    int64_t first; /* of index k */
} Piece;

typedef struct Pieces {
    Editing *e;
    int cont, k, n;
    int64_t size;
    Piece piece[PIECES_MOST], *now;
    int reader, dim; /* map, and its dim that runs along index k */
    DimEnv env;
} Pieces;

/* The dim of m that the index is, but for a constant; -1: none. */
static int shifted_dim(Ctx *ctx, const Map *m, Dim at, int64_t *by) {
    for (int d = 0; d < m->dim.n; d++)
        if (dim_is_const(dim_sub(ctx, at, m->dim.at[d].sym), by)) return d;
    return -1;
}

/* Is it a box of the container, a part along one index alone? */
static bool is_piece(Pieces *p, int map, Piece *piece) {
    const Flow *flow = p->e->flow;
    const Cont *c = &flow->cont.at[p->cont];
    const Map *m = flow->map.at[map];
    bool seen[MAP_DIMS] = {false};
    int used = 0, part = -1;
    int64_t size = 0, by;
    *piece = (Piece){.by = m, .to = map_plain_write(m)};
    if (!piece->to || map_is_reduction(m) || m->cons.n) return false;
    for (int k = 0; k < c->rank; k++) {
        Dim at = piece->to->at[k];
        if (dim_is(c->shape[k], 1) && dim_is(at, 0)) continue;
        int d = shifted_dim(flow->ctx, m, at, &by);
        if (d < 0 || seen[d]) return false;
        seen[d] = true, used++;
        if (m->dim.at[d].extent == c->shape[k]) continue;
        if (part >= 0 || !dim_is_const(m->dim.at[d].extent, &size)) return false;
        part = k, piece->first = by;
    }
    if (part < 0 || used != m->dim.n || (p->n && (part != p->k || size != p->size))) return false;
    p->k = part, p->size = size;
    return true;
}

static bool find_pieces(Pieces *p, const PassEnv *env) {
    const IntVec *writers = &p->e->uses.writers[p->cont];
    int64_t all;
    bool there[PIECES_MOST] = {false};
    if (writers->n < 2 || writers->n > PIECES_MOST) return false;
    for (p->n = 0; p->n < writers->n; p->n++) {
        int map = writers->at[p->n];
        Piece *piece = &p->piece[p->n];
        if (!is_piece(p, map, piece) || p->e->uses.home[map] != p->e->uses.home[p->reader] ||
            recipe_find(env, "fuse", piece->by->name))
            return false;
        int64_t number = piece->first / p->size;
        if (piece->first % p->size || number >= PIECES_MOST || there[number]) return false;
        there[number] = true;
    }
    return dim_is_const(p->e->flow->cont.at[p->cont].shape[p->k], &all) && all == p->n * p->size;
}

/* Does one element-wise map read the container, each element once, no epilogue of anything? */
static bool find_reader(Pieces *p) {
    const Editing *e = p->e;
    const Cont *c = &e->flow->cont.at[p->cont];
    const IntVec *readers = &e->uses.readers[p->cont];
    if (c->kind != CONT_TMP || c->layout || e->uses.held[p->cont] || readers->n != 1) return false;
    p->reader = readers->at[0];
    const Map *m = e->flow->map.at[p->reader];
    return map_plain_write(m) && !map_is_reduction(m) && !m->cons.n && reads_once(m, p->cont) &&
           last_contraction(e, p->reader, p->cont) < 0;
}

static bool find_dim(Pieces *p) {
    const Map *m = p->e->flow->map.at[p->reader];
    int vals = m->body.val.n;
    for (int i = 0; i < p->n; i++) vals += p->piece[i].by->body.val.n;
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == p->cont)
            p->dim = access_dim(m, &m->body.val.at[v].read, p->k);
    return p->dim >= 0 && p->n * vals <= BODY_MAX;
}

/* A BodyReadFn: the piece's body in place of what it makes. */
static int read_piece(void *user, Body *b, const Val *read) {
    Pieces *p = user;
    const Map *m = p->now->by;
    Ctx *ctx = p->e->flow->ctx;
    DimSubst subst[MAP_DIMS];
    int64_t by;
    int n = 0, *map = NEW_ARRAY(b->arena, int, m->body.val.n + 1);
    if (read->read.cont != p->cont) return simplify_read(&p->env, b, read);
    for (int k = 0; k < read->read.rank; k++) {
        int d = shifted_dim(ctx, m, p->now->to->at[k], &by);
        if (d >= 0) subst[n++] = (DimSubst){m->dim.at[d].sym, dim_addc(ctx, read->read.at[k], -by)};
    }
    body_inline(b, &m->body, subst, n, NULL, simplify_read, &p->env, map);
    return body_cvt(b, read->type, map[m->write.at[0].val[0]]);
}

static void join_pieces(Pieces *p) {
    Flow *flow = p->e->flow;
    Map *m = flow->map.at[p->reader];
    const Body body = m->body;
    const Write write = m->write.at[0];
    Dim sym = m->dim.at[p->dim].sym;
    int *map = NEW_ARRAY(p->e->arena, int, body.val.n + 1);
    m->dim.at[p->dim].extent = dim_const(flow->ctx, p->size);
    m->body = (Body){.arena = p->e->arena};
    m->write.n = 0;
    p->env = map_env(p->e->arena, flow, m);
    for (int i = 0; i < p->n; i++) {
        DimSubst to = {sym, dim_addc(flow->ctx, sym, p->piece[i].first)};
        Dim at[RANK_MAX];
        p->now = &p->piece[i];
        body_inline(&m->body, &body, &to, 1, NULL, read_piece, p, map);
        for (int k = 0; k < write.to[0].rank; k++)
            at[k] = dim_subst(flow->ctx, write.to[0].at[k], &to, 1);
        map_write(flow, m, write.to[0].cont, at, map[write.val[0]], NULL);
        m->from = from_join(flow->ctx, m->from, p->now->by->from);
    }
    for (int i = 0; i < p->n; i++) {
        Map *gone = flow->map.at[p->e->uses.writers[p->cont].at[i]];
        gone->body = (Body){.arena = p->e->arena};
        gone->write.n = 0;
    }
    uses_count(p->e);
}

void fuse_pieces(Editing *e, const PassEnv *env) {
    for (int c = 0; c < e->flow->cont.n && env->machine->block_threads; c++) {
        Pieces p = {.e = e, .cont = c, .dim = -1};
        if (find_reader(&p) && find_pieces(&p, env) && find_dim(&p)) join_pieces(&p);
    }
}
