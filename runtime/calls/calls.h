/* SPDX-License-Identifier: Apache-2.0 */
/* The irregular kernels: one pair of functions for each row of ir/call.def. */
#ifndef WEIR_RUNTIME_CALLS_H
#define WEIR_RUNTIME_CALLS_H

#include "runtime/call.h"

void weir_call_dims(weir_call *c);
int64_t weir_call_dims_scratch(const weir_call *c);
void weir_call_scatter_elements(weir_call *c);
int64_t weir_call_scatter_elements_scratch(const weir_call *c);
void weir_call_scatter_nd(weir_call *c);
int64_t weir_call_scatter_nd_scratch(const weir_call *c);

#endif
