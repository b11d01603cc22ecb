/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner of all three levels, and how names and strings are written.
 *
 * One token of lookahead: `lex->t` is the token not yet taken. Errors are `fail(E_SYNTAX)` with the
 * line in `ctx->where.line`. Identifiers contain dots (`mm.k`, `ai.onnx.Conv`), but none at their
 * end and none doubled, so that `0..N` is a range. */
#ifndef WEIR_IR_LEX_H
#define WEIR_IR_LEX_H

#include "base.h"

typedef enum { TOK_END, TOK_NAME, TOK_STRING, TOK_INT, TOK_FLOAT, TOK_PUNCT } TokKind;

typedef struct Tok {
    TokKind kind;
    int line;
    const char *at; /* in the source, n bytes */
    size_t n;
    const char
        *text; /* NAME: interned; STRING: without quotes and escapes, interned; PUNCT: interned */
    size_t bytes; /* STRING: length of text, which may hold zero bytes */
} Tok;

typedef struct Lex {
    Ctx *ctx;
    Arena *arena;
    const char *p; /* after the token */
    int line;
    Tok t;
} Lex;

/* Starts on `text`, which must outlive the scanner, and reads the first token. Lines count from 1.
 */
void lex_init(Lex *lex, Arena *arena, const char *text);
void lex_next(Lex *lex);
bool lex_is(const Lex *lex, const char *s); /* this bare name or punctuation (never a string) */
bool lex_take(Lex *lex, const char *s);     /* the same, and moves on */
void lex_expect(Lex *lex, const char *s);   /* the same, or fails */
bool lex_name_next(const Lex *lex);         /* a bare or quoted name stands here */
const char *lex_name(Lex *lex,
                     const char *what); /* takes a bare or quoted name: `what` for messages */
const char *lex_string(Lex *lex, size_t *bytes); /* takes a quoted string; bytes may be NULL */
int64_t lex_int(Lex *lex, const char *what);     /* with an optional sign */
_Noreturn void lex_fail(Lex *lex, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A name as `lex_name` reads it: bare when it is an identifier and no word of the grammar. */
void text_name(Text *out, const char *name);
void text_quoted(Text *out, const char *bytes, size_t n);

#endif
