/* SPDX-License-Identifier: Apache-2.0 */
/* Index expressions as vectors of i64: what the lane, or values of the lanes, make different in
 * each lane. Parts that are equal in all lanes are computed once as scalars; parts seen before in
 * the body are used again. */
#include "c_nest.h"

bool varies(const CNest *c, Dim d) {
    return uses_lane(c, d) || uses_value(c, d, true);
}

static const char *vector_part(CNest *c, Dim d);

static const char *scalar_text(CNest *c, Dim d) {
    int mark = push_values(c, 0);
    const char *e = emit_dim_str(&c->names, d);
    names_pop(&c->names, mark);
    return str(c, "(i64)%s", e);
}

static const char *known_part(const CNest *c, Dim d) {
    for (int i = 0; i < c->vector.n; i++)
        if (c->vector.at[i].dim == d) return c->vector.at[i].text;
    return NULL;
}

static const char *note_part(CNest *c, Dim d, const char *text) {
    CVal v = named(c, I64, true, 0, text);
    vec_push(c->arena, &c->vector, (VectorDim){d, v.text});
    return v.text;
}

/* A Val of this body that is an index. */
static const char *symbol_part(CNest *c, Dim sym) {
    if (c->lane.var == sym) return str(c, "iota_%s", mask_type(c, 64));
    for (int i = 0; c->body && i < c->body->val.n; i++) {
        if (c->body->val.at[i].sym != sym) continue;
        CVal *v = &c->val[i];
        const char *x = v->type == BOOL ? str(c, "-%s", as_mask(c, v, 64)) : as_vector(c, v);
        if (v->type == I64 || v->type == BOOL) return x;
        return note_part(c, sym, str(c, "__builtin_convertvector(%s, %s)", x, mask_type(c, 64)));
    }
    BUG("symbol \"%s\" has no value in a vector", dim_sym_name(sym));
}

/* By a constant the compiler multiplies; each other one is a call, not many lanes of text. */
static const char *quotient_part(CNest *c, const Atom *a) {
    bool div = a->kind == ATOM_DIV;
    int64_t by;
    const char *x = vector_part(c, a->a);
    if (dim_is_const(a->b, &by) && by > 0 && (by & (by - 1)) == 0)
        return div ? str(c, "(%s >> %d)", x, __builtin_ctzll((uint64_t)by))
                   : str(c, "(%s & %lld)", x, (long long)by - 1);
    const char *type = mask_type(c, 64), *op = div ? "idiv" : "imod";
    if (varies(c, a->b))
        return str(c, "(%s)map3_v%d(%s, %s, %s)", type, c->lane.width, op, x, vector_part(c, a->b));
    if (dim_is_const(a->b, NULL))
        return str(c, "(%s)map2_v%d(%s, %s, %s)", type, c->lane.width, op, x, scalar_text(c, a->b));
    return str(c, "%s_v%d(%s, %s)", op, c->lane.width, x, scalar_text(c, a->b));
}

static const char *atom_part(CNest *c, const Atom *a) {
    if (a->kind == ATOM_SYM) return symbol_part(c, dim_sym(c->ctx, a->name));
    if (a->kind == ATOM_DIV || a->kind == ATOM_MOD) return quotient_part(c, a);
    const char *x = vector_part(c, a->a), *y = vector_part(c, a->b);
    return str(c, "sel_%s(%s %s %s, %s, %s)", mask_type(c, 64), x, a->kind == ATOM_MIN ? "<" : ">",
               y, x, y);
}

/* The varying atoms of a term, times what is equal in all lanes. */
static const char *term_part(CNest *c, const DimTerm *t) {
    const char *product = NULL;
    Dim rest = dim_const(c->ctx, t->coef);
    for (int i = 0; i < t->natoms; i++) {
        Dim d = dim_of_atom(c->ctx, t->atom[i]);
        if (!varies(c, d) && !known_part(c, d)) {
            rest = dim_mul(c->ctx, rest, d);
            continue;
        }
        const char *x = known_part(c, d);
        if (!x) x = note_part(c, d, atom_part(c, t->atom[i]));
        product = product ? str(c, "%s * %s", product, x) : x;
    }
    if (!product) return NULL;
    return dim_is(rest, 1) ? product : str(c, "%s * %s", product, scalar_text(c, rest));
}

/* The name of d as a vector. */
static const char *vector_part(CNest *c, Dim d) {
    const char *known = known_part(c, d), *sum = NULL, *type = mask_type(c, 64);
    if (known) return known;
    Dim rest = dim_const(c->ctx, 0);
    for (int i = 0; i < d->nterms; i++) {
        const char *x = term_part(c, &d->term[i]);
        if (!x)
            rest = dim_add(c->ctx, rest, dim_of_term(c->ctx, &d->term[i]));
        else
            sum = sum ? str(c, "%s + %s", sum, x) : x;
    }
    if (!sum) return note_part(c, d, str(c, "%s - (%s){0}", scalar_text(c, rest), type));
    if (!dim_is(rest, 0)) sum = str(c, "%s + %s", sum, scalar_text(c, rest));
    return note_part(c, d, sum);
}

const char *vector_dim(CNest *c, Dim d) {
    return vector_part(c, names_subst(&c->names, d));
}
