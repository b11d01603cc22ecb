/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and the exact conversions between their values.
 *
 * Every float below 32 bits but f8e8m0 is one row of `formats`, and two functions read the rows:
 * `decode` gives the exact double, `encode` rounds an exact double once, to nearest even. All
 * sources but 64-bit integers are exact as doubles; those are narrowed with a sticky bit first, so
 * that no value is ever rounded twice. NaNs become quiet and keep their sign and the upper bits of
 * their payload where the format has room. What overflows in a format of 8 or 4 bits is the largest
 * value when saturating, else infinity where there is one, else NaN; infinities overflow too. */
#include "dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int bits;
    TypeClass class;
    int onnx;
} types[DT_COUNT] = {
#define DTYPE(NAME, name, bits, class, onnx) [NAME] = {#name, bits, class, onnx},
#include "dtype.def"
#undef DTYPE
};

/* ---- the table ------------------------------------------------------------------------------- */

const char *dtype_name(DType t) {
    return t == DT_NONE ? "none" : types[t].name;
}

int dtype_bits(DType t) {
    return types[t].bits;
}

TypeClass dtype_class(DType t) {
    return types[t].class;
}

int dtype_onnx(DType t) {
    return types[t].onnx;
}

DType dtype_from_host(int dtype) {
    for (int t = 1; t < DT_COUNT; t++)
        if (types[t].onnx == dtype) return (DType)t;
    return DT_NONE;
}

DType dtype_from_onnx(int onnx) {
    DType t = dtype_from_host(onnx);
    return t == OBJECT ? DT_NONE : t;
}

DType dtype_parse(const char *name) {
    for (int t = 1; t < DT_COUNT; t++)
        if (strcmp(types[t].name, name) == 0) return (DType)t;
    return DT_NONE;
}

bool dtype_is_float(DType t) {
    return t != DT_NONE && types[t].class == CLASS_FLOAT;
}

bool dtype_is_int(DType t) {
    return t != DT_NONE && (types[t].class == CLASS_INT || types[t].class == CLASS_UINT);
}

bool dtype_is_signed(DType t) {
    return dtype_class(t) == CLASS_INT;
}

DType dtype_compute(DType t) {
    if (types[t].bits >= 32) return t;
    if (dtype_is_float(t)) return F32;
    if (dtype_is_int(t)) return types[t].class == CLASS_INT ? I32 : U32;
    return t;
}

int64_t dtype_bytes(DType t, int64_t n) {
    int bits = types[t].bits;
    return bits >= 8 ? n * (bits / 8) : (n / (8 / bits)) + (n % (8 / bits) != 0);
}

/* Bits of an element in raw data. */
static int raw_bits(DType t) {
    return t == F6E2M3 || t == F6E3M2 ? 6 : types[t].bits;
}

int64_t dtype_raw_bytes(DType t, int64_t n) {
    return raw_bits(t) == 6 ? n / 4 * 3 + (n % 4 * 6 + 7) / 8 : dtype_bytes(t, n);
}

void dtype_unpack(DType t, const void *from, int64_t n, void *to) {
    const uint8_t *p = from;
    if (raw_bits(t) != 6) {
        memcpy(to, from, (size_t)dtype_bytes(t, n));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * 6 / 8;
        int shift = (int)(i * 6 % 8), word = p[at];
        if (shift > 2) word |= p[at + 1] << 8;
        ((uint8_t *)to)[i] = (uint8_t)(word >> shift & 63);
    }
}

void dtype_pack(DType t, const void *from, int64_t n, void *to) {
    uint8_t *p = to;
    if (raw_bits(t) != 6) {
        memcpy(to, from, (size_t)dtype_bytes(t, n));
        return;
    }
    memset(to, 0, (size_t)dtype_raw_bytes(t, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * 6 / 8;
        int shift = (int)(i * 6 % 8), word = (((const uint8_t *)from)[i] & 63) << shift;
        p[at] |= (uint8_t)word;
        if (shift > 2) p[at + 1] |= (uint8_t)(word >> 8);
    }
}

/* ---- small floats ---------------------------------------------------------------------------- */

typedef struct Format {
    int mant, bias;     /* mantissa bits, exponent bias */
    uint32_t sign;      /* the sign's bit */
    uint32_t max;       /* largest finite magnitude */
    uint32_t inf;       /* 0: the format has none */
    uint32_t nan;       /* quiet NaN; 0: none */
    bool saturable;     /* overflow is a choice (8 bits) */
    bool unsigned_zero; /* no -0: its pattern is the NaN */
} Format;

static const Format formats[DT_COUNT] = {
    [F16] = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e00, false, false},
    [BF16] = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fc0, false, false},
    [F8E4M3FN] = {3, 7, 0x80, 0x7e, 0, 0x7f, true, false},
    [F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0, 0x80, true, true},
    [F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, true, false},
    [F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0, 0x80, true, true},
    [F6E2M3] = {3, 1, 0x20, 0x1f, 0, 0, false, false},
    [F6E3M2] = {2, 3, 0x20, 0x1f, 0, 0, false, false},
    [F4E2M1] = {1, 1, 8, 7, 0, 0, false, false},
};

static uint64_t double_bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double double_of(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static double decode(const Format *f, uint32_t b) {
    bool minus = b & f->sign;
    uint32_t mag = b & (f->sign - 1);
    double v;
    if (f->unsigned_zero && b == f->nan) return NAN;
    if (f->inf && mag == f->inf) {
        v = INFINITY;
    } else if (mag > f->max) {
        uint64_t payload = (uint64_t)(mag & ((1u << f->mant) - 1)) << (52 - f->mant);
        v = double_of(0x7ff8000000000000u | payload);
    } else {
        uint32_t exp = mag >> f->mant, hidden = exp ? 1u << f->mant : 0;
        uint32_t mant = (mag & ((1u << f->mant) - 1)) | hidden;
        v = ldexp((double)mant, (int)(exp ? exp : 1) - f->bias - f->mant);
    }
    return minus ? -v : v;
}

/* The magnitude of a finite v > 0 rounded to the format's grid; may exceed `max`. The hidden bit of
 * a normal number, and a carry out of the mantissa, add themselves to the exponent. */
static uint64_t round_magnitude(const Format *f, uint64_t u) {
    int exp = (int)(u >> 52) - 1023, least = 1 - f->bias;
    uint64_t mant = (u & 0xfffffffffffff) | (u >> 52 ? (uint64_t)1 << 52 : 0);
    int at = exp > least ? exp : least;
    int shift = 52 - f->mant + at - exp;
    if (shift > 54) return 0;
    uint64_t q = mant >> shift, rest = mant & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    return ((uint64_t)(at + f->bias - 1) << f->mant) + q;
}

static uint32_t encode_nan(const Format *f, uint64_t u, uint32_t sign) {
    if (f->unsigned_zero) return f->nan;
    if (!f->nan) return f->sign;
    uint32_t payload = f->inf ? (uint32_t)(u >> (52 - f->mant)) & ((1u << f->mant) - 1) : 0;
    return sign | f->nan | payload;
}

static uint32_t encode(const Format *f, double v, bool sat) {
    uint64_t u = double_bits(v), mag = u & ~((uint64_t)1 << 63);
    uint32_t sign = u >> 63 ? f->sign : 0;
    if (v != v) return encode_nan(f, u, sign);
    uint64_t m = isinf(v) ? UINT64_MAX : mag ? round_magnitude(f, mag) : 0;
    if (m > f->max) {
        if (f->inf && !(f->saturable && sat)) return sign | f->inf;
        if (f->saturable && !sat) return f->unsigned_zero ? f->nan : sign | f->nan;
        m = f->max;
    }
    return m == 0 && f->unsigned_zero ? 0 : sign | (uint32_t)m;
}

/* f8e8m0 is a power of two: no sign (dropped), no zero (the least value), ties go up. */
static uint32_t encode_e8m0(double v, bool sat) {
    int exp;
    if (v != v) return 0xff;
    if (isinf(v)) return sat ? 0xfe : 0xff;
    if (v == 0) return 0;
    double m = frexp(fabs(v), &exp);
    int b = exp - 1 + (m >= 0.75) + 127;
    if (b > 0xfe) return sat ? 0xfe : 0xff;
    return b < 0 ? 0 : (uint32_t)b;
}

/* ---- one value ------------------------------------------------------------------------------- */

static uint64_t low_bits(int bits) {
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static int64_t sign_extend(Bits b, int bits) {
    return (int64_t)(b << (64 - bits)) >> (64 - bits);
}

static int64_t int_min(DType t) {
    return types[t].class == CLASS_INT ? -(int64_t)(low_bits(types[t].bits) >> 1) - 1 : 0;
}

static uint64_t int_max(DType t) {
    return types[t].class == CLASS_INT ? low_bits(types[t].bits) >> 1 : low_bits(types[t].bits);
}

double dtype_highest(DType t) {
    if (t == F64) return 0x1.fffffffffffffp+1023;
    if (t == F32) return 0x1.fffffep+127;
    if (t == F8E8M0) return 0x1p+127;
    if (t == BOOL) return 1;
    return dtype_is_float(t) ? decode(&formats[t], formats[t].max) : (double)int_max(t);
}

double dtype_lowest(DType t) {
    if (t == F8E8M0) return 0x1p-127;
    return dtype_is_float(t) ? -dtype_highest(t) : (double)int_min(t);
}

/* Saturates an already truncated comparison: v beyond the range gives its end. */
static Bits int_of_double(DType t, double v) {
    if (v != v) return 0;
    double top = ldexp(1.0, types[t].bits - (types[t].class == CLASS_INT));
    if (v >= top) return int_max(t);
    if (v <= (double)int_min(t)) return (Bits)int_min(t) & low_bits(types[t].bits);
    Bits b = v < 0 ? (Bits)(int64_t)v : (Bits)(uint64_t)v;
    return b & low_bits(types[t].bits);
}

static Bits float_of_double(DType t, double v, bool sat) {
    if (t == F64) return double_bits(v);
    if (t == F8E8M0) return encode_e8m0(v, sat);
    if (t != F32) return encode(&formats[t], v, sat);
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static Bits of_double(DType t, double v, bool sat) {
    switch (types[t].class) {
    case CLASS_FLOAT: return float_of_double(t, v, sat);
    case CLASS_INT:
    case CLASS_UINT: return int_of_double(t, v);
    case CLASS_COMPLEX:
    case CLASS_OBJECT: return int_of_double(U64, v);
    case CLASS_BOOL: return v != 0;
    default: BUG("%s is no scalar", dtype_name(t));
    }
}

/* sign * mag as a float type. Beyond 53 bits the low ones become one sticky bit, which leaves every
 * later rounding to fewer bits right; f64 itself is converted by the machine, once. */
static Bits float_of_int(DType t, bool minus, uint64_t mag, bool sat) {
    double v = (double)mag;
    if (t != F64 && mag >> 53) {
        int shift = 11 - __builtin_clzll(mag);
        uint64_t sticky = (mag & low_bits(shift)) != 0;
        v = ldexp((double)(mag >> shift | sticky), shift);
    }
    return float_of_double(t, minus ? -v : v, sat);
}

Bits bits_of_double(DType t, double v) {
    return of_double(t, v, true);
}

Bits bits_of_int(DType t, int64_t v) {
    if (types[t].class == CLASS_BOOL) return v != 0;
    if (!dtype_is_float(t)) return (Bits)v & low_bits(types[t].bits);
    return float_of_int(t, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v, true);
}

double bits_to_double(DType t, Bits b) {
    if (t == F64) return double_of(b);
    if (t == F32) {
        uint32_t u = (uint32_t)b;
        float f;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    }
    if (t == F8E8M0) return b == 0xff ? NAN : ldexp(1.0, (int)b - 127);
    switch (types[t].class) {
    case CLASS_FLOAT: return decode(&formats[t], (uint32_t)b);
    case CLASS_INT: return (double)sign_extend(b, types[t].bits);
    case CLASS_COMPLEX:
    case CLASS_OBJECT:
    case CLASS_UINT: return (double)b;
    case CLASS_BOOL: return b != 0;
    default: BUG("%s is no scalar", dtype_name(t));
    }
}

int64_t bits_to_int(DType t, Bits b) {
    switch (types[t].class) {
    case CLASS_FLOAT: return (int64_t)int_of_double(I64, bits_to_double(t, b));
    case CLASS_INT: return sign_extend(b, types[t].bits);
    case CLASS_COMPLEX:
    case CLASS_OBJECT:
    case CLASS_UINT: return (int64_t)b;
    case CLASS_BOOL: return b != 0;
    default: BUG("%s is no scalar", dtype_name(t));
    }
}

Bits bits_convert(DType to, DType from, Bits b, bool sat) {
    if (to == from) return b;
    if (dtype_is_float(from)) return of_double(to, bits_to_double(from, b), sat);
    int64_t v = bits_to_int(from, b);
    if (!dtype_is_float(to)) return bits_of_int(to, v);
    bool minus = from != U64 && v < 0;
    return float_of_int(to, minus, minus ? -(uint64_t)v : (uint64_t)v, sat);
}

/* ---- arrays and text ---------------------------------------------------------------------------
 */

Bits mem_get(DType t, const void *base, int64_t i) {
    const unsigned char *at = base;
    int bits = types[t].bits;
    if (bits < 8) {
        int per = 8 / bits;
        return at[i / per] >> (i % per * bits) & low_bits(bits);
    }
    if (bits > 64) BUG("%s does not fit 64 bits", dtype_name(t));
    Bits b = 0;
    memcpy(&b, at + i * (bits / 8), (size_t)bits / 8);
    return b;
}

void mem_set(DType t, void *base, int64_t i, Bits b) {
    unsigned char *at = base;
    int bits = types[t].bits;
    if (bits < 8) {
        int per = 8 / bits, shift = (int)(i % per) * bits;
        unsigned mask = (unsigned)low_bits(bits) << shift;
        at[i / per] = (unsigned char)((at[i / per] & ~mask) | ((unsigned)b << shift & mask));
        return;
    }
    if (bits > 64) BUG("%s does not fit 64 bits", dtype_name(t));
    memcpy(at + i * (bits / 8), &b, (size_t)bits / 8);
}

static void print_float(Text *out, DType t, Bits b) {
    double v = bits_to_double(t, b);
    if (v != v)
        text_printf(out, "nan:%0*llx", (types[t].bits + 3) / 4, (unsigned long long)b);
    else if (isinf(v))
        text_put(out, v < 0 ? "-inf" : "inf");
    else if (v == 0)
        text_put(out, signbit(v) ? "-0.0" : "0.0");
    else
        text_printf(out, "%a", v);
}

void bits_print(Text *out, DType t, Bits b) {
    switch (types[t].class) {
    case CLASS_FLOAT: print_float(out, t, b); break;
    case CLASS_INT: text_printf(out, "%lld", (long long)bits_to_int(t, b)); break;
    case CLASS_COMPLEX:
    case CLASS_OBJECT:
    case CLASS_UINT: text_printf(out, "%llu", (unsigned long long)b); break;
    case CLASS_BOOL: text_put(out, b ? "true" : "false"); break;
    default: BUG("%s is no scalar", dtype_name(t));
    }
}
