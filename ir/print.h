/* SPDX-License-Identifier: Apache-2.0 */
/* What the printers of all levels share: lines with a mark at the guilty one, and bodies as text.
 *
 * A verifier that finds a fault prints the whole object with `guilty` set to what it looked at (a
 * container, a map, a statement, a Val ...): the line that prints that object ends in a comment
 * with the message, so the marked text still parses. */
#ifndef WEIR_IR_PRINT_H
#define WEIR_IR_PRINT_H

#include "body.h"

typedef struct Printer {
    Text *out;
    int indent;
    const void *guilty;
    const char *message;
    bool hit;  /* the guilty object stands on the line being printed */
    bool said; /* the message has been printed */
} Printer;

void print_line(Printer *p);                    /* starts a line: the indent */
void print_see(Printer *p, const void *object); /* this line prints `object` */
void print_end(Printer *p);                     /* ends the line, with the message when it is due */
void print_from(Text *out, const char *from);   /* ` from "a" "b"`, nothing for NULL */
void print_dims(Text *out, const Dim *dims, int n);  /* "i, j + 1" */
void print_guards(Text *out, const Dim *ge0, int n); /* "N >= 16, i >= j" for N-16 and i-j */
struct Symbol;
/* " (N in 1..4096, K upto N*M)", or nothing. */
void print_symbols(Text *out, const struct Symbol *symbols, int n);

/* ---- bodies ------------------------------------------------------------------------------ */

/* Which Vals stand on lines of their own, and under which names. Every other Val is printed where
 * it is used. Flow shows every read as a line (`reads`); a Nest prints what is used once in place.
 */
typedef struct BodyText {
    Printer *p;
    Arena *arena;
    const Body *body;
    bool reads;
    const char *(*cont)(void *user, int number); /* a container's name */
    void *user;
    const char *const *param; /* names of VAL_PARAMs, nparam of them */
    int nparam;
    const char **name; /* by Val: NULL when it has no line */
} BodyText;

/* `roots`: the Vals that writes use, with repeats; `taken`: symbols in sight (may be empty). */
void body_text_plan(BodyText *t, const int *roots, int nroots, const Dim *taken, int ntaken);
void body_text_lines(BodyText *t); /* the lines, in Val order */
/* A Val as an expression. A constant is written bare when the reader knows `want` from what stands
 * around (a container's or a state's type), and with its type when `want` is something else. */
void body_text_value(BodyText *t, int val, DType want);
void body_text_access(BodyText *t, const Access *access); /* x[i, j] */

#endif
