/* SPDX-License-Identifier: Apache-2.0 */
/* Where accesses are in their buffers. Unrolled iterations touch places that lie a number of
 * elements or some sizes of the model apart: what loops' variables say of these is computed once,
 * as a variable of the scope at hand, and so are sums of sizes. Neither the text nor what a
 * compiler has to do then grows with their terms. */
#include "c_nest.h"

enum { SEVERAL = 2 };

static const char *sum_of(CNest *c, Dim sum) {
    if (sum->nterms < SEVERAL) return emit_dim_str(&c->names, sum);
    for (int i = c->spot.n - 1; i >= 0; i--)
        if (c->spot.at[i].sum == sum) return c->spot.at[i].name;
    const char *name = str(c, "o%d", c->fresh++);
    put_line(c, "const %s %s = %s;", c->index, name, emit_dim_str(&c->names, sum));
    vec_push(c->arena, &c->spot, ((Spot){sum, name, c->scope}));
    return name;
}

/* Sizes come first, which no loop changes; a number last, as a displacement. */
const char *emit_offset(CNest *c, Dim flat) {
    Dim at = names_subst(&c->names, flat), moving = names_from(&c->names, at, c->nsymbol);
    if (!c->form->spots || moving->nterms < SEVERAL) return emit_dim_str(&c->names, at);
    int64_t number = 0;
    Dim sizes = dim_sub(c->ctx, at, moving);
    for (int i = 0; i < sizes->nterms; i++)
        if (!sizes->term[i].natoms) number = sizes->term[i].coef;
    sizes = dim_addc(c->ctx, sizes, -number);
    const char *text = sum_of(c, moving);
    if (!dim_is(sizes, 0)) text = str(c, "%s + %s", sum_of(c, sizes), text);
    if (number) text = str(c, "%s + %lld", text, (long long)number);
    return str(c, "(%s)", text);
}
