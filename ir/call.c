/* SPDX-License-Identifier: Apache-2.0 */
/* The table of calls: call.def as an array. */
#include "call.h"

#include <string.h>

static const CallRow rows[] = {
#define CALL(name, nin, nout, ndefine, reason)                                                     \
    {#name, "weir_call_" #name, nin, nout, ndefine, reason},
#include "call.def"
#undef CALL
};

const CallRow *call_rows(int *count) {
    *count = (int)(sizeof rows / sizeof rows[0]);
    return rows;
}

const CallRow *call_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}
