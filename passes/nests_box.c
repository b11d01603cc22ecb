/* SPDX-License-Identifier: Apache-2.0 */
/* Which operands of steps are copied as boxes: rows and places in them step through memory at one
 * distance each, as an engine that copies boxes of tensors wants it. */
#include "passes/nests_warps.h"

/* Does the index step by one along var? */
static bool steps_by_one(const Warps *w, Dim index, Dim var) {
    Dim coef, rest;
    return dim_affine(w->lo->ctx, index, &var, 1, &coef, &rest) && dim_is(coef, 1);
}

static bool is_within(const Warps *w, Dim index, Dim extent) {
    DimEnv env = lowering_env(w->lo);
    Dim room = dim_addc(w->lo->ctx, dim_sub(w->lo->ctx, extent, index), -1);
    return dim_ge0(w->lo->ctx, index, &env) && dim_ge0(w->lo->ctx, room, &env);
}

/* Rows may be the number of all leading indices: then those behind the first that tells them apart
 * stay inside, so that what is beyond the last row is beyond the buffer. */
static bool goes_down(const Warps *w, const Buf *b, const Access *a, Dim var) {
    int first = -1, last = -1;
    for (int k = 0; k < buf_rank(b) - 1; k++) {
        if (!dim_uses(a->at[k], var)) continue;
        first = first < 0 ? k : first;
        last = k;
    }
    if (first < 0) return false;
    if (first == last) return steps_by_one(w, a->at[first], var);
    Dim row = a->at[0];
    for (int k = 1; k <= last; k++) {
        if (k <= first ? !dim_is(b->box[k - 1], 1) : !is_within(w, a->at[k], b->box[k]))
            return false;
        row = dim_add(w->lo->ctx, dim_mul(w->lo->ctx, row, b->box[k]), a->at[k]);
    }
    return steps_by_one(w, lowering_simplify(w->lo, row), var);
}

bool warps_box(Warps *w, const Operand *o) {
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    int64_t depth = w->plan->reduced.block, piece = 8 * PAD_BYTES / dtype_bits(o->type);
    if (!o->swizzled || o->lanes != piece) return false;
    Dim side = lowering_var(lo, "s", warps_const(w, o->side->block));
    Dim part = lowering_var(lo, "p", warps_const(w, depth));
    Dim block = lowering_var(lo, "k", warps_const(w, INT32_MAX));
    Dim outer = o->along ? side : part, inner = o->along ? part : side;
    Access a = warps_memory(w, o, sum(w, o->first, side), sum(w, times(w, block, depth), part));
    const Buf *b = &lo->nest->buf.at[a.cont];
    int rank = buf_rank(b);
    Dim last = rank >= 2 ? a.at[rank - 1] : NULL;
    bool is = last && !b->base && steps_by_one(w, last, inner) && !dim_uses(last, outer) &&
              dim_is(dim_mod(lo->ctx, b->box[rank - 1], warps_const(w, piece)), 0) &&
              goes_down(w, b, &a, outer);
    for (int k = 0; is && k < rank - 1; k++) is = !dim_uses(a.at[k], inner);
    lo->env.n = mark;
    return is;
}
