/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins until the verifiers are here. */
#include "ir/graph.h"
#include "ir/nest.h"
__attribute__((weak)) void graph_verify(const Graph *g) { (void)g; }
__attribute__((weak)) void flow_verify(const Flow *f) { (void)f; }
__attribute__((weak)) void nest_verify(const Nest *n) { (void)n; }
