/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in the evaluator. */
#ifndef WEIR_COMPILER_CALLS_H
#define WEIR_COMPILER_CALLS_H

#include "ir/eval.h"

/* For Ctx.runtime. */
extern const RuntimeHooks calls_runtime;

#endif
