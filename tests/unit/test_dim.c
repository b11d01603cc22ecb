/* SPDX-License-Identifier: Apache-2.0 */
/* Dims: canonical form, text, proofs, and random expressions against plain integer arithmetic. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ir/dim.h"

static Ctx *ctx;

static void setup(void) {
    ctx = ctx_new(NULL, NULL);
}

static void teardown(void) {
    ctx_free(ctx);
}

TestSuite(dim, .init = setup, .fini = teardown);

/* ---- short spellings ---------------------------------------------------------------------------
 */

static Dim S(const char *name) {
    return dim_sym(ctx, name);
}
static Dim K(int64_t v) {
    return dim_const(ctx, v);
}
static Dim add(Dim a, Dim b) {
    return dim_add(ctx, a, b);
}
static Dim sub(Dim a, Dim b) {
    return dim_sub(ctx, a, b);
}
static Dim mul(Dim a, Dim b) {
    return dim_mul(ctx, a, b);
}
static Dim dv(Dim a, Dim b) {
    return dim_div(ctx, a, b);
}
static Dim md(Dim a, Dim b) {
    return dim_mod(ctx, a, b);
}
static Dim mn(Dim a, Dim b) {
    return dim_min(ctx, a, b);
}
static Dim mx(Dim a, Dim b) {
    return dim_max(ctx, a, b);
}

#define IS(d, text) cr_assert_str_eq(dim_str(ctx, d), text)
#define SAME(a, b)                                                                                 \
    do {                                                                                           \
        Dim a_ = (a), b_ = (b);                                                                    \
        cr_assert(a_ == b_, "%s is not %s", dim_str(ctx, a_), dim_str(ctx, b_));                   \
    } while (0)

static DimEnv env_of(DimRange *range, int n) {
    return (DimEnv){range, n};
}

/* ---- canonical form ------------------------------------------------------------------------- */

Test(dim, sums_and_products) {
    Dim N = S("N"), M = S("S"), i = S("i");
    SAME(add(N, i), add(i, N));
    SAME(sub(add(N, i), i), N);
    SAME(sub(N, N), K(0));
    SAME(mul(add(N, K(1)), sub(N, K(1))), sub(mul(N, N), K(1)));
    SAME(mul(M, N), mul(N, M));
    SAME(dim_product(ctx, (Dim[]){N, M, K(12)}, 3), mul(K(12), mul(M, N)));
    SAME(dim_product(ctx, NULL, 0), K(1));
    IS(add(mul(K(4), i), K(-3)), "4*i - 3");
    IS(mul(K(-1), add(mul(N, M), K(1))), "-N*S - 1");
    IS(K(0), "0");
    IS(K(INT64_MIN), "-9223372036854775808");
    cr_assert_str_eq(dim_sym_name(N), "N");
    cr_assert_null(dim_sym_name(mul(N, K(2))));
    cr_assert(dim_uses(dv(N, K(4)), N) && !dim_uses(dv(N, K(4)), M));
}

Test(dim, divisions_by_constants) {
    Dim i = S("i"), j = S("j");
    IS(dv(add(mul(K(4), i), add(K(8), j)), K(4)), "i + j/4 + 2");
    SAME(dv(dv(i, K(4)), K(8)), dv(i, K(32)));
    SAME(dv(add(dv(i, K(4)), mul(K(2), j)), K(8)), dv(add(i, mul(K(8), j)), K(32)));
    SAME(dv(add(mul(K(4), i), K(3)), K(8)), dv(i, K(2)));
    SAME(dv(K(-7), K(2)), K(-4));
    SAME(md(K(-7), K(2)), K(1));
    SAME(md(K(7), K(-2)), K(-1));
    SAME(dv(i, K(-4)), dv(mul(i, K(-1)), K(4)));
    SAME(md(add(mul(K(4), i), j), K(4)), md(j, K(4)));
    SAME(md(add(mul(K(4), i), K(3)), K(8)), add(mul(K(4), md(i, K(2))), K(3)));
    SAME(md(md(i, K(12)), K(4)), md(i, K(4)));
    SAME(md(md(i, K(4)), K(12)), md(i, K(4)));
    SAME(add(mul(K(4), dv(i, K(4))), md(i, K(4))), i);
    SAME(add(mul(K(8), dv(i, K(32))), md(dv(i, K(4)), K(8))), dv(i, K(4)));
    IS(dim_ceildiv(ctx, S("N"), K(64)), "(N+63)/64");
    IS(add(mul(K(4), i), dv(j, K(16))), "4*i + j/16");
    IS(mul(K(4), dv(i, K(4))), "4*(i/4)");
    IS(md(add(i, K(1)), K(4)), "(i+1)%4");
    IS(mul(K(-1), dv(i, K(4))), "-(i/4)");
    Dim minus = sub(K(0), S("x")), filled = dv(add(S("x"), K(3)), K(4));
    SAME(md(minus, K(4)), sub(mul(K(4), filled), S("x")));
    SAME(dv(minus, K(4)), sub(K(0), filled));
    SAME(dv(add(md(minus, K(4)), S("x")), K(4)), filled);
}

Test(dim, divisions_by_symbols) {
    Dim N = S("N"), T = S("S"), n = S("n"), s = S("s");
    SAME(dv(mul(K(12), mul(N, T)), T), mul(K(12), N));
    SAME(dv(add(mul(n, T), s), T), add(n, dv(s, T)));
    SAME(md(add(mul(n, T), s), T), md(s, T));
    SAME(dv(mul(N, n), mul(N, T)), dv(n, T));
    SAME(md(mul(N, n), mul(N, T)), mul(N, md(n, T)));
    Dim P = add(T, K(1));
    SAME(dv(add(mul(n, P), s), P), add(n, dv(s, P)));
    SAME(md(add(mul(n, P), s), P), md(s, P));
    SAME(dv(mul(P, add(N, K(2))), P), add(N, K(2)));
    SAME(add(mul(T, dv(n, T)), md(n, T)), n);
    SAME(add(mul(mul(N, T), dv(n, T)), mul(N, md(n, T))), mul(N, n));
    Dim q;
    cr_assert(dim_divides(ctx, mul(K(6), mul(N, T)), mul(K(2), T), &q));
    SAME(q, mul(K(3), N));
    cr_assert(!dim_divides(ctx, add(N, K(1)), K(2), &q));
    cr_assert(!dim_divides(ctx, N, K(0), NULL));
}

Test(dim, min_and_max) {
    Dim i = S("i"), j = S("j"), k = S("k"), N = S("N");
    SAME(mn(i, j), mn(j, i));
    SAME(mn(mn(i, j), k), mn(k, mn(j, i)));
    SAME(mn(i, add(i, K(3))), i);
    SAME(mx(i, add(i, K(3))), add(i, K(3)));
    SAME(mn(mn(i, j), add(j, K(1))), mn(i, j));
    SAME(mn(K(3), K(5)), K(3));
    SAME(mx(mx(i, K(0)), K(4)), mx(i, K(4)));
    SAME(mn(dv(add(i, K(3)), K(4)), dv(add(i, K(1)), K(4))), dv(add(i, K(1)), K(4)));
    SAME(mx(dv(add(i, K(5)), K(8)), add(dv(add(i, K(1)), K(8)), K(1))), dv(add(i, K(9)), K(8)));
    SAME(mn(add(mul(N, K(2)), dv(i, K(3))), dv(add(i, K(2)), K(3))),
         mn(dv(add(i, K(2)), K(3)), add(mul(N, K(2)), dv(i, K(3)))));
    IS(mn(dv(i, K(4)), dv(add(i, K(1)), K(2))), "min((i+1)/2, i/4)");
    IS(mn(j, i), "min(i, j)");
    IS(dv(mx(i, K(0)), K(2)), "max(i, 0)/2");
}

/* ---- failures ------------------------------------------------------------------------------- */

static void too_large(void *arg) {
    Dim d = arg ? K(2) : S("N");
    for (int i = 0; i < 70; i++) d = mul(d, d);
}

static void by_zero(void *arg) {
    if (arg)
        dv(S("N"), K(0));
    else
        md(S("N"), sub(S("M"), S("M")));
}

Test(dim, overflow_and_zero_fail) {
    int yes;
    cr_assert(!ctx_try(ctx, too_large, &yes) && ctx->last_error == E_DIM);
    ctx->last_error = E_FILE;
    cr_assert(!ctx_try(ctx, too_large, NULL) && ctx->last_error == E_DIM);
    ctx->last_error = E_FILE;
    cr_assert(!ctx_try(ctx, by_zero, &yes) && ctx->last_error == E_DIM);
    ctx->last_error = E_FILE;
    cr_assert(!ctx_try(ctx, by_zero, NULL) && ctx->last_error == E_DIM);
    DimRange range[] = {{S("i"), K(0), K(INT64_MAX)}};
    DimEnv env = env_of(range, 1);
    cr_assert_null(dim_upper(ctx, mul(K(4), S("i")), &env));
    cr_assert(dim_ge0(ctx, mul(K(4), S("i")), &env));
}

/* ---- proofs --------------------------------------------------------------------------------- */

Test(dim, bounds_of_symbolic_boxes) {
    Dim N = S("N"), T = S("S"), n = S("n"), s = S("s");
    DimRange range[] = {
        {N, K(1), K(4096)}, {T, K(1), NULL}, {n, K(0), sub(N, K(1))}, {s, K(0), sub(T, K(1))}};
    DimEnv env = env_of(range, 4), model = env_of(range, 2);
    Dim at = add(mul(n, T), s), last = sub(mul(N, T), K(1));
    SAME(dim_upper_from(ctx, at, &env, 2), last);
    SAME(dim_lower_from(ctx, at, &env, 2), K(0));
    SAME(dim_upper_from(ctx, at, &env, 3), add(mul(n, T), sub(T, K(1))));
    SAME(dim_lower(ctx, at, &env), K(0));
    cr_assert_null(dim_upper(ctx, at, &env));
    cr_assert(dim_ge0(ctx, sub(last, at), &env));
    cr_assert(dim_le(ctx, at, last, &env));
    cr_assert(!dim_ge0(ctx, sub(sub(last, at), K(1)), &env));
    cr_assert(dim_ge0(ctx, sub(K(4096), N), &model));
    cr_assert(!dim_ge0(ctx, sub(K(4095), N), &model));
    cr_assert(!dim_ge0(ctx, sub(K(4096), T), &model));
    cr_assert(dim_ge0(ctx, sub(add(mul(N, T), K(1)), add(N, T)), &model));
    cr_assert(!dim_ge0(ctx, S("unknown"), &env));
    cr_assert(!dim_ge0(ctx, S("unknown"), NULL));
    cr_assert(dim_ge0(ctx, mul(N, N), &model));
    SAME(dim_upper(ctx, mul(N, N), &model), K(4096 * 4096));
}

Test(dim, proofs_with_min_max_div_mod) {
    Dim N = S("N"), i = S("i"), j = S("j");
    DimRange range[] = {{N, K(1), NULL}, {i, K(0), sub(N, K(1))}, {j, K(0), K(15)}};
    DimEnv env = env_of(range, 3);
    cr_assert(dim_ge0(ctx, mn(i, j), &env));
    cr_assert(dim_ge0(ctx, sub(i, mn(i, j)), &env));
    cr_assert(dim_ge0(ctx, sub(mx(i, j), j), &env));
    cr_assert(dim_ge0(ctx, mx(sub(i, K(9)), K(0)), &env));
    cr_assert(!dim_ge0(ctx, mn(i, K(-1)), &env));
    cr_assert(!dim_ge0(ctx, sub(mn(i, j), K(1)), &env));
    cr_assert(dim_ge0(ctx, sub(sub(N, K(1)), mn(add(i, K(3)), sub(N, K(1)))), &env));
    cr_assert(dim_ge0(ctx, sub(i, mul(K(4), dv(i, K(4)))), &env));
    cr_assert(dim_ge0(ctx, sub(add(K(3), mul(K(4), dv(i, K(4)))), i), &env));
    cr_assert(!dim_ge0(ctx, sub(add(K(2), mul(K(4), dv(i, K(4)))), i), &env));
    Dim fours = dv(add(i, K(3)), K(4)), sevens = mul(K(7), dv(add(fours, K(6)), K(7)));
    cr_assert(dim_ge0(ctx, sub(sevens, fours), &env));
    cr_assert(dim_ge0(ctx, sub(add(fours, K(6)), sevens), &env));
    cr_assert(!dim_ge0(ctx, sub(add(fours, K(5)), sevens), &env));
    cr_assert(dim_ge0(ctx, sub(K(3), md(sub(K(0), i), K(4))), &env));
    cr_assert(dim_ge0(ctx, sub(i, md(i, K(8))), &env));
    cr_assert(dim_ge0(ctx, sub(K(7), md(i, K(8))), &env));
    cr_assert(dim_ge0(ctx, sub(K(3), md(j, K(4))), &env));
    SAME(dim_upper(ctx, dv(j, K(4)), &env), K(3));
    SAME(dim_upper(ctx, md(j, K(32)), &env), K(15));
    SAME(dim_upper(ctx, md(j, K(8)), &env), K(7));
    SAME(dim_lower(ctx, sub(K(3), j), &env), K(-12));
    Dim tiles = dim_ceildiv(ctx, N, K(64)), t = S("t"), r = S("r");
    DimRange tile[] = {{N, K(1), NULL}, {t, K(0), sub(tiles, K(1))}, {r, K(0), K(63)}};
    DimEnv tile_env = env_of(tile, 3);
    Dim at = add(mul(K(64), t), r);
    cr_assert(dim_le(ctx, at, add(N, K(62)), &tile_env));
    cr_assert(!dim_le(ctx, at, add(N, K(61)), &tile_env));
    cr_assert(dim_le(ctx, mul(K(64), t), sub(N, K(1)), &tile_env));
}

/* The same dim under other ranges, which stand in the same array, from another range on, or asked
 * for its other end, is another question. */
Test(dim, answers_are_of_their_questions) {
    Dim N = S("N"), i = S("i"), d = add(N, i), q = dv(i, K(8));
    DimRange range[] = {{N, K(1), K(9)}, {i, K(0), K(7)}};
    DimEnv env = env_of(range, 2), first = env_of(range, 1);
    for (int twice = 0; twice < 2; twice++) {
        range[1].hi = K(7);
        cr_assert(dim_ge0(ctx, sub(K(16), d), &env));
        SAME(dim_upper(ctx, d, &env), K(16));
        SAME(dim_lower(ctx, d, &env), K(1));
        SAME(dim_upper_from(ctx, d, &env, 1), add(N, K(7)));
        SAME(dim_upper(ctx, d, &first), add(i, K(9)));
        SAME(dim_simplify(ctx, q, &env), K(0));
        range[1].hi = K(8);
        cr_assert(!dim_ge0(ctx, sub(K(16), d), &env));
        SAME(dim_upper(ctx, d, &env), K(17));
        SAME(dim_simplify(ctx, q, &env), q);
        SAME(dim_simplify(ctx, q, NULL), q);
    }
}

Test(dim, simplify_under_ranges) {
    Dim J = S("J"), n = S("n"), l = S("l"), m = S("m"), N = S("N"), T = S("S"), s = S("s");
    DimRange range[] = {{J, K(0), K(9)}, {n, K(0), K(2)}, {l, K(0), K(15)},       {m, K(0), K(20)},
                        {T, K(1), NULL}, {N, K(1), NULL}, {s, K(0), sub(T, K(1))}};
    DimEnv env = env_of(range, 7);
    Dim at = add(mul(K(48), J), add(mul(K(16), n), l));
    SAME(dim_simplify(ctx, dv(at, K(48)), &env), J);
    SAME(dim_simplify(ctx, md(at, K(48)), &env), add(mul(K(16), n), l));
    SAME(dim_simplify(ctx, md(at, K(16)), &env), l);
    Dim wide = add(mul(K(16), m), l);
    SAME(dim_simplify(ctx, dv(wide, K(48)), &env), dv(m, K(3)));
    SAME(dim_simplify(ctx, md(wide, K(48)), &env), add(mul(K(16), md(m, K(3))), l));
    SAME(dim_simplify(ctx, dv(add(mul(m, T), s), T), &env), m);
    SAME(dim_simplify(ctx, md(add(mul(m, T), s), T), &env), s);
    SAME(dim_simplify(ctx, dv(add(mul(m, T), s), mul(N, T)), &env), dv(m, N));
    SAME(dim_simplify(ctx, md(add(mul(m, T), s), mul(N, T)), &env), add(mul(T, md(m, N)), s));
    SAME(dim_simplify(ctx, mn(s, T), &env), s);
    SAME(dim_simplify(ctx, mx(sub(s, T), K(0)), &env), K(0));
    SAME(dim_simplify(ctx, dv(add(l, K(32)), K(16)), &env), K(2));
    SAME(dim_simplify(ctx, dv(sub(l, K(16)), K(16)), &env), K(-1));
    SAME(dim_simplify(ctx, md(sub(l, K(16)), K(16)), &env), l);
    SAME(dim_simplify(ctx, dv(K(-1), add(mul(K(8), N), K(16))), &env), K(-1));
    SAME(dim_simplify(ctx, md(K(-1), add(mul(K(8), N), K(16))), &env), add(mul(K(8), N), K(15)));
    SAME(dim_simplify(ctx, dv(sub(s, T), T), &env), K(-1));
    SAME(dim_simplify(ctx, dv(K(-2), N), &env), dv(K(-2), N));
    SAME(dim_simplify(ctx, add(J, mul(N, mn(l, K(15)))), &env), add(J, mul(N, l)));
    SAME(dim_simplify(ctx, md(md(l, K(16)), K(5)), &env), md(l, K(5)));
}

/* ---- substitution, affine form -------------------------------------------------------------- */

Test(dim, substitutes_at_once) {
    Dim i = S("i"), j = S("j");
    DimSubst swap[] = {{i, j}, {j, i}};
    SAME(dim_subst(ctx, add(mul(K(3), i), dv(j, K(2))), swap, 2), add(mul(K(3), j), dv(i, K(2))));
    DimSubst split[] = {{i, add(mul(K(4), j), K(1))}};
    SAME(dim_subst(ctx, dv(i, K(4)), split, 1), j);
    SAME(dim_subst(ctx, mul(i, i), split, 1), add(mul(K(16), mul(j, j)), add(mul(K(8), j), K(1))));
}

Test(dim, replaces_terms) {
    Dim i = S("i"), j = S("j"), q = dv(i, j), both = mul(mn(i, K(1)), mx(i, j));
    SAME(dim_replace(ctx, add(mul(K(2), mul(q, j)), i), q, K(8)), add(mul(K(16), j), i));
    SAME(dim_replace(ctx, md(add(i, q), K(3)), q, K(8)), md(add(i, K(8)), K(3)));
    SAME(dim_replace(ctx, mul(q, q), q, j), mul(j, j));
    SAME(dim_replace(ctx, dv(i, mul(K(2), j)), q, K(8)), dv(i, mul(K(2), j)));
    SAME(dim_replace(ctx, mul(K(3), mul(j, both)), both, j), mul(K(3), mul(j, j)));
    SAME(dim_replace(ctx, mn(i, K(1)), both, j), mn(i, K(1)));
}

Test(dim, affine_form) {
    Dim i = S("i"), j = S("j"), N = S("N"), coef[2], rest, sym[] = {i, j};
    Dim d = add(mul(i, N), add(mul(K(3), j), add(dv(N, K(2)), K(5))));
    cr_assert(dim_affine(ctx, d, sym, 2, coef, &rest));
    SAME(coef[0], N);
    SAME(coef[1], K(3));
    SAME(rest, add(dv(N, K(2)), K(5)));
    cr_assert(!dim_affine(ctx, mul(i, j), sym, 2, coef, &rest));
    cr_assert(!dim_affine(ctx, mul(i, i), sym, 2, coef, &rest));
    cr_assert(!dim_affine(ctx, dv(i, K(2)), sym, 2, coef, &rest));
    cr_assert(!dim_affine(ctx, mul(N, mn(i, K(2))), sym, 2, coef, &rest));
    cr_assert(dim_affine(ctx, N, sym, 2, coef, &rest) && rest == N && dim_is(coef[0], 0));
}

static void collect(void *user, Dim sym) {
    strcat(user, dim_sym_name(sym));
}

Test(dim, symbols_once_each_by_name) {
    char names[32] = "";
    dim_symbols(add(mul(S("b"), S("a")), dv(add(S("c"), S("b")), mn(S("d"), S("a")))), collect,
                names);
    cr_assert_str_eq(names, "abcd");
}

/* ---- random expressions --------------------------------------------------------------------- */

enum { VARS = 4 };
typedef struct Point {
    int64_t v[VARS];
} Point;
static const char *const var_name[VARS] = {"N", "a", "b", "c"};

static bool value_at(void *user, Dim sym, int64_t *value) {
    const Point *p = user;
    for (int i = 0; i < VARS; i++) {
        if (strcmp(var_name[i], dim_sym_name(sym)) == 0) {
            *value = p->v[i];
            return true;
        }
    }
    return false;
}

static uint64_t seed = 12345;
static int rnd(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

/* A random dim and its value at two points, computed by plain arithmetic. N is positive, so it may
 * divide. */
static Dim random_dim(int depth, const Point *p, int64_t *v) {
    if (depth == 0 || rnd(6) == 0) {
        int k = rnd(VARS + 1);
        int64_t c = rnd(25) - 8;
        for (int e = 0; e < 2; e++) v[e] = k < VARS ? p[e].v[k] : c;
        return k < VARS ? S(var_name[k]) : K(c);
    }
    int64_t x[2], y[2];
    int op = rnd(9);
    Dim a = random_dim(depth - 1, p, x), b;
    if (op == 3 || op == 4) {
        static const int64_t by[] = {2, 3, 4, 6, 8, 12, 16, -4};
        int64_t c = by[rnd(8)];
        bool symbolic = rnd(3) == 0;
        b = symbolic ? S("N") : K(c);
        if (symbolic && rnd(2)) {
            b = mul(b, K(4));
            c = 4;
        } else if (symbolic) {
            c = 1;
        }
        for (int e = 0; e < 2; e++) y[e] = symbolic ? c * p[e].v[0] : c;
    } else {
        b = random_dim(depth - 1, p, y);
    }
    for (int e = 0; e < 2; e++) {
        int64_t q = 0;
        if (op == 3 || op == 4) {
            q = x[e] / y[e];
            if (x[e] % y[e] && (x[e] < 0) != (y[e] < 0)) q--;
        }
        v[e] = op == 0 || op == 7   ? x[e] + y[e]
               : op == 1 || op == 8 ? x[e] - y[e]
               : op == 2            ? x[e] * y[e]
               : op == 3            ? q
               : op == 4            ? x[e] - q * y[e]
               : op == 5            ? (x[e] < y[e] ? x[e] : y[e])
                                    : (x[e] > y[e] ? x[e] : y[e]);
    }
    switch (op) {
    case 0:
    case 7: return add(a, b);
    case 1:
    case 8: return sub(a, b);
    case 2: return mul(a, b);
    case 3: return dv(a, b);
    case 4: return md(a, b);
    case 5: return mn(a, b);
    default: return mx(a, b);
    }
}

static int64_t eval(Dim d, Point *p) {
    int64_t v;
    cr_assert(dim_eval(d, value_at, p, &v));
    return v;
}

Test(dim, random_values_agree) {
    for (int round = 0; round < 20000; round++) {
        Point p[2];
        int64_t v[2];
        for (int e = 0; e < 2; e++)
            for (int i = 0; i < VARS; i++) p[e].v[i] = i ? rnd(40) - 12 : rnd(9) + 1;
        Dim d = random_dim(1 + rnd(4), p, v);
        for (int e = 0; e < 2; e++)
            cr_assert_eq(eval(d, &p[e]), v[e], "%s is %ld, not %ld", dim_str(ctx, d),
                         (long)eval(d, &p[e]), (long)v[e]);
    }
}

/* Every answer of the prover against all points of a box: N in 1..3, a in 0..N-1, b in 0..5,
 * c in -2..2. */
static void check_box(Dim d, const DimEnv *env) {
    Dim simple = dim_simplify(ctx, d, env), low = dim_lower(ctx, d, env),
        high = dim_upper(ctx, d, env);
    Dim low_n = dim_lower_from(ctx, d, env, 1), high_n = dim_upper_from(ctx, d, env, 1);
    bool nonneg = dim_ge0(ctx, d, env);
    const char *text = dim_str(ctx, d);
    Point p;
    for (p.v[0] = 1; p.v[0] <= 3; p.v[0]++)
        for (p.v[1] = 0; p.v[1] < p.v[0]; p.v[1]++)
            for (p.v[2] = 0; p.v[2] <= 5; p.v[2]++)
                for (p.v[3] = -2; p.v[3] <= 2; p.v[3]++) {
                    int64_t v = eval(d, &p);
                    cr_assert(eval(simple, &p) == v, "%s became %s", text, dim_str(ctx, simple));
                    cr_assert(!low || eval(low, &p) <= v, "%s >= %s", text, dim_str(ctx, low));
                    cr_assert(!high || eval(high, &p) >= v, "%s <= %s", text, dim_str(ctx, high));
                    cr_assert(!low_n || eval(low_n, &p) <= v, "%s >= %s", text,
                              dim_str(ctx, low_n));
                    cr_assert(!high_n || eval(high_n, &p) >= v, "%s <= %s", text,
                              dim_str(ctx, high_n));
                    cr_assert(!nonneg || v >= 0, "%s >= 0", text);
                }
    cr_assert(!low || dim_is_const(low, NULL));
    cr_assert(!low_n || (!dim_uses(low_n, S("a")) && !dim_uses(low_n, S("c"))));
}

Test(dim, random_proofs_are_sound) {
    Dim N = S("N");
    DimRange range[] = {
        {N, K(1), K(3)}, {S("a"), K(0), sub(N, K(1))}, {S("b"), K(0), K(5)}, {S("c"), K(-2), K(2)}};
    DimEnv env = env_of(range, 4);
    for (int round = 0; round < 6000; round++) {
        Point p[2] = {{{1, 0, 0, 0}}, {{2, 1, 1, 1}}};
        int64_t v[2];
        check_box(random_dim(1 + rnd(3), p, v), &env);
    }
}

/* The same text whatever was made before: no address decides. */
Test(dim, order_is_by_name) {
    static const char *const text = "a*b*z + a*b + a + b/4 + min(a, z) + 7";
    for (int round = 0; round < 5; round++) {
        Ctx *other = ctx_new(NULL, NULL), *saved = ctx;
        ctx = other;
        for (int i = 0; i < 200 * round; i++) dim_mul(ctx, S(internf(ctx, "x%d", i)), K(i));
        const char *first[] = {"z", "b", "a"};
        for (int i = 0; i < 3; i++) S(first[(i + round) % 3]);
        Dim a = S("a"), b = S("b"), z = S("z");
        Dim part[] = {K(7), mul(z, mul(b, a)), mn(z, a), a, dv(b, K(4)), mul(b, a)};
        Dim d = K(0);
        for (int i = 0; i < 6; i++) d = add(d, part[(i * 5 + round) % 6]);
        IS(d, text);
        ctx = saved;
        ctx_free(other);
    }
}
