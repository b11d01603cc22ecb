/* SPDX-License-Identifier: Apache-2.0 */
/* What a context holds behind its public face; included by base.c, arena.c, text.c and by the
 * modules that keep one table per context. */
#ifndef WEIR_IR_CONTEXT_H
#define WEIR_IR_CONTEXT_H

#include <setjmp.h>

#include "base.h"

/* One `ctx_try` on the stack. Arenas with a serial above `serial` were made inside it. */
typedef struct TryFrame {
    struct TryFrame *outer;
    jmp_buf jump;
    Where where;
    uint64_t serial;
} TryFrame;

struct CtxPrivate {
    Arena *newest;   /* all living arenas, newest first */
    uint64_t serial; /* of the newest arena ever made */
    TryFrame *innermost;
    Arena *own;               /* ctx_arena */
    VEC(const char *) warned; /* texts of warnings, interned: each is given once */
    struct Interns *interns;
    struct DimTable *dims;         /* ir/dim.c */
    struct CombineTable *combines; /* ir/combine.c */
    struct PolyCtx *poly;          /* ir/poly.c */
    struct Mapping *mapping;       /* ir/keep.c, newest first */
};

/* Like arena_new, but returns NULL when memory is out. */
Arena *arena_try_new(Ctx *ctx);
/* Frees every arena younger than `serial`, newest first. */
void arenas_drop(Ctx *ctx, uint64_t serial);

#endif
