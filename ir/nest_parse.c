/* SPDX-License-Identifier: Apache-2.0 */
/* Nests from text. As for flows, only the form is checked here. */
#include "nest_text.h"

#include "parse.h"

typedef struct NestScan {
    Lex *lex;
    Nest *nest;
    Arena *arena;
    VEC(Dim) loop; /* variables of the loops around */
    Stmt *stmt;    /* whose body is read */
} NestScan;

static Dim find_sym(void *user, const char *name) {
    const NestScan *s = user;
    for (int i = s->loop.n - 1; i >= 0; i--)
        if (dim_sym_name(s->loop.at[i]) == name) return s->loop.at[i];
    for (int i = 0; i < s->nest->symbol.n; i++)
        if (dim_sym_name(s->nest->symbol.at[i].sym) == name) return s->nest->symbol.at[i].sym;
    return NULL;
}

static int find_buf(void *user, const char *name, DType *type, int *rank) {
    const NestScan *s = user;
    for (int i = s->nest->buf.n - 1; i >= 0; i--) {
        const Buf *buf = &s->nest->buf.at[i];
        if (buf->name != name) continue;
        *type = buf->type;
        *rank = buf->rank;
        return i;
    }
    return -1;
}

static BodyScan body_scan(NestScan *s, Body *body) {
    BodyScan scan = {.user = s, .cont = find_buf, .sym = find_sym};
    body_scan_init(&scan, s->lex, body);
    return scan;
}

static Access scan_access(NestScan *s, DType *type) {
    Body none = {.arena = s->arena};
    BodyScan scan = body_scan(s, &none);
    return body_scan_target(&scan, type);
}

/* `x : f32[N,256]` */
static int scan_buf(NestScan *s, BufKind kind) {
    Dim box[RANK_MAX];
    DType type;
    int rank;
    const char *name = lex_name(s->lex, "a buffer's name");
    if (find_buf(s, name, &type, &rank) >= 0)
        lex_fail(s->lex, "buffer \"%s\" is declared twice, before this", name);
    lex_expect(s->lex, ":");
    type = parse_type(s->lex);
    rank = parse_dims(s->lex, "[", "]", find_sym, s, box, RANK_MAX);
    return nest_buf(s->nest, name, kind, type, box, rank);
}

static void scan_memory(NestScan *s) {
    int number = scan_buf(s, BUF_MEMORY);
    Buf *buf = &s->nest->buf.at[number];
    buf->written = lex_take(s->lex, "written");
    if (lex_take(s->lex, "base")) buf->base = parse_dim(s->lex, find_sym, s);
}

/* ---- bodies ------------------------------------------------------------------------------ */

static void scan_store(BodyScan *b, Target *t) {
    NestScan *s = b->user;
    if (t->nval != 1 || t->n != 1) lex_fail(s->lex, "a store has one value and one target");
    Store store = {t->to[0], body_scan_build(b, t->val[0], t->type[0])};
    vec_push(s->arena, &s->stmt->store, store);
}

static void scan_body(NestScan *s, Stmts *into) {
    s->stmt = nest_body(s->nest, into);
    lex_expect(s->lex, "{");
    BodyScan scan = body_scan(s, &s->stmt->code);
    body_scan_block(&scan, scan_store);
}

/* `x[i] = expr` */
static void scan_assignment(NestScan *s, Stmts *into) {
    DType type = DT_NONE;
    s->stmt = nest_body(s->nest, into);
    BodyScan scan = body_scan(s, &s->stmt->code);
    Store store = {.to = body_scan_target(&scan, &type)};
    store.val = body_scan_assigned(&scan, type);
    vec_push(s->arena, &s->stmt->store, store);
}

/* ---- statements -------------------------------------------------------------------------- */

static const Access *scan_accesses(NestScan *s, int n) {
    DType type;
    Access *access = NEW_ARRAY(s->arena, Access, n);
    if (n > 1) lex_expect(s->lex, "(");
    for (int i = 0; i < n; i++) {
        if (i) lex_expect(s->lex, ",");
        access[i] = scan_access(s, &type);
    }
    if (n > 1) lex_expect(s->lex, ")");
    return access;
}

static void scan_fold(NestScan *s, Stmts *into) {
    Stmt *stmt = nest_stmt(s->nest, into, STMT_FOLD);
    stmt->threads = lex_take(s->lex, "thread");
    stmt->combine = parse_combine(s->lex);
    int64_t lanes = lex_int(s->lex, "a number of lanes");
    if (lanes < 1 || lanes > 1024) lex_fail(s->lex, "lanes beyond 1..1024, before this");
    stmt->lanes = (int)lanes;
    stmt->src = scan_accesses(s, stmt->combine->nstate);
    lex_expect(s->lex, "->");
    stmt->dst = scan_accesses(s, stmt->combine->nstate);
}

static void scan_decl(NestScan *s, Stmts *into, BufKind kind) {
    Stmt *stmt = nest_decl(s->nest, into, scan_buf(s, kind));
    if (kind == BUF_SHARED) s->nest->buf.at[stmt->buf].swizzled = lex_take(s->lex, "swizzled");
    stmt->has_init = lex_take(s->lex, "=");
    if (stmt->has_init) stmt->init = parse_bits(s->lex, s->nest->buf.at[stmt->buf].type);
}

static void scan_guards(NestScan *s, Stmt *stmt) {
    Dims guards = {0};
    parse_guards(s->lex, find_sym, s, &guards);
    for (int i = 0; i < guards.n; i++) vec_push(s->arena, &stmt->guard, guards.at[i]);
}

static void scan_stmts(NestScan *s, Stmts *into, int depth);

static void scan_block(NestScan *s, Stmt *stmt, int depth) {
    if (depth == 200) lex_fail(s->lex, "statements nested too deeply");
    stmt->from = parse_from(s->lex);
    lex_expect(s->lex, "{");
    scan_stmts(s, &stmt->body, depth + 1);
}

static void scan_for(NestScan *s, Stmts *into, LoopMark mark, int depth) {
    const char *name = lex_name(s->lex, "a loop variable");
    if (find_sym(s, name)) lex_fail(s->lex, "symbol \"%s\" is declared twice, before this", name);
    Dim var = dim_sym(s->lex->ctx, name);
    lex_expect(s->lex, ":");
    Stmt *stmt = nest_for(s->nest, into, var, parse_dim(s->lex, find_sym, s), mark);
    if (mark == LOOP_SEQ && lex_take(s->lex, "unroll")) stmt->mark = LOOP_UNROLL;
    if (mark == LOOP_SEQ && lex_take(s->lex, "vector")) stmt->mark = LOOP_VECTOR;
    vec_push(s->arena, &s->loop, var);
    if (lex_take(s->lex, "if")) scan_guards(s, stmt);
    scan_block(s, stmt, depth);
    s->loop.n--;
}

static bool scan_structure(NestScan *s, Stmts *into, int depth) {
    static const char *const loops[] = {"for", "parallel", "block", "thread", NULL};
    static const LoopMark marks[] = {LOOP_SEQ, LOOP_PARALLEL, LOOP_BLOCK, LOOP_THREAD};
    int loop = parse_word(s->lex, loops);
    if (loop >= 0) {
        scan_for(s, into, marks[loop], depth);
    } else if (lex_take(s->lex, "if")) {
        Stmt *stmt = nest_if(s->nest, into);
        scan_guards(s, stmt);
        scan_block(s, stmt, depth);
    } else if (lex_take(s->lex, "while")) {
        DType type;
        Stmt *stmt = nest_stmt(s->nest, into, STMT_WHILE);
        stmt->at = scan_access(s, &type);
        scan_block(s, stmt, depth);
    } else if (lex_take(s->lex, "use")) {
        Stmt *stmt = nest_stmt(s->nest, into, STMT_USE);
        stmt->use = lex_name(s->lex, "an instruction");
        scan_block(s, stmt, depth);
    } else if (lex_take(s->lex, "steps")) {
        scan_block(s, nest_stmt(s->nest, into, STMT_STEPS), depth);
    } else {
        return false;
    }
    return true;
}

static void scan_wait(NestScan *s, Stmts *into) {
    Stmt *stmt = nest_stmt(s->nest, into, STMT_WAIT);
    stmt->steps = lex_take(s->lex, "steps");
    int64_t left = lex_int(s->lex, "a number of groups");
    if (left < 0 || left > GROUPS_MOST)
        lex_fail(s->lex, "groups beyond 0..%d, before this", GROUPS_MOST);
    stmt->left = (int)left;
}

static void scan_turn(NestScan *s, Stmts *into) {
    const char *name = lex_name(s->lex, "a variable");
    if (find_sym(s, name)) lex_fail(s->lex, "symbol \"%s\" is declared twice, before this", name);
    Dim var = dim_sym(s->lex->ctx, name);
    lex_expect(s->lex, ":");
    int64_t lanes = lex_int(s->lex, "a number of threads");
    if (lanes < 2 || lanes > TURN_MOST)
        lex_fail(s->lex, "threads beyond 2..%d, before this", TURN_MOST);
    vec_push(s->arena, &s->loop, var);
    Access src = *scan_accesses(s, 1);
    lex_expect(s->lex, "->");
    nest_turn(s->nest, into, var, (int)lanes, src, *scan_accesses(s, 1));
    s->loop.n--;
}

static void scan_async(NestScan *s, Stmts *into) {
    if (lex_take(s->lex, "body"))
        scan_body(s, into);
    else
        scan_assignment(s, into);
    into->at[into->n - 1]->async = true;
}

static void scan_simple(NestScan *s, Stmts *into) {
    DType type;
    int kind = parse_word(s->lex, buf_words + 1);
    if (kind >= 0)
        scan_decl(s, into, (BufKind)(kind + 1));
    else if (lex_take(s->lex, "body"))
        scan_body(s, into);
    else if (lex_take(s->lex, "fold"))
        scan_fold(s, into);
    else if (lex_take(s->lex, "prefetch"))
        nest_stmt(s->nest, into, STMT_PREFETCH)->at = scan_access(s, &type);
    else if (lex_take(s->lex, "sync"))
        nest_stmt(s->nest, into, STMT_SYNC);
    else if (lex_take(s->lex, "commit"))
        nest_stmt(s->nest, into, STMT_COMMIT);
    else if (lex_take(s->lex, "wait"))
        scan_wait(s, into);
    else if (lex_take(s->lex, "turn"))
        scan_turn(s, into);
    else if (lex_take(s->lex, "async"))
        scan_async(s, into);
    else
        scan_assignment(s, into);
    into->at[into->n - 1]->from = parse_from(s->lex);
}

/* Statements up to the `}`, which it takes. */
static void scan_stmts(NestScan *s, Stmts *into, int depth) {
    while (!lex_take(s->lex, "}"))
        if (!scan_structure(s, into, depth)) scan_simple(s, into);
}

/* ---- the nest ---------------------------------------------------------------------------- */

Nest *nest_scan(Lex *lex) {
    lex_expect(lex, "nest");
    Nest *nest = nest_new(lex->arena, lex_name(lex, "the nest's name"));
    NestScan s = {.lex = lex, .nest = nest, .arena = lex->arena};
    if (lex_take(lex, "on")) nest->on = lex_name(lex, "where it runs");
    if (lex_take(lex, "serial")) nest->serial = lex_string(lex, NULL);
    if (lex_take(lex, "alternates"))
        nest->alternates = dim_sym(nest->ctx, lex_name(lex, "a symbol"));
    Symbols symbols = {0};
    parse_symbols(lex, NULL, NULL, &symbols);
    for (int i = 0; i < symbols.n; i++) vec_push(lex->arena, &nest->symbol, symbols.at[i]);
    nest->from = parse_from(lex);
    lex_expect(lex, "{");
    while (lex_take(lex, "mem")) scan_memory(&s);
    scan_stmts(&s, &nest->body, 0);
    return nest;
}

Nest *nest_parse(Arena *arena, const char *text, const char **end) {
    Lex lex;
    Where where = arena_ctx(arena)->where;
    lex_init(&lex, arena, text);
    Nest *nest = nest_scan(&lex);
    if (end) *end = lex.t.at;
    arena_ctx(arena)->where = where;
    return nest;
}
