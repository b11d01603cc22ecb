/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of a machine's table says that its instruction means, run. */
#ifndef WEIR_TESTS_MEANING_H
#define WEIR_TESTS_MEANING_H

#include <stdio.h>

#include "ir/nest.h"

static inline void see(void *user, const Diag *diag) {
    (void)user;
    fprintf(stderr, "%s\n", diag->message);
}

static inline bool meaning_size(void *user, Dim sym, int64_t *value) {
    (void)user, (void)sym, (void)value;
    return false;
}

/* `t`: the nest's buffers, in order. */
static inline void run_meaning(Ctx *ctx, const char *meaning, Tensor *t) {
    const char *end;
    Nest *nest = nest_parse(ctx_arena(ctx), meaning, &end);
    nest_verify(nest);
    nest_eval(nest, t, meaning_size, NULL);
}

#endif
