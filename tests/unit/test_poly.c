/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge to isl: disjointness, coverage, injectivity, bounds, with symbols and without. */
#include <criterion/criterion.h>

#include "ir/poly.h"

static Ctx *ctx;
static Dim N, S, i, j, k;
static DimRange range[3];
static DimEnv env;

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
static Dim dv(Dim a, int64_t b) {
    return dim_div(ctx, a, K(b));
}
static Dim md(Dim a, int64_t b) {
    return dim_mod(ctx, a, K(b));
}

/* N in 1..4096, S in 1.. */
static void setup(void) {
    ctx = ctx_new(NULL, NULL);
    N = dim_sym(ctx, "N"), S = dim_sym(ctx, "S");
    i = dim_sym(ctx, "i"), j = dim_sym(ctx, "j"), k = dim_sym(ctx, "k");
    range[0] = (DimRange){N, K(1), K(4096)};
    range[1] = (DimRange){S, K(1), NULL};
    env = (DimEnv){range, 2};
}

static void teardown(void) {
    ctx_free(ctx);
}

TestSuite(poly, .init = setup, .fini = teardown);

#define LIST(...) ((Dim[]){__VA_ARGS__})

static PolyRel rel2(Dim extent_i, Dim extent_j, Dim *index, int rank, Dim *store) {
    store[0] = i, store[1] = j, store[2] = extent_i, store[3] = extent_j;
    return (PolyRel){{2, store, store + 2, 0, NULL}, {rank, index, NULL, false}};
}

static PolyRel rel1(Dim extent, Dim *index, int rank, Dim *store) {
    store[0] = i, store[1] = extent;
    return (PolyRel){{1, store, store + 1, 0, NULL}, {rank, index, NULL, false}};
}

/* concat along dim 0: [0, N) and [N, N+S). */
Test(poly, concat_parts) {
    Dim m1[4], m2[4], m3[4];
    PolyRel a = rel2(N, K(8), LIST(i, j), 2, m1), b = rel2(S, K(8), LIST(add(i, N), j), 2, m2);
    PolyRel all = rel2(add(N, S), K(8), LIST(i, j), 2, m3);
    const PolyRel *both[] = {&a, &b};
    cr_assert_eq(poly_disjoint(ctx, &env, &a, &b), POLY_YES);
    cr_assert_eq(poly_disjoint(ctx, &env, &a, &all), POLY_NO);
    cr_assert_eq(poly_covered(ctx, &env, &all, both, 2), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, both, 1), POLY_NO);
    cr_assert_eq(poly_covered(ctx, &env, &b, both, 2), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &b, both, 1), POLY_NO);
    cr_assert_eq(poly_covered(ctx, &env, &b, both, 0), POLY_NO);
}

/* Even and odd elements. */
Test(poly, strides) {
    Dim m1[2], m2[2], m3[2];
    PolyRel even = rel1(N, LIST(mul(i, K(2))), 1, m1),
            odd = rel1(N, LIST(add(mul(i, K(2)), K(1))), 1, m2);
    PolyRel all = rel1(mul(N, K(2)), LIST(i), 1, m3);
    const PolyRel *both[] = {&even, &odd};
    cr_assert_eq(poly_disjoint(ctx, &env, &even, &odd), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, both, 2), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, both + 1, 1), POLY_NO);
    cr_assert_eq(poly_injective(ctx, &env, &even, NULL), POLY_YES);
}

/* i/16, i%16 together are injective, each alone is not. */
Test(poly, packed_index) {
    Dim m[2];
    PolyRel both = rel1(N, LIST(dv(i, 16), md(i, 16)), 2, m);
    cr_assert_eq(poly_injective(ctx, &env, &both, NULL), POLY_YES);
    PolyRel high = rel1(N, LIST(dv(i, 16)), 1, m);
    cr_assert_eq(poly_injective(ctx, &env, &high, NULL), POLY_NO);
    Dim m2[4];
    PolyRel flat = rel2(N, K(16), LIST(add(mul(i, K(16)), j)), 1, m2);
    cr_assert_eq(poly_injective(ctx, &env, &flat, NULL), POLY_YES);
    flat = rel2(N, K(17), LIST(add(mul(i, K(16)), j)), 1, m2);
    cr_assert_eq(poly_injective(ctx, &env, &flat, NULL), POLY_NO);
    flat = rel2(N, K(17), LIST(i), 1, m2);
    cr_assert_eq(poly_injective(ctx, &env, &flat, (bool[]){true, false}), POLY_YES);
    cr_assert_eq(poly_injective(ctx, &env, &flat, (bool[]){true, true}), POLY_NO);
    PolyRel blocks = rel2(N, K(16), LIST(dv(add(mul(i, K(16)), j), 16)), 1, m2);
    cr_assert_eq(poly_injective(ctx, &env, &blocks, (bool[]){true, false}), POLY_YES);
}

/* j <= i in the writer; a reader of the lower triangle is covered, one of the square is not. */
Test(poly, triangles) {
    Dim m1[4], m2[4], lower[] = {sub(i, j)}, upper[] = {sub(j, add(i, K(1)))};
    PolyRel w = rel2(S, S, LIST(i, j), 2, m1), r = rel2(S, S, LIST(i, j), 2, m2);
    const PolyRel *writes[] = {&w};
    w.domain.cons = lower, w.domain.ncons = 1;
    cr_assert_eq(poly_covered(ctx, &env, &r, writes, 1), POLY_NO);
    r.domain.cons = upper, r.domain.ncons = 1;
    cr_assert_eq(poly_disjoint(ctx, &env, &w, &r), POLY_YES);
    r.domain.cons = lower;
    cr_assert_eq(poly_covered(ctx, &env, &r, writes, 1), POLY_YES);
    cr_assert_eq(poly_disjoint(ctx, &env, &w, &r), POLY_NO);
}

/* min, max and quotients in extents and indices. */
Test(poly, tiles) {
    Dim m1[4], m2[2], at = add(mul(i, K(64)), j), cons[] = {sub(sub(N, K(1)), at)};
    PolyRel w = rel2(dim_ceildiv(ctx, N, K(64)), K(64), LIST(at), 1, m1),
            all = rel1(N, LIST(i), 1, m2);
    const PolyRel *writes[] = {&w};
    Dim shape[] = {N};
    w.access.shape = shape;
    cr_assert_eq(poly_inside(ctx, &env, &w), POLY_NO);
    w.domain.cons = cons, w.domain.ncons = 1;
    cr_assert_eq(poly_inside(ctx, &env, &w), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, writes, 1), POLY_YES);
    cr_assert_eq(poly_injective(ctx, &env, &w, NULL), POLY_YES);
    w.domain.ncons = 0;
    w.access.index = LIST(dim_min(ctx, at, sub(N, K(1))));
    cr_assert_eq(poly_inside(ctx, &env, &w), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, writes, 1), POLY_YES);
    cr_assert_eq(poly_injective(ctx, &env, &w, NULL), POLY_NO);
}

/* A convolution's padded read: points outside access nothing. */
Test(poly, clipped_reads) {
    Dim m1[4], m2[2], shape[] = {N};
    PolyRel r = rel2(N, K(3), LIST(sub(add(i, j), K(1))), 1, m1), w = rel1(N, LIST(i), 1, m2);
    const PolyRel *writes[] = {&w};
    r.access.shape = shape;
    cr_assert_eq(poly_inside(ctx, &env, &r), POLY_NO);
    cr_assert_eq(poly_covered(ctx, &env, &r, writes, 1), POLY_NO);
    r.access.clip = true;
    cr_assert_eq(poly_covered(ctx, &env, &r, writes, 1), POLY_YES);
    Dim half[2];
    PolyRel even = rel1(dv(add(N, K(1)), 2), LIST(mul(i, K(2))), 1, half);
    writes[0] = &even;
    cr_assert_eq(poly_covered(ctx, &env, &r, writes, 1), POLY_NO);
}

/* Products of symbols: N*S is a parameter; i*S cannot be said, and is never answered wrongly. */
Test(poly, products) {
    Dim m1[2], m2[2], NS = mul(N, S);
    PolyRel a = rel1(NS, LIST(i), 1, m1), b = rel1(S, LIST(add(i, NS)), 1, m2);
    cr_assert_eq(poly_disjoint(ctx, &env, &a, &b), POLY_YES);
    PolyRel all = rel1(add(NS, S), LIST(i), 1, (Dim[2]){0});
    const PolyRel *both[] = {&a, &b};
    cr_assert_eq(poly_covered(ctx, &env, &all, both, 2), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &all, both, 1), POLY_UNKNOWN);
    PolyRel first = rel1(N, LIST(i), 1, (Dim[2]){0});
    const PolyRel *whole[] = {&a};
    cr_assert_eq(poly_covered(ctx, &env, &first, whole, 1), POLY_YES);
    Dim m3[4];
    PolyRel flat = rel2(N, S, LIST(add(mul(i, S), j)), 1, m3);
    cr_assert_eq(poly_injective(ctx, &env, &flat, NULL), POLY_UNKNOWN);
    cr_assert_eq(poly_covered(ctx, &env, &flat, whole, 1), POLY_YES);
    cr_assert_eq(poly_disjoint(ctx, &env, &flat, &b), POLY_YES);
    cr_assert_eq(poly_disjoint(ctx, &env, &flat, &a), POLY_UNKNOWN);
    Dim shape[] = {NS}, square[] = {mul(i, i)};
    PolyRel odd = rel1(N, square, 1, (Dim[2]){0});
    odd.access.shape = shape;
    PolyRel beyond = rel1(S, LIST(add(mul(N, N), add(i, NS))), 1, (Dim[2]){0});
    cr_assert_eq(poly_disjoint(ctx, &env, &odd, &beyond), POLY_YES);
}

/* An unbounded symbol, an index that is a value: anywhere in the container. */
Test(poly, unknown_symbols) {
    Dim m1[2], m2[4];
    PolyRel a = rel1(N, LIST(add(i, dim_sym(ctx, "X"))), 1, m1),
            b = rel1(N, LIST(i), 1, (Dim[2]){0});
    cr_assert_eq(poly_disjoint(ctx, &env, &a, &b), POLY_NO);
    PolyRel gather = rel2(K(100), K(4), LIST(i, j), 2, m2),
            w = rel2(K(100), K(4), LIST(i, j), 2, (Dim[4]){0});
    const PolyRel *writes[] = {&w};
    cr_assert_eq(poly_covered(ctx, &env, &gather, writes, 1), POLY_YES);
    PolyRel scalar = {{0, NULL, NULL, 0, NULL}, {0, NULL, NULL, false}};
    const PolyRel *one[] = {&scalar};
    cr_assert_eq(poly_covered(ctx, &env, &scalar, one, 1), POLY_YES);
    cr_assert_eq(poly_covered(ctx, &env, &scalar, one, 0), POLY_NO);
    cr_assert_eq(poly_disjoint(ctx, &env, &scalar, &scalar), POLY_NO);
    cr_assert_eq(poly_injective(ctx, &env, &scalar, NULL), POLY_YES);
}

/* A later time step may read what earlier ones wrote, not its own. */
Test(poly, time) {
    Dim m1[2], m2[2], before[] = {sub(sub(k, K(1)), i)};
    range[2] = (DimRange){k, K(0), sub(S, K(1))};
    env.n = 3;
    PolyRel past = rel1(S, LIST(i), 1, m1), read = rel1(K(1), LIST(sub(k, K(1))), 1, m2);
    Dim shape[] = {S};
    past.domain.cons = before, past.domain.ncons = 1;
    read.access.shape = shape;
    const PolyRel *writes[] = {&past};
    cr_assert_eq(poly_covered(ctx, &env, &read, writes, 1), POLY_NO);
    read.access.clip = true;
    cr_assert_eq(poly_covered(ctx, &env, &read, writes, 1), POLY_YES);
    read.access.index = LIST(k);
    cr_assert_eq(poly_covered(ctx, &env, &read, writes, 1), POLY_NO);
}
