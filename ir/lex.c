/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner. Numbers keep their text: what they mean depends on the type they meet. */
#include "lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters -------------------------------------------------------------------------- */

static bool name_start(char c) {
    return isalpha((unsigned char)c) || c == '_';
}
static bool name_char(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static void skip_space(Lex *lex) {
    for (;; lex->p++) {
        if (*lex->p == '#') lex->p += strcspn(lex->p, "\n");
        if (*lex->p == '\n') lex->line++;
        if (!*lex->p || !isspace((unsigned char)*lex->p)) return;
    }
}

static const char *scan_name(const char *p) {
    while (name_char(*p) || (*p == '.' && name_char(p[1]))) p++;
    return p;
}

/* Digits, a fraction unless a range `..` follows, an exponent; hex with `p` exponents. */
static const char *scan_number(const char *p, bool *is_float) {
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    if (hex) p += 2;
    while (hex ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p)) p++;
    *is_float = false;
    if (*p == '.' && p[1] != '.') {
        *is_float = true;
        p++;
        while (hex ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p)) p++;
    }
    bool exponent = hex ? (*p == 'p' || *p == 'P') : (*p == 'e' || *p == 'E');
    const char *digits = p + 1 + (p[exponent] == '+' || p[exponent] == '-');
    if (exponent && isdigit((unsigned char)*digits)) {
        *is_float = true;
        for (p = digits; isdigit((unsigned char)*p);) p++;
    }
    return p;
}

/* ---- strings ----------------------------------------------------------------------------- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

static char scan_escape(Lex *lex, const char **p) {
    char c = *(*p)++;
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == '"' || c == '\\') return c;
    if (c != 'x' || hex_digit((*p)[0]) < 0 || hex_digit((*p)[1]) < 0)
        lex_fail(lex, "unknown escape in a string: use \\n, \\t, \\\", \\\\ or \\xhh");
    c = (char)(hex_digit((*p)[0]) * 16 + hex_digit((*p)[1]));
    *p += 2;
    return c;
}

static void scan_string(Lex *lex) {
    const char *p = lex->t.at + 1;
    Text text = {.arena = lex->arena};
    while (*p != '"') {
        if (!*p || *p == '\n') lex_fail(lex, "a string does not end on its line");
        char c = *p++;
        if (c == '\\') c = scan_escape(lex, &p);
        text_put_n(&text, &c, 1);
    }
    lex->t.kind = TOK_STRING;
    lex->t.bytes = text.n;
    lex->t.text = intern_n(lex->ctx, text_str(&text), text.n);
    lex->p = p + 1;
}

/* ---- tokens ------------------------------------------------------------------------------ */

static size_t punct_size(const char *p) {
    static const char *const two[] = {"->", "<-", "<=", ">=", "==", "!=", "<<", ">>", ".."};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (!strncmp(p, two[i], 2)) return 2;
    return strchr("+-*/%&|^<>=()[]{},:;@?.", *p) ? 1 : 0;
}

void lex_next(Lex *lex) {
    skip_space(lex);
    const char *p = lex->p;
    lex->t = (Tok){.kind = TOK_END, .line = lex->line, .at = p};
    if (!*p) return;
    if (*p == '"') {
        scan_string(lex);
        lex->t.n = (size_t)(lex->p - p);
        return;
    }
    bool is_float = false;
    if (name_start(*p)) {
        lex->p = scan_name(p);
        lex->t.kind = TOK_NAME;
    } else if (isdigit((unsigned char)*p)) {
        lex->p = scan_number(p, &is_float);
        lex->t.kind = is_float ? TOK_FLOAT : TOK_INT;
    } else {
        lex->p += punct_size(p);
        lex->t.kind = TOK_PUNCT;
    }
    lex->t.n = (size_t)(lex->p - p);
    if (lex->t.n == 0) {
        lex->t.n = 1;
        lex_fail(lex, "this character belongs to no token");
    }
    if (!strncmp(p, "nan:", 4) && lex->t.n == 3 && isxdigit((unsigned char)p[4])) {
        for (lex->p++; isxdigit((unsigned char)*lex->p);) lex->p++;
        lex->t.kind = TOK_FLOAT;
        lex->t.n = (size_t)(lex->p - p);
    }
    lex->t.text = intern_n(lex->ctx, p, lex->t.n);
}

void lex_init(Lex *lex, Arena *arena, const char *text) {
    *lex = (Lex){.ctx = arena_ctx(arena), .arena = arena, .p = text, .line = 1};
    lex_next(lex);
}

bool lex_is(const Lex *lex, const char *s) {
    return (lex->t.kind == TOK_NAME || lex->t.kind == TOK_PUNCT) && !strcmp(lex->t.text, s);
}

bool lex_take(Lex *lex, const char *s) {
    if (!lex_is(lex, s)) return false;
    lex_next(lex);
    return true;
}

void lex_expect(Lex *lex, const char *s) {
    if (!lex_take(lex, s)) lex_fail(lex, "expected `%s`", s);
}

bool lex_name_next(const Lex *lex) {
    return lex->t.kind == TOK_NAME || lex->t.kind == TOK_STRING;
}

const char *lex_name(Lex *lex, const char *what) {
    if (!lex_name_next(lex)) lex_fail(lex, "expected %s", what);
    const char *name = lex->t.text;
    lex_next(lex);
    return name;
}

const char *lex_string(Lex *lex, size_t *bytes) {
    if (lex->t.kind != TOK_STRING) lex_fail(lex, "expected a string in quotes");
    const char *text = lex->t.text;
    if (bytes) *bytes = lex->t.bytes;
    lex_next(lex);
    return text;
}

int64_t lex_int(Lex *lex, const char *what) {
    bool negative = lex_take(lex, "-");
    if (lex->t.kind != TOK_INT) lex_fail(lex, "expected %s", what);
    errno = 0;
    bool hex = lex->t.n > 2 && lex->t.at[1] == 'x';
    unsigned long long v = strtoull(lex->t.at, NULL, hex ? 16 : 10);
    if (errno || v > (unsigned long long)INT64_MAX + negative)
        lex_fail(lex, "number beyond 64 bits");
    lex_next(lex);
    return negative ? (int64_t)(0 - v) : (int64_t)v;
}

void lex_fail(Lex *lex, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *message = arena_vprintf(lex->arena, fmt, args);
    va_end(args);
    lex->ctx->where.line = lex->t.line;
    if (lex->t.kind == TOK_END) fail(lex->ctx, E_SYNTAX, "%s, not the end of the text", message);
    fail(lex->ctx, E_SYNTAX, "%s at \"%.*s\"", message, (int)(lex->t.n < 60 ? lex->t.n : 60),
         lex->t.at);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Names that would read as a word of the grammar where a name may stand first. */
static bool is_word(const char *name) {
    static const char *const words[] = {
        "alias",  "at",      "block",    "body",    "call",      "combine",   "done",    "else",
        "false",  "fold",    "for",      "from",    "if",        "in",        "index",   "inf",
        "kernel", "keep",    "layout",   "literal", "loop",      "map",       "max",     "mem",
        "merge",  "min",     "nan",      "on",      "order",     "out",       "outer",   "parallel",
        "param",  "partial", "prefetch", "reduce",  "reg",       "scratch",   "seq",     "serial",
        "shared", "split",   "stage",    "state",   "sync",      "thread",    "tile",    "tmp",
        "true",   "unroll",  "use",      "vector",  "when",      "while",     "written", "arena",
        "carry",  "factor",  "place",    "library", "alternate", "alternates"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(words[i], name)) return true;
    return false;
}

void text_name(Text *out, const char *name) {
    if (name_start(name[0]) && !*scan_name(name) && !is_word(name))
        text_put(out, name);
    else
        text_quoted(out, name, strlen(name));
}

void text_quoted(Text *out, const char *bytes, size_t n) {
    text_put(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            text_printf(out, "\\%c", c);
        else if (c == '\n')
            text_put(out, "\\n");
        else if (c < 32 || c == 127)
            text_printf(out, "\\x%02x", c);
        else
            text_put_n(out, bytes + i, 1);
    }
    text_put(out, "\"");
}
