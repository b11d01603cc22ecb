/* SPDX-License-Identifier: Apache-2.0 */
/* Combines: laws of the rows on every type, which of equals wins, definitions in text. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/body_expr.h"

static Ctx *ctx;
static Arena *arena;

static void setup(void) {
    ctx = ctx_new(NULL, NULL);
    arena = arena_new(ctx);
}

static void teardown(void) {
    ctx_free(ctx);
}

TestSuite(combine, .init = setup, .fini = teardown);

/* Runs a combine's body on constants: the builders fold it. */
static void eval(const Combine *c, const Body *body, const int *result, const Bits *state, int n,
                 Bits *out) {
    Body b = {.arena = arena};
    int params[2 * COMBINE_STATES], *map = NEW_ARRAY(arena, int, body->val.n);
    for (int i = 0; i < n; i++) params[i] = body_bits(&b, c->type[i % c->nstate], state[i]);
    body_inline(&b, body, NULL, 0, params, NULL, NULL, map);
    for (int i = 0; i < c->nstate && result[i] >= 0; i++)
        cr_assert(body_const_bits(&b, map[result[i]], &out[i]));
}

static void merge(const Combine *c, const Bits *left, const Bits *right, Bits *out) {
    Bits both[2 * COMBINE_STATES];
    memcpy(both, left, (size_t)c->nstate * sizeof(Bits));
    memcpy(both + c->nstate, right, (size_t)c->nstate * sizeof(Bits));
    eval(c, &c->merge, c->merged, both, 2 * c->nstate, out);
}

static bool equal(const Combine *c, const Bits *a, const Bits *b) {
    for (int i = 0; i < c->nstate; i++) {
        double x = bits_to_double(c->type[i], a[i]), y = bits_to_double(c->type[i], b[i]);
        if (x != y && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

static const double samples[] = {0, 1, 2, 3, -1, -2, 5, 1, NAN, INFINITY, -INFINITY};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void state(const Combine *c, int k, Bits *out) {
    for (int i = 0; i < c->nstate; i++)
        out[i] = i == c->nstate - 1 && c->nstate == 2 ? bits_of_int(c->type[i], k)
                                                      : bits_of_double(c->type[i], samples[k]);
}

static void check_laws(const Combine *c) {
    Bits a[COMBINE_STATES], b[COMBINE_STATES], ab[COMBINE_STATES], ba[COMBINE_STATES];
    for (int i = 0; i < SAMPLES; i++) {
        state(c, i, a);
        merge(c, c->identity, a, ab);
        cr_assert(equal(c, ab, a), "%s %s: identity, sample %d", c->name, dtype_name(c->t), i);
        merge(c, a, c->identity, ab);
        cr_assert(equal(c, ab, a), "%s %s: identity, sample %d", c->name, dtype_name(c->t), i);
        merge(c, a, a, ab);
        if (c->idempotent) cr_assert(equal(c, ab, a), "%s %s", c->name, dtype_name(c->t));
        for (int k = 0; k < SAMPLES; k++) {
            state(c, k, b);
            merge(c, a, b, ab);
            merge(c, b, a, ba);
            if (c->commutative) cr_assert(equal(c, ab, ba), "%s %s", c->name, dtype_name(c->t));
            Bits d[COMBINE_STATES], left[COMBINE_STATES], right[COMBINE_STATES];
            state(c, (i + k) % SAMPLES, d);
            merge(c, ab, d, left);
            merge(c, b, d, right);
            merge(c, a, right, right);
            if (!dtype_is_float(c->t) || c->idempotent) cr_assert(equal(c, left, right));
        }
    }
}

Test(combine, laws_hold_on_every_type) {
    static const char *const names[] = {"sum",         "prod",         "min",        "max",
                                        "and",         "or",           "xor",        "argmax_first",
                                        "argmax_last", "argmin_first", "argmin_last"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        int made = 0;
        for (int t = 1; t < DT_COUNT; t++) {
            const Combine *c = combine_get(ctx, names[k], (DType)t);
            if (!c) continue;
            made++;
            cr_assert_eq(c, combine_get(ctx, names[k], (DType)t), "made once");
            cr_assert(c->t == (DType)t && c->associative && c->commutative);
            if (t != F8E8M0) check_laws(c);
        }
        cr_assert(made >= 13);
    }
}

Test(combine, simple_primitives) {
    cr_assert_eq(combine_get(ctx, "sum", F32)->simple, P_ADD);
    cr_assert_eq(combine_get(ctx, "max", I8)->simple, P_MAX);
    cr_assert_eq(combine_get(ctx, "or", BOOL)->simple, P_OR);
    cr_assert_eq(combine_get(ctx, "argmax_first", F32)->simple, PRIM_NONE);
    cr_assert_eq(combine_get(ctx, "max", F32)->identity[0], bits_of_double(F32, -INFINITY));
    cr_assert_eq(combine_get(ctx, "and", U8)->identity[0], 255);
    cr_assert_eq(combine_get(ctx, "and", BOOL)->identity[0], 1);
    cr_assert_eq(combine_get(ctx, "min", U4)->identity[0], 15);
    cr_assert_null(combine_get(ctx, "and", F32));
    cr_assert_null(combine_get(ctx, "sum", STRING));
    cr_assert_null(combine_get(ctx, "welford", I32));
    cr_assert_null(combine_get(ctx, "median", F32));
}

static int64_t arg_of(const char *name, const double *values, int n) {
    const Combine *c = combine_get(ctx, name, F32);
    Bits s[2] = {c->identity[0], c->identity[1]};
    for (int i = 0; i < n; i++) {
        Bits next[2] = {bits_of_double(F32, values[i]), (Bits)i};
        merge(c, s, next, s);
    }
    return (int64_t)s[1];
}

Test(combine, which_of_equals_wins) {
    double v[] = {1, 3, 2, 3, 0, 0};
    cr_assert_eq(arg_of("argmax_first", v, 6), 1);
    cr_assert_eq(arg_of("argmax_last", v, 6), 3);
    cr_assert_eq(arg_of("argmin_first", v, 6), 4);
    cr_assert_eq(arg_of("argmin_last", v, 6), 5);
    double nan[] = {1, NAN, 5, NAN, INFINITY, -INFINITY};
    cr_assert_eq(arg_of("argmax_first", nan, 6), 1);
    cr_assert_eq(arg_of("argmax_last", nan, 6), 3);
    cr_assert_eq(arg_of("argmin_first", nan, 6), 1);
    cr_assert_eq(arg_of("argmin_last", nan, 6), 3);
    double low[] = {-INFINITY, -INFINITY};
    cr_assert_eq(arg_of("argmax_first", low, 2), 0);
    cr_assert_eq(arg_of("argmax_last", low, 2), 1);
}

Test(combine, welford_gives_mean_and_variance) {
    const Combine *c = combine_get(ctx, "welford", F64);
    cr_assert(c->nstate == 3 && c->type[0] == I64 && c->type[2] == F64 && c->t == F64);
    Bits s[3], all[3], out[3];
    memcpy(all, c->identity, sizeof all);
    for (int half = 0; half < 2; half++) {
        memcpy(s, c->identity, sizeof s);
        for (int i = 0; i < 5; i++) {
            double x = 1e6 + (half * 5 + i) * (half * 5 + i);
            merge(c, s, (Bits[]){1, bits_of_double(F64, x), 0}, s);
        }
        merge(c, all, s, all);
    }
    eval(c, &c->finish, c->finished, all, 3, out);
    cr_assert_eq(out[0], 10);
    cr_assert_float_eq(bits_to_double(F64, out[1]), 1e6 + 28.5, 1e-8);
    cr_assert_float_eq(bits_to_double(F64, out[2]), 721.05, 1e-6);
}

/* ---- text ----------------------------------------------------------------------------------- */

static const char *const softmax =
    "softmax_acc (m:f32 = -inf, l:f32 = 0, o:f32 = 0) associative commutative {"
    "  merge (m1, l1, o1) (m2, l2, o2) {"
    "    m = max(m1, m2)  a = select(m1 == -inf, 0, exp(m1 - m))"
    "    c = select(m2 == -inf, 0, exp(m2 - m))"
    "    (m, l1 * a + l2 * c, o1 * a + o2 * c)"
    "  }"
    "  finish { o / l }"
    "}";

Test(combine, definition_in_text) {
    Body b = {.arena = arena};
    ExprScan scan;
    expr_scan_text(&scan, &b, softmax);
    const Combine *c = combine_parse(arena, &scan);
    cr_assert_eq(scan.tok.kind, EXPR_END);
    cr_assert_eq(b.val.n, 0);
    cr_assert_str_eq(c->name, "softmax_acc");
    cr_assert(c->t == DT_NONE && c->nstate == 3 && c->associative && !c->idempotent);
    cr_assert(c->finished[0] >= 0 && c->finished[1] == -1);
    Bits s[3], out[3];
    memcpy(s, c->identity, sizeof s);
    double total = 0, weighted = 0;
    for (int i = 0; i < 6; i++) {
        double x = i * 1.5 - 3, v = 10 - i;
        total += exp(x);
        weighted += exp(x) * v;
        merge(c, s,
              (Bits[]){bits_of_double(F32, x), bits_of_double(F32, 1), bits_of_double(F32, v)}, s);
    }
    eval(c, &c->finish, c->finished, s, 3, out);
    cr_assert_float_eq(bits_to_double(F32, out[0]), weighted / total, 1e-5);
}

static _Noreturn void user_error(ExprScan *scan, const char *message) {
    fail(arena_ctx(scan->body->arena), E_SYNTAX, "%s", message);
}

static void parse_bad(void *text) {
    Body b = {.arena = arena};
    ExprScan scan;
    expr_scan_text(&scan, &b, text);
    scan.error = user_error;
    combine_parse(arena, &scan);
}

Test(combine, bad_definitions_are_refused) {
    static const char *const bad[] = {
        "c (m:f32 = x) { merge (a) (b) { a } }",
        "c (m:f32 = 0) { merge (a) (b) { a & b } }",
        "c (m:f32 = 0) { merge (a) (b) { (a, b) } }",
        "c (m:f32 = 0, n:i64 = 0) { merge (a, b) (c, d) { (a, c) } }",
        "c (m:f32 = 0, n:i64 = 0) { merge (a, b) (c, d) { a } }",
        "c (m:f32 = 0) sorted { merge (a) (b) { a } }",
        "c (m:f33 = 0) { merge (a) (b) { a } }",
        "c (m:string = 0) { merge (a) (b) { a } }",
        "c (m:f32 = 0) { finish { m } }",
        "c (m:f32 = 0) { merge (a) (b) { a } finish { k } }",
        "c (a:f32 = 0, b:f32 = 0, c:f32 = 0, d:f32 = 0, e:f32 = 0) { merge (a) (b) { a } }",
        "c (m:T = 0) { merge (a) (b) { a } }",
        "c (m:f32 = 0) { merge (a) (b) { a }",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(ctx_try(ctx, parse_bad, (void *)bad[i]), "%s", bad[i]);
}
