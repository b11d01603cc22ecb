/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the stages of one source, by the texts that they print as: passes left out one
 * by one, and other sizes, lead through many of the same, of which each is tried once. Functions
 * fail with E_VERIFY. */
#ifndef WEIR_TESTS_KNOWN_H
#define WEIR_TESTS_KNOWN_H

#include "compiler/driver.h"

typedef struct Known {
    const char *text; /* behind the stage's that of what prepares its constants; of the context */
    bool verified, printed;
    Tensor *out; /* at the size at hand; or NULL */
} Known;

typedef struct KnownList {
    Arena *arena; /* of all that it keeps */
    VEC(Known *) of;
} KnownList;

Known *known_stage(KnownList *list, const Stage *stage);
/* Inputs are others now. */
void known_forget_outputs(KnownList *list);

void known_verify(Known *known, const Stage *stage);

/* Printed, parsed and printed it must be the same text; `after` says where in the passes. */
void known_print(Known *known, Ctx *ctx, const Stage *stage, const char *after);

/* The outputs of a flow or a program, in the arena. */
const Tensor *known_outputs(Known *known, Arena *arena, const Stage *stage, const Tensor *in,
                            int nout);

/* Fails with the first line that differs. */
void texts_equal(Ctx *ctx, const char *what, const char *a, const char *b);

#endif
