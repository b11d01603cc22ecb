/* SPDX-License-Identifier: Apache-2.0 */
/* How near results are: units in the last place, and relative to the largest magnitude. */
#include <math.h>
#include <string.h>

#include "ir/dtype.h"
#include "tools/weir/tensors.h"

/* The bits of a float as an integer that grows with it. */
static double ordered(DType t, Bits b) {
    Bits sign = (Bits)1 << (dtype_bits(t) - 1);
    return b & sign ? -(double)(b & (sign - 1)) : (double)b;
}

static bool same_shape(const weir_tensor *a, const weir_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = a->dims[k] == b->dims[k];
    return same;
}

static void agree_floats(Agreement *a, DType t, const weir_tensor *got, const weir_tensor *want,
                         int64_t n) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        Bits gb = mem_get(t, got->data, i), wb = mem_get(t, want->data, i);
        double g = bits_to_double(t, gb), w = bits_to_double(t, wb), d = fabs(g - w);
        if (isfinite(w) && fabs(w) > largest) largest = fabs(w);
        if (gb == wb || (isnan(g) && isnan(w)) || g == w) continue;
        a->equal = false;
        double ulp = isfinite(d) ? fabs(ordered(t, gb) - ordered(t, wb)) : INFINITY;
        if (!isfinite(d)) d = INFINITY;
        if (ulp > a->ulp) a->ulp = ulp;
        if (d <= worst) continue;
        worst = d;
        a->at = i, a->got = g, a->want = w;
    }
    a->relative = worst == 0 ? 0 : largest > 0 ? worst / largest : worst;
}

Agreement host_agree(const weir_tensor *got, const weir_tensor *want) {
    Agreement a = {.equal = true, .comparable = same_shape(got, want), .at = -1};
    DType t = dtype_from_onnx(got->dtype);
    int64_t n = host_count(got);
    if (!a.comparable) {
        a.equal = false;
    } else if (t == C64 || t == C128) {
        agree_floats(&a, t == C64 ? F32 : F64, got, want, 2 * n);
    } else if (dtype_is_float(t)) {
        agree_floats(&a, t, got, want, n);
    } else {
        for (int64_t i = 0; i < n && a.equal; i++) {
            if (mem_get(t, got->data, i) == mem_get(t, want->data, i)) continue;
            a.equal = false;
            a.at = i, a.got = host_get(got, i), a.want = host_get(want, i);
        }
    }
    return a;
}

double agree_bound(int32_t dtype) {
    DType t = dtype_from_onnx(dtype);
    if (t == F64 || t == C128) return 1e-10;
    if (t == F32 || t == C64) return 1e-4;
    return dtype_is_float(t) ? (dtype_bits(t) == 16 ? 1e-2 : 0.1) : 0;
}

bool agreement_holds(const Agreement *a, int32_t dtype) {
    return a->comparable && (a->equal || a->relative <= agree_bound(dtype)) &&
           (a->equal || dtype_is_float(dtype_from_onnx(dtype)) || dtype == WEIR_C64 ||
            dtype == WEIR_C128);
}
