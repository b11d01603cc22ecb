/* SPDX-License-Identifier: Apache-2.0 */
/* Do two runs give the same? */
#ifndef WEIR_TESTS_RESULTS_H
#define WEIR_TESTS_RESULTS_H

#include "ir/eval.h"

typedef struct Results {
    Ctx *ctx;
    int n; /* outputs */
    const Tensor *got, *want;
    const char *after; /* what was done, for the message */
    double within;     /* so much of the largest f32; 0: as other types, by the type */
} Results;

/* Bit for bit (but for the bits of a NaN), or within a part of the largest magnitude; where values
 * are rounded to whole numbers a few elements may differ by one of these. Else E_VERIFY. */
void results_agree(const Results *r, bool exact, bool rounds);

#endif
