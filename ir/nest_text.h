/* SPDX-License-Identifier: Apache-2.0 */
/* What printer, parser and verifier of nests share. */
#ifndef WEIR_IR_NEST_TEXT_H
#define WEIR_IR_NEST_TEXT_H

#include "nest.h"
#include "print.h"

/* In the order of BufKind and LoopMark. */
extern const char *const buf_words[], *const mark_words[];

/* Groups of asynchronous copies under way at a time. */
enum { GROUPS_MOST = 7 };

/* One nest from a scanner that stands on its first word; leaves it after the last brace. */
struct Lex;
Nest *nest_scan(struct Lex *lex);
void nest_print_marked(Printer *p, const Nest *nest);

/* nest_verify_threads.c */
struct Verify;
void verify_threads(struct Verify *v, const Nest *nest);

#endif
