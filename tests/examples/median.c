/* SPDX-License-Identifier: Apache-2.0 */
/* A function that an operator of one's own calls: medians of rows, which no map can say. */
#include "runtime/call.h"

weir_call_fn acme_median;
weir_call_scratch_fn acme_median_scratch;

int64_t acme_median_scratch(const weir_call *c) {
    return (int64_t)sizeof(float) * c->in[0].dims[1];
}

void acme_median(weir_call *c) {
    const float *x = c->in[0].data;
    float *y = c->out[0].data, *row = c->scratch;
    int64_t n = c->in[0].dims[0], m = c->in[0].dims[1];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0, k; j < m; j++) {
            for (k = j; k > 0 && row[k - 1] > x[i * m + j]; k--) row[k] = row[k - 1];
            row[k] = x[i * m + j];
        }
        y[i] = row[m / 2];
    }
}
