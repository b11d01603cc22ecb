/* SPDX-License-Identifier: Apache-2.0 */
/* Order on a GPU, by kernels of compiler/targets/cuda/order.in. Where few of a row are asked for
 * these are chosen first, from parts of it, until a block can sort them. Short rows, and slices of
 * several elements, are put in order by tiles of up to 1,024, each by a block, and runs of them
 * merged two by two, each element by a thread that looks for its place; elements of long rows are
 * sorted by the digits of their keys, the lowest first.
 *
 * Equal elements go by number everywhere, so results are those of the host's functions, bit for
 * bit. */
#include "runtime/cuda_calls.h"

enum { TILE = 1024, CHOICE = 4096, CHUNK = 2048, CHUNKS = 256, DIGITS = 256 };

Slices cuda_row_of(const void *x, int32_t dtype, int64_t n) {
    Slices s = {.x = x, .n = n, .row_inner = 1, .row_outer = n, .step = 1, .length = 1};
    s.inner = s.outer = 1;
    weir_key_kind(dtype, s.kind);
    return s;
}

/* A row's elements in so many parts for blocks, at most CHUNKS. */
static int64_t chunk_of(int64_t n) {
    return parts_of(parts_of(n, CHUNK), CHUNKS) * CHUNK;
}

Pairs cuda_take_pairs(Room *r, int64_t n, int64_t rows) {
    Pairs p = {.apart = n};
    int64_t all, chunks;
    if (__builtin_mul_overflow(n, rows, &all)) all = INT64_MAX;
    if (__builtin_mul_overflow(n ? parts_of(n, chunk_of(n)) : 0, rows, &chunks)) chunks = INT64_MAX;
    p.now = cuda_take(r, all, sizeof *p.now);
    p.other = cuda_take(r, all, sizeof *p.other);
    p.counts = cuda_take(r, chunks, DIGITS * sizeof *p.counts);
    return p;
}

static void swap_pairs(Pairs *p) {
    weir_pair *now = p->now;
    p->now = p->other;
    p->other = now;
}

/* By tiles and merges. */
static void sort_tiles(weir_frame *f, const Slices *s, int64_t rows, int64_t keep, Pairs *p) {
    int64_t tile = 2;
    while (tile < TILE && tile < s->n) tile *= 2;
    int64_t tiles = rows * parts_of(s->n, tile);
    RUN_TILES(WEIR_TOOL_SORT, parts_of(tiles, TILE / tile), SLICES(s), word(p->now), (uint64_t)rows,
              (uint64_t)tile, (uint64_t)keep);
    for (int64_t run = tile; run < s->n; run *= 2) {
        int64_t held = run < keep ? run : keep;
        RUN(WEIR_TOOL_MERGE, rows * parts_of(s->n, run) * held, SLICES(s), word(p->now),
            word(p->other), (uint64_t)rows, (uint64_t)run, (uint64_t)keep);
        swap_pairs(p);
    }
}

/* Bytes of a key that tell elements apart. Of eight bits two: a NaN's key has all bits, which that
 * of a number may have in the lowest byte. */
static int digits_of(const Slices *s) {
    int bits = (int)(s->kind[0] & 255);
    return bits <= 8 ? 2 : bits / 8;
}

/* A few of each part of a row are chosen, and of these again. */
static void sort_chosen(weir_frame *f, const Slices *s, int64_t rows, int64_t keep, Pairs *p) {
    Slices left = *s;
    for (const weir_pair *from = NULL; left.n > TILE; from = p->now) {
        int64_t chunks = parts_of(left.n, CHOICE), last = left.n - (chunks - 1) * CHOICE;
        int64_t held = (chunks - 1) * keep + (last < keep ? last : keep);
        RUN_TILES(WEIR_TOOL_SELECT, rows * chunks, SLICES(&left), word(from), word(p->other),
                  (uint64_t)held, (uint64_t)chunks, (uint64_t)keep, (uint64_t)digits_of(s));
        left.n = held;
        swap_pairs(p);
    }
    left.x = NULL;
    p->apart = left.n;
    sort_tiles(f, &left, rows, keep, p);
}

/* Digit by digit. Keys of 32 bits go with their places in one word until the last. */
static void sort_digits(weir_frame *f, const Slices *s, int64_t rows, int digits, Pairs *p) {
    enum { ELEMENTS, WORDS, PAIRS };
    int64_t chunk = chunk_of(s->n), chunks = parts_of(s->n, chunk);
    int form = ELEMENTS;
    for (int d = 0; d < digits; d++) {
        int next = d + 1 == digits || (s->kind[0] & 255) > 32 ? PAIRS : WORDS;
        RUN_TILES(WEIR_TOOL_COUNT, rows * chunks, SLICES(s), word(p->now), (uint64_t)form,
                  (uint64_t)chunks, (uint64_t)chunk, 8 * (uint64_t)d, word(p->counts));
        RUN_TILES(WEIR_TOOL_DIGIT, rows * chunks, SLICES(s), word(p->now), (uint64_t)form,
                  word(p->other), (uint64_t)next, (uint64_t)chunks, (uint64_t)chunk,
                  8 * (uint64_t)d, word(p->counts));
        swap_pairs(p);
        form = next;
    }
}

/* Merging takes a launch for each doubling, digits take two each. Places are numbers of 32 bits but
 * where runs are merged. */
void cuda_sort(weir_frame *f, const Slices *s, int64_t rows, int64_t keep, int digits, Pairs *p) {
    int apart = s->length == 1 && s->n > TILE && s->n <= INT32_MAX;
    if (!digits) digits = digits_of(s);
    if (apart && keep <= TILE)
        sort_chosen(f, s, rows, keep, p);
    else if (apart && s->n > TILE * digits)
        sort_digits(f, s, rows, digits, p);
    else
        sort_tiles(f, s, rows, keep, p);
}
