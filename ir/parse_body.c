/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies from text: our scanner under the expression parser of body_expr.c.
 *
 * Both look at the same token: `look` shows the scanner's current one to the expression parser, or
 * the end when a new line has ended the expression. */
#include "parse.h"

#include <string.h>

/* ---- tokens for expressions -------------------------------------------------------------- */

static BodyScan *scan_of(ExprScan *scan) {
    return (BodyScan *)scan;
}

static void look(BodyScan *s, bool may_end, int line) {
    const Tok *t = &s->lex->t;
    ExprTok *tok = &s->scan.tok;
    bool new_line = may_end && !s->whole && s->depth == 0 && t->line != line;
    bool end = t->kind == TOK_END || new_line;
    *tok = (ExprTok){EXPR_PUNCT, t->text};
    if (t->kind == TOK_NAME || t->kind == TOK_STRING) tok->kind = EXPR_NAME;
    if (t->kind == TOK_INT || t->kind == TOK_FLOAT) tok->kind = EXPR_NUMBER;
    if (end) *tok = (ExprTok){EXPR_END, "the end of the line"};
}

static void expr_next(ExprScan *scan) {
    BodyScan *s = scan_of(scan);
    const Tok was = s->lex->t;
    bool close = lex_is(s->lex, ")") || lex_is(s->lex, "]");
    if (lex_is(s->lex, "(")) s->depth++;
    if (lex_is(s->lex, ")")) s->depth--;
    lex_next(s->lex);
    look(s, was.kind != TOK_PUNCT || close, was.line);
}

static __attribute__((noreturn)) void expr_error(ExprScan *scan, const char *message) {
    lex_fail(scan_of(scan)->lex, "%s", message);
}

/* ---- accesses ---------------------------------------------------------------------------- */

/* A value used as an index keeps its name as the symbol. */
static Dim index_name(void *user, const char *name) {
    BodyScan *s = user;
    for (int i = s->scan.name.n - 1; i >= 0; i--) {
        if (strcmp(s->scan.name.at[i].name, name) != 0) continue;
        Val *val = &s->scan.body->val.at[s->scan.name.at[i].val];
        if (!dtype_is_int(val->type)) lex_fail(s->lex, "only integers index, \"%s\" is none", name);
        if (!val->sym) val->sym = dim_sym(s->lex->ctx, name);
        return val->sym;
    }
    return s->sym(s->user, name);
}

Access body_scan_access(BodyScan *s, const char *name, DType *type) {
    int rank = 0;
    Dim at[RANK_MAX];
    Access access = {.cont = s->cont(s->user, name, type, &rank)};
    if (access.cont < 0) lex_fail(s->lex, "nothing named \"%s\" can be indexed here", name);
    int line = s->lex->t.line;
    access.rank = parse_dims(s->lex, "[", "]", index_name, s, at, RANK_MAX);
    if (access.rank != rank)
        lex_fail(s->lex, "\"%s\" has %d dims, not %d", name, rank, access.rank);
    access.at = arena_copy(s->lex->arena, at, (size_t)rank * sizeof *at);
    look(s, true, line);
    return access;
}

Access body_scan_target(BodyScan *s, DType *type) {
    const char *name = lex_name(s->lex, "what to write to");
    return body_scan_access(s, name, type);
}

/* A read with its `else`, from `[` on. */
static int read_access(BodyScan *s, const char *name) {
    DType type = DT_NONE;
    Access access = body_scan_access(s, name, &type);
    bool otherwise = s->scan.tok.kind == EXPR_NAME && lex_is(s->lex, "else");
    if (!otherwise) return body_read(s->scan.body, access, type);
    expr_next(&s->scan);
    int val = body_scan_build(s, expr_read_unary(&s->scan), type);
    return body_read_else(s->scan.body, access, type, val);
}

/* What expressions name beyond earlier statements: `x[i]`, `index(i/2)`, a dim as a value. */
static int resolve(ExprScan *scan, const char *name) {
    BodyScan *s = scan_of(scan);
    if (scan->tok.kind == EXPR_PUNCT && lex_is(s->lex, "[")) return read_access(s, name);
    if (scan->tok.kind == EXPR_PUNCT && lex_is(s->lex, "(") && !strcmp(name, "index")) {
        int line = s->lex->t.line;
        lex_next(s->lex);
        Dim d = parse_dim(s->lex, index_name, s);
        lex_expect(s->lex, ")");
        look(s, true, line);
        return body_index(scan->body, d);
    }
    Dim sym = s->sym(s->user, name);
    return sym ? body_index(scan->body, sym) : -1;
}

/* ---- statements -------------------------------------------------------------------------- */

void body_scan_look(BodyScan *s) {
    look(s, false, 0);
}

void body_scan_init(BodyScan *s, Lex *lex, Body *body) {
    s->scan = (ExprScan){.body = body, .next = expr_next, .resolve = resolve, .error = expr_error};
    s->lex = lex;
    s->depth = 0;
}

int body_scan_build(BodyScan *s, const Expr *expr, DType want) {
    return expr_build(&s->scan, expr, want);
}

static void bind(BodyScan *s, const char *name, int val) {
    if (s->sym(s->user, name))
        lex_fail(s->lex, "\"%s\" is a dim here: name the value otherwise", name);
    for (int i = 0; i < s->scan.name.n; i++)
        if (!strcmp(s->scan.name.at[i].name, name))
            lex_fail(s->lex, "\"%s\" is defined twice", name);
    expr_bind(&s->scan, name, val);
    Val *v = &s->scan.body->val.at[val];
    if (!v->name) v->name = name;
}

static void read_targets(BodyScan *s, Target *t) {
    bool tuple = lex_take(s->lex, "(");
    do {
        if (t->n == COMBINE_STATES) lex_fail(s->lex, "more than %d targets", COMBINE_STATES);
        t->to[t->n] = body_scan_target(s, &t->type[t->n]);
        t->n++;
    } while (tuple && lex_take(s->lex, ","));
    if (tuple) lex_expect(s->lex, ")");
}

static void read_statement(BodyScan *s, void (*write)(BodyScan *s, Target *t)) {
    Target t = {.nval = 1};
    s->depth = 0;
    look(s, false, 0);
    if (lex_name_next(s->lex)) {
        const char *name = s->lex->t.text;
        expr_next(&s->scan);
        if (lex_take(s->lex, "<-")) {
            bind(s, name, read_access(s, lex_name(s->lex, "what to read")));
            return;
        }
        if (lex_is(s->lex, "=")) {
            expr_next(&s->scan);
            bind(s, name, body_scan_build(s, expr_read(&s->scan), DT_NONE));
            return;
        }
        t.val[0] = expr_read_from(&s->scan, name);
    } else {
        t.nval = expr_block(&s->scan, DT_NONE, t.val, COMBINE_STATES);
    }
    lex_expect(s->lex, "->");
    read_targets(s, &t);
    write(s, &t);
}

void body_scan_block(BodyScan *s, void (*write)(BodyScan *s, Target *t)) {
    while (!lex_is(s->lex, "}")) read_statement(s, write);
    lex_next(s->lex);
}

int body_scan_assigned(BodyScan *s, DType type) {
    s->depth = 0;
    look(s, false, 0);
    if (!lex_is(s->lex, "=")) lex_fail(s->lex, "expected `=`");
    expr_next(&s->scan);
    return body_scan_build(s, expr_read(&s->scan), type);
}
