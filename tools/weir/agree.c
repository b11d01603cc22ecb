/* SPDX-License-Identifier: Apache-2.0 */
/* How near results are: within a tolerance, in units in the last place, and relative to the largest
 * magnitude. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/driver.h"
#include "tools/weir/tensors.h"

/* The bits of a float as an integer that grows with it. */
static double ordered(DType t, Bits b) {
    Bits sign = (Bits)1 << (dtype_bits(t) - 1);
    return b & sign ? -(double)(b & (sign - 1)) : (double)b;
}

static bool alike(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static double ulp_between(DType t, Bits got, Bits want) {
    double g = bits_to_double(t, got), w = bits_to_double(t, want);
    if (got == want || alike(g, w)) return 0;
    return isfinite(g - w) ? fabs(ordered(t, got) - ordered(t, want)) : INFINITY;
}

/* From a magnitude up to the next one; from the highest down. */
static double unit_at(DType t, double magnitude) {
    Bits b = bits_of_double(t, magnitude);
    if (magnitude >= dtype_highest(t)) b--;
    return bits_to_double(t, b + 1) - bits_to_double(t, b);
}

void distance_worsen(Distance *worst, Distance other) {
    worst->ulp = fmax(worst->ulp, other.ulp);
    worst->of_largest = fmax(worst->of_largest, other.of_largest);
}

/* ---- in units and relative ------------------------------------------------------------------- */

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
        if (gb == wb || alike(g, w)) continue;
        a->equal = false;
        if (!isfinite(d)) d = INFINITY;
        a->ulp = fmax(a->ulp, ulp_between(t, gb, wb));
        if (d <= worst) continue;
        worst = d;
        a->at = i, a->got = g, a->want = w;
    }
    a->relative = worst == 0 ? 0 : largest > 0 ? worst / largest : worst;
}

Agreement host_agree(const weir_tensor *got, const weir_tensor *want) {
    Agreement a = {.equal = true, .comparable = same_shape(got, want), .at = -1};
    DType t = dtype_from_host(got->dtype);
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
    DType t = dtype_from_host(dtype);
    if (t == F64 || t == C128) return 1e-10;
    if (t == F32 || t == C64) return 1e-4;
    return dtype_is_float(t) ? (dtype_bits(t) == 16 ? 1e-2 : 0.1) : 0;
}

static double halves_share(DType t) {
    return t == F16 ? 0x1p-7 : t == BF16 ? 0x1p-4 : 0;
}

/* May rows of products by codes become codes? */
static bool may_code(const struct Options *o, const struct Flow *flow) {
    bool coded = false;
    for (int m = 0; m < flow->map.n; m++) coded |= flow->map.at[m]->coded;
    for (int c = 0; o->math == MATH_FAST && c < flow->cont.n; c++) {
        DType t = flow->cont.at[c].type;
        coded |= flow->cont.at[c].kind == CONT_PARAM && (t == U4 || t == U8);
    }
    return coded && o->math != MATH_STRICT;
}

double agree_share(const struct Options *o, const struct Flow *flow) {
    double halves = halves_share(o->convert), share = o->math == MATH_FAST ? AGREE_FAST : 0;
    if (flow && may_code(o, flow)) share += AGREE_CODED;
    for (int c = 0; flow && c < flow->cont.n; c++)
        if (flow->cont.at[c].kind == CONT_TMP)
            halves = fmax(halves, halves_share(flow->cont.at[c].type));
    return share + halves;
}

bool agreement_holds(const Agreement *a, int32_t dtype, double share) {
    if (dtype_from_host(dtype) == F64) share = 0;
    return a->comparable && (a->equal || a->relative <= agree_bound(dtype) + share) &&
           (a->equal || dtype_is_float(dtype_from_host(dtype)) || dtype == WEIR_C64 ||
            dtype == WEIR_C128);
}

/* ---- within a tolerance ---------------------------------------------------------------------- */

static double largest_finite(DType t, const weir_tensor *a, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = bits_to_double(t, mem_get(t, a->data, i));
        if (isfinite(v)) largest = fmax(largest, fabs(v));
    }
    return largest;
}

/* The difference of two floats, infinite where only one of them is a number. */
static double gap(double got, double want) {
    double d = alike(got, want) ? 0 : fabs(got - want);
    return isfinite(d) ? d : INFINITY;
}

/* Two units in the last place of bf16 are within any tolerance: the rule of ONNX's own runner. */
static double relative_bound(DType t, const Tolerance *within) {
    return t == BF16 ? fmax(within->rtol, 0x1p-6) : within->rtol;
}

static void compare_floats(Difference *d, DType t, const weir_tensor *got, const weir_tensor *want,
                           int64_t n, const Tolerance *within) {
    double worst = 0, ulp = 0, largest = largest_finite(t, want, n),
           atol = within->atol + (t == F64 ? 0 : within->share * largest),
           rtol = relative_bound(t, within);
    for (int64_t i = 0; i < n; i++) {
        Bits gb = mem_get(t, got->data, i), wb = mem_get(t, want->data, i);
        double g = bits_to_double(t, gb), w = bits_to_double(t, wb);
        worst = fmax(worst, gap(g, w));
        ulp = fmax(ulp, ulp_between(t, gb, wb));
        if (d->same && gap(g, w) > 0 && gap(g, w) > atol + rtol * fabs(w)) {
            d->same = false;
            d->at = i, d->got = g, d->want = w;
            snprintf(d->text, sizeof d->text, "element %lld is %.9g, expected %.9g", (long long)i,
                     g, w);
        }
    }
    d->distance = (Distance){ulp, worst > 0 ? worst / unit_at(t, largest) : 0};
}

static void compare_exact(Difference *d, DType t, const weir_tensor *got, const weir_tensor *want,
                          int64_t n) {
    for (int64_t i = 0; i < n && d->same; i++) {
        if (mem_get(t, got->data, i) == mem_get(t, want->data, i)) continue;
        d->same = false;
        d->at = i, d->got = host_get(got, i), d->want = host_get(want, i);
        snprintf(d->text, sizeof d->text, "element %lld is %.17g, expected %.17g", (long long)i,
                 d->got, d->want);
    }
}

Difference host_compare(const weir_tensor *got, const weir_tensor *want, const Tolerance *within) {
    Difference d = {.same = true, .at = -1, .distance = NO_FLOATS};
    bool shape = got->rank == want->rank;
    for (int i = 0; shape && i < got->rank; i++) shape = got->dims[i] == want->dims[i];
    if (got->dtype != want->dtype || !shape) {
        int n = snprintf(d.text, sizeof d.text, "got %s[", dtype_text(got->dtype));
        for (int i = 0; i < got->rank; i++)
            n += snprintf(d.text + n, sizeof d.text - (size_t)n, "%s%lld", i ? "," : "",
                          (long long)got->dims[i]);
        n += snprintf(d.text + n, sizeof d.text - (size_t)n, "], expected %s[",
                      dtype_text(want->dtype));
        for (int i = 0; i < want->rank; i++)
            n += snprintf(d.text + n, sizeof d.text - (size_t)n, "%s%lld", i ? "," : "",
                          (long long)want->dims[i]);
        snprintf(d.text + n, sizeof d.text - (size_t)n, "]");
        d.same = false;
        return d;
    }
    DType t = dtype_from_host(got->dtype);
    int64_t n = host_count(got);
    if (host_is_object(got->dtype))
        host_compare_objects(&d, got, want, within);
    else if (t == C64 || t == C128)
        compare_floats(&d, t == C64 ? F32 : F64, got, want, 2 * n, within);
    else if (dtype_is_float(t))
        compare_floats(&d, t, got, want, n, within);
    else
        compare_exact(&d, t, got, want, n);
    return d;
}
