/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two texts, in the unified form. */
#ifndef WEIR_TOOLS_DIFF_H
#define WEIR_TOOLS_DIFF_H

#include "ir/base.h"

/* Appends "--- a", "+++ b" and the hunks with three lines around each change; false when the texts
 * are equal (and nothing is appended). */
bool diff_put(Text *out, Ctx *ctx, const char *a, const char *a_name, const char *b,
              const char *b_name);

#endif
