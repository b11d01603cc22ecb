/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in the evaluator. */
#ifndef WEIR_COMPILER_CALLS_H
#define WEIR_COMPILER_CALLS_H

#include "ir/flow.h"

/* For Ctx.run_call: runs the runtime's function; false with args->reason when it failed. */
bool calls_run(CallArgs *args);

#endif
