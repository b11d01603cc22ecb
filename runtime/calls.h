/* SPDX-License-Identifier: Apache-2.0 */
/* The irregular kernels, one pair of functions per row of ir/call.def (which says what they do). */
#ifndef WEIR_CALLS_H
#define WEIR_CALLS_H

#include "runtime/call.h"

/* Rows lo .. hi - 1. */
typedef struct weir_share {
    int64_t lo, hi;
} weir_share;

/* The rows that this part of a call makes. `work`: elements looked at for each; the first part does
 * what is too little to share. */
static inline weir_share weir_share_of(const weir_call *c, int64_t rows, int64_t work) {
    enum { SHARED = 4096 };
    if (c->parts < 2 || (work < SHARED && rows * work < SHARED))
        return (weir_share){0, c->part ? 0 : rows};
    return (weir_share){rows * c->part / c->parts, rows * (c->part + 1) / c->parts};
}

#define WEIR_CALL(name)                                                                            \
    weir_call_fn weir_call_##name;                                                                 \
    weir_call_scratch_fn weir_call_##name##_scratch
WEIR_CALL(bifurcate);
WEIR_CALL(box);
WEIR_CALL(box_dims);
WEIR_CALL(coupling);
WEIR_CALL(image_decode);
WEIR_CALL(image_size);
WEIR_CALL(lookup);
WEIR_CALL(map_get);
WEIR_CALL(map_length);
WEIR_CALL(map_make);
WEIR_CALL(map_values);
WEIR_CALL(nms);
WEIR_CALL(nonzero);
WEIR_CALL(pair_join);
WEIR_CALL(pair_parts);
WEIR_CALL(refuse);
WEIR_CALL(scatter_elements);
WEIR_CALL(scatter_nd);
WEIR_CALL(seq_at);
WEIR_CALL(seq_concat);
WEIR_CALL(seq_concat_dims);
WEIR_CALL(seq_empty);
WEIR_CALL(seq_erase);
WEIR_CALL(seq_insert);
WEIR_CALL(seq_length);
WEIR_CALL(seq_split);
WEIR_CALL(slots);
WEIR_CALL(string_concat);
WEIR_CALL(string_fields);
WEIR_CALL(string_from);
WEIR_CALL(string_match);
WEIR_CALL(string_normalize);
WEIR_CALL(string_split);
WEIR_CALL(string_to);
WEIR_CALL(tfidf);
WEIR_CALL(topk);
WEIR_CALL(trees);
WEIR_CALL(unbox);
WEIR_CALL(unique);
WEIR_CALL(value);
WEIR_CALL(warp);
WEIR_CALL(zip_map);

#endif
