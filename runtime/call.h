/* SPDX-License-Identifier: Apache-2.0 */
/* What an irregular kernel gets. Each is a function `void weir_call_NAME(weir_call *)` named by a
 * row of ir/call.def, called by emitted code and by the evaluator alike: on one thread, or, where
 * the row says APART, by `parts` threads at once, each of which makes its part of the rows.
 *
 * Tensors are dense. Inputs carry all dims. Outputs carry the dims that do not depend on data and
 * point to room for the largest result; the function stores its results, puts the values of the
 * symbols that it defines into `define`, and lays elements out for the dims that follow from them.
 * An absent operand has data NULL and dtype 0.
 *
 * Elements of strings and objects are handles (int64_t): numbers in `objects`, runtime/objects.h.
 *
 * Scratch is given, never allocated: `weir_call_NAME_scratch` tells how many bytes the function
 * wants for inputs of these dims (data is not looked at), for each thread that calls it. */
#ifndef WEIR_CALL_H
#define WEIR_CALL_H

#include "runtime/weir_model.h"

typedef struct weir_call {
    int32_t nin, nout, nattr, ndefine;
    const weir_tensor *in;
    weir_tensor *out;
    const int64_t *attr;
    int64_t *define;
    void *scratch;
    struct weir_objects *objects; /* what handles in tensors of strings and objects name */
    weir_status status;           /* WEIR_OK; a function that fails sets it and `reason` */
    const char *reason;           /* static text: no capital, no full stop */
    int32_t part, parts;          /* number `part` of `parts` threads; parts 0 or 1: all of it */
} weir_call;

typedef void weir_call_fn(weir_call *c);
typedef int64_t weir_call_scratch_fn(const weir_call *c);

int64_t weir_tensor_count(const weir_tensor *t);

#endif
