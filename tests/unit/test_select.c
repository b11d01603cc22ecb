/* SPDX-License-Identifier: Apache-2.0 */
/* The irregular kernels that select elements, beside the plainest way to do the same: rows with
 * many equal elements, NaN and both zeros, of types with a loop of their own and without. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/calls.h"
#include "runtime/keys.h"

enum { MOST = 10000 };

static uint32_t state = 1;

static uint32_t draw(uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

/* One of a few numbers, so that equal ones are common; a float also NaN and -0. */
static void fill(int32_t type, void *x, int64_t n, uint32_t kinds) {
    static const float rare[] = {-0.0f, 0.0f};
    for (int64_t i = 0; i < n; i++) {
        int64_t v = (int64_t)draw(kinds) - kinds / 3;
        if (type == WEIR_F32)
            ((float *)x)[i] = draw(40) == 0 ? __builtin_nanf("")
                              : draw(9)     ? (float)v
                                            : rare[draw(2)];
        if (type == WEIR_F64) ((double *)x)[i] = (double)v;
        if (type == WEIR_I64) ((int64_t *)x)[i] = v;
        if (type == WEIR_I32) ((int32_t *)x)[i] = (int32_t)v;
        if (type == WEIR_U8) ((uint8_t *)x)[i] = (uint8_t)(v < 0 ? 0 : v);
    }
}

static weir_call call(const weir_tensor *in, int nin, weir_tensor *out, int nout,
                      const int64_t *attr, int64_t *define) {
    return (weir_call){
        .nin = nin, .nout = nout, .in = in, .out = out, .attr = attr, .define = define};
}

/* Runs a kernel with as much scratch as it asks for. */
static void run(weir_call *c, weir_call_fn *kernel, weir_call_scratch_fn *scratch) {
    c->scratch = malloc((size_t)scratch(c) + 1);
    kernel(c);
    free(c->scratch);
}

/* How many elements of a row come before element i of it. */
static int64_t rank_of(const weir_tensor *x, int64_t first, int64_t step, int64_t n, int64_t i,
                       bool largest) {
    uint64_t mine = weir_key(x->dtype, x->data, first + i * step);
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++) {
        uint64_t other = weir_key(x->dtype, x->data, first + j * step);
        before += other == mine ? j < i : largest ? other > mine : other < mine;
    }
    return before;
}

static void check_topk(int32_t type, int64_t n, int64_t inner, int64_t k, bool largest,
                       uint32_t kinds) {
    static double x[MOST], y[MOST];
    static int64_t index[MOST];
    fill(type, x, n * inner, kinds);
    weir_tensor in = {.data = x, .dtype = type, .rank = 2, .dims = {n, inner}}, out[2] = {in, in};
    out[0].data = y, out[1].data = index, out[1].dtype = WEIR_I64;
    out[0].dims[0] = out[1].dims[0] = k;
    int64_t attr[] = {0, largest}, define[1];
    weir_call c = call(&in, 1, out, 2, attr, define);
    run(&c, weir_call_topk, weir_call_topk_scratch);
    cr_assert_eq(c.status, WEIR_OK);
    for (int64_t o = 0; o < inner; o++)
        for (int64_t i = 0; i < k; i++) {
            int64_t from = index[i * inner + o];
            cr_assert_eq(rank_of(&in, o, inner, n, from, largest), i,
                         "type %d, %ld of %ld, place %ld", type, (long)k, (long)n, (long)i);
            cr_assert_eq(weir_key(type, y, i * inner + o), weir_key(type, x, from * inner + o));
        }
}

Test(select, topk) {
    static const int32_t types[] = {WEIR_F32, WEIR_F64, WEIR_I64, WEIR_I32, WEIR_U8};
    static const int64_t sizes[] = {1, 7, 33, 100, 700}, kept[] = {1, 2, 5, 40, 100, 700};
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < 5; s++)
            for (int k = 0; k < 6; k++)
                for (int way = 0; way < 4; way++)
                    if (kept[k] <= sizes[s])
                        check_topk(types[t], sizes[s], way & 1 ? 3 : 1, kept[k], way & 2,
                                   k % 2 ? 10 : 100000);
}

/* Long rows that lie across others are looked at where they lie. */
Test(select, topk_across) {
    check_topk(WEIR_F32, 5000, 2, 20, true, 100000);
    check_topk(WEIR_F64, 5000, 2, 3, false, 1000);
    check_topk(WEIR_I64, 4500, 2, 40, true, 30);
    check_topk(WEIR_U8, 5000, 2, 20, true, 200);
}

Test(select, nonzero) {
    static const int32_t types[] = {WEIR_F32, WEIR_F64, WEIR_I64, WEIR_I32, WEIR_U8};
    static double x[MOST];
    static int64_t at[3 * MOST];
    for (int t = 0; t < 10; t++) {
        int64_t dims[] = {2, t < 5 ? 3 : 1, t < 5 ? 411 : 1100}, n = dims[0] * dims[1] * dims[2],
                found = 0, define[1];
        fill(types[t % 5], x, n, 4);
        weir_tensor in = {.data = x, .dtype = types[t % 5], .rank = 3},
                    out = {.data = at, .dtype = WEIR_I64, .rank = 2};
        memcpy(in.dims, dims, sizeof dims);
        weir_call c = call(&in, 1, &out, 1, NULL, define);
        run(&c, weir_call_nonzero, weir_call_nonzero_scratch);
        double zero = 0;
        for (int64_t i = 0; i < n; i++) {
            if (weir_key(in.dtype, x, i) == weir_key(in.dtype, &zero, 0)) continue;
            int64_t place = 0;
            for (int d = 0; d < 3; d++) place = place * dims[d] + at[d * define[0] + found];
            cr_assert_eq(place, i);
            found++;
        }
        cr_assert_eq(found, define[0]);
    }
}

Test(select, unique) {
    static double x[MOST], y[MOST];
    static int64_t first[MOST], inverse[MOST], counts[MOST];
    for (int sorted = 0; sorted < 2; sorted++)
        for (int64_t n = 1; n < MOST; n = n * 5 / 2 + 1) {
            fill(WEIR_F32, x, n, 50);
            int64_t attr[] = {-1, sorted}, define[1], all = 0;
            weir_tensor in = {.data = x, .dtype = WEIR_F32, .rank = 1, .dims = {n}},
                        out[4] = {in, in, in, in};
            int64_t *results[] = {NULL, first, inverse, counts};
            out[0].data = y;
            for (int k = 1; k < 4; k++) out[k].data = results[k], out[k].dtype = WEIR_I64;
            weir_call c = call(&in, 1, out, 4, attr, define);
            run(&c, weir_call_unique, weir_call_unique_scratch);
            for (int64_t i = 0; i < n; i++) {
                int64_t k = inverse[i];
                cr_assert(k >= 0 && k < define[0] && first[k] <= i);
                cr_assert_eq(weir_key(WEIR_F32, y, k), weir_key(WEIR_F32, x, i));
            }
            for (int64_t k = 0; k < define[0]; k++) {
                all += counts[k];
                if (k == 0) continue;
                uint64_t before = weir_key(WEIR_F32, y, k - 1), here = weir_key(WEIR_F32, y, k);
                cr_assert(sorted ? before < here : first[k - 1] < first[k]);
            }
            cr_assert_eq(all, n);
        }
}
