/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose rows threads may make apart: the parts together are what one call makes, to the bit.
 * And keys and n-grams found by slots, beside looking at all of them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/calls.h"

static uint32_t state = 1;

static uint32_t draw(uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static weir_tensor tensor(int32_t dtype, void *data, int rank, int64_t rows, int64_t columns) {
    return (weir_tensor){.data = data, .dtype = dtype, .rank = rank, .dims = {rows, columns}};
}

/* Part `part` of `parts`, with scratch of its own. */
static void make(weir_call c, weir_call_fn *kernel, weir_call_scratch_fn *scratch, int part,
                 int parts) {
    c.part = part, c.parts = parts;
    c.scratch = malloc((size_t)scratch(&c) + 1);
    kernel(&c);
    cr_assert_eq(c.status, WEIR_OK, "%s", c.reason);
    free(c.scratch);
}

enum { PARTS = 3 };

/* The results of bytes[i] each by one call, by parts in some order; `little`: the first part makes
 * all of it. */
static void check_parts(weir_call *c, weir_call_fn *kernel, weir_call_scratch_fn *scratch,
                        const int64_t *bytes, bool little) {
    void *want[2] = {NULL, NULL};
    make(*c, kernel, scratch, 0, 1);
    for (int i = 0; i < c->nout; i++) {
        want[i] = malloc((size_t)bytes[i]);
        memcpy(want[i], c->out[i].data, (size_t)bytes[i]);
        memset(c->out[i].data, 0x55, (size_t)bytes[i]);
    }
    for (int part = little ? 0 : PARTS - 1; part >= 0; part--)
        make(*c, kernel, scratch, part, PARTS);
    for (int i = 0; i < c->nout; i++) {
        cr_assert_eq(memcmp(want[i], c->out[i].data, (size_t)bytes[i]), 0, "result %d", i);
        free(want[i]);
    }
}

Test(apart, topk) {
    enum { N = 90, INNER = 70, K = 20 };
    static float x[N * INNER], y[K * INNER];
    static int64_t at[K * INNER];
    for (int i = 0; i < N * INNER; i++) x[i] = (float)draw(50);
    for (int inner = 1; inner <= INNER; inner += INNER - 1) {
        weir_tensor in = tensor(WEIR_F32, x, 2, N, inner),
                    out[] = {tensor(WEIR_F32, y, 2, K, inner), tensor(WEIR_I64, at, 2, K, inner)};
        weir_call c = {.nin = 1, .nout = 2, .in = &in, .out = out, .attr = (int64_t[]){0, 1}};
        check_parts(&c, weir_call_topk, weir_call_topk_scratch,
                    (int64_t[]){K * inner * 4, K * inner * 8}, inner == 1);
    }
}

/* Elements of less than a byte share bytes: one thread makes all rows. */
Test(apart, halves_of_bytes) {
    enum { ROWS = 101, N = 75, K = 3 };
    static uint8_t x[ROWS * N / 2 + 1], y[ROWS * K / 2 + 1];
    static int64_t at[ROWS * K];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)draw(256);
    weir_tensor in = tensor(WEIR_U4, x, 2, ROWS, N),
                out[] = {tensor(WEIR_U4, y, 2, ROWS, K), tensor(WEIR_I64, at, 2, ROWS, K)};
    weir_call c = {.nin = 1, .nout = 2, .in = &in, .out = out, .attr = (int64_t[]){1, 1}};
    check_parts(&c, weir_call_topk, weir_call_topk_scratch, (int64_t[]){ROWS * K / 2, ROWS * K * 8},
                true);
}

Test(apart, coupling) {
    enum { ROWS = 70, CLASSES = 5, PAIRS = CLASSES * (CLASSES - 1) / 2 };
    static float p[ROWS * PAIRS], to[ROWS * CLASSES];
    for (int i = 0; i < ROWS * PAIRS; i++) p[i] = (float)(1 + draw(98)) / 100;
    for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
        weir_tensor in = tensor(WEIR_F32, p, 2, rows, PAIRS),
                    out = tensor(WEIR_F32, to, 2, rows, CLASSES);
        weir_call c = {.nin = 1, .nout = 1, .in = &in, .out = &out};
        check_parts(&c, weir_call_coupling, weir_call_coupling_scratch,
                    (int64_t[]){rows * CLASSES * 4}, rows == 1);
    }
}

/* Trees of one node and two leaves, a vote each. */
Test(apart, trees) {
    enum { ROWS = 301, FEATURES = 4, TREES = 20 };
    static float x[ROWS * FEATURES], split[3 * TREES], weight[2 * TREES], member[1], to[ROWS];
    static int32_t node[3 * TREES][4], first[2 * TREES + 1], target[2 * TREES], root[TREES];
    for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)draw(100);
    for (int t = 0; t < TREES; t++) {
        int yes = TREES + 2 * t;
        root[t] = t, split[t] = (float)draw(100);
        memcpy(node[t], (int32_t[]){(int)draw(FEATURES), 0, yes, yes + 1}, sizeof *node);
        for (int i = 0; i < 2; i++) {
            memcpy(node[yes + i], (int32_t[]){0, 0, yes + i, yes + i}, sizeof *node);
            first[2 * t + i + 1] = 2 * t + i + 1, weight[2 * t + i] = (float)draw(1000) / 7;
        }
    }
    for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
        weir_tensor in[] = {tensor(WEIR_F32, x, 2, rows, FEATURES),
                            tensor(WEIR_F32, split, 1, 3 * TREES, 0),
                            tensor(WEIR_I32, node, 2, 3 * TREES, 4),
                            tensor(WEIR_I32, first, 1, 2 * TREES + 1, 0),
                            tensor(WEIR_I32, target, 1, 2 * TREES, 0),
                            tensor(WEIR_F32, weight, 1, 2 * TREES, 0),
                            tensor(WEIR_F32, member, 1, 0, 0),
                            tensor(WEIR_I32, root, 1, TREES, 0)},
                    out = tensor(WEIR_F32, to, 2, rows, 1);
        weir_call c = {.nin = 8, .nout = 1, .in = in, .out = &out, .attr = (int64_t[]){1, 0}};
        check_parts(&c, weir_call_trees, weir_call_trees_scratch, (int64_t[]){rows * 4}, rows == 1);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void make_slots(const weir_tensor *pool, const weir_tensor *start, int32_t *slot,
                       int64_t slots) {
    weir_tensor in[] = {*pool, *start}, out = tensor(WEIR_I32, slot, 1, slots, 0);
    weir_call c = {.nin = 2, .nout = 1, .in = in, .out = &out};
    make(c, weir_call_slots, weir_call_slots_scratch, 0, 1);
}

Test(apart, lookup) {
    enum { N = 5000, KEYS = 100, SLOTS = 256 };
    static int32_t x[N], key[KEYS], slot[SLOTS];
    static int64_t to[N];
    for (int i = 0; i < N; i++) x[i] = (int)draw(200) - 100;
    for (int i = 0; i < KEYS; i++) key[i] = (int)draw(200) - 100;
    weir_tensor keys = tensor(WEIR_I32, key, 1, KEYS, 0),
                in[] = {tensor(WEIR_I32, x, 1, N, 0), keys, tensor(WEIR_I32, slot, 1, SLOTS, 0)},
                out = tensor(WEIR_I64, to, 1, N, 0);
    weir_call c = {.nin = 3, .nout = 1, .in = in, .out = &out};
    make_slots(&keys, &(weir_tensor){0}, slot, SLOTS);
    check_parts(&c, weir_call_lookup, weir_call_lookup_scratch, (int64_t[]){8 * N}, false);
    for (int i = 0; i < N; i++) {
        int k = KEYS - 1;
        while (k >= 0 && key[k] != x[i]) k--;
        cr_assert_eq(to[i], k);
    }
    in[0].dims[0] = out.dims[0] = 9;
    check_parts(&c, weir_call_lookup, weir_call_lookup_scratch, (int64_t[]){8 * 9}, true);
}

/* Tables that no model has, but a file may hold: they tell nothing wrong and end. */
Test(apart, bad_slots) {
    static int64_t x[] = {7, 8}, key[] = {7, 9}, to[2];
    int32_t slot[4] = {1, 1, 1, 1};
    weir_tensor keys = tensor(WEIR_I64, key, 1, 2, 0), from = tensor(WEIR_I64, x, 1, 2, 0),
                in[] = {from, keys, tensor(WEIR_I32, slot, 1, 4, 0)},
                out = tensor(WEIR_I64, to, 1, 2, 0);
    weir_call c = {.nin = 3, .nout = 1, .in = in, .out = &out};
    make(c, weir_call_lookup, weir_call_lookup_scratch, 0, 1);
    cr_assert_eq(to[0], 0);
    cr_assert_eq(to[1], -1);
    memcpy(slot, (int32_t[]){3, -5, INT32_MAX, INT32_MIN}, sizeof slot);
    make(c, weir_call_lookup, weir_call_lookup_scratch, 0, 1);
    cr_assert_eq(to[0], -1);
    in[2].dims[0] = 0;
    weir_call_lookup(&c);
    cr_assert_eq(c.status, WEIR_E_ARGUMENT);
    weir_tensor few[] = {keys, {0}}, one = tensor(WEIR_I32, slot, 1, 1, 0);
    weir_call full = {.nin = 2, .nout = 1, .in = few, .out = &one};
    weir_call_slots(&full);
    cr_assert_eq(full.status, WEIR_E_ARGUMENT);
}

/* How often n-gram k (of n elements from `gram` on) stands in a row, by elements 1 .. skips + 1
 * apart. */
static int count(const int64_t *row, int columns, const int64_t *gram, int n, int skips) {
    int found = 0;
    for (int step = 1; step <= (n == 1 ? 1 : skips + 1); step++)
        for (int at = 0; at + (n - 1) * step < columns; at++) {
            int i = 0;
            while (i < n && row[at + i * step] == gram[i]) i++;
            found += i == n;
        }
    return found;
}

Test(apart, tfidf) {
    enum { ROWS = 90, COLUMNS = 40, ONES = 6, TWOS = 9, ALL = ONES + TWOS, SKIPS = 2, SLOTS = 32 };
    static int64_t x[ROWS * COLUMNS], pool[ONES + 2 * TWOS], start[] = {0, ONES}, index[ALL];
    static float to[ROWS * ALL];
    static int32_t slot[SLOTS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = draw(10);
    for (int i = 0; i < ALL; i++) index[i] = (i + 4) % ALL;
    for (int i = 0; i < ONES; i++) pool[i] = i;
    for (int i = 0; i < TWOS; i++) pool[ONES + 2 * i] = i, pool[ONES + 2 * i + 1] = draw(10);
    weir_tensor in[] = {tensor(WEIR_I64, x, 2, ROWS, COLUMNS),
                        tensor(WEIR_I64, pool, 1, ONES + 2 * TWOS, 0),
                        tensor(WEIR_I64, start, 1, 2, 0),
                        tensor(WEIR_I32, slot, 1, SLOTS, 0),
                        tensor(WEIR_I64, index, 1, ALL, 0),
                        {0}},
                out = tensor(WEIR_F32, to, 2, ROWS, ALL);
    weir_call c = {.nin = 6, .nout = 1, .in = in, .out = &out, .attr = (int64_t[]){1, 2, SKIPS, 0}};
    make_slots(&in[1], &in[2], slot, SLOTS);
    check_parts(&c, weir_call_tfidf, weir_call_tfidf_scratch, (int64_t[]){4 * ROWS * ALL}, false);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < ALL; k++) {
            int n = k < ONES ? 1 : 2, from = k < ONES ? k : ONES + 2 * (k - ONES);
            cr_assert_eq(to[r * ALL + index[k]],
                         (float)count(x + r * COLUMNS, COLUMNS, pool + from, n, SKIPS));
        }
    in[4].dims[0] = ALL - 1; /* an n-gram without an index */
    int64_t hashes[COLUMNS];
    c.scratch = hashes;
    weir_call_tfidf(&c);
    cr_assert_eq(c.status, WEIR_E_INDEX);
}
