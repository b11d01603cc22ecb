/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences laid beside each other: warp finds the cheapest way through a matrix of costs,
 * bifurcate continues a text by a guess as far as that was right and looks where its end stood
 * before. */
#include "runtime/calls.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- warp ------------------------------------------------------------------------------------ */

enum { BOTH, ROW, COLUMN }; /* what a step of the way leaves behind */

/* A step for each pair of a row and a column, the costs up to two columns. */
int64_t weir_call_warp_scratch(const weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t rows = x->dims[x->rank - 2] + 1, columns = x->dims[x->rank - 1] + 1, steps, costs;
    return __builtin_mul_overflow(rows, columns, &steps) ||
                   __builtin_mul_overflow(rows, (int64_t)(2 * sizeof(float)), &costs) ||
                   __builtin_add_overflow(steps, costs, &steps)
               ? INT64_MAX
               : steps;
}

/* Fills the steps into places [column][row], row 0 and column 0 being in front of the matrix. */
static void walk(const float *x, int64_t rows, int64_t columns, float *cost, uint8_t *step) {
    float *before = cost, *here = cost + rows + 1;
    for (int64_t r = 0; r <= rows; r++) before[r] = r ? INFINITY : 0, step[r] = ROW;
    for (int64_t c = 1; c <= columns; c++) {
        uint8_t *s = step + c * (rows + 1);
        here[0] = INFINITY, s[0] = COLUMN;
        for (int64_t r = 1; r <= rows; r++) {
            float both = before[r - 1], row = here[r - 1], column = before[r];
            s[r] = both < row && both < column ? BOTH : row < both && row < column ? ROW : COLUMN;
            here[r] = x[(r - 1) * columns + c - 1] + (s[r] == BOTH  ? both
                                                      : s[r] == ROW ? row
                                                                    : column);
        }
        float *swap = before;
        before = here, here = swap;
    }
}

/* The way back from the last pair; written from its end when `to` is there. Returns its length. */
static int64_t way(const uint8_t *step, int64_t rows, int64_t columns, int32_t *to, int64_t n) {
    int64_t r = rows, c = columns, length = 0;
    for (; r > 0 || c > 0; length++) {
        if (to) to[n - 1 - length] = (int32_t)(r - 1), to[2 * n - 1 - length] = (int32_t)(c - 1);
        int s = r == 0 ? COLUMN : step[c * (rows + 1) + r];
        r -= s != COLUMN, c -= s != ROW;
    }
    return length;
}

void weir_call_warp(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    float *cost = c->scratch;
    uint8_t *step = (uint8_t *)(cost + 2 * (rows + 1));
    walk(x->data, rows, columns, cost, step);
    int64_t n = way(step, rows, columns, NULL, 0);
    way(step, rows, columns, c->out[0].data, n);
    c->define[0] = n;
}

/* ---- bifurcate ------------------------------------------------------------------------------- */

int64_t weir_call_bifurcate_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

/* Where `n` ids stand in the text from `from` on; -1: nowhere. */
static int64_t find(const int64_t *text, int64_t length, int64_t from, const int64_t *ids,
                    int64_t n) {
    for (int64_t i = from; i + n <= length; i++)
        if (!memcmp(text + i, ids, sizeof *ids * (size_t)n)) return i;
    return -1;
}

/* Behind the only place of the source that is the last ids, as few of least .. most as tell; -1. */
static int64_t place_of_end(const weir_call *c, const int64_t *ids, int64_t n) {
    const int64_t *text = c->in[0].data;
    int64_t length = c->in[0].dims[0];
    for (int64_t k = c->attr[0]; k <= c->attr[1] && k <= n; k++) {
        int64_t at = find(text, length, 0, ids + n - k, k);
        if (at < 0) return -1;
        if (at + k >= length || find(text, length, at + 1, ids + n - k, k) < 0) return at + k;
    }
    return -1;
}

void weir_call_bifurcate(weir_call *c) {
    const int64_t *text = c->in[0].data, *ids = c->in[1].data, *guess = c->in[3].data;
    int64_t length = c->in[0].dims[0], n = c->in[1].dims[0], same = 0;
    int64_t from = c->in[2].data ? *(const int64_t *)c->in[2].data : 0, *to = c->out[0].data;
    if (n) memmove(to, ids, sizeof *to * (size_t)n);
    if (guess) {
        int64_t most = c->in[3].dims[0];
        bool inside = from >= 0 && from <= length;
        while (inside && same < length - from && same < most && guess[same] == text[from + same])
            same++;
        int64_t more = same < most ? same + 1 : most;
        if (more) memcpy(to + n, guess, sizeof *to * (size_t)more);
        n += more;
    }
    *(int64_t *)c->out[1].data = place_of_end(c, to, n);
    c->define[0] = n;
}
