/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that print the program around the kernels: emit_units.c (kernels into units),
 * emit_program.c (the walk over the flow's items), emit_tables.c (symbols, sizes, descriptor). */
#ifndef WEIR_C_PROGRAM_H
#define WEIR_C_PROGRAM_H

#include "c_nest.h"
#include "target.h"

/* One function, shared by all kernels whose text is equal. */
typedef struct CFunction {
    const char *text; /* from the parameters on */
    const char *from; /* what it comes from, for the reader */
    int uses;
} CFunction;

typedef struct CProgram {
    Arena *arena;
    Ctx *ctx;
    const Flow *flow;
    const Program *program;
    const EmitOptions *options;
    VEC(CFunction) function;
    CKernel **kernel;       /* by kernel of the flow */
    int **phase;            /* function numbers of its phases */
    int *first_kernel;      /* by map: the first kernel whose root it is; -1 */
    const Call **call;      /* by call number, in the order of the text */
    int ncall, ccall;
    int64_t *cont_index;    /* in, out: position among the ports */
    Names names;
    Text out;
    int indent;
    enum { AFTER_NOTHING, AFTER_SERIAL, AFTER_ALL } state; /* which threads did the last work */
    int fresh;
} CProgram;

void program_line(CProgram *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *c_string(Arena *arena, const char *text); /* quoted */
int symbol_index(const CProgram *p, Dim sym);         /* in flow->symbol; -1 */

/* emit_program.c: functions `walkN`, `run`, `callN` (appended to p->out). */
void emit_run(CProgram *p);
Dim cont_bytes(const CProgram *p, const Cont *c);

/* emit_tables.c: everything else of unit 0. */
void emit_tables(CProgram *p);

#endif
