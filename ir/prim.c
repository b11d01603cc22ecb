/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of prim.def, and what each native one means on a pair of scalars.
 *
 * Small floats (below 32 bits) are converted to f32, computed there and rounded once; bool computes
 * as the integers 0 and 1 and turns into bool again by `!= 0`. Integers of any width compute in 64
 * bits, sign- or zero-extended, and wrap. */
#include "prim.h"

#include <math.h>
#include <string.h>

static const PrimRow rows[PRIM_COUNT] = {
#define PRIM(NAME, name, arity, typing, spelling, derivative)                                      \
    [NAME] = {name, arity, typing, spelling, derivative, false},
#define FUNC(NAME, name, arity, derivative)                                                        \
    [NAME] = {name, arity, TYPE_FLOAT, NULL, derivative, true},
#include "prim.def"
#undef PRIM
#undef FUNC
};

const PrimRow *prim_row(Prim p) {
    ASSERT(p > PRIM_NONE && p < PRIM_COUNT);
    return &rows[p];
}

Prim prim_parse(const char *name) {
    for (int p = PRIM_NONE + 1; p < PRIM_COUNT; p++)
        if (strcmp(rows[p].name, name) == 0) return (Prim)p;
    return PRIM_NONE;
}

typedef struct Definition {
    Prim prim;
    DType type;
    FunctionForm form;
    const char *params, *text;
} Definition;

static const Definition definitions[] = {
#define DEFINE(prim, type, params, text) {prim, type, FORM_FULL, params, text},
#define BRIEF(prim, type, params, text) {prim, type, FORM_BRIEF, params, text},
#define BY_EXP2(prim, type, params, text) {prim, type, FORM_BY_EXP2, params, text},
#include "func.def"
#undef DEFINE
#undef BRIEF
#undef BY_EXP2
};

const char *prim_definition(Prim p, DType t, FunctionForm form, const char **params) {
    const Definition *found = NULL;
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++) {
        const Definition *d = &definitions[i];
        if (d->prim == p && d->type == t && d->form <= form && (!found || d->form > found->form))
            found = d;
    }
    if (found) *params = found->params;
    return found ? found->text : NULL;
}

/* ---- bits and machine types -------------------------------------------------------------------
 */

static float as_f32(Bits b) {
    uint32_t u = (uint32_t)b;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static Bits of_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static double as_f64(Bits b) {
    double d;
    memcpy(&d, &b, sizeof d);
    return d;
}

static Bits of_f64(double d) {
    Bits b;
    memcpy(&b, &d, sizeof b);
    return b;
}

static Bits mask(int width) {
    return width >= 64 ? ~(Bits)0 : ((Bits)1 << width) - 1;
}

static int64_t as_signed(DType t, Bits b) {
    int drop = 64 - dtype_bits(t);
    return (int64_t)(b << drop) >> drop;
}

/* ---- floats -------------------------------------------------------------------------------------
 */

/* Python's float remainder: the sign of the divisor, zero included. */
static double floor_mod(double x, double y) {
    double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static float floor_modf(float x, float y) {
    float r = fmodf(x, y);
    if (r == 0) return copysignf(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* NaN beats numbers, and of the two zeros -0 is the smaller. */
static double max_f64(double x, double y) {
    if (x != x || y != y) return x + y;
    if (x == y) return signbit(x) ? y : x;
    return x > y ? x : y;
}

static double min_f64(double x, double y) {
    if (x != x || y != y) return x + y;
    if (x == y) return signbit(x) ? x : y;
    return x < y ? x : y;
}

static double apply_f64(Prim p, double x, double y, double z) {
    switch (p) {
    case P_ADD: return x + y;
    case P_SUB: return x - y;
    case P_MUL: return x * y;
    case P_DIV: return x / y;
    case P_REM: return fmod(x, y);
    case P_MOD: return floor_mod(x, y);
    case P_FMA: return fma(x, y, z);
    case P_NEG: return -x;
    case P_ABS: return fabs(x);
    case P_MIN: return min_f64(x, y);
    case P_MAX: return max_f64(x, y);
    case P_FLOOR: return floor(x);
    case P_CEIL: return ceil(x);
    case P_TRUNC: return trunc(x);
    case P_RINT: return nearbyint(x);
    case P_SQRT: return sqrt(x);
    default: BUG("\"%s\" is not float arithmetic", prim_row(p)->name);
    }
}

static float apply_f32(Prim p, float x, float y, float z) {
    switch (p) {
    case P_ADD: return x + y;
    case P_SUB: return x - y;
    case P_MUL: return x * y;
    case P_DIV: return x / y;
    case P_REM: return fmodf(x, y);
    case P_MOD: return floor_modf(x, y);
    case P_FMA: return fmaf(x, y, z);
    case P_NEG: return -x;
    case P_ABS: return fabsf(x);
    case P_MIN: return (float)min_f64(x, y);
    case P_MAX: return (float)max_f64(x, y);
    case P_FLOOR: return floorf(x);
    case P_CEIL: return ceilf(x);
    case P_TRUNC: return truncf(x);
    case P_RINT: return nearbyintf(x);
    case P_SQRT: return sqrtf(x);
    default: BUG("\"%s\" is not float arithmetic", prim_row(p)->name);
    }
}

static Bits compare(Prim p, bool lt, bool eq, bool unordered) {
    switch (p) {
    case P_LT: return lt;
    case P_LE: return lt || eq;
    case P_GT: return !lt && !eq && !unordered;
    case P_GE: return !lt && !unordered;
    case P_EQ: return eq;
    default: return !eq;
    }
}

static Bits apply_float(Prim p, DType t, const Bits *args) {
    int arity = prim_row(p)->arity;
    if (prim_row(p)->typing == TYPE_COMPARE) {
        double x = bits_to_double(t, args[0]), y = bits_to_double(t, args[1]);
        return compare(p, x < y, x == y, x != x || y != y);
    }
    if (t == F64) {
        return of_f64(apply_f64(p, as_f64(args[0]), arity > 1 ? as_f64(args[1]) : 0,
                                arity > 2 ? as_f64(args[2]) : 0));
    }
    float v[3] = {0};
    for (int i = 0; i < arity; i++) v[i] = as_f32(bits_convert(F32, t, args[i], true));
    return bits_convert(t, F32, of_f32(apply_f32(p, v[0], v[1], v[2])), true);
}

/* ---- integers ------------------------------------------------------------------------------- */

static uint64_t divide(Prim p, int64_t x, int64_t y) {
    if (y == 0) return 0;
    if (y == -1) return p == P_DIV ? -(uint64_t)x : 0;
    if (p == P_DIV) return (uint64_t)(x / y);
    int64_t r = x % y;
    if (p == P_MOD && r != 0 && (r < 0) != (y < 0)) r += y;
    return (uint64_t)r;
}

static uint64_t shift_right(DType t, uint64_t x, uint64_t count) {
    int64_t s = as_signed(t, x);
    if (dtype_class(t) != CLASS_INT) return count >= (uint64_t)dtype_bits(t) ? 0 : x >> count;
    return (uint64_t)(s >> (count >= (uint64_t)dtype_bits(t) ? 63 : count));
}

static uint64_t apply_signed(Prim p, int64_t x, int64_t y) {
    switch (p) {
    case P_DIV:
    case P_REM:
    case P_MOD: return divide(p, x, y);
    case P_ABS: return x < 0 ? -(uint64_t)x : (uint64_t)x;
    case P_MIN: return (uint64_t)(x < y ? x : y);
    case P_MAX: return (uint64_t)(x > y ? x : y);
    default: return compare(p, x < y, x == y, false);
    }
}

static uint64_t apply_unsigned(Prim p, uint64_t x, uint64_t y) {
    switch (p) {
    case P_DIV: return y ? x / y : 0;
    case P_REM:
    case P_MOD: return y ? x % y : 0;
    case P_ABS: return x;
    case P_MIN: return x < y ? x : y;
    case P_MAX: return x > y ? x : y;
    default: return compare(p, x < y, x == y, false);
    }
}

static uint64_t apply_int(Prim p, DType t, uint64_t x, uint64_t y, uint64_t z) {
    switch (p) {
    case P_ADD: return x + y;
    case P_SUB: return x - y;
    case P_MUL: return x * y;
    case P_FMA: return x * y + z;
    case P_NEG: return -x;
    case P_AND: return x & y;
    case P_OR: return x | y;
    case P_XOR: return x ^ y;
    case P_NOT: return ~x;
    case P_SHL: return y >= (uint64_t)dtype_bits(t) ? 0 : x << y;
    case P_SHR: return shift_right(t, x, y);
    default: break;
    }
    if (dtype_class(t) == CLASS_INT) return apply_signed(p, as_signed(t, x), as_signed(t, y));
    return apply_unsigned(p, x, y);
}

static Bits apply_bool(Prim p, const Bits *args) {
    int arity = prim_row(p)->arity;
    Bits x = args[0] != 0, y = arity > 1 && args[1] != 0, z = arity > 2 && args[2] != 0;
    if (p == P_NOT) return !x;
    return (apply_int(p, I32, x, y, z) & mask(32)) != 0;
}

bool prim_takes(Prim p, DType t) {
    bool same = p == P_EQ || p == P_NE;
    switch (dtype_class(t)) {
    case CLASS_COMPLEX: return p == P_SELECT || p == P_BITCAST;
    case CLASS_OBJECT: return p == P_SELECT || same;
    default: return true;
    }
}

Bits prim_apply(Prim p, DType result, DType operand, const Bits *args) {
    const PrimRow *row = prim_row(p);
    switch (row->typing) {
    case TYPE_SELECT: return args[0] ? args[1] : args[2];
    case TYPE_CONVERT: return bits_convert(result, operand, args[0], p == P_CVT);
    case TYPE_BITCAST: return args[0] & mask(dtype_bits(result));
    default: break;
    }
    if (row->defined) BUG("\"%s\" is given by a definition: expand it", row->name);
    switch (dtype_class(operand)) {
    case CLASS_FLOAT: return apply_float(p, operand, args);
    case CLASS_BOOL: return apply_bool(p, args);
    case CLASS_INT:
    case CLASS_OBJECT:
    case CLASS_UINT: {
        uint64_t y = row->arity > 1 ? args[1] : 0, z = row->arity > 2 ? args[2] : 0;
        uint64_t r = apply_int(p, operand, args[0], y, z);
        return r & mask(row->typing == TYPE_COMPARE ? 8 : dtype_bits(operand));
    }
    default: BUG("\"%s\" on %s", row->name, dtype_name(operand));
    }
}
