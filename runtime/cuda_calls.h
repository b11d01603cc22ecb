/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the calls that run on a GPU: launches, scratch (cuda_calls.c), order (cuda_order.c). */
#ifndef WEIR_CUDA_CALLS_H
#define WEIR_CUDA_CALLS_H

#include "runtime/calls.h"
#include "runtime/cuda.h"
#include "runtime/keys.h"

/* ---- launches -------------------------------------------------------------------------------- */

enum { CUDA_THREADS = 256, CUDA_BLOCKS = 1 << 16 };

static inline uint64_t word(const void *at) {
    return (uint64_t)(uintptr_t)at;
}
static inline int64_t parts_of(int64_t n, int64_t size) {
    return n / size + (n % size != 0);
}
void cuda_launch(weir_frame *f, int tool, int64_t blocks, const uint64_t *arg, size_t n);

/* Of `work` numbers, each a thread's; in blocks of a tile each. */
#define RUN(tool, work, ...)                                                                       \
    do {                                                                                           \
        int64_t wanted = parts_of(work, CUDA_THREADS);                                             \
        RUN_TILES(tool, wanted < CUDA_BLOCKS ? wanted : CUDA_BLOCKS, __VA_ARGS__);                 \
    } while (0)
#define RUN_TILES(tool, tiles, ...)                                                                \
    do {                                                                                           \
        const uint64_t words[] = {__VA_ARGS__};                                                    \
        cuda_launch(f, tool, tiles, words, sizeof words / sizeof *words);                          \
    } while (0)

/* ---- scratch --------------------------------------------------------------------------------- */

/* Takes parts of a piece of memory, or (at NULL) counts what they need. */
typedef struct Room {
    char *at;
    int64_t bytes;
} Room;

void *cuda_take(Room *r, int64_t n, int64_t each);
Room cuda_room_of(weir_frame *f, weir_call *c, int64_t need);

/* ---- order ----------------------------------------------------------------------------------- */

/* As order.in says. */
typedef struct Slices {
    const void *x;
    uint64_t kind[2];
    int64_t flip, n, row_inner, row_outer, step, length, inner, outer;
} Slices;
#define SLICES(s)                                                                                  \
    word((s)->x), (s)->kind[0], (s)->kind[1], (uint64_t)(s)->flip, (uint64_t)(s)->n,               \
        (uint64_t)(s)->row_inner, (uint64_t)(s)->row_outer, (uint64_t)(s)->step,                   \
        (uint64_t)(s)->length, (uint64_t)(s)->inner, (uint64_t)(s)->outer

/* Elements that lie one behind the other, one row or several of them. */
Slices cuda_row_of(const void *x, int32_t dtype, int64_t n);

/* Slices and their keys, of which the lowest `bits` of the type count. */
typedef struct Pairs {
    weir_pair *now, *other;
    uint32_t *counts;
    int64_t apart; /* rows of `now`, once they are sorted */
} Pairs;
Pairs cuda_take_pairs(Room *r, int64_t n, int64_t rows);
/* The first `keep` of each row, in order, at the front of its part of p->now; keys differ in their
 * lowest `digits` bytes alone (0: in any). */
void cuda_sort(weir_frame *f, const Slices *s, int64_t rows, int64_t keep, int digits, Pairs *p);

#endif
