/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `vectorize`. */
#ifndef WEIR_PASSES_VECTORIZE_H
#define WEIR_PASSES_VECTORIZE_H

#include "passes/pass.h"

/* Puts instructions of the machine's table in the place of the loops that they stand for. */
void use_instructions(Arena *arena, const Flow *flow, Nest *nest, const Machine *machine);

/* Puts many of them at once, on registers that hold tiles, in the place of the loops around them.
 */
void use_matrices(Arena *arena, Nest *nest, const Machine *machine);

/* A copy whose statements and stores may be changed. */
Stmt *copy_stmt(Arena *arena, const Stmt *from);

#endif
