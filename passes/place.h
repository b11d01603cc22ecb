/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `place`. */
#ifndef WEIR_PASSES_PLACE_H
#define WEIR_PASSES_PLACE_H

#include "passes/access.h"

/* place_append.c: which outputs may share an input's memory, when the caller binds them so. */
void place_appended(Flow *flow);

#endif
