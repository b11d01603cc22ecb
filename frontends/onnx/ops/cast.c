/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions: Cast, CastLike, BitCast.
 *
 * Numbers convert in one step, from the type that arithmetic on the operand runs in (which holds it
 * exactly), rounded once. Floats of 8 bits saturate unless the node says otherwise. */
#include "known.h"
#include "nn.h"
#include "view.h"

#include <string.h>

/* Before opset 6 the type is written as a word. */
static DType cast_word(Ctx *ctx, const char *word) {
    static const struct {
        const char *word;
        DType t;
    } words[] = {{"FLOAT", F32},  {"DOUBLE", F64}, {"FLOAT16", F16}, {"INT8", I8},
                 {"INT16", I16},  {"INT32", I32},  {"INT64", I64},   {"UINT8", U8},
                 {"UINT16", U16}, {"UINT32", U32}, {"UINT64", U64},  {"BOOL", BOOL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].word, word)) return words[i].t;
    fail(ctx, E_ATTRIBUTE, "attribute \"to\" is \"%s\", which is no data type", word);
}

/* Integers keep their value in any type that holds them. */
static Dim known_cast(Infer *in, const Dim *a) {
    DType t = infer_out(in, 0)->type.dtype;
    int64_t v;
    if (!dim_is_const(a[0], &v)) return dtype_bits(t) >= 32 ? a[0] : NULL;
    if (t == BOOL) return dim_const(in->ctx, v != 0);
    return dim_const(in->ctx, bits_to_int(t, bits_of_int(t, v)));
}

static void cast_to(Infer *in, DType to) {
    const Type *t = &infer_tensor(in, 0)->type;
    if (dtype_class(to) == CLASS_COMPLEX || dtype_class(t->dtype) == CLASS_COMPLEX)
        fail(in->ctx, E_TYPE, "complex numbers are not converted: cast real and imaginary parts");
    infer_set(in, 0, to, t->shape, t->rank);
    if (type_is_integral(to) || dtype_is_float(to)) {
        bool from_float = dtype_is_float(t->dtype), wide = dtype_bits(to) >= 16;
        if (!from_float || wide) onnx_carry(in, known_cast);
    }
}

static void cast_1_infer(Infer *in) {
    const char *word = attr_string(in->ctx, in->node, "to", NULL);
    if (!word) fail(in->ctx, E_ATTRIBUTE, "attribute \"to\" is missing: it says the type");
    cast_to(in, cast_word(in->ctx, word));
}

static DType cast_type(Infer *in) {
    DType to = onnx_dtype(in->ctx, in->node, "to", DT_NONE);
    if (to == DT_NONE) fail(in->ctx, E_ATTRIBUTE, "attribute \"to\" is missing: it says the type");
    return to;
}

static void cast_infer(Infer *in) {
    cast_to(in, cast_type(in));
}

static void cast_like_infer(Infer *in) {
    cast_to(in, infer_tensor(in, 1)->type.dtype);
}

/* What becomes of floats that a type of less than a byte cannot hold is left open. Before opset 24
 * it is the nearest number, and the largest for NaN; since then integers keep the low bits. */
static int nearest_number(Lower *lo, Map *m, DType to, int v) {
    bool sign = dtype_class(to) == CLASS_INT;
    int end = 1 << (dtype_bits(to) - sign);
    if (to == F4E2M1) return EXPR(m, "select($0 != $0, 6, $0)", v);
    return EXPR(m, internf(lo->ctx, "max(%d, min(%d, $0))", sign ? -end : 0, end - 1), v);
}

static void convert(Lower *lo, Prim prim) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    int v = lower_read_broadcast(lo, m, from, at, c.rank);
    if (a.type != c.type && prim != P_BITCAST) v = body_cvt(&m->body, dtype_compute(a.type), v);
    bool narrow =
        dtype_bits(c.type) < 8 && dtype_is_float(a.type) && a.type != c.type && prim != P_BITCAST;
    if (narrow && lo->node->version < 24) v = nearest_number(lo, m, c.type, v);
    if (narrow && dtype_is_int(c.type)) v = body_cvt(&m->body, I32, v);
    v = prim == P_CVT || a.type == c.type ? body_cvt(&m->body, c.type, v)
                                          : body_prim_as(&m->body, prim, c.type, v);
    map_write(lo->flow, m, to, at, v, NULL);
}

static bool is_f8(DType t) {
    return dtype_is_float(t) && dtype_bits(t) == 8;
}

/* To f8e8m0, which holds powers of two only: the exponent of an f32, rounded as `round_mode` says.
 */
static void scale_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    const Cont c = lo->flow->cont.at[to];
    const char *mode = attr_string(lo->ctx, lo->node, "round_mode", "up");
    const char *bump = !strcmp(mode, "up")        ? "$1 != 0"
                       : !strcmp(mode, "nearest") ? "$1 >= 0x400000"
                                                  : "$1 < 0";
    bool saturate = attr_int(lo->ctx, lo->node, "saturate", 1) != 0;
    Map *m = lower_map(lo, NULL);
    Body *b = &m->body;
    Dim at[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    int v = body_cvt(b, F32, lower_read_broadcast(lo, m, from, at, c.rank)), arg[4] = {0, 0, v, 0};
    int bits = body_prim_as(b, P_BITCAST, U32, v);
    arg[0] = body_expr(b, "($0 >> 23) & 255", &bits, 1, NULL, 0, U32);
    arg[1] = body_expr(b, "$0 & 8388607", &bits, 1, NULL, 0, U32);
    arg[3] = body_expr(b, bump, arg, 2, NULL, 0, U32);
    const char *text =
        internf(lo->ctx, "select($2 != $2, 255, min($0 + u32($3 & ($0 > 0 | $1 > 4194304)), %d))",
                saturate ? 254 : 255);
    int code = body_cvt(b, U8, body_expr(b, text, arg, 4, NULL, 0, U32));
    map_write(lo->flow, m, to, at, body_prim_as(b, P_BITCAST, c.type, code), NULL);
}

/* Text is read and written as f32, f64 or a wide integer; a map converts on the other side. */
static DType text_number(DType t, bool reads) {
    if (dtype_is_float(t)) return reads ? F64 : dtype_bits(t) < 32 ? F32 : t;
    if (t == BOOL) return reads ? F64 : t;
    return dtype_class(t) == CLASS_UINT && !reads ? U64 : I64;
}

static int pairs_of(Lower *lo, int cont) {
    const Cont c = *nn_cont(lo, cont);
    return flow_cont(lo->flow, internf(lo->ctx, "%s.pairs", c.name), CONT_TMP, C128, c.shape,
                     c.rank);
}

int nn_pairs(Lower *lo, int cont, DType t) {
    if (t != C128) return cont;
    int to = pairs_of(lo, cont);
    lower_call(lo, "string_to", &cont, 1, &to, 1, NULL, 0, NULL, 0);
    return to;
}

int nn_pairs_for(Lower *lo, int cont, DType t) {
    return t == C128 ? pairs_of(lo, cont) : cont;
}

void nn_pairs_to(Lower *lo, int pairs, int cont) {
    if (pairs != cont) lower_call(lo, "string_from", &pairs, 1, &cont, 1, NULL, 0, NULL, 0);
}

void nn_parts_for(Lower *lo, int cont, int *part) {
    DType t = nn_cont(lo, cont)->type == C64 ? F32 : F64;
    part[0] = nn_tmp_like(lo, "real", t, cont);
    part[1] = nn_tmp_like(lo, "imaginary", t, cont);
}

void nn_parts(Lower *lo, int cont, int *part) {
    Dim at[RANK_MAX];
    nn_parts_for(lo, cont, part);
    if (nn_cont(lo, cont)->type != C64) {
        lower_call(lo, "pair_parts", &cont, 1, part, 2, NULL, 0, NULL, 0);
        return;
    }
    Map *m = nn_map_over(lo, "parts", "", cont, at);
    int pair = body_prim_as(&m->body, P_BITCAST, U64, nn_read(lo, m, cont, at));
    for (int i = 0; i < 2; i++) {
        int half = body_cvt(&m->body, U32, EXPR(m, i ? "$0 >> 32" : "$0 & 0xffffffff", pair));
        nn_write(lo, m, part[i], at, body_prim_as(&m->body, P_BITCAST, F32, half));
    }
}

void nn_parts_to(Lower *lo, const int *part, int cont) {
    Dim at[RANK_MAX];
    int bits[2];
    if (nn_cont(lo, cont)->type != C64) {
        lower_call(lo, "pair_join", part, 2, &cont, 1, NULL, 0, NULL, 0);
        return;
    }
    Map *m = nn_map_over(lo, NULL, "", cont, at);
    for (int i = 0; i < 2; i++)
        bits[i] = body_cvt(&m->body, U64,
                           body_prim_as(&m->body, P_BITCAST, U32, nn_read(lo, m, part[i], at)));
    int pair = EXPR(m, "$0 | ($1 << 32)", bits[0], bits[1]);
    nn_write(lo, m, cont, at, body_prim_as(&m->body, P_BITCAST, C64, pair));
}

void nn_cast_text(Lower *lo, int from, int to) {
    Dim at[RANK_MAX];
    bool reads = nn_cont(lo, to)->type != STRING;
    DType t = nn_cont(lo, reads ? to : from)->type, wide = text_number(t, reads);
    int number = nn_tmp_like(lo, "number", wide, from);
    if (reads) lower_call(lo, "string_to", &from, 1, &number, 1, NULL, 0, NULL, 0);
    Map *m = nn_map_over(lo, "number", "", from, at);
    if (reads)
        nn_write(lo, m, to, at, nn_read_as(lo, m, number, at, t));
    else
        nn_write(lo, m, number, at, nn_read_as(lo, m, from, at, wide));
    if (!reads) lower_call(lo, "string_from", &number, 1, &to, 1, NULL, 0, NULL, 0);
}

static void cast_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to >= 0 &&
        (nn_cont(lo, to)->type == STRING) != (lower_value(lo, 0)->type.dtype == STRING)) {
        nn_cast_text(lo, lower_in(lo, 0), to);
        return;
    }
    if (to >= 0 && lo->flow->cont.at[to].type == F8E8M0 &&
        lower_value(lo, 0)->type.dtype != F8E8M0) {
        scale_lower(lo);
        return;
    }
    bool saturate = attr_int(lo->ctx, lo->node, "saturate", 1) != 0;
    if (to >= 0) convert(lo, !saturate && is_f8(lo->flow->cont.at[to].type) ? P_CVTINF : P_CVT);
}

static void bitcast_infer(Infer *in) {
    const Value *v = infer_tensor(in, 0);
    DType to = cast_type(in);
    if (dtype_bits(to) != dtype_bits(v->type.dtype) || to == STRING || v->type.dtype == STRING)
        fail(in->ctx, E_TYPE, "\"%s\" of type %s cannot be read as %s: both must have one width",
             v->name, dtype_name(v->type.dtype), dtype_name(to));
    infer_set(in, 0, to, v->type.shape, v->type.rank);
}

static void bitcast_lower(Lower *lo) {
    convert(lo, P_BITCAST);
}

const OpRow onnx_cast_rows[] = {
    {"", "Cast", 1, 5, cast_1_infer, cast_lower, NULL, NULL, 0},
    {"", "Cast", 6, 0, cast_infer, cast_lower, NULL, NULL, 0},
    {"", "CastLike", 15, 0, cast_like_infer, cast_lower, NULL, NULL, 0},
    {"", "BitCast", 26, 0, bitcast_infer, bitcast_lower, NULL, NULL, 0},
    {0},
};
