/* SPDX-License-Identifier: Apache-2.0 */
/* Where compiled code and the evaluator part ways. */
#ifndef WEIR_TOOLS_BISECT_H
#define WEIR_TOOLS_BISECT_H

#include "tools/weir/engine.h"

/* Evaluates after every pass, against the flow that `lower` makes; names the first pass that
 * changes a result beyond rounding and the first value that it changes. When no pass does, compiles
 * the model with single values as further outputs and names the first that the code gets wrong. The
 * exit code: 0 also when nothing diverges. */
int bisect(weir_context *c, const char *path, const HostTensor *inputs, int ninputs, int threads);

#endif
