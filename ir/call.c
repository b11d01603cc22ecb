/* SPDX-License-Identifier: Apache-2.0 */
/* The table of calls: call.def as an array. */
#include "call.h"

#include <string.h>

enum { WHOLE, APART };

static const CallRow rows[] = {
#define CALL(name, nin, nout, ndefine, apart, reason)                                              \
    {#name, "weir_call_" #name, nin, nout, ndefine, apart == APART, reason},
#include "call.def"
#undef CALL
};

const CallRow *call_rows(int *count) {
    *count = (int)(sizeof rows / sizeof rows[0]);
    return rows;
}

enum { EXTERN_MOST = 64 };

bool call_is_extern(const CallRow *row) {
    return row < rows || row >= rows + sizeof rows / sizeof rows[0];
}

const CallRow *call_row(Ctx *ctx, const char *name) {
    static const char prefix[] = "extern.";
    size_t n = sizeof prefix - 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    if (strncmp(name, prefix, n) || !name[n]) return NULL;
    CallRow *row = NEW(ctx_arena(ctx), CallRow);
    *row = (CallRow){intern(ctx, name), intern(ctx, name + n), EXTERN_MOST,
                     EXTERN_MOST,       EXTERN_MOST,           false,
                     "the user's own"};
    return row;
}
