/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: irregular kernels of the runtime that a flow may call. One row each in call.def; a name
 * "extern.f" is the function f of the user's own, with f_scratch beside it.
 *
 * The function is `void f(weir_call *c)` of runtime/call.h: it gets dense tensors and integer
 * attributes, fills outputs, and sets the symbols it defines. The evaluator calls the same function
 * through the row, so runtime and evaluator agree by construction; the tests hold it against ONNX's
 * cases. */
#ifndef WEIR_IR_CALL_H
#define WEIR_IR_CALL_H

#include "base.h"

struct CallRow {
    const char *name;     /* "nonzero" */
    const char *function; /* C symbol in the runtime: "weir_call_nonzero" */
    int nin, nout;        /* most inputs, outputs */
    int ndefine;          /* symbols defined */
    bool apart;           /* rows of the results may be made by threads apart */
    const char *reason;   /* why it is not a map */
};
typedef struct CallRow CallRow;

const CallRow *call_row(Ctx *ctx, const char *name); /* NULL when unknown */
bool call_is_extern(const CallRow *row);
const CallRow *call_rows(int *count);

#endif
