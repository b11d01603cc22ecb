/* SPDX-License-Identifier: Apache-2.0 */
/* Vector loops of a thread: neighbours in memory are fetched and stored at once.
 *
 * Where the lanes of an access lie side by side, on a boundary of all of them, one instruction
 * moves them; what is computed from them is printed lane by lane. An asynchronous copy goes
 * straight from memory to a shared array. */
#include "cuda.h"

enum { WORD_BYTES = 16, STORE_BYTES = 32 }; /* that one instruction moves; of a store at most */

static void put_loop(CNest *c, const Stmt *s) {
    names_var(&c->names, s->var, "?", dim_const(c->ctx, 0), dim_addc(c->ctx, s->extent, -1));
}

bool cuda_reads_own(const CNest *c) {
    for (int i = 0; i < c->nest->buf.n; i++)
        if (c->nest->buf.at[i].kind == BUF_MEMORY && c->buf[i].read && c->buf[i].written)
            return true;
    return may_alias(c);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* What must hold for an index to be inside, as far as that is not proven. */
static const char *inside(CNest *c, const Access *a) {
    const Buf *b = &c->nest->buf.at[a->cont];
    DimEnv env = names_env(&c->names);
    Text out = {.arena = c->arena};
    for (int k = 0; k < a->rank; k++) {
        Dim at = names_subst(&c->names, a->at[k]), room = dim_sub(c->ctx, b->box[k], at);
        const char *e = emit_dim_str(&c->names, at), *n = emit_dim_str(&c->names, b->box[k]);
        bool below = dim_ge0(c->ctx, at, &env);
        if (below && dim_ge0(c->ctx, dim_addc(c->ctx, room, -1), &env)) continue;
        text_printf(&out, "%s(u64)(%s) < (u64)(%s)", out.n ? " && " : "", e, n);
    }
    return out.n ? text_str(&out) : "true";
}

static bool multiple(CNest *c, Dim d, int64_t of) {
    return dim_is(dim_mod(c->ctx, d, dim_const(c->ctx, of)), 0);
}

/* The offset of lane 0, where the lanes lie side by side from a multiple of their number on, as a
 * single one does. */
static bool row_of(CNest *c, const Access *a, const Stmt *loop, int64_t lanes, Dim *first) {
    Dim coef;
    if (lanes == 1 && !dim_uses(access_flat(c, a), loop->var)) {
        *first = access_flat(c, a);
        return true;
    }
    return dim_affine(c->ctx, access_flat(c, a), &loop->var, 1, &coef, first) && dim_is(coef, 1) &&
           multiple(c, *first, lanes);
}

/* Of the sum d, the terms that are multiples of n. */
static Dim multiples(Ctx *ctx, Dim d, int64_t n) {
    Dim sum = dim_const(ctx, 0);
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *term = &d->term[i];
        if (!term->natoms)
            sum = dim_addc(ctx, sum, term->coef / n * n);
        else if (term->coef % n == 0)
            sum = dim_add(ctx, sum, dim_of_term(ctx, term));
    }
    return sum;
}

/* Where an element lies in its buffer. In swizzled arrays what eights of rows add to the offset is
 * left outside, so that copies to several share what is exchanged. */
static const char *place(CNest *c, int buf, Dim at) {
    const Buf *b = &c->nest->buf.at[buf];
    if (!b->swizzled) return emit_dim_str(&c->names, at);
    Dim eights = multiples(c->ctx, at, SWIZZLED_ROWS * SWIZZLED_ROW / (dtype_bits(b->type) / 8));
    return str(c, "%s + %s",
               emit_place(c, buf, emit_dim_str(&c->names, dim_sub(c->ctx, at, eights))),
               emit_dim_str(&c->names, eights));
}

/* `lanes` neighbours from memory to a shared array, where an instruction moves so many bytes. */
static bool copy_row(CNest *c, const Stmt *loop, const Stmt *s, int64_t lanes) {
    const Val *read = &s->code.val.at[s->store.at[0].val];
    const Access *to = &s->store.at[0].to;
    int64_t bytes = lanes * dtype_bits(read->type) / 8;
    const Val *other = read->has_else ? &s->code.val.at[read->arg[0]] : NULL;
    Dim from, at;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || dtype_bits(read->type) < 8) return false;
    if (other && (other->kind != VAL_CONST || other->bits)) return false;
    if (!row_of(c, &read->read, loop, lanes, &from) || !row_of(c, to, loop, lanes, &at))
        return false;
    int mark = c->names.at.n;
    names_const(&c->names, loop->var, 0, dim_const(c->ctx, 0), dim_const(c->ctx, lanes - 1));
    put_line(c, "copy_async<%d>(%s + %s, %s + %s, %s);", (int)bytes, c->buf[to->cont].name,
             place(c, to->cont, at), c->buf[read->read.cont].name, emit_dim_str(&c->names, from),
             other ? inside(c, &read->read) : "true");
    names_pop(&c->names, mark);
    c->epoch[1]++;
    return true;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Of the loop that is printed: a value for each lane of a store, filled lane by lane. */
struct CWide {
    const Stmt *loop, *body;
    const char **name; /* by store; NULL: it goes lane by lane */
};

static bool uses_data(const Stmt *s, const Access *a) {
    for (int v = 0; v < s->code.val.n; v++)
        for (int k = 0; s->code.val.at[v].sym && k < a->rank; k++)
            if (dim_uses(a->at[k], s->code.val.at[v].sym)) return true;
    return false;
}

static bool in_fragment(const CNest *c, const Access *a) {
    return c->nest->buf.at[a->cont].kind == BUF_FRAGMENT;
}

/* May the lanes of the access move at once? */
static bool is_wide(CNest *c, const Stmt *loop, const Stmt *s, const Access *a, int64_t lanes,
                    Dim *first) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int64_t bytes = lanes * dtype_bits(b->type) / 8;
    if (in_fragment(c, a)) return lanes == 2;
    bool memory = c->buf[a->cont].kind == BUF_MEMORY || c->buf[a->cont].kind == BUF_SHARED;
    if (!memory || b->type == BOOL || uses_data(s, a)) return false;
    if (b->swizzled && bytes > SWIZZLED_PART) return false;
    return (bytes == 4 || bytes == 8 || (bytes > 0 && bytes % WORD_BYTES == 0)) &&
           row_of(c, a, loop, lanes, first);
}

static bool in_reach(const CNest *c, int buf, Dim flat, int epoch) {
    for (int i = c->loaded.n - 1; i >= c->loaded_from; i--) {
        const Loaded *l = &c->loaded.at[i];
        if (l->buf == buf && l->flat == flat && l->epoch == epoch && l->lanes == 1) return true;
    }
    return false;
}

/* Does the body want the value as an f32? */
static bool wants_single(const Stmt *s, const Val *read) {
    bool any = false;
    for (int v = 0; v < s->code.val.n; v++) {
        const Val *val = &s->code.val.at[v];
        any |= val->kind == VAL_PRIM && val->prim == P_CVT && &s->code.val.at[val->arg[0]] == read;
    }
    return any && is_small_float(read->type);
}

/* `lanes` elements from `first` on by one instruction; halves as f32, too, where that is what is
 * wanted, so that they are converted once. Codes of less than a byte come as bytes. */
static void load_piece(CNest *c, const Access *a, Dim first, int64_t lanes, bool single) {
    const Buf *b = &c->nest->buf.at[a->cont];
    int bits = dtype_bits(b->type), each = bits < 8 ? 8 / bits : 1;
    const char *name = str(c, "x%d", c->fresh++);
    const char *at = emit_dim_str(&c->names, dim_div(c->ctx, first, dim_const(c->ctx, each)));
    const char *when = c->loading && *c->loading ? str(c, ", %s", c->loading) : "";
    put_line(c, "const wide<%s, %d> %s = load_%s<%d>(%s + %s%s);", array_type(b), (int)lanes / each,
             name, c->loading ? "first" : "wide", (int)lanes / each, c->buf[a->cont].name, at,
             when);
    for (int64_t l = 0; l < lanes; l++) {
        CVal v = {.type = b->type, .text = str(c, "%s.v[%d]", name, (int)l)};
        if (bits < 8)
            v = named(c, b->type, false, 0,
                      str(c, "get_%s%d(%s.v, %d)", dtype_is_signed(b->type) ? "i" : "u", bits, name,
                          (int)l));
        if (single) {
            const char *e = str(c, "f32_of_%s(%s)", dtype_name(b->type), v.text);
            v.single = named(c, F32, false, 0, e).text;
        }
        vec_push(c->arena, &c->loaded,
                 (Loaded){a->cont, 1, c->epoch[b->kind != BUF_MEMORY], c->scope,
                          dim_addc(c->ctx, first, l), NULL, v});
    }
}

/* Loads that lanes then find. */
static bool load_row(CNest *c, const Stmt *loop, const Stmt *s, const Access *a, int64_t lanes,
                     bool single) {
    const Buf *b = &c->nest->buf.at[a->cont];
    Dim first;
    if (!is_wide(c, loop, s, a, lanes, &first)) return false;
    if (in_reach(c, a->cont, first, c->epoch[b->kind != BUF_MEMORY])) return true;
    int64_t most = 8 * WORD_BYTES / dtype_bits(b->type), piece = lanes < most ? lanes : most;
    for (int64_t l = 0; l < lanes; l += piece)
        load_piece(c, a, dim_addc(c->ctx, first, l), piece, single);
    return true;
}

/* What the lanes read. */
static bool load_read(CNest *c, const Stmt *loop, const Stmt *s, const Val *read, int64_t lanes) {
    return read->kind == VAL_READ && !read->has_else &&
           load_row(c, loop, s, &read->read, lanes, wants_single(s, read));
}

bool cuda_store(CNest *c, const Access *to, CVal *v) {
    const struct CWide *w = c->wide;
    int64_t lane = 0;
    for (int i = 0; i < w->body->store.n; i++) {
        if (to != &w->body->store.at[i].to || !w->name[i]) continue;
        dim_is_const(names_subst(&c->names, w->loop->var), &lane);
        put_line(c, "%s.v[%d] = %s;", w->name[i], (int)lane, v->text);
        return true;
    }
    return false;
}

static void run_lanes(CNest *c, const struct CWide *w, int64_t lanes) {
    const struct CWide *outside = c->wide;
    c->wide = w;
    for (int64_t l = 0; l < lanes; l++) {
        int mark = c->names.at.n;
        names_const(&c->names, w->loop->var, l, dim_const(c->ctx, 0), dim_const(c->ctx, lanes - 1));
        emit_body(c, w->body);
        names_pop(&c->names, mark);
    }
    c->wide = outside;
}

/* The lanes of a store as they were computed, at once. */
static void store_row(CNest *c, const Access *to, Dim first, DType type, const char *name) {
    const char *buf = c->buf[to->cont].name;
    if (in_fragment(c, to))
        put_line(c, "%s[%lld] = pair_%s(%s.v[0], %s.v[1]);", buf,
                 (long long)cuda_fragment_word(c, to),
                 type == F32 ? dtype_name(c->nest->buf.at[to->cont].type) : "u16", name, name);
    else
        put_line(c, "store_wide(%s + %s, %s);", buf, place(c, to->cont, first), name);
    bool memory = c->nest->buf.at[to->cont].kind == BUF_MEMORY;
    if (!memory || cuda_reads_own(c)) c->epoch[!memory]++;
}

/* What is rounded to go to a fragment: two lanes are rounded at once. */
static const Stmt *unrounded(CNest *c, const Stmt *s) {
    const Val *v = &s->code.val.at[s->store.at[0].val];
    if (s->store.n != 1 || !in_fragment(c, &s->store.at[0].to) || v->kind != VAL_PRIM ||
        v->prim != P_CVT || s->code.val.at[v->arg[0]].type != F32)
        return s;
    Stmt *wide = arena_copy(c->arena, s, sizeof *s);
    wide->store.at = arena_copy(c->arena, s->store.at, sizeof *s->store.at);
    wide->code.arena = c->arena;
    wide->code.val.at =
        arena_copy(c->arena, s->code.val.at, (size_t)s->code.val.n * sizeof *s->code.val.at);
    wide->store.at[0].val = v->arg[0];
    body_prune(&wide->code, &wide->store.at[0].val, 1);
    return wide;
}

/* One body of which some accesses are wide; false when none is, and nothing was printed. */
static bool wide_body(CNest *c, const Stmt *loop, const Stmt *s, int64_t lanes) {
    struct CWide w = {loop, s, NEW_ARRAY(c->arena, const char *, s->store.n)};
    Dim *first = NEW_ARRAY(c->arena, Dim, s->store.n);
    int mark = c->names.at.n;
    bool any = false;
    put_loop(c, loop);
    for (int v = 0; v < s->code.val.n; v++) any |= load_read(c, loop, s, &s->code.val.at[v], lanes);
    for (int i = 0; i < s->store.n; i++) {
        const Access *to = &s->store.at[i].to;
        int bits = dtype_bits(c->nest->buf.at[to->cont].type);
        if (bits < 8 || bits * lanes > 8 * STORE_BYTES) continue;
        if (!is_wide(c, loop, s, to, lanes, &first[i])) continue;
        any = true;
        w.name[i] = str(c, "y%d", c->fresh++);
        put_line(c, "wide<%s, %d> %s;", scalar_type(s->code.val.at[s->store.at[i].val].type),
                 (int)lanes, w.name[i]);
    }
    names_pop(&c->names, mark);
    if (!any) return false;
    run_lanes(c, &w, lanes);
    for (int i = 0; i < s->store.n; i++)
        if (w.name[i])
            store_row(c, &s->store.at[i].to, first[i], s->code.val.at[s->store.at[i].val].type,
                      w.name[i]);
    return true;
}

bool cuda_lanes(CNest *c, const Stmt *loop) {
    int64_t lanes;
    const Stmt *s = loop->body.n == 1 ? loop->body.at[0] : NULL;
    bool fetch = s && s->kind == STMT_PREFETCH;
    if (!s || !(fetch || s->kind == STMT_BODY) || loop->guard.n ||
        !dim_is_const(loop->extent, &lanes))
        return false;
    if (!fetch && !s->async) return wide_body(c, loop, unrounded(c, s), lanes);
    int mark = c->names.at.n;
    put_loop(c, loop);
    bool done = fetch ? load_row(c, loop, s, &s->at, lanes, false) : copy_row(c, loop, s, lanes);
    names_pop(&c->names, mark);
    return fetch || done;
}

/* ---- before all else --------------------------------------------------------------------------
 */

/* An element by itself, of a size that has a word. */
static void load_element(CNest *c, const Stmt *s) {
    const Access *a = &s->at;
    const Buf *b = &c->nest->buf.at[a->cont];
    int bytes = dtype_bits(b->type) / 8;
    Dim flat = access_flat(c, a);
    bool there = in_reach(c, a->cont, flat, c->epoch[0]);
    if (!there && b->type != BOOL && (bytes == 2 || bytes == 4 || bytes == 8))
        load_piece(c, a, flat, 1, false);
}

static void load_unrolled(CNest *c, const Stmt *loop) {
    int64_t extent = 0;
    if (!dim_is_const(loop->extent, &extent)) BUG("an unrolled loop of unknown size");
    Dim none = dim_const(c->ctx, 0), last = dim_addc(c->ctx, loop->extent, -1);
    for (int64_t i = 0; i < extent; i++) {
        int mark = c->names.at.n;
        names_const(&c->names, loop->var, i, none, last);
        cuda_load_first(c, &loop->body);
        names_pop(&c->names, mark);
    }
}

/* A branch or loop of loads: what guards it must hold for each. */
static void load_behind(CNest *c, const Stmt *s) {
    const char *outside = c->loading, *guards = emit_guards(c, s->guard.at, s->guard.n);
    if (!guards) return;
    if (*guards) c->loading = *outside ? str(c, "%s && %s", outside, guards) : guards;
    if (s->kind == STMT_IF)
        cuda_load_first(c, &s->body);
    else if (s->mark != LOOP_VECTOR || !cuda_lanes(c, s))
        load_unrolled(c, s);
    c->loading = outside;
}

void cuda_load_first(CNest *c, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++)
        stmts->at[i]->kind == STMT_PREFETCH ? load_element(c, stmts->at[i])
                                            : load_behind(c, stmts->at[i]);
}
