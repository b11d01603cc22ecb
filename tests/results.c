/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/results.h"

#include <math.h>

static double tolerance(const Results *r, DType t) {
    if (t == F32 && r->within > 0) return r->within;
    return !dtype_is_float(t) ? 0 : dtype_bits(t) < 16 ? 0.3 : dtype_bits(t) < 32 ? 1e-2 : 2e-5;
}

static bool same_shape(const Tensor *a, const Tensor *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (a->dim[k] != b->dim[k]) return false;
    return true;
}

void results_agree(const Results *r, bool exact, bool rounds) {
    for (int o = 0; o < r->n; o++) {
        const Tensor *g = &r->got[o], *w = &r->want[o];
        double most = 1e-6, worst = 0;
        int64_t at = -1, few = exact || !rounds ? 0 : 2 + tensor_count(w) / 100;
        if (!same_shape(g, w))
            fail(r->ctx, E_VERIFY, "%s: output %d has another shape", r->after, o);
        for (int64_t i = 0; i < tensor_count(w); i++) {
            Bits x = mem_get(g->type, g->data, i), y = mem_get(w->type, w->data, i);
            double a = bits_to_double(g->type, x), b = bits_to_double(w->type, y);
            if (isfinite(b) && fabs(b) > most) most = fabs(b);
            if (x == y || (isnan(a) && isnan(b))) continue;
            bool near = !exact && dtype_is_float(w->type) && isfinite(a) && isfinite(b);
            double off = near ? fabs(a - b) : INFINITY;
            if (off > tolerance(r, w->type) * most && few-- > 0) continue;
            if (off <= worst) continue;
            worst = off;
            at = i;
        }
        if (worst > tolerance(r, w->type) * most)
            fail(r->ctx, E_VERIFY, "%s: output %d of %.10g at most: element %lld is %.9g, not %.9g",
                 r->after, o, most, (long long)at,
                 bits_to_double(g->type, mem_get(g->type, g->data, at)),
                 bits_to_double(w->type, mem_get(w->type, w->data, at)));
    }
}
