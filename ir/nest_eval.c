/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating a nest: the loops. What a body does to its lanes is nest_eval_body.c.
 *
 * The nest is compiled once: symbols and loop variables get slots, indices become DimCodes over
 * them. A vector loop runs each body once, over its lanes as a column; every other loop runs in
 * order, also parallel ones. Local arrays start as NaN (or 0xff), so that reading what nobody
 * stored shows. */
#include "nest_eval.h"

#include <string.h>

/* ---- compiling ------------------------------------------------------------------------------ */

typedef struct Compile {
    NestCode *c;
    VEC(Dim) slot; /* innermost last: later ones hide earlier ones of the same name */
    Dim lane;      /* variable of the vector loop we are in */
} Compile;

static bool find_slot(void *user, Dim sym, int *slot, int64_t *value) {
    Compile *k = user;
    (void)value;
    for (*slot = k->slot.n - 1; *slot >= 0; --*slot)
        if (k->slot.at[*slot] == sym) return true;
    return false;
}

static const DimCode *compile(Compile *k, Dim d) {
    Dim unbound;
    const DimCode *code = dim_compile(k->c->arena, d, find_slot, k, &unbound);
    if (!code)
        fail(k->c->ctx, E_VERIFY,
             "nest \"%s\" uses \"%s\", which is no symbol and no loop variable here",
             k->c->nest->name, dim_sym_name(unbound));
    return code;
}

static int add_slot(Compile *k, Dim sym) {
    vec_push(k->c->arena, &k->slot, sym);
    return k->slot.n - 1;
}

static int lane_slot(Compile *k) {
    int slot = -1;
    int64_t unused;
    if (k->lane) find_slot(k, k->lane, &slot, &unused);
    return slot;
}

static NestAccess compile_access(Compile *k, const Access *access, const NestStmt *s) {
    NestAccess a = {.buf = access->cont, .rank = access->rank, .affine = !k->c->threads};
    int lane = lane_slot(k);
    for (int i = 0; i < a.rank; i++) {
        a.at[i] = compile(k, access->at[i]);
        if (dim_code_affine(a.at[i]))
            a.lane[i] = lane < 0 ? 0 : dim_code_coef(a.at[i], lane);
        else if (lane >= 0 && dim_code_uses(a.at[i], lane))
            a.affine = false;
        for (int v = 0; s && v < s->nsymbol; v++)
            if (dim_code_uses(a.at[i], s->symslot[v])) a.affine = false, a.data = true;
    }
    return a;
}

static void compile_body(Compile *k, NestStmt *s) {
    Arena *arena = k->c->arena;
    const Body *b = &s->stmt->code;
    int n = b->val.n, mark = k->slot.n;
    s->code = body_compile(arena, b);
    s->frame = body_frame(arena, s->code);
    s->symval = NEW_ARRAY(arena, int, n);
    s->symslot = NEW_ARRAY(arena, int, n);
    for (int v = 0; v < n; v++) {
        if (!b->val.at[v].sym) continue;
        s->symval[s->nsymbol] = v;
        s->symslot[s->nsymbol++] = add_slot(k, b->val.at[v].sym);
    }
    s->read = NEW_ARRAY(arena, NestAccess *, n);
    s->index = NEW_ARRAY(arena, const DimCode *, n);
    for (int v = 0; v < n; v++) {
        const Val *val = &b->val.at[v];
        if (val->kind == VAL_INDEX) s->index[v] = compile(k, val->index);
        if (val->kind != VAL_READ) continue;
        NestAccess a = compile_access(k, &val->read, s);
        s->read[v] = arena_copy(arena, &a, sizeof a);
    }
    s->store = NEW_ARRAY(arena, NestAccess, s->stmt->store.n);
    for (int i = 0; i < s->stmt->store.n; i++)
        s->store[i] = compile_access(k, &s->stmt->store.at[i].to, s);
    if (k->slot.n > k->c->nslot) k->c->nslot = k->slot.n;
    k->slot.n = mark;
}

static void compile_fold(Compile *k, NestStmt *s) {
    const Combine *c = s->stmt->combine;
    s->code = body_compile(k->c->arena, &c->merge);
    s->frame = body_frame(k->c->arena, s->code);
    s->src = NEW_ARRAY(k->c->arena, NestAccess, c->nstate);
    s->store = NEW_ARRAY(k->c->arena, NestAccess, c->nstate);
    for (int i = 0; i < c->nstate; i++) {
        NestAccess *row = &s->src[i];
        *row = compile_access(k, &s->stmt->src[i], NULL);
        if (row->rank == k->c->nest->buf.at[row->buf].rank - 1) /* a row: from lane 0 on */
            row->at[row->rank++] = compile(k, dim_const(k->c->ctx, 0));
        s->store[i] = compile_access(k, &s->stmt->dst[i], NULL);
    }
}

static void compile_turn(Compile *k, NestStmt *s) {
    int mark = k->slot.n;
    NestAccess access[2];
    s->var = add_slot(k, s->stmt->var);
    if (k->slot.n > k->c->nslot) k->c->nslot = k->slot.n;
    access[0] = compile_access(k, s->stmt->src, NULL);
    access[1] = compile_access(k, s->stmt->dst, NULL);
    s->src = arena_copy(k->c->arena, access, sizeof access);
    s->store = s->src + 1;
    k->slot.n = mark;
}

/* Are extent and guards the same for all threads? */
static bool is_uniform(const Compile *k, const NestStmt *s) {
    const NestThreads *t = k->c->threads;
    bool same = true;
    for (int i = 0; t && i < t->nvar; i++) {
        for (int g = 0; g < s->nguard; g++) same &= !dim_code_uses(s->guard[g], t->var[i]);
        same &= !s->extent || !dim_code_uses(s->extent, t->var[i]);
        for (int d = 0; d < s->ndecl; d++) same &= !dim_code_uses(s->box[d], t->var[i]);
    }
    return same;
}

static void compile_decl(Compile *k, NestStmt *s) {
    const Buf *b = &k->c->nest->buf.at[s->stmt->buf];
    s->ndecl = b->rank;
    s->box = NEW_ARRAY(k->c->arena, const DimCode *, b->rank);
    for (int i = 0; i < b->rank; i++) s->box[i] = compile(k, b->box[i]);
    if (k->c->threads && !is_uniform(k, s))
        fail(k->c->ctx, E_VERIFY, "the size of \"%s\" in nest \"%s\" differs between threads",
             b->name, k->c->nest->name);
}

static NestStmt *compile_stmts(Compile *k, const Stmts *stmts);

static void compile_thread(Compile *k, NestStmt *s) {
    NestThreads *t = k->c->threads;
    if (!t) {
        t = k->c->threads = NEW(k->c->arena, NestThreads);
        t->n = t->lanes = 1;
    }
    int64_t extent = 0;
    if (!dim_is_const(s->stmt->extent, &extent) || extent < 1 || extent * t->n > THREADS_MAX ||
        t->nvar == RANK_MAX)
        fail(k->c->ctx, E_VERIFY, "nest \"%s\" has more than %d threads, or an unknown number",
             k->c->nest->name, THREADS_MAX);
    t->extent[t->nvar] = extent;
    t->var[t->nvar++] = s->var;
    t->n *= (int)extent;
}

static void compile_for(Compile *k, NestStmt *s) {
    const Stmt *stmt = s->stmt;
    int mark = k->slot.n;
    s->extent = compile(k, stmt->extent);
    s->var = add_slot(k, stmt->var);
    if (k->slot.n > k->c->nslot) k->c->nslot = k->slot.n;
    if (stmt->mark == LOOP_THREAD) compile_thread(k, s);
    if (stmt->mark == LOOP_VECTOR) k->lane = stmt->var;
    for (int i = 0; i < stmt->guard.n; i++) s->guard[i] = compile(k, stmt->guard.at[i]);
    s->uniform = is_uniform(k, s);
    s->body = compile_stmts(k, &stmt->body);
    if (stmt->mark == LOOP_VECTOR) k->lane = NULL;
    k->slot.n = mark;
}

static void compile_stmt(Compile *k, const Stmt *stmt, NestStmt *s) {
    Arena *arena = k->c->arena;
    s->stmt = stmt;
    s->nguard = stmt->guard.n;
    s->guard = NEW_ARRAY(arena, const DimCode *, stmt->guard.n);
    s->nbody = stmt->body.n;
    switch (stmt->kind) {
    case STMT_FOR: compile_for(k, s); return;
    case STMT_DECL: compile_decl(k, s); return;
    case STMT_BODY: compile_body(k, s); return;
    case STMT_FOLD: compile_fold(k, s); return;
    case STMT_TURN: compile_turn(k, s); return;
    case STMT_COMMIT:
    case STMT_WAIT:
    case STMT_SYNC: return;
    case STMT_PREFETCH: s->at = compile_access(k, &stmt->at, NULL); return;
    case STMT_WHILE: s->at = compile_access(k, &stmt->at, NULL); break;
    case STMT_IF:
    case STMT_STEPS:
    case STMT_USE: break;
    }
    for (int i = 0; i < stmt->guard.n; i++) s->guard[i] = compile(k, stmt->guard.at[i]);
    s->uniform = is_uniform(k, s);
    s->body = compile_stmts(k, &stmt->body);
}

static NestStmt *compile_stmts(Compile *k, const Stmts *stmts) {
    NestStmt *s = NEW_ARRAY(k->c->arena, NestStmt, stmts->n);
    for (int i = 0; i < stmts->n; i++) compile_stmt(k, stmts->at[i], &s[i]);
    return s;
}

NestCode *nest_compile(Arena *arena, const Nest *nest) {
    NestCode *c = NEW(arena, NestCode);
    *c = (NestCode){.ctx = arena_ctx(arena), .arena = arena, .nest = nest, .lanes = 1};
    Compile k = {.c = c};
    for (int i = 0; i < nest->symbol.n; i++) add_slot(&k, nest->symbol.at[i].sym);
    c->nslot = c->nsymbol = k.slot.n;
    c->box = NEW_ARRAY(arena, const DimCode **, nest->buf.n);
    c->base = NEW_ARRAY(arena, const DimCode *, nest->buf.n);
    c->buf = NEW_ARRAY(arena, NestBuf, nest->buf.n);
    for (int b = 0; b < nest->buf.n; b++) {
        const Buf *buf = &nest->buf.at[b];
        if (buf->kind != BUF_MEMORY) continue;
        c->box[b] = NEW_ARRAY(arena, const DimCode *, buf->rank);
        for (int i = 0; i < buf->rank; i++) c->box[b][i] = compile(&k, buf->box[i]);
        if (buf->base) c->base[b] = compile(&k, buf->base);
    }
    c->nbody = nest->body.n;
    c->body = compile_stmts(&k, &nest->body);
    c->slot = NEW_ARRAY(arena, int64_t, c->nslot);
    c->column = NEW_ARRAY(arena, const int64_t *, c->nslot);
    c->room = NEW_ARRAY(arena, int64_t *, c->nslot);
    for (int i = 0; i < c->nslot; i++) c->room[i] = NULL;
    c->mask_room = NEW_ARRAY(arena, uint8_t, COLUMN_MAX);
    return c;
}

/* ---- running -------------------------------------------------------------------------------- */

static void run_stmts(NestCode *c, const NestStmt *s, int n);

static bool guards_hold(const NestCode *c, const NestStmt *s) {
    for (int i = 0; i < s->nguard; i++)
        if (dim_code_value(s->guard[i], c->slot) < 0) return false;
    return true;
}

/* Active lanes of a vector loop; false when there are none. */
static bool mask_lanes(NestCode *c, const NestStmt *s, int lanes) {
    int64_t value[COLUMN_MAX];
    DimColumns in = {c->slot, c->column};
    c->mask = NULL;
    if (s->nguard == 0) return true;
    memset(c->mask_room, 1, (size_t)lanes);
    bool any = false;
    for (int i = 0; i < s->nguard; i++) {
        dim_code_column(s->guard[i], &in, lanes, value);
        for (int l = 0; l < lanes; l++) c->mask_room[l] &= value[l] >= 0;
    }
    for (int l = 0; l < lanes; l++) any = any || c->mask_room[l];
    c->mask = c->mask_room;
    return any;
}

static void run_lanes(NestCode *c, const NestStmt *s, int64_t lanes) {
    int64_t iota[COLUMN_MAX];
    if (lanes < 1 || lanes > COLUMN_MAX)
        fail(c->ctx, E_VERIFY, "nest \"%s\" has a vector loop of %lld lanes", c->nest->name,
             (long long)lanes);
    for (int l = 0; l < lanes; l++) iota[l] = l;
    c->slot[s->var] = 0;
    c->column[s->var] = iota;
    c->lanes = (int)lanes;
    if (mask_lanes(c, s, (int)lanes)) run_stmts(c, s->body, s->nbody);
    c->column[s->var] = NULL;
    c->lanes = 1;
    c->mask = NULL;
}

static void run_for(NestCode *c, const NestStmt *s) {
    int64_t extent = dim_code_value(s->extent, c->slot);
    if (s->stmt->mark == LOOP_VECTOR) {
        run_lanes(c, s, extent);
        return;
    }
    for (int64_t i = 0; i < extent; i++) {
        c->slot[s->var] = i;
        run_stmts(c, s->body, s->nbody);
    }
}

void nest_declare(NestCode *c, const NestStmt *s, int copies) {
    const Buf *b = &c->nest->buf.at[s->stmt->buf];
    NestBuf *at = &c->buf[s->stmt->buf];
    int64_t count = 1;
    for (int i = 0; i < s->ndecl; i++) {
        at->dim[i] = dim_code_value(s->box[i], c->slot);
        count *= at->dim[i] < 0 ? 0 : at->dim[i];
    }
    at->each = copies > 1 ? count : 0;
    count *= copies;
    int64_t bytes = dtype_bytes(b->type, count);
    if (!at->data || bytes > at->room) {
        at->data = arena_alloc(c->arena, (size_t)bytes + 8);
        at->room = bytes;
    }
    if (!s->stmt->has_init)
        memset(at->data, b->type == BOOL ? 0 : 0xff, (size_t)bytes);
    else if (s->stmt->init == 0)
        memset(at->data, 0, (size_t)bytes);
    else
        for (int64_t i = 0; i < count; i++) mem_set(b->type, at->data, i, s->stmt->init);
}

static void run_stmt(NestCode *c, const NestStmt *s) {
    switch (s->stmt->kind) {
    case STMT_FOR: run_for(c, s); break;
    case STMT_IF:
        if (guards_hold(c, s)) run_stmts(c, s->body, s->nbody);
        break;
    case STMT_DECL: nest_declare(c, s, 1); break;
    case STMT_BODY: nest_run_body(c, s); break;
    case STMT_FOLD: nest_run_fold(c, s); break;
    case STMT_TURN: break; /* of threads */
    case STMT_WHILE:
        for (uint8_t more; nest_read_true(c, s, &more), more;) run_stmts(c, s->body, s->nbody);
        break;
    case STMT_STEPS:
    case STMT_USE: run_stmts(c, s->body, s->nbody); break;
    case STMT_PREFETCH:
    case STMT_COMMIT:
    case STMT_WAIT:
    case STMT_SYNC: break;
    }
}

static void run_stmts(NestCode *c, const NestStmt *s, int n) {
    for (int i = 0; i < n; i++) run_stmt(c, &s[i]);
}

void nest_run(NestCode *c, Tensor *buf, DimValueFn *sym, void *user) {
    for (int i = 0; i < c->nsymbol; i++) {
        const Symbol *s = &c->nest->symbol.at[i];
        if (!sym(user, s->sym, &c->slot[i])) c->slot[i] = 0; /* a symbol nobody has defined yet */
    }
    for (int b = 0; b < c->nest->buf.n; b++) {
        if (c->nest->buf.at[b].kind != BUF_MEMORY) continue;
        for (int i = 0; i < c->nest->buf.at[b].rank; i++)
            c->buf[b].dim[i] = dim_code_value(c->box[b][i], c->slot);
        c->buf[b].base = c->base[b] ? dim_code_value(c->base[b], c->slot) : 0;
        c->buf[b].data = buf[b].data;
    }
    if (c->threads)
        nest_run_blocks(c);
    else
        run_stmts(c, c->body, c->nbody);
}

void nest_eval(const Nest *nest, Tensor *buf, DimValueFn *sym, void *user) {
    Arena *arena = arena_new(nest->ctx);
    nest_run(nest_compile(arena, nest), buf, sym, user);
    arena_free(arena);
}
