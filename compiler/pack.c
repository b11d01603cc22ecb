/* SPDX-License-Identifier: Apache-2.0 */
/* Packing a parameter into its layout.
 *
 * A layout's storage address is a sum of one function per logical dim (i/c, i%c, i+k times strides), so
 * a table per dim, filled by evaluating the layout along that dim alone, gives every address by additions. */
#include <string.h>

#include "compiler/weights.h"

typedef struct OneDim {
    int dim;
    int64_t value;
    Ctx *ctx;
} OneDim;

static bool value_of(void *user, Dim sym, int64_t *value) {
    const OneDim *o = user;
    *value = sym == flow_layout_sym(o->ctx, o->dim) ? o->value : 0;
    return true;
}

static int64_t const_of(Ctx *ctx, const Cont *c, Dim d) {
    int64_t v;
    if (!dim_is_const(d, &v))
        fail(ctx, E_UNSUPPORTED, "parameter \"%s\" has a size that is not constant", c->name);
    return v;
}

/* Linear storage address of the element that has `value` at `dim` and 0 elsewhere. */
static int64_t address(Ctx *ctx, const Cont *c, int dim, int64_t value) {
    OneDim o = {dim, value, ctx};
    int64_t at = 0, part = 0;
    for (int k = 0; k < c->layout->rank; k++) {
        dim_eval(c->layout->map[k], value_of, &o, &part);
        at = at * const_of(ctx, c, c->layout->box[k]) + part;
    }
    return at;
}

int64_t weights_bytes(const Flow *flow, int cont) {
    const Cont *c = &flow->cont.at[cont];
    Dim box[RANK_MAX];
    int rank = cont_storage(flow->ctx, c, box);
    return dtype_bytes(c->type, const_of(flow->ctx, c, dim_product(flow->ctx, box, rank)));
}

static void fill_storage(const Cont *c, int64_t count, void *to) {
    if (!c->layout->has_fill || !c->layout->fill) {
        memset(to, 0, (size_t)dtype_bytes(c->type, count));
        return;
    }
    for (int64_t i = 0; i < count; i++) mem_set(c->type, to, i, c->layout->fill);
}

static void copy_row(const Cont *c, int64_t from, const int64_t *table, int64_t base, int64_t n, void *to) {
    if (dtype_bits(c->type) == 32) {
        const uint32_t *src = (const uint32_t *)c->data + from;
        uint32_t *dst = (uint32_t *)to + base;
        for (int64_t i = 0; i < n; i++) memcpy(&dst[table[i]], &src[i], 4);
        return;
    }
    for (int64_t i = 0; i < n; i++) mem_set(c->type, to, base + table[i], mem_get(c->type, c->data, from + i));
}

static void pack_layout(Ctx *ctx, const Cont *c, void *to) {
    Arena *arena = arena_new(ctx);
    int64_t extent[RANK_MAX], index[RANK_MAX] = {0}, *table[RANK_MAX], count = 1, rows = 1, storage = 1;
    int64_t origin = address(ctx, c, 0, 0);
    for (int k = 0; k < c->layout->rank; k++) storage *= const_of(ctx, c, c->layout->box[k]);
    for (int k = 0; k < c->rank; k++) {
        extent[k] = const_of(ctx, c, c->shape[k]);
        count *= extent[k];
        if (k < c->rank - 1) rows *= extent[k];
        table[k] = NEW_ARRAY(arena, int64_t, extent[k] + 1);
        for (int64_t i = 0; i < extent[k]; i++) table[k][i] = address(ctx, c, k, i) - origin;
    }
    fill_storage(c, storage, to);
    int last = c->rank - 1;
    for (int64_t r = 0; r < rows && count; r++) {
        int64_t base = origin;
        for (int k = 0; k < last; k++) base += table[k][index[k]];
        copy_row(c, r * extent[last], table[last], base, extent[last], to);
        for (int k = last - 1; k >= 0 && ++index[k] == extent[k]; k--) index[k] = 0;
    }
    arena_free(arena);
}

void weights_pack(Ctx *ctx, const Flow *flow, int cont, void *to) {
    const Cont *c = &flow->cont.at[cont];
    if (c->layout && c->rank > 0)
        pack_layout(ctx, c, to);
    else
        memcpy(to, c->data, (size_t)weights_bytes(flow, cont));
}
