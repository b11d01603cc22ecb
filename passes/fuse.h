/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `fuse`. */
#ifndef WEIR_PASSES_FUSE_H
#define WEIR_PASSES_FUSE_H

#include "passes/compose.h"

void fuse_inline(Arena *arena, Flow *flow, const Machine *machine); /* fuse_inline.c */

#endif
