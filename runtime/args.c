/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a run: what the caller's tensors say against what the model declares. Symbols are
 * bound from the first dim that names each of them; then every dim of every input is evaluated and
 * compared, so a symbol used twice, or inside an expression, is checked by the same loop as a
 * constant. */
#include "runtime/instance.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weir_status weir_instance_fail(weir_instance *in, weir_status status, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(in->error, sizeof in->error, fmt, args);
    va_end(args);
    return status;
}

/* ---- element types --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int bits;
} types[] = {
    [WEIR_F32] = {"f32", 32},
    [WEIR_U8] = {"u8", 8},
    [WEIR_I8] = {"i8", 8},
    [WEIR_U16] = {"u16", 16},
    [WEIR_I16] = {"i16", 16},
    [WEIR_I32] = {"i32", 32},
    [WEIR_I64] = {"i64", 64},
    [WEIR_STRING] = {"string", 64},
    [WEIR_BOOL] = {"bool", 8},
    [WEIR_F16] = {"f16", 16},
    [WEIR_F64] = {"f64", 64},
    [WEIR_U32] = {"u32", 32},
    [WEIR_U64] = {"u64", 64},
    [WEIR_C64] = {"c64", 64},
    [WEIR_C128] = {"c128", 128},
    [WEIR_BF16] = {"bf16", 16},
    [WEIR_F8E4M3FN] = {"f8e4m3fn", 8},
    [WEIR_F8E4M3FNUZ] = {"f8e4m3fnuz", 8},
    [WEIR_F8E5M2] = {"f8e5m2", 8},
    [WEIR_F8E5M2FNUZ] = {"f8e5m2fnuz", 8},
    [WEIR_U4] = {"u4", 4},
    [WEIR_I4] = {"i4", 4},
    [WEIR_F4E2M1] = {"f4e2m1", 4},
    [WEIR_F8E8M0] = {"f8e8m0", 8},
    [WEIR_U2] = {"u2", 2},
    [WEIR_I2] = {"i2", 2},
    [WEIR_F6E2M3] = {"f6e2m3", 8},
    [WEIR_F6E3M2] = {"f6e3m2", 8},
    [WEIR_OBJECT] = {"object", 64},
};

int weir_is_object(int32_t dtype) {
    return dtype == WEIR_STRING || dtype == WEIR_OBJECT;
}

int weir_dtype_known(int32_t dtype) {
    return dtype > 0 && dtype < (int32_t)(sizeof types / sizeof *types) && types[dtype].bits;
}

static const char *type_name(int32_t dtype) {
    return weir_dtype_known(dtype) ? types[dtype].name : "unknown";
}

static int64_t product(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

int weir_bits(int32_t dtype) {
    return types[dtype].bits;
}

int64_t weir_bytes(int32_t dtype, int64_t n) {
    int64_t bits = product(n, types[dtype].bits);
    return bits == INT64_MAX ? bits : (bits + 7) / 8;
}

static int64_t count_dims(const int64_t *dims, int rank) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (dims[i] == 0) return 0;
    for (int i = 0; i < rank; i++) n = product(n, dims[i]);
    return n;
}

int64_t weir_tensor_count(const weir_tensor *t) {
    return count_dims(t->dims, t->rank);
}

/* ---- dims ------------------------------------------------------------------------------------ */

static const int64_t *dims_of(const weir_port *ports, int k, const int64_t *at) {
    for (int i = 0; i < k; i++) at += ports[i].rank;
    return at;
}

const int64_t *weir_in_dims(const weir_instance *in, int k) {
    return dims_of(in->program->model.inputs, k, in->value + WEIR_V_DIMS);
}

const int64_t *weir_out_dims(const weir_instance *in, int k) {
    const weir_model *m = &in->program->model;
    return dims_of(m->outputs, k, weir_in_dims(in, m->ninputs));
}

static weir_status check_kind(weir_instance *in, int k, const weir_tensor *t) {
    const weir_port *p = &in->program->model.inputs[k];
    if (t->dtype != p->dtype)
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\" has element type %s, expected %s; "
                                  "convert it",
                                  p->name, type_name(t->dtype), type_name(p->dtype));
    if (t->rank != p->rank)
        return weir_instance_fail(in, WEIR_E_ARGUMENT, "input \"%s\" has %d dims, expected %d",
                                  p->name, t->rank, p->rank);
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] < 0)
            return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                      "input \"%s\": dim %d is %lld, expected \"%s\"", p->name, d,
                                      (long long)t->dims[d], p->dims[d]);
    return WEIR_OK;
}

static weir_status bind_symbol(weir_instance *in, int i, const weir_tensor *inputs) {
    const weir_symbol *s = &in->program->symbol[i];
    const weir_port *p = &in->program->model.inputs[s->port];
    int64_t given = inputs[s->port].dims[s->dim], v = given - s->add;
    if (v % s->mul != 0)
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\": dim %d is %lld, expected a value of "
                                  "\"%s\"",
                                  p->name, s->dim, (long long)given, p->dims[s->dim]);
    v /= s->mul;
    in->symbol[i] = v;
    if (v >= s->lo && v <= s->hi) return WEIR_OK;
    char hi[32] = "";
    if (s->hi != INT64_MAX) snprintf(hi, sizeof hi, "%lld", (long long)s->hi);
    return weir_instance_fail(
        in, WEIR_E_ARGUMENT,
        "input \"%s\": dim %d gives \"%s\" = %lld, outside %lld..%s that the model was "
        "compiled for",
        p->name, s->dim, s->name, (long long)v, (long long)s->lo, hi);
}

static weir_status check_dims(weir_instance *in, int k, const weir_tensor *t) {
    const weir_port *p = &in->program->model.inputs[k];
    const int64_t *want = weir_in_dims(in, k);
    for (int d = 0; d < t->rank; d++) {
        if (t->dims[d] == want[d]) continue;
        char from[160] = "";
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)want[d]);
        if (strcmp(number, p->dims[d]) != 0)
            snprintf(from, sizeof from, " (\"%s\", which other dims of the inputs fix)",
                     p->dims[d]);
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\": dim %d is %lld, expected %s%s", p->name, d,
                                  (long long)t->dims[d], number, from);
    }
    return WEIR_OK;
}

/* Is a window larger than what it goes over? */
static weir_status check_out_dim(weir_instance *in, int k) {
    const weir_port *p = &in->program->model.outputs[k];
    const int64_t *dims = weir_out_dims(in, k);
    for (int d = 0; d < p->rank; d++)
        if (dims[d] < 0)
            return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                      "output \"%s\": dim %d, \"%s\", would be %lld: the inputs "
                                      "are too small",
                                      p->name, d, p->dims[d], (long long)dims[d]);
    return WEIR_OK;
}

weir_status weir_check_out_dims(weir_instance *in, int before) {
    weir_status s = WEIR_OK;
    for (int k = 0; k < in->program->model.noutputs && !s; k++)
        if (!before || in->program->when[k] == WEIR_KNOWN) s = check_out_dim(in, k);
    return s;
}

/* ---- data ------------------------------------------------------------------------------------ */

static weir_status check_data(weir_instance *in, const weir_port *p, const weir_tensor *t) {
    if (weir_is_object(p->dtype) && !weir_is_dense(t))
        return weir_instance_fail(in, WEIR_E_ARGUMENT, "input \"%s\" has strides; copy it",
                                  p->name);
    if (!t->data && weir_tensor_count(t) > 0)
        return weir_instance_fail(in, WEIR_E_ARGUMENT, "input \"%s\" has no data", p->name);
    for (int d = 0; t->strides && d < t->rank; d++)
        if (t->strides[d] < 0)
            return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                      "input \"%s\": stride %d is negative; copy the "
                                      "tensor",
                                      p->name, d);
    if (t->strides && weir_bits(t->dtype) < 8 && !weir_is_dense(t))
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\" has strides, but elements of %s are "
                                  "packed; copy it to a dense tensor",
                                  p->name, type_name(t->dtype));
    if (t->capacity && weir_reach(t) > t->capacity)
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\" reaches %lld elements, but its capacity "
                                  "is %lld",
                                  p->name, (long long)weir_reach(t), (long long)t->capacity);
    return WEIR_OK;
}

/* ---- what the model asks of sizes and indices -------------------------------------------------
 */

static weir_status check_require(weir_instance *in, const weir_require *r) {
    int64_t a = in->value[r->value], b = in->value[r->value + 1];
    if (a == b || (r->broadcast && (a == 1 || b == 1))) return WEIR_OK;
    return weir_instance_fail(
        in, WEIR_E_ARGUMENT, "%s is %lld and %s is %lld: node \"%s\" needs them equal%s", r->a,
        (long long)a, r->b, (long long)b, r->node, r->broadcast ? ", or one of them 1" : "");
}

static int64_t integer_at(const weir_tensor *t, int64_t i) {
    return t->dtype == WEIR_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}

/* Are n elements of a dense tensor certainly in lo..hi? Blocks without a branch: an element outside
 * makes one of the two differences negative, in two's complement too. */
static int all_within(const weir_tensor *t, int64_t n, int64_t lo, int64_t hi) {
    enum { BLOCK = 32 };
    const int64_t *wide = t->data;
    const int32_t *narrow = t->data;
    uint64_t low = (uint64_t)lo, high = (uint64_t)hi;
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        uint64_t out = 0;
        if (t->dtype == WEIR_I64)
            for (int k = 0; k < BLOCK; k++)
                out |= ((uint64_t)wide[i + k] - low) | (high - (uint64_t)wide[i + k]);
        else
            for (int k = 0; k < BLOCK; k++)
                out |= ((uint64_t)(int64_t)narrow[i + k] - low) |
                       (high - (uint64_t)(int64_t)narrow[i + k]);
        if (out >> 63) return 0;
    }
    for (; i < n; i++)
        if (integer_at(t, i) < lo || integer_at(t, i) > hi) return 0;
    return 1;
}

static weir_status check_range(weir_instance *in, const weir_range *r, const weir_tensor *t) {
    int64_t index[WEIR_RANK_MAX] = {0}, n = weir_tensor_count(t);
    int dense = weir_is_dense(t);
    int64_t lo = r->lo, hi = r->hi;
    if (r->value >= 0) lo = -in->value[r->value], hi = in->value[r->value] - 1;
    if (dense && all_within(t, n, lo, hi)) return WEIR_OK;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        for (int d = 0; !dense && d < t->rank; d++) at = (d ? at : 0) + index[d] * t->strides[d];
        for (int d = t->rank - 1; !dense && d >= 0 && ++index[d] == t->dims[d]; d--) index[d] = 0;
        int64_t v = integer_at(t, at);
        if (v >= lo && v <= hi) continue;
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "input \"%s\": element %lld is %lld, an index out of range: "
                                  "expected %lld..%lld",
                                  in->program->model.inputs[r->input].name, (long long)i,
                                  (long long)v, (long long)lo, (long long)hi);
    }
    return WEIR_OK;
}

static weir_status check_asked(weir_instance *in, const weir_tensor *inputs, int data) {
    const weir_program *p = in->program;
    weir_status s = WEIR_OK;
    for (int i = 0; i < p->nrequire && !s; i++) s = check_require(in, &p->require[i]);
    for (int i = 0; data && i < p->nrange && !s; i++)
        if (!in->remote || !in->remote[p->range[i].input])
            s = check_range(in, &p->range[i], &inputs[p->range[i].input]);
    return s;
}

weir_status weir_bind(weir_instance *in, const weir_tensor *inputs, int data) {
    const weir_program *p = in->program;
    weir_status s;
    if (p->model.ninputs && !inputs)
        return weir_instance_fail(in, WEIR_E_ARGUMENT, "no inputs given, expected %d",
                                  p->model.ninputs);
    for (int k = 0; k < p->model.ninputs; k++)
        if ((s = check_kind(in, k, &inputs[k]))) return s;
    for (int i = 0; i < p->nsymbol; i++) {
        in->symbol[i] = 0;
        if (p->symbol[i].from == WEIR_FROM_DIM && (s = bind_symbol(in, i, inputs))) return s;
    }
    p->bound(in->symbol, in->place);
    p->eval(in->symbol, in->place, in->value);
    for (int k = 0; k < p->model.ninputs; k++) {
        if ((s = check_dims(in, k, &inputs[k]))) return s;
        if (data && (s = check_data(in, &p->model.inputs[k], &inputs[k]))) return s;
    }
    if ((s = weir_check_out_dims(in, 1))) return s;
    return check_asked(in, inputs, data);
}
