/* SPDX-License-Identifier: Apache-2.0 */
/* Known values through element-wise operators: arithmetic of Dims, comparisons where the ranges of
 * the model's symbols prove an answer. Floats take part as long as their values are integers that
 * the type holds exactly, which is how exporters compute sizes. */
#include "known.h"

#include <string.h>

bool onnx_known(Infer *in, int operand, const Dim **elements, int *n) {
    const Value *v = infer_in(in, operand);
    if (infer_known(in, operand, elements, n)) return true;
    if (!v || !dtype_is_float(v->type.dtype)) return false;
    int64_t count = type_count(&v->type);
    if (count < 0 || count > KNOWN_MAX) return false;
    *n = (int)count;
    *elements = v->known;
    if (v->known) return true;
    v = value_source(in->graph, v);
    if (v->kind != VALUE_PARAM || !v->data || v->hidden) return false;
    Dim *at = NEW_ARRAY(in->arena, Dim, count);
    for (int i = 0; i < *n; i++) {
        double x = bits_to_double(v->type.dtype, mem_get(v->type.dtype, v->data, i));
        if (!(x > -16777216 && x < 16777216) || x != (double)(int64_t)x) return false;
        at[i] = dim_const(in->ctx, (int64_t)x);
    }
    *elements = at;
    return true;
}

/* Row-major index into an operand of the element that result index `at` reads. */
static int64_t broadcast_at(const Type *t, const int64_t *at, int rank) {
    int64_t index = 0, d = 1;
    for (int i = 0; i < t->rank; i++) {
        dim_is_const(t->shape[i], &d);
        index = index * d + (d == 1 ? 0 : at[rank - t->rank + i]);
    }
    return index;
}

static bool known_operands(Infer *in, const Dim **element) {
    int n;
    for (int i = 0; i < in->node->in.n; i++)
        if (infer_in(in, i) && !onnx_known(in, i, &element[i], &n)) return false;
    return true;
}

void onnx_carry(Infer *in, KnownFn *fn) {
    const Dim **element = NEW_ARRAY(in->arena, const Dim *, in->node->in.n);
    Dim *arg = NEW_ARRAY(in->arena, Dim, in->node->in.n);
    const Value *out = infer_out(in, 0);
    if (!out || !known_operands(in, element)) return;
    int64_t count = type_count(&out->type);
    if (count < 0 || count > KNOWN_MAX) return;
    Dim *result = NEW_ARRAY(in->arena, Dim, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[RANK_MAX], rest = i, d = 1;
        for (int k = out->type.rank; k-- > 0; rest /= d) {
            dim_is_const(out->type.shape[k], &d);
            at[k] = rest % d;
        }
        for (int k = 0; k < in->node->in.n; k++)
            if (element[k])
                arg[k] = element[k][broadcast_at(&infer_in(in, k)->type, at, out->type.rank)];
        result[i] = fn(in, arg);
        if (!result[i]) return;
    }
    infer_set_known(in, 0, result, (int)count);
}

void onnx_carry_view(Infer *in, int64_t first, const int64_t *step) {
    const Dim *from;
    const Value *out = infer_out(in, 0);
    int64_t count = out ? type_count(&out->type) : -1, d;
    int n;
    if (count < 0 || count > KNOWN_MAX) return;
    if (!onnx_known(in, 0, &from, &n) && !(from = infer_partly(in, 0, &n))) return;
    Dim *to = NEW_ARRAY(in->arena, Dim, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = first, rest = i;
        for (int k = out->type.rank; k-- > 0; rest /= d) {
            dim_is_const(out->type.shape[k], &d);
            place += rest % d * step[k];
        }
        to[i] = from[place];
    }
    infer_set_known(in, 0, to, (int)count);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

enum { SAFE = 1 << 30 };

/* Arithmetic on Dims fails on overflow, a tensor's wraps: stay far below. */
static bool safe(Dim a) {
    int64_t v;
    return !dim_is_const(a, &v) || (v > -SAFE && v < SAFE);
}

static bool proven_ge0(Infer *in, Dim d) {
    DimEnv env = infer_env(in);
    return dim_ge0(in->ctx, d, &env);
}

static Dim at_least_one(Infer *in, Dim d) {
    DimEnv env = infer_env(in);
    return dim_simplify(in->ctx, dim_max(in->ctx, d, dim_const(in->ctx, 1)), &env);
}

Dim onnx_known_add(Infer *in, const Dim *a) {
    return safe(a[0]) && safe(a[1]) ? dim_add(in->ctx, a[0], a[1]) : NULL;
}

Dim onnx_known_sub(Infer *in, const Dim *a) {
    return safe(a[0]) && safe(a[1]) ? dim_sub(in->ctx, a[0], a[1]) : NULL;
}

Dim onnx_known_mul(Infer *in, const Dim *a) {
    return safe(a[0]) && safe(a[1]) ? dim_mul(in->ctx, a[0], a[1]) : NULL;
}

/* The tensor's division truncates and a Dim's floors; they agree on what is not negative. A float
 * division must come out even. Nothing follows from a division by zero, which has no result: sizes
 * that may be zero divide as if they were not. */
Dim onnx_known_div(Infer *in, const Dim *a) {
    int64_t x, y;
    Dim q;
    bool whole = dtype_is_float(infer_in(in, 0)->type.dtype);
    if (dim_is_const(a[1], &y) && y == 0) return NULL;
    if (dim_is_const(a[0], &x) && dim_is_const(a[1], &y)) {
        if (x == INT64_MIN || (whole && x % y)) return NULL;
        return dim_const(in->ctx, x / y);
    }
    if (dim_is_const(a[1], &y) && dim_divides(in->ctx, a[0], a[1], &q)) return q;
    if (whole || !proven_ge0(in, a[1])) return NULL;
    if (dim_divides(in->ctx, a[0], a[1], &q)) return q;
    if (!proven_ge0(in, a[0])) return NULL;
    return dim_div(in->ctx, a[0], at_least_one(in, a[1]));
}

/* Of a positive divisor both floor, but with `fmod`, which truncates. */
Dim onnx_known_mod(Infer *in, const Dim *a) {
    int64_t y;
    bool truncates = attr_int(in->ctx, in->node, "fmod", 0) != 0;
    if (!dim_is_const(a[1], &y) || y <= 0 || !safe(a[0])) return NULL;
    if (truncates && !proven_ge0(in, a[0])) return NULL;
    return dim_mod(in->ctx, a[0], a[1]);
}

Dim onnx_known_neg(Infer *in, const Dim *a) {
    return safe(a[0]) ? dim_mulc(in->ctx, a[0], -1) : NULL;
}

Dim onnx_known_abs(Infer *in, const Dim *a) {
    if (proven_ge0(in, a[0])) return a[0];
    return dim_is_const(a[0], NULL) ? onnx_known_neg(in, a) : NULL;
}

Dim onnx_known_sign(Infer *in, const Dim *a) {
    if (dim_is(a[0], 0)) return a[0];
    if (proven_ge0(in, dim_addc(in->ctx, a[0], -1))) return dim_const(in->ctx, 1);
    return dim_is_const(a[0], NULL) ? dim_const(in->ctx, -1) : NULL;
}

static Dim extreme(Infer *in, const Dim *a, Dim (*fn)(Ctx *, Dim, Dim)) {
    DimEnv env = infer_env(in);
    Dim all = a[0];
    for (int i = 1; i < in->node->in.n; i++) all = fn(in->ctx, all, a[i]);
    return dim_simplify(in->ctx, all, &env);
}

Dim onnx_known_min(Infer *in, const Dim *a) {
    return extreme(in, a, dim_min);
}

Dim onnx_known_max(Infer *in, const Dim *a) {
    return extreme(in, a, dim_max);
}

Dim onnx_known_same(Infer *in, const Dim *a) {
    (void)in;
    return a[0];
}

/* ---- comparison and logic ------------------------------------------------------------------- */

/* 1 when x < y is proven, 0 when x >= y is, else NULL. */
static Dim less(Infer *in, Dim x, Dim y) {
    Ctx *ctx = in->ctx;
    if (!safe(x) || !safe(y)) {
        int64_t a, b;
        return dim_is_const(x, &a) && dim_is_const(y, &b) ? dim_const(ctx, a < b) : NULL;
    }
    Dim d = dim_sub(ctx, x, y);
    if (proven_ge0(in, d)) return dim_const(ctx, 0);
    if (proven_ge0(in, dim_addc(ctx, dim_mulc(ctx, d, -1), -1))) return dim_const(ctx, 1);
    return NULL;
}

static Dim negate(Infer *in, Dim truth) {
    return truth && dim_is_const(truth, NULL) ? dim_const(in->ctx, dim_is(truth, 0)) : NULL;
}

Dim onnx_known_less(Infer *in, const Dim *a) {
    return less(in, a[0], a[1]);
}

Dim onnx_known_greater(Infer *in, const Dim *a) {
    return less(in, a[1], a[0]);
}

Dim onnx_known_less_equal(Infer *in, const Dim *a) {
    return negate(in, less(in, a[1], a[0]));
}

Dim onnx_known_greater_equal(Infer *in, const Dim *a) {
    return negate(in, less(in, a[0], a[1]));
}

Dim onnx_known_equal(Infer *in, const Dim *a) {
    if (a[0] == a[1]) return dim_const(in->ctx, 1);
    Dim below = less(in, a[0], a[1]), above = less(in, a[1], a[0]);
    bool differs = (below && dim_is(below, 1)) || (above && dim_is(above, 1));
    return differs ? dim_const(in->ctx, 0) : NULL;
}

Dim onnx_known_not(Infer *in, const Dim *a) {
    return negate(in, a[0]);
}

Dim onnx_known_and(Infer *in, const Dim *a) {
    if (dim_is(a[0], 0) || dim_is(a[1], 0)) return dim_const(in->ctx, 0);
    return dim_is(a[0], 1) ? a[1] : dim_is(a[1], 1) ? a[0] : NULL;
}

Dim onnx_known_or(Infer *in, const Dim *a) {
    if (dim_is(a[0], 1) || dim_is(a[1], 1)) return dim_const(in->ctx, 1);
    return dim_is(a[0], 0) ? a[1] : dim_is(a[1], 0) ? a[0] : NULL;
}

Dim onnx_known_where(Infer *in, const Dim *a) {
    (void)in;
    if (!dim_is_const(a[0], NULL)) return NULL;
    return dim_is(a[0], 0) ? a[2] : a[1];
}
