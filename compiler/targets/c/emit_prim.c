/* SPDX-License-Identifier: Apache-2.0 */
/* One primitive as a C expression, for a scalar or for all lanes at once. What has no vector form
 * (integer division, shifts by variable counts, conversions of 8-bit floats) is printed lane by
 * lane from the scalar form. Meaning is prim.def's: every row total, so integers go through
 * unsigned types, conversions saturate, and min and max let NaN win. */
#include "c_nest.h"

#include <string.h>

static bool is_integer(DType t) {
    return dtype_is_int(t);
}

static const char *unsigned_type(DType t) {
    switch (value_bits(t)) {
    case 8: return "u8";
    case 16: return "u16";
    case 32: return "u32";
    default: return "u64";
    }
}

static const char *vector_unsigned(const CNest *c, DType t) {
    return str(c, "v%d%s", c->lane.width, unsigned_type(t));
}

/* Arithmetic on narrow integers happens in int: this is the unsigned type that no product
 * overflows. */
static const char *wide_unsigned(DType t) {
    return value_bits(t) < 64 ? "u32" : "u64";
}

/* ---- conversions of scalars ------------------------------------------------------------------ */

static const char *wrap_scalar(const CNest *c, DType to, const char *x) {
    switch (to) {
    case I4: return str(c, "((i8)((i8)((u8)(%s) << 4) >> 4))", x);
    case I2: return str(c, "((i8)((i8)((u8)(%s) << 6) >> 6))", x);
    case U4: return str(c, "((u8)((%s) & 15))", x);
    case U2: return str(c, "((u8)((%s) & 3))", x);
    default: return str(c, "((%s)(%s))", scalar_type(to), x);
    }
}

static const char *saturate_scalar(const CNest *c, DType to, const char *x) {
    const char *lo = literal(c, I64, bits_of_double(I64, dtype_lowest(to)));
    if (to == I64) lo = "(-9223372036854775807 - 1)";
    const char *hi = to == U64   ? "0xffffffffffffffff"
                     : to == I64 ? "0x7fffffffffffffff"
                                 : literal(c, I64, bits_of_double(I64, dtype_highest(to)));
    if (dtype_is_signed(to)) return str(c, "((%s)sat_i(%s, %s, %s))", scalar_type(to), x, lo, hi);
    return str(c, "((%s)sat_u(%s, %s))", scalar_type(to), x, hi);
}

static const char *to_small_scalar(const CNest *c, DType to, DType from, const char *x, bool sat) {
    if (from == F64 || (is_integer(from) && value_bits(from) >= 32))
        x = str(c, "odd_f32((f64)(%s))", x);
    const char *name = dtype_name(to);
    if (to == F16 || to == BF16) return str(c, "%s_of_f32(%s)", name, x);
    return str(c, "%s_of_f32(%s, %d)", name, x, sat);
}

static const char *convert_scalar(const CNest *c, DType to, DType from, const char *x, bool sat) {
    if (is_small_float(from)) {
        x = str(c, "f32_of_%s(%s)", dtype_name(from), x);
        from = F32;
    }
    if (to == BOOL) return str(c, "((u8)((%s) != 0))", x);
    if (is_small_float(to)) return to_small_scalar(c, to, from, x, sat);
    if (is_integer(to) && dtype_is_float(from)) return saturate_scalar(c, to, x);
    return wrap_scalar(c, to, x);
}

/* ---- scalars --------------------------------------------------------------------------------- */

static const char *infix(Prim p) {
    switch (p) {
    case P_ADD: return "+";
    case P_SUB: return "-";
    case P_MUL: return "*";
    case P_DIV: return "/";
    case P_LT: return "<";
    case P_LE: return "<=";
    case P_GT: return ">";
    case P_GE: return ">=";
    case P_EQ: return "==";
    case P_NE: return "!=";
    case P_AND: return "&";
    case P_OR: return "|";
    case P_XOR: return "^";
    default: return NULL;
    }
}

static const char *float_scalar(const CNest *c, Prim p, DType t, const char *const *x) {
    const char *f = t == F64 ? "" : "f";
    switch (p) {
    case P_ADD:
    case P_SUB:
    case P_MUL:
    case P_DIV: return str(c, "(%s %s %s)", x[0], infix(p), x[1]);
    case P_FMA: return str(c, "%sfma%s(%s, %s, %s)", c->form->math, f, x[0], x[1], x[2]);
    case P_NEG: return str(c, "(-%s)", x[0]);
    case P_FLOOR:
    case P_CEIL:
    case P_TRUNC:
    case P_RINT:
    case P_SQRT: return str(c, "%s%s%s(%s)", c->form->math, prim_row(p)->name, f, x[0]);
    case P_REM:
    case P_MOD:
    case P_RATIO:
    case P_MIN:
    case P_MAX: return str(c, "%s_%s(%s, %s)", prim_row(p)->name, dtype_name(t), x[0], x[1]);
    case P_EXP2:
    case P_TF32:
    case P_ABS: return str(c, "%s_%s(%s)", prim_row(p)->name, dtype_name(t), x[0]);
    default: BUG("primitive \"%s\" on %s has no form in C", prim_row(p)->name, dtype_name(t));
    }
}

static const char *integer_scalar(const CNest *c, Prim p, DType t, const char *const *x) {
    const char *u = wide_unsigned(t), *s = dtype_is_signed(t) ? "i" : "u", *r = NULL;
    switch (p) {
    case P_ADD:
    case P_SUB:
    case P_MUL: r = str(c, "(%s)%s %s (%s)%s", u, x[0], infix(p), u, x[1]); break;
    case P_FMA: r = str(c, "(%s)%s * (%s)%s + (%s)%s", u, x[0], u, x[1], u, x[2]); break;
    case P_NEG: r = str(c, "0 - (%s)%s", u, x[0]); break;
    case P_ABS:
        r = dtype_is_signed(t) ? str(c, "%s < 0 ? 0 - (%s)%s : (%s)%s", x[0], u, x[0], u, x[0])
                               : x[0];
        break;
    case P_DIV:
    case P_REM:
    case P_MOD: r = str(c, "%s_%s(%s, %s)", prim_row(p)->name, s, x[0], x[1]); break;
    case P_MIN: r = str(c, "%s < %s ? %s : %s", x[0], x[1], x[0], x[1]); break;
    case P_MAX: r = str(c, "%s > %s ? %s : %s", x[0], x[1], x[0], x[1]); break;
    case P_AND:
    case P_OR:
    case P_XOR: r = str(c, "%s %s %s", x[0], infix(p), x[1]); break;
    case P_NOT: r = str(c, "~%s", x[0]); break;
    case P_SHL:
        r = str(c, "shl_u((u64)%s, (%s)%s, %d)", x[0], unsigned_type(t), x[1], dtype_bits(t));
        break;
    case P_SHR:
        r = str(c, "shr_%s(%s, (%s)%s, %d)", s, x[0], unsigned_type(t), x[1], dtype_bits(t));
        break;
    default: BUG("primitive \"%s\" on %s has no form in C", prim_row(p)->name, dtype_name(t));
    }
    return wrap_scalar(c, t, r);
}

static const char *bool_scalar(const CNest *c, Prim p, const char *const *x) {
    if (p == P_NOT) return str(c, "((u8)!%s)", x[0]);
    if (p == P_MIN || p == P_MUL) p = P_AND;
    if (p == P_MAX || p == P_ADD) p = P_OR;
    if (!infix(p)) BUG("primitive \"%s\" on bool has no form in C", prim_row(p)->name);
    return str(c, "((u8)(%s %s %s))", x[0], infix(p), x[1]);
}

static const char *bitcast_scalar(const CNest *c, DType to, DType from, const char *x) {
    bool f = from == F32 || from == F64, g = to == F32 || to == F64;
    if (f && !g) return str(c, "((%s)%s_bits(%s))", scalar_type(to), dtype_name(from), x);
    if (g && !f) return str(c, "bits_%s((u%d)%s)", dtype_name(to), dtype_bits(to), x);
    return wrap_scalar(c, is_small_float(to) ? (value_bits(to) == 16 ? U16 : U8) : to, x);
}

/* The whole vocabulary on scalars; `t` is the operands' type. */
static const char *prim_scalar(const CNest *c, const Val *v, DType t, const char *const *x) {
    switch (v->prim) {
    case P_CVT: return convert_scalar(c, v->type, t, x[0], true);
    case P_CVTINF: return convert_scalar(c, v->type, t, x[0], false);
    case P_BITCAST: return bitcast_scalar(c, v->type, t, x[0]);
    case P_SELECT: return str(c, "(%s ? %s : %s)", x[0], x[1], x[2]);
    default: break;
    }
    if (prim_row(v->prim)->typing == TYPE_COMPARE && !is_small_float(t))
        return str(c, "((u8)(%s %s %s))", x[0], infix(v->prim), x[1]);
    if (t == BOOL) return bool_scalar(c, v->prim, x);
    if (is_integer(t)) return integer_scalar(c, v->prim, t, x);
    return float_scalar(c, v->prim, t, x);
}

/* ---- lane by lane ---------------------------------------------------------------------------- */

static CVal by_lanes(CNest *c, const Val *v, DType t, CVal *args) {
    int arity = prim_row(v->prim)->arity;
    Text out = {.arena = c->arena};
    const char *type = v->type == BOOL ? mask_type(c, 8) : vector_type(c, v->type);
    text_printf(&out, "(%s){", type);
    for (int l = 0; l < c->lane.width; l++) {
        const char *x[3] = {0};
        for (int i = 0; i < arity; i++) x[i] = as_lane(c, &args[i], l);
        const char *e = prim_scalar(c, v, t, x);
        text_printf(&out, v->type == BOOL ? "%s(i8)-%s" : "%s%s", l ? ", " : "", e);
    }
    text_put(&out, "}");
    return named(c, v->type, true, v->type == BOOL ? 8 : 0, text_str(&out));
}

/* ---- vectors of integers and floats ---------------------------------------------------------- */

static bool const_of(const CVal *v, int64_t *value) {
    if (!v->constant) return false;
    *value = bits_to_int(v->type, v->constant->bits);
    return true;
}

/* max(x, c) with a constant c that is no NaN: one compare and select. NaN in x fails the compare
 * and is kept; for c = +0 the compare also catches x = -0 (for min: c = -0, x = +0). */
static const char *clamp_vector(CNest *c, Prim p, DType t, CVal *x, CVal *k) {
    double v = bits_to_double(t, k->constant->bits);
    const char *cmp;
    if (p == P_MAX)
        cmp = v == 0 && !__builtin_signbit(v) ? ">=" : ">";
    else
        cmp = v == 0 && __builtin_signbit(v) ? "<=" : "<";
    const char *kv = as_vector(c, k), *xv = as_vector(c, x), *type = vector_type(c, t);
    return str(c, "sel_%s(%s %s %s, %s, %s)", type, kv, cmp, xv, kv, xv);
}

static bool usable_bound(const CVal *k) {
    if (!k->constant || !dtype_is_float(k->type)) return false;
    double v = bits_to_double(k->type, k->constant->bits);
    return v == v;
}

static const char *float_vector(CNest *c, Prim p, DType t, CVal *a) {
    const char *x[3] = {0}, *type = vector_type(c, t);
    if (p == P_MIN || p == P_MAX) {
        if (usable_bound(&a[1])) return clamp_vector(c, p, t, &a[0], &a[1]);
        if (usable_bound(&a[0])) return clamp_vector(c, p, t, &a[1], &a[0]);
    }
    for (int i = 0; i < prim_row(p)->arity; i++) x[i] = as_vector(c, &a[i]);
    switch (p) {
    case P_ADD:
    case P_SUB:
    case P_MUL:
    case P_DIV: return str(c, "%s %s %s", x[0], infix(p), x[1]);
    case P_FMA: return str(c, "fma_%s(%s, %s, %s)", type, x[0], x[1], x[2]);
    case P_NEG: return str(c, "-%s", x[0]);
    case P_FLOOR:
    case P_CEIL:
    case P_TRUNC:
    case P_RINT:
    case P_SQRT: return str(c, "%s_%s(%s)", prim_row(p)->name, type, x[0]);
    case P_MIN:
    case P_MAX: return str(c, "%s_%s(%s, %s)", prim_row(p)->name, type, x[0], x[1]);
    case P_ABS:
        return str(c, "(%s)((%s)%s & %s)", type, mask_type(c, value_bits(t)), x[0],
                   t == F64 ? "0x7fffffffffffffff" : "0x7fffffff");
    default: return NULL;
    }
}

/* Division by a constant other than 0 and -1 needs no care; compilers multiply instead. */
static const char *divide_vector(CNest *c, Prim p, DType t, CVal *a) {
    int64_t by;
    if (!const_of(&a[1], &by) || by == 0 || by == -1) return NULL;
    const char *x = as_vector(c, &a[0]), *k = as_vector(c, &a[1]), *type = vector_type(c, t);
    if (p == P_DIV) return str(c, "%s / %s", x, k);
    if (p == P_REM || !dtype_is_signed(t)) return str(c, "%s %% %s", x, k);
    CVal r = named(c, t, true, 0, str(c, "%s %% %s", x, k));
    return str(c, "sel_%s((%s != 0) & ((%s ^ %s) < 0), %s + %s, %s)", type, r.text, r.text, k,
               r.text, k, r.text);
}

static const char *shift_vector(CNest *c, Prim p, DType t, CVal *a) {
    int64_t n;
    if (!const_of(&a[1], &n) || n < 0 || n >= dtype_bits(t)) return NULL;
    const char *x = as_vector(c, &a[0]);
    if (p == P_SHR) return str(c, "%s >> %d", x, (int)n);
    return str(c, "(%s)((%s)%s << %d)", vector_type(c, t), vector_unsigned(c, t), x, (int)n);
}

static const char *integer_vector(CNest *c, Prim p, DType t, CVal *a) {
    if (dtype_bits(t) < 8 && p != P_MIN && p != P_MAX && p != P_AND && p != P_OR && p != P_XOR)
        return NULL;
    if (p == P_DIV || p == P_REM || p == P_MOD) return divide_vector(c, p, t, a);
    if (p == P_SHL || p == P_SHR) return shift_vector(c, p, t, a);
    const char *x[3] = {0}, *type = vector_type(c, t), *u = vector_unsigned(c, t);
    for (int i = 0; i < prim_row(p)->arity; i++) x[i] = as_vector(c, &a[i]);
    switch (p) {
    case P_ADD:
    case P_SUB:
    case P_MUL: return str(c, "(%s)((%s)%s %s (%s)%s)", type, u, x[0], infix(p), u, x[1]);
    case P_FMA: return str(c, "(%s)((%s)%s * (%s)%s + (%s)%s)", type, u, x[0], u, x[1], u, x[2]);
    case P_NEG: return str(c, "(%s)(0 - (%s)%s)", type, u, x[0]);
    case P_ABS:
        if (!dtype_is_signed(t)) return x[0];
        return str(c, "sel_%s(%s < 0, (%s)(0 - (%s)%s), %s)", type, x[0], type, u, x[0], x[0]);
    case P_MIN: return str(c, "sel_%s(%s < %s, %s, %s)", type, x[0], x[1], x[0], x[1]);
    case P_MAX: return str(c, "sel_%s(%s > %s, %s, %s)", type, x[0], x[1], x[0], x[1]);
    case P_AND:
    case P_OR:
    case P_XOR: return str(c, "%s %s %s", x[0], infix(p), x[1]);
    case P_NOT: return str(c, "~%s", x[0]);
    default: return NULL;
    }
}

/* ---- vectors of bools ------------------------------------------------------------------------ */

static int common_mask(const CVal *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i].mask) return a[i].mask;
    return 8;
}

static const char *bool_vector(CNest *c, Prim p, CVal *a, int *bits) {
    int n = prim_row(p)->arity;
    *bits = common_mask(a, n);
    const char *x = as_mask(c, &a[0], *bits), *y = n > 1 ? as_mask(c, &a[1], *bits) : NULL;
    switch (p) {
    case P_NOT: return str(c, "~%s", x);
    case P_AND:
    case P_MIN:
    case P_MUL: return str(c, "%s & %s", x, y);
    case P_OR:
    case P_MAX:
    case P_ADD: return str(c, "%s | %s", x, y);
    case P_XOR:
    case P_NE: return str(c, "%s ^ %s", x, y);
    case P_EQ: return str(c, "~(%s ^ %s)", x, y);
    case P_LT: return str(c, "~%s & %s", x, y);
    case P_GT: return str(c, "%s & ~%s", x, y);
    case P_LE: return str(c, "~%s | %s", x, y);
    case P_GE: return str(c, "%s | ~%s", x, y);
    default: return NULL;
    }
}

static CVal select_vector(CNest *c, const Val *v, CVal *a) {
    if (v->type == BOOL) {
        int bits = common_mask(a, 3);
        const char *m = as_mask(c, &a[0], bits), *x = as_mask(c, &a[1], bits),
                   *y = as_mask(c, &a[2], bits);
        return named(c, BOOL, true, bits, str(c, "(%s & %s) | (~%s & %s)", m, x, m, y));
    }
    const char *x = as_vector(c, &a[1]), *y = as_vector(c, &a[2]);
    if (!a[0].vector) return named(c, v->type, true, 0, str(c, "%s ? %s : %s", a[0].text, x, y));
    const char *m = as_mask(c, &a[0], value_bits(v->type));
    return named(c, v->type, true, 0,
                 str(c, "sel_%s(%s, %s, %s)", vector_type(c, v->type), m, x, y));
}

/* ---- conversions of vectors ------------------------------------------------------------------ */

static const char *from_bool_vector(CNest *c, DType to, CVal *a) {
    const char *m = as_mask(c, a, value_bits(to)), *type = vector_type(c, to);
    if (to == F32 || to == F64)
        return str(c, "(%s)(%s & (%s)(1.0f - (%s){0}))", type, m, mask_type(c, value_bits(to)),
                   type);
    if (dtype_is_float(to)) return NULL;
    return str(c, "(%s)(%s & 1)", type, m);
}

static const char *saturate_vector(CNest *c, DType to, DType from, const char *x) {
    const char *vf = vector_type(c, from);
    if (to == I32 || to == I64 || to == U32 || to == U64)
        return str(c, "%s_of_%s(%s)", dtype_name(to), vf, x);
    if (from != F32) return NULL;
    return str(c, "__builtin_convertvector(clip_%s(%s, %d, %d), %s)", vf, x, (int)dtype_lowest(to),
               (int)dtype_highest(to), vector_type(c, to));
}

/* Where what becomes a code was rounded, and maybe moved by a zero point that is a code too, it is
 * clipped first and the conversion rounds: the same code, in i32. NULL: it was not. */
static const char *rounded_code(CNest *c, const Val *v) {
    const Val *x = &c->body->val.at[v->arg[0]];
    int zero = 0;
    Bits bits;
    if (v->prim != P_CVT || (v->type != U8 && v->type != I8) || x->type != F32) return NULL;
    if (x->kind == VAL_PRIM && x->prim == P_ADD && body_const_bits(c->body, x->arg[1], &bits)) {
        double z = bits_to_double(F32, bits);
        if (!(z >= dtype_lowest(v->type) && z <= dtype_highest(v->type)) || z != (int)z)
            return NULL;
        zero = (int)z;
        x = &c->body->val.at[x->arg[0]];
    }
    if (x->kind != VAL_PRIM || x->prim != P_RINT) return NULL;
    return str(c, "code_%s(%s, %d, %d, %d)", vector_type(c, F32), as_vector(c, &c->val[x->arg[0]]),
               (int)dtype_lowest(v->type), (int)dtype_highest(v->type), zero);
}

/* From small floats through f32; NULL: lane by lane. */
static const char *widen_small(CNest *c, DType from, const char *x) {
    if (from == F16 || from == BF16)
        return str(c, "f32_of_%s_v%d(%s)", dtype_name(from), c->lane.width, x);
    return str(c, "(%s)map_v%d(f32_of_%s, %s)", vector_type(c, F32), c->lane.width,
               dtype_name(from), x);
}

static const char *to_small_vector(CNest *c, DType to, DType from, const char *x, bool sat) {
    if (from == F64) {
        x = named(c, F32, true, 0,
                  str(c, "(%s)map_v%d(odd_f32, %s)", vector_type(c, F32), c->lane.width, x))
                .text;
        from = F32;
    }
    if (is_integer(from)) {
        if (value_bits(from) >= 32) return NULL;
        x = str(c, "__builtin_convertvector(%s, %s)", x, vector_type(c, F32));
    }
    if (to == F16 || to == BF16)
        return str(c, "%s_of_%s(%s)", dtype_name(to), vector_type(c, F32), x);
    x = named(c, F32, true, 0, x).text;
    return str(c, "(%s)map2_v%d(%s_of_f32, %s, %d)", vector_type(c, to), c->lane.width,
               dtype_name(to), x, sat);
}

static const char *convert_vector(CNest *c, DType to, CVal *a, bool sat) {
    DType from = a->type;
    if (from == BOOL) return from_bool_vector(c, to, a);
    const char *x = a->wide ? a->wide : as_vector(c, a);
    if (a->wide && to == I32) return x;
    if (is_small_float(from)) {
        x = named(c, F32, true, 0, widen_small(c, from, x)).text;
        from = F32;
        if (to == F32) return x;
    }
    if (is_small_float(to)) return to_small_vector(c, to, from, x, sat);
    if (is_integer(to) && dtype_is_float(from)) return saturate_vector(c, to, from, x);
    if (dtype_bits(to) < 8) return NULL;
    return str(c, "__builtin_convertvector(%s, %s)", x, vector_type(c, to));
}

static CVal convert(CNest *c, const Val *v, CVal *a) {
    if (v->type == BOOL && a->type != BOOL) {
        CVal x = *a;
        if (is_small_float(a->type))
            x = named(c, F32, true, 0, widen_small(c, a->type, as_vector(c, a)));
        int bits = value_bits(x.type);
        return named(c, BOOL, true, bits,
                     str(c, "(%s)(%s != 0)", mask_type(c, bits), as_vector(c, &x)));
    }
    const char *code = rounded_code(c, v);
    if (code) {
        const char *wide = named(c, I32, true, 0, code).text;
        CVal x = named(c, v->type, true, 0,
                       str(c, "__builtin_convertvector(%s, %s)", wide, vector_type(c, v->type)));
        x.wide = wide;
        return x;
    }
    const char *e = convert_vector(c, v->type, a, v->prim == P_CVT);
    return e ? named(c, v->type, true, 0, e) : by_lanes(c, v, a->type, a);
}

/* ---- all ------------------------------------------------------------------------------------- */

static CVal compare_vector(CNest *c, const Val *v, DType t, CVal *a) {
    int bits = value_bits(t);
    const char *x = as_vector(c, &a[0]), *y = as_vector(c, &a[1]);
    return named(c, BOOL, true, bits,
                 str(c, "(%s)(%s %s %s)", mask_type(c, bits), x, infix(v->prim), y));
}

static CVal prim_vector(CNest *c, const Val *v, DType t, CVal *a) {
    const char *e;
    int bits = 0;
    switch (v->prim) {
    case P_SELECT: return select_vector(c, v, a);
    case P_CVT:
    case P_CVTINF: return convert(c, v, a);
    case P_BITCAST:
        if (t == BOOL || v->type == BOOL || value_bits(t) != value_bits(v->type))
            return by_lanes(c, v, t, a);
        return named(c, v->type, true, 0,
                     str(c, "(%s)%s", vector_type(c, v->type), as_vector(c, a)));
    default: break;
    }
    if (t == BOOL)
        e = bool_vector(c, v->prim, a, &bits);
    else if (prim_row(v->prim)->typing == TYPE_COMPARE)
        return compare_vector(c, v, t, a);
    else
        e = is_integer(t) ? integer_vector(c, v->prim, t, a) : float_vector(c, v->prim, t, a);
    return e ? named(c, v->type, true, bits, e) : by_lanes(c, v, t, a);
}

CVal emit_prim(CNest *c, const Val *v, CVal *args) {
    const PrimRow *row = prim_row(v->prim);
    if (row->defined && !c->machine->native[v->prim])
        BUG("function \"%s\" reached the C target unexpanded", row->name);
    DType t = args[v->prim == P_SELECT ? 1 : 0].type;
    bool vector = false;
    for (int i = 0; i < row->arity; i++) vector |= args[i].vector;
    if (is_small_float(t) && row->typing != TYPE_SELECT && row->typing != TYPE_CONVERT &&
        row->typing != TYPE_BITCAST)
        BUG("arithmetic \"%s\" on %s reached the C target unexpanded", row->name, dtype_name(t));
    if (vector) return prim_vector(c, v, t, args);
    if (v->prim == P_CVT && v->type == F32 && args[0].single)
        return (CVal){.type = F32, .text = args[0].single};
    const char *x[3] = {0};
    for (int i = 0; i < row->arity; i++) x[i] = args[i].text;
    return named(c, v->type, false, 0, prim_scalar(c, v, t, x));
}
