/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions in our own tables: a scanner over a C string for body_expr.c's parser. */
#include "body_expr.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct TextScan {
    const char *whole, *at;
    const int *args;
    const Dim *dims;
    int nargs, ndims;
} TextScan;

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A number goes on over the sign of its exponent: 1e-3, 0x1p-24. */
static size_t number_length(const char *at) {
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    size_t n = 0;
    for (; is_word(at[n]) ||
           ((at[n] == '+' || at[n] == '-') && n > 0 && strchr(hex ? "pP" : "eE", at[n - 1]));)
        n++;
    return n;
}

static size_t punct_length(const char *at) {
    static const char *const longer[] = {"<<", ">>", "<=", ">=", "==", "!=", "->", "<-"};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        if (strncmp(at, longer[i], 2) == 0) return 2;
    return 1;
}

static void text_next(ExprScan *scan) {
    TextScan *text = scan->user;
    const char *at = text->at;
    Ctx *ctx = arena_ctx(scan->body->arena);
    while (isspace((unsigned char)*at)) at++;
    size_t n = 0;
    scan->tok.kind = EXPR_PUNCT;
    if (*at == 0) {
        scan->tok.kind = EXPR_END;
    } else if (isdigit((unsigned char)*at)) {
        scan->tok.kind = EXPR_NUMBER;
        n = number_length(at);
    } else if (is_word(*at) || *at == '$' || *at == '#') {
        scan->tok.kind = EXPR_NAME;
        for (n = 1; is_word(at[n]);) n++;
    } else {
        n = punct_length(at);
    }
    scan->tok.text = intern_n(ctx, at, n);
    text->at = at + n;
}

static __attribute__((noreturn)) void text_error(ExprScan *scan, const char *message) {
    const TextScan *text = scan->user;
    BUG("%s, before \"%.40s\" in \"%s\"", message, text->at, text->whole);
}

void expr_scan_text(ExprScan *scan, Body *body, const char *text) {
    TextScan *at = NEW(body->arena, TextScan);
    at->whole = at->at = text;
    *scan = (ExprScan){.body = body, .user = at, .next = text_next, .error = text_error};
    scan->next(scan);
}

static int finish(ExprScan *scan, DType literal) {
    Expr *result[1];
    expr_block(scan, literal, result, 1);
    expr_accept(scan, ";");
    if (scan->tok.kind != EXPR_END) scan->error(scan, "end of the expression expected");
    return expr_build(scan, result[0], expr_type(result[0]) ? DT_NONE : literal);
}

/* `$k` and `#k`. */
static int numbered(ExprScan *scan, const char *name) {
    const TextScan *text = scan->user;
    int k = atoi(name + 1);
    if (name[0] == '$' && isdigit((unsigned char)name[1]) && k < text->nargs) return text->args[k];
    if (name[0] == '#' && k < text->ndims) return body_index(scan->body, text->dims[k]);
    return -1;
}

int body_expr(Body *b, const char *text, const int *args, int nargs, const Dim *dims, int ndims,
              DType literal) {
    ExprScan scan;
    expr_scan_text(&scan, b, text);
    TextScan *at = scan.user;
    at->args = args;
    at->dims = dims;
    at->nargs = nargs;
    at->ndims = ndims;
    scan.resolve = numbered;
    return finish(&scan, literal);
}

int expr_define(Body *b, const char *text, const char *params, const int *args) {
    ExprScan scan;
    expr_scan_text(&scan, b, params);
    for (int i = 0; scan.tok.kind == EXPR_NAME; i++)
        expr_bind(&scan, expr_expect_name(&scan), args[i]);
    TextScan *at = scan.user;
    at->whole = at->at = text;
    scan.next(&scan);
    return finish(&scan, b->val.at[args[0]].type);
}
