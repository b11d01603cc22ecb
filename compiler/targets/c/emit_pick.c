/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of elements that do not lie in a row, put together from vectors that do. */
#include "compiler/targets/c/c_nest.h"

/* The row of lanes from element `at` on of those that every step-th is sifted from, `before` of
 * which lie in front of it: no element behind the last lane's. */
static const char *sifted_row(CNest *c, const Access *a, const char *at, int64_t step, int before) {
    DType t = c->nest->buf.at[a->cont].type;
    const char *type = raw_type(c, t), *name = c->buf[a->cont].name;
    if (c->lane.kind == MASK_NONE) return str(c, "*(const %su *)(%s + %s)", type, name, at);
    return str(c, "(%s)loadn_%s(%s + %s, %lld * %s - %lld)", type, mask_type(c, value_bits(t)),
               name, at, (long long)step, c->lane.count, (long long)(step - 1 + before));
}

/* Every step-th element: rows that reach from the first to the last and no further, sifted one
 * after the other. */
CVal read_sifted(CNest *c, const Access *a, Dim first, int64_t step) {
    DType t = c->nest->buf.at[a->cont].type;
    int w = c->lane.width;
    const char *type = raw_type(c, t), *row = NULL;
    check_step(c, "reads", a, first, step);
    for (int k = 0; k < step; k++) {
        const char *at = emit_offset(c, dim_addc(c->ctx, first, k * (w - 1)));
        const char *next = str(c, "x%d", c->fresh++);
        put_line(c, "const %s %s = %s;", type, next, sifted_row(c, a, at, step, k * (w - 1)));
        Text lanes = {.arena = c->arena};
        for (int l = 0; l < w; l++) {
            int64_t e = step * l, in = e / (w - 1) < step ? e / (w - 1) : step - 1,
                    at_row = e - in * (w - 1);
            text_printf(&lanes, ", %lld",
                        (long long)(in == k             ? w + at_row
                                    : in == 0 && k == 1 ? at_row
                                                        : l));
        }
        if (k > 0) next = str(c, "__builtin_shufflevector(%s, %s%s)", row, next, text_str(&lanes));
        row = next;
        if (k > 0 && k + 1 < step) {
            row = str(c, "x%d", c->fresh++);
            put_line(c, "const %s %s = %s;", type, row, next);
        }
    }
    return loaded_vector(c, t, row);
}

/* Elements of one vector, in another order or several the same. It lies a multiple of lanes from
 * the begin of a container of whole vectors. */
bool read_picked(CNest *c, const Access *a, Dim flat, CVal *out) {
    int64_t begin, step, size, w = c->lane.width;
    const Buf *b = &c->nest->buf.at[a->cont];
    Dim first = at_lane(c, flat, 0), lanes = dim_const(c->ctx, w);
    Text order = {.arena = c->arena};
    if (c->lane.kind != MASK_NONE || is_packed(b->type) || b->type == BOOL) return false;
    if (!b->rank || !dim_is_const(b->box[b->rank - 1], &size) || size % w) return false;
    if (!dim_is_const(dim_mod(c->ctx, first, lanes), &begin)) return false;
    for (int l = 0; l < w; l++) {
        Dim apart = dim_sub(c->ctx, at_lane(c, flat, l), first);
        if (!dim_is_const(apart, &step) || begin + step < 0 || begin + step >= w) return false;
        text_printf(&order, ", %lld", (long long)(begin + step));
    }
    Dim row = dim_add(c->ctx, dim_addc(c->ctx, first, -begin), c->lane.var);
    CVal v = read_shared(c, a, row);
    *out = loaded_vector(
        c, b->type, str(c, "__builtin_shufflevector(%s, %s%s)", v.text, v.text, text_str(&order)));
    return true;
}
