/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as unsigned keys that order as their values do: what sorting kernels compare. */
#ifndef WEIR_KEYS_H
#define WEIR_KEYS_H

#include "runtime/call.h"

/* Element i of a packed array of `dtype`. -0 equals +0, NaN is the greatest. Not for strings and
 * complex. */
uint64_t weir_key(int32_t dtype, const void *data, int64_t i);
/* How it is made of an element: bits | (0 unsigned, 1 signed, 2 a float) << 8 | the code of NaN <<
 * 16; magnitudes of floats above kind[1] are NaN. */
void weir_key_kind(int32_t dtype, uint64_t kind[2]);
/* Of a complex type that of its parts, of others itself. */
int32_t weir_part(int32_t dtype);
/* Below, equal to or above 0 as a comes before b, equals it or comes after, by bytes. */
int weir_text_order(weir_string a, weir_string b);
/* Copies element i of `from` to place k of `to`. */
void weir_move(int32_t dtype, void *to, int64_t k, const void *from, int64_t i);
/* Stable ascending sort of order[0..n-1] by key[order[i]]... `less(user, a, b)`: is a before b? */
typedef int weir_less(void *user, int64_t a, int64_t b);
void weir_sort(int64_t *order, int64_t *spare, int64_t n, weir_less *less, void *user);

typedef struct weir_pair {
    uint64_t key;
    int64_t index;
} weir_pair;
/* Elements first, first + step, ... of a packed array. */
typedef struct weir_line {
    int32_t dtype;
    const void *data;
    int64_t first, step;
} weir_line;
/* Gives each pair the key of the element of the line that its index names, xor `flip` (~0: in the
 * opposite order). */
void weir_key_pairs(const weir_line *l, uint64_t flip, weir_pair *pairs, int64_t n);
/* Stable ascending sort by key of which the k first pairs are wanted: those behind them are
 * unspecified. `spare` has room for n more. */
void weir_sort_pairs(weir_pair *pairs, weir_pair *spare, int64_t n, int64_t k);

#endif
