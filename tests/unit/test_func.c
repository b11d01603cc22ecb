/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions through the column engine: two ulp against long double, special values
 * exactly, small floats rounded once, and the engine's rate. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "ir/body.h"

typedef long double Real;

static Real sigmoid_real(Real x) {
    return x > 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
}
static Real softplus_real(Real x) {
    return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

/* The limits are the measured maxima of ir/README.md, rounded up. */
typedef struct Func {
    Prim prim;
    Real (*real)(Real x);
    double ulp32, ulp64; /* f32, f64 */
} Func;

static const Func funcs[] = {
    {P_EXP, expl, 0.9, 0.9},
    {P_EXP2, exp2l, 0.9, 1.0},
    {P_LOG, logl, 1.0, 0.85},
    {P_LOG1P, log1pl, 1.55, 0.85},
    {P_EXPM1, expm1l, 1.35, 1.35},
    {P_TANH, tanhl, 1.95, 1.85},
    {P_ERF, erfl, 1.85, 1.75},
    {P_SIGMOID, sigmoid_real, 2.00, 1.55},
    {P_SOFTPLUS, softplus_real, 1.96, 1.7},
    {P_SIN, sinl, 1.55, 0.82},
    {P_COS, cosl, 1.55, 0.82},
    {P_TAN, tanl, 0.51, 1.05},
    {P_ASIN, asinl, 1.7, 1.15},
    {P_ACOS, acosl, 1.3, 0.8},
    {P_ATAN, atanl, 1.4, 1.35},
    {P_SINH, sinhl, 0.51, 1.85},
    {P_COSH, coshl, 0.51, 1.85},
    {P_ASINH, asinhl, 0.51, 1.7},
    {P_ACOSH, acoshl, 0.51, 1.6},
    {P_ATANH, atanhl, 0.51, 1.96},
};
enum { FUNCS = sizeof funcs / sizeof *funcs };

static Ctx *ctx;
static Arena *arena;

static void setup(void) {
    ctx = ctx_new(NULL, NULL);
    arena = arena_new(ctx);
}

static void teardown(void) {
    ctx_free(ctx);
}

TestSuite(func, .init = setup, .fini = teardown);

/* ---- running one function ------------------------------------------------------------------- */

typedef struct Run {
    DType t;
    int root;
    BodyCode *code;
    BodyFrame *frame;
    double x[COLUMN_MAX], y[COLUMN_MAX], out[COLUMN_MAX];
} Run;

static Run *run_in(Prim p, DType t, const Forms *forms) {
    Run *run = NEW(arena, Run);
    Body named = {.arena = arena}, b = {.arena = arena};
    int args[2] = {body_param(&named, 0, t), -1}, map[3];
    if (prim_row(p)->arity == 2) args[1] = body_param(&named, 1, t);
    int result = body_prim(&named, p, args);
    body_expand(&b, &named, forms, map);
    run->t = t;
    run->root = map[result];
    run->code = body_compile(arena, &b);
    run->frame = body_frame(arena, run->code);
    return run;
}

static Run *run_new(Prim p, DType t) {
    return run_in(p, t, NULL);
}

static void fill(void *user, int val, Column out, int n) {
    Run *run = user;
    const double *from = val == 0 ? run->x : run->y;
    for (int i = 0; i < n; i++) {
        Bits bits = bits_of_double(run->t, from[i]);
        size_t size = (size_t)dtype_bits(run->t) / 8;
        memcpy((char *)out.at + size * (size_t)i, &bits, size);
    }
}

static void run_columns(Run *run, int n) {
    body_run(run->code, run->frame, n, fill, run);
    Column out = body_column(run->code, run->frame, run->root);
    size_t size = (size_t)dtype_bits(run->t) / 8;
    for (int i = 0; i < n; i++) {
        Bits bits = 0;
        memcpy(&bits, (char *)out.at + size * (size_t)i, size);
        run->out[i] = bits_to_double(run->t, bits);
    }
}

/* ---- two ulp -------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

enum { KINDS = 6 };

/* All bit patterns, then ranges where functions bend, then the neighbourhood of 1; the ends of
 * every exponent's range; what lies next to multiples of pi/2. */
static double argument(DType t, int kind, uint64_t *state) {
    uint64_t r = next_random(state);
    double unit = (double)(int64_t)r * 0x1p-63;
    if (kind == 0) return bits_to_double(t, t == F32 ? r & 0xffffffff : r);
    if (kind == 1) unit *= (double)(1 << (r & 7));
    if (kind == 2) unit *= t == F32 ? 110 : 750;
    if (kind == 3) unit = 1 + ldexp(unit, -(int)(r & 31));
    if (kind == 4) {
        static const int ends[] = {0, 1, -1, 2, -2};
        int digits = t == F32 ? 23 : 52;
        Bits exponent = r >> 8 & (t == F32 ? 511 : 4095); /* and the sign */
        Bits mask = ((Bits)1 << (digits + (t == F32 ? 9 : 12) - 1) << 1) - 1;
        return bits_to_double(t, ((exponent << digits) + (Bits)(int64_t)ends[r % 5]) & mask);
    }
    if (kind == 5)
        unit = (double)(rintl(ldexpl(unit, (int)(r & 63))) * 0x1.921fb54442d18469898cp0L);
    return bits_to_double(t, bits_of_double(t, unit));
}

static Real ulps(DType t, double got, Real want) {
    int e, digits = t == F32 ? 24 : 53, least = t == F32 ? -149 : -1074;
    Real most = t == F32 ? 0x1.fffffep127L : 0x1.fffffffffffffp1023L;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(got) && fabsl(want) > most) return 0;
    if (isinf(want)) return (Real)got == want ? 0 : INFINITY;
    frexpl(want, &e);
    Real unit = ldexpl(1, e - digits > least ? e - digits : least);
    Real d = fabsl((Real)got - want) / unit;
    return isnan(d) ? INFINITY : d;
}

static void sweep(const Func *f, DType t, int columns) {
    Run *run = run_new(f->prim, t);
    Real most = t == F32 ? f->ulp32 : f->ulp64;
    uint64_t state = 88172645463325252u;
    for (int c = 0; c < columns; c++) {
        for (int i = 0; i < COLUMN_MAX; i++) run->x[i] = argument(t, c % KINDS, &state);
        run_columns(run, COLUMN_MAX);
        for (int i = 0; i < COLUMN_MAX; i++) {
            Real want = f->real(run->x[i]);
            cr_assert(ulps(t, run->out[i], want) <= most, "%s %s(%a) = %a, not %La",
                      prim_row(f->prim)->name, dtype_name(t), run->x[i], run->out[i], want);
        }
    }
}

Test(func, within_two_ulp_f32) {
    for (int k = 0; k < FUNCS; k++) sweep(&funcs[k], F32, 120);
}

Test(func, within_two_ulp_f64) {
    for (int k = 0; k < FUNCS; k++) sweep(&funcs[k], F64, 80);
}

/* Brief definitions give the same bits, or 0 where the result is smaller than 2^-125. */
Test(func, brief_is_the_same_above_the_smallest) {
    static const Forms brief = {.brief = true};
    static const Prim prims[] = {P_EXP, P_EXP2, P_SIGMOID};
    uint64_t state = 88172645463325252u;
    for (size_t k = 0; k < sizeof prims / sizeof *prims; k++) {
        Run *whole = run_new(prims[k], F32), *run = run_in(prims[k], F32, &brief);
        for (int c = 0; c < 120; c++) {
            for (int i = 0; i < COLUMN_MAX; i++) {
                double edge = rint(4 * argument(F32, 2, &state)) / 4;
                run->x[i] = whole->x[i] = c % 7 ? argument(F32, c % KINDS, &state) : edge;
            }
            run_columns(run, COLUMN_MAX), run_columns(whole, COLUMN_MAX);
            for (int i = 0; i < COLUMN_MAX; i++) {
                double got = run->out[i], want = whole->out[i];
                bool same = got == want || (isnan(got) && isnan(want));
                cr_assert(same || (got == 0 && want < 0x1p-125), "%s(%a) = %a, not %a",
                          prim_row(prims[k])->name, run->x[i], got, want);
            }
        }
    }
}

/* erfc is near by what it is off, not by ulps: where it is small others lose more in 1 - erf. */
Test(func, erfc_is_near) {
    Run *run = run_new(P_ERFC, F32);
    uint64_t state = 88172645463325252u;
    for (int c = 0; c < 240; c++) {
        for (int i = 0; i < COLUMN_MAX; i++)
            run->x[i] = c % 2 ? argument(F32, c % KINDS, &state) : 8.0 * i / COLUMN_MAX - c / 60.0;
        run_columns(run, COLUMN_MAX);
        for (int i = 0; i < COLUMN_MAX; i++) {
            Real want = erfcl((Real)(float)run->x[i]);
            bool near = isnan(want) ? isnan(run->out[i]) : fabsl(run->out[i] - want) <= 0x1.26p-23;
            cr_assert(near, "erfc(%a) = %a, not %La", run->x[i], run->out[i], want);
        }
    }
}

/* ---- where 2^x is an instruction ------------------------------------------------------------- */

/* As on a GPU: 2^x and ratios stay, for which the evaluator takes their definitions. */
static const Forms by_exp2 = {
    .brief = true, .quotients = true, .native = {[P_EXP2] = true, [P_RATIO] = true}};

/* An expression of $0 and $1, f32, in these forms; `made`, unless NULL: what it is expanded to. */
static Run *run_text(const char *text, const Forms *forms, Body *made) {
    enum { VALS = 256 };
    Run *run = NEW(arena, Run);
    Body named = {.arena = arena}, b = {.arena = arena}, whole = {.arena = arena};
    int args[] = {body_param(&named, 0, F32), body_param(&named, 1, F32)}, map[VALS], last[VALS];
    int result = body_expr(&named, text, args, 2, NULL, 0, F32);
    body_expand(&b, &named, forms, map);
    int root = map[result];
    body_prune(&b, &root, 1);
    body_expand(&whole, &b, NULL, last);
    run->t = F32;
    run->root = last[root];
    run->code = body_compile(arena, &whole);
    run->frame = body_frame(arena, run->code);
    if (made) *made = b;
    return run;
}

static bool has_prim(const Body *b, Prim p) {
    for (int i = 0; i < b->val.n; i++)
        if (b->val.at[i].kind == VAL_PRIM && b->val.at[i].prim == p) return true;
    return false;
}

Test(func, by_exp2_is_near) {
    static const struct {
        const char *text;
        Real (*real)(Real x);
        double ulp, off; /* either is enough */
    } of[] = {{"exp($0)", expl, 2, 0x1p-125}, {"erfc($0)", erfcl, 2, 0x1p-22}};
    uint64_t state = 88172645463325252u;
    for (int k = 0; k < 2; k++) {
        Body made;
        Run *run = run_text(of[k].text, &by_exp2, &made);
        cr_assert(has_prim(&made, P_EXP2) && made.val.n < 40, "%s: %d", of[k].text, made.val.n);
        for (int c = 0; c < 120; c++) {
            for (int i = 0; i < COLUMN_MAX; i++) run->x[i] = argument(F32, c % KINDS, &state);
            run_columns(run, COLUMN_MAX);
            for (int i = 0; i < COLUMN_MAX; i++) {
                Real want = of[k].real((Real)run->x[i]);
                bool near = fabsl((Real)run->out[i] - want) <= of[k].off;
                cr_assert(near || ulps(F32, run->out[i], want) <= of[k].ulp,
                          "%s: %a gives %a, not %La", of[k].text, run->x[i], run->out[i], want);
            }
        }
    }
}

/* Quotients by constants: the float that is nearest, but where numbers are far out; or, where that
 * does not count, near it. */
static void check_quotients(const Forms *forms, double off) {
    static const char *const text[] = {"$0 / 1.4142135", "$0 / 255", "$0 / 0x1.fffffep0",
                                       "$0 / -0.1",      "$0 / 3",   "$0 / 0x1.000002p-29"};
    static const float by[] = {1.4142135F, 255, 0x1.fffffep0F, -0.1F, 3, 0x1.000002p-29F};
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 0x1.fffffep127};
    enum { SPECIAL = sizeof special / sizeof *special };
    uint64_t state = 88172645463325252u;
    for (int k = 0; k < 6; k++) {
        Body made;
        Run *run = run_text(text[k], forms, &made);
        cr_assert(!has_prim(&made, P_DIV) && !has_prim(&made, P_RATIO), "%s", text[k]);
        for (int c = 0; c < 60; c++) {
            for (int i = 0; i < COLUMN_MAX; i++)
                run->x[i] = i < SPECIAL ? special[i] : argument(F32, c % KINDS, &state);
            run_columns(run, COLUMN_MAX);
            for (int i = 0; i < COLUMN_MAX; i++) {
                float want = (float)run->x[i] / by[k], got = (float)run->out[i];
                bool far = !(fabsf(want) > 0x1p-70F && fabsf(want) < 0x1p125F);
                bool same = got == want ? signbit(got) == signbit(want) : isnan(got) && isnan(want);
                Real most = far ? 1.5 : off;
                cr_assert(same || ulps(F32, got, (Real)run->x[i] / by[k]) <= most,
                          "%a / %a gives %a, not %a", run->x[i], (double)by[k], (double)got,
                          (double)want);
            }
        }
    }
}

Test(func, quotients_by_constants) {
    Forms exact = by_exp2;
    exact.native[P_RATIO] = false;
    check_quotients(&exact, 0);
    check_quotients(&by_exp2, 1.5);
}

/* Others may be off by 2 ulp there, but for what becomes whole numbers. */
Test(func, quotients_that_become_whole_are_rounded) {
    Body made;
    run_text("$0 / $1", &by_exp2, &made);
    cr_assert(has_prim(&made, P_RATIO) && !has_prim(&made, P_DIV));
    run_text("rint($0 / $1)", &by_exp2, &made);
    cr_assert(has_prim(&made, P_DIV) && !has_prim(&made, P_RATIO));
    run_text("f32(i32($0 / $1))", &by_exp2, &made);
    cr_assert(has_prim(&made, P_DIV) && !has_prim(&made, P_RATIO));
    run_text("rint($0 / 255)", &by_exp2, &made);
    cr_assert(has_prim(&made, P_FMA));
    Forms strict = by_exp2;
    strict.brief = strict.quotients = false;
    run_text("$0 / 3 + erf($1) + 1", &strict, &made);
    cr_assert(has_prim(&made, P_DIV) && !has_prim(&made, P_EXP2));
}

static double value1(Prim p, DType t, double x) {
    Run *run = run_new(p, t);
    run->x[0] = x;
    run_columns(run, 1);
    return run->out[0];
}

/* The numbers that come closest to a multiple of pi/2 (by continued fractions, for each exponent),
 * and the largest. */
Test(func, angles_next_to_quarter_turns) {
    static const double x32[] = {0x1.f37c8ap95, 0x1.47d0fep34, 0x1.fffffep127},
                        x64[] = {0x1.6ac5b262ca1ffp849, 0x1.6c6cbc45dc8dep5,
                                 0x1.fffffffffffffp1023};
    static const Prim prims[] = {P_SIN, P_COS, P_TAN};
    static Real (*const real[])(Real) = {sinl, cosl, tanl};
    for (DType t = F64; t <= F32; t++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) {
                double x = t == F32 ? x32[i] : x64[i], got = value1(prims[k], t, x);
                cr_assert(ulps(t, got, real[k](x)) <= 1.6, "%s(%a) = %a", prim_row(prims[k])->name,
                          x, got);
            }
}

static void sweep_pow(DType t) {
    Run *run = run_new(P_POW, t);
    uint64_t state = 1234567;
    for (int c = 0; c < 120; c++) {
        for (int i = 0; i < COLUMN_MAX; i++) {
            run->x[i] = argument(t, c % KINDS, &state);
            run->y[i] = argument(t, c / KINDS % 3, &state);
            if (next_random(&state) & 1) run->y[i] = rint(run->y[i]);
        }
        run_columns(run, COLUMN_MAX);
        for (int i = 0; i < COLUMN_MAX; i++) {
            Real want = powl(run->x[i], run->y[i]);
            cr_assert(ulps(t, run->out[i], want) <= (t == F32 ? 0.51 : 1.4),
                      "pow %s(%a, %a) = %a, not %La", dtype_name(t), run->x[i], run->y[i],
                      run->out[i], want);
        }
    }
}

Test(func, pow_within_two_ulp) {
    sweep_pow(F32);
    sweep_pow(F64);
}

/* ---- special values ------------------------------------------------------------------------- */

static double value2(Prim p, DType t, double x, double y) {
    Run *run = run_new(p, t);
    run->x[0] = x;
    run->y[0] = y;
    run_columns(run, 1);
    return run->out[0];
}

Test(func, special_values) {
    for (DType t = F64; t <= F32; t++) {
        for (int k = 0; k < FUNCS; k++) {
            Prim p = funcs[k].prim;
            cr_assert(isnan(value1(p, t, NAN)), "%s of NaN", prim_row(p)->name);
        }
        cr_assert(value1(P_EXP, t, INFINITY) == INFINITY && value1(P_EXP, t, -INFINITY) == 0);
        cr_assert(value1(P_EXP, t, 0) == 1 && value1(P_EXPM1, t, -INFINITY) == -1);
        cr_assert(value1(P_EXP2, t, INFINITY) == INFINITY && value1(P_EXP2, t, -INFINITY) == 0);
        cr_assert(value1(P_EXP2, t, 10) == 1024 && value1(P_EXP2, t, -126) == 0x1p-126);
        cr_assert(value1(P_LOG, t, 0) == -INFINITY && value1(P_LOG, t, -0.0) == -INFINITY);
        cr_assert(value1(P_LOG, t, 1) == 0 && isnan(value1(P_LOG, t, -1)));
        cr_assert(value1(P_LOG, t, INFINITY) == INFINITY && isnan(value1(P_LOG, t, -INFINITY)));
        cr_assert(value1(P_LOG1P, t, -1) == -INFINITY && value1(P_LOG1P, t, INFINITY) == INFINITY);
        cr_assert(value1(P_TANH, t, INFINITY) == 1 && value1(P_TANH, t, -INFINITY) == -1);
        cr_assert(value1(P_ERF, t, INFINITY) == 1 && value1(P_ERF, t, -INFINITY) == -1);
        cr_assert(value1(P_SIGMOID, t, INFINITY) == 1 && value1(P_SIGMOID, t, -INFINITY) == 0);
        cr_assert(value1(P_SIGMOID, t, 0) == 0.5);
        cr_assert(value1(P_SOFTPLUS, t, -INFINITY) == 0 && value1(P_SOFTPLUS, t, INFINITY) > 1e300);
        cr_assert(isnan(value1(P_SIN, t, INFINITY)) && isnan(value1(P_COS, t, -INFINITY)));
        cr_assert(value1(P_COS, t, 0) == 1 && value1(P_ACOS, t, 1) == 0);
        cr_assert(isnan(value1(P_ASIN, t, 1.5)) && isnan(value1(P_ACOSH, t, 0.5)));
        cr_assert(value1(P_ACOSH, t, 1) == 0 && value1(P_ATANH, t, 1) == INFINITY);
        cr_assert(value1(P_SINH, t, -INFINITY) == -INFINITY &&
                  value1(P_COSH, t, -INFINITY) > 1e300);
        static const Prim odd[] = {P_EXPM1, P_TANH, P_ERF,   P_ASIN,
                                   P_ATAN,  P_SINH, P_ASINH, P_ATANH};
        for (int k = 0; k < 8; k++) {
            double zero = value1(odd[k], t, -0.0);
            cr_assert(zero == 0 && signbit(zero), "%s of -0", prim_row(odd[k])->name);
        }
    }
}

Test(func, tf32_has_ten_bits_of_fraction) {
    static const DType types[] = {F32, F64};
    for (int i = 0; i < 2; i++) {
        DType t = types[i];
        cr_assert(value1(P_TF32, t, 0x1.ffcp-3) == 0x1.ffcp-3 && value1(P_TF32, t, -7) == -7);
        cr_assert(value1(P_TF32, t, 0x1.001ffep0) == 0x1p0);
        cr_assert(value1(P_TF32, t, 0x1.002p0) == 0x1p0);
        cr_assert(value1(P_TF32, t, -0x1.006p5) == -0x1.008p5);
        cr_assert(value1(P_TF32, t, FLT_MAX) == INFINITY);
        cr_assert(value1(P_TF32, t, -INFINITY) == -INFINITY && isnan(value1(P_TF32, t, NAN)));
        cr_assert(signbit(value1(P_TF32, t, -0.0)));
    }
}

Test(func, pow_special_values) {
    static const double v[] = {0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, INFINITY, -INFINITY, NAN};
    enum { N = sizeof v / sizeof *v };
    for (DType t = F64; t <= F32; t++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) {
                double got = value2(P_POW, t, v[i], v[k]), want = pow(v[i], v[k]);
                want = bits_to_double(t, bits_of_double(t, want));
                bool equal = isnan(want) ? isnan(got)
                                         : ulps(t, got, want) <= 1 && signbit(got) == signbit(want);
                cr_assert(equal, "pow(%g, %g) = %g, not %g", v[i], v[k], got, want);
            }
}

/* ---- small floats, rate --------------------------------------------------------------------- */

/* Through f32 and one rounding: the nearest, or its neighbour when the true value is all but a tie.
 */
Test(func, small_floats_round_once) {
    static const DType small[] = {F16, BF16};
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < FUNCS; k++) {
            Run *run = run_new(funcs[k].prim, small[s]);
            for (uint32_t b = 0; b < 0x10000; b += COLUMN_MAX) {
                for (uint32_t i = 0; i < COLUMN_MAX; i++)
                    run->x[i] = bits_to_double(small[s], b + i);
                run_columns(run, COLUMN_MAX);
                for (int i = 0; i < COLUMN_MAX; i++) {
                    double exact = (double)funcs[k].real(run->x[i]);
                    double f32 = bits_to_double(F32, bits_of_double(F32, exact));
                    double low =
                        bits_to_double(small[s], bits_of_double(small[s], f32 * (1 - 0x1p-22)));
                    double high =
                        bits_to_double(small[s], bits_of_double(small[s], f32 * (1 + 0x1p-22)));
                    bool ok = isnan(exact) ? isnan(run->out[i])
                                           : run->out[i] == low || run->out[i] == high;
                    if (fabs(f32) < 0x1p-120) ok = fabs(run->out[i] - f32) < 0x1p-120;
                    cr_assert(ok, "%s %s(%a) = %a, not %a", prim_row(funcs[k].prim)->name,
                              dtype_name(small[s]), run->x[i], run->out[i], exact);
                }
            }
        }
}

static void fill_half(void *user, int val, Column out, int n) {
    (void)user, (void)val;
    for (int i = 0; i < n; i++) ((float *)out.at)[i] = 0.5f;
}

/* 100 M primitives a second on one core is the engine's promise. */
Test(func, engine_rate) {
    Run *run = run_new(P_TANH, F32);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 1000; i++) body_run(run->code, run->frame, COLUMN_MAX, fill_half, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    bool fast = 1000.0 * COLUMN_MAX * 25 / seconds > 1e8;
    cr_assert(fast || getenv("WEIR_UNTIMED"), "%.3g s", seconds);
}
