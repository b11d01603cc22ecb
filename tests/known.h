/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the stages of one source, by the texts that they print as: passes left out one
 * by one, and other sizes, lead through many of the same, of which each is tried once. Functions
 * fail with E_VERIFY. */
#ifndef WEIR_TESTS_KNOWN_H
#define WEIR_TESTS_KNOWN_H

#include "compiler/driver.h"

typedef struct Known {
    const char *text;
    int64_t size; /* of symbols */
    bool verified, printed;
    Tensor *out; /* or NULL */
} Known;

typedef struct KnownList {
    Arena *arena; /* of all that it keeps */
    Known *at;
    int n, cap;
} KnownList;

/* The text of a stage, in the context; behind it that of what prepares its constants. */
const char *known_text(Ctx *ctx, const Stage *stage);

void known_verify(KnownList *list, const Stage *stage);

/* Printed, parsed and printed it must be the same text; `after` says where in the passes. */
void known_print(KnownList *list, const Stage *stage, const char *after);

/* The outputs of a flow or a program for inputs that are the same for all stages of a size. */
const Tensor *known_outputs(KnownList *list, const Stage *stage, int64_t size, const Tensor *in,
                            int nout);

/* Fails with the first line that differs. */
void texts_equal(Ctx *ctx, const char *what, const char *a, const char *b);

#endif
