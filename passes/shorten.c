/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `shorten`: elementary functions and what stands around them, in fewer operations.
 *
 * GELU, x / 2 * (1 + erf(x / sqrt(2))), is what most of the elements of a transformer or of a
 * ConvNeXt go through. 1 + erf(z) is erfc(-z), which takes three quarters of erf's operations, as
 * it need not be exact where erf is small. A quotient by a constant that only elementary functions
 * read is a product with the reciprocal, an ulp and a half off at most: these jump nowhere. */
#include "passes/compose.h"

static bool is_prim(const Val *v, Prim p) {
    return v->kind == VAL_PRIM && v->prim == p && v->type == F32;
}

static bool is_one(const Body *b, int val) {
    Bits bits;
    return body_const_bits(b, val, &bits) && bits_to_double(b->val.at[val].type, bits) == 1;
}

/* Do only elementary functions read it? */
static bool only_functions(const Map *m, int val) {
    const Body *b = &m->body;
    bool only = !b->val.at[val].sym;
    for (int v = val + 1; v < b->val.n; v++)
        for (int k = 0; k < val_args(&b->val.at[v]); k++)
            if (b->val.at[v].arg[k] == val)
                only &= b->val.at[v].kind == VAL_PRIM && prim_row(b->val.at[v].prim)->defined;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].nstate; k++) only &= m->write.at[w].val[k] != val;
    return only;
}

/* The reciprocal by which Val `val` may be multiplied in place of a division; false: it is none. */
static bool find_reciprocal(const Map *m, int val, float *by) {
    const Val *v = &m->body.val.at[val];
    return is_prim(v, P_DIV) && body_reciprocal(&m->body, v->arg[1], by) && only_functions(m, val);
}

/* What erf is taken of where Val `val` is 1 + erf; -1: it is something else. */
static int erf_beside_one(const Body *b, int val) {
    const Val *v = &b->val.at[val];
    for (int i = 0; i < 2 && is_prim(v, P_ADD); i++) {
        const Val *erf = &b->val.at[v->arg[i]];
        if (is_prim(erf, P_ERF) && is_one(b, v->arg[1 - i])) return erf->arg[0];
    }
    return -1;
}

/* What takes the place of Val `val`, in the body `out`, whose Vals `number` has; -1: it stays. */
static int shorter(const Map *m, int val, Body *out, const int *number) {
    const Val *v = &m->body.val.at[val];
    float by;
    int of = erf_beside_one(&m->body, val);
    if (of >= 0) return body_prim1(out, P_ERFC, body_prim1(out, P_NEG, number[of]));
    if (!find_reciprocal(m, val, &by)) return -1;
    return body_prim2(out, P_MUL, number[v->arg[0]], body_const(out, F32, by));
}

static void shorten_map(Editing *e, Map *m) {
    const Body *from = &m->body;
    Body out = {.arena = e->arena};
    int *number = NEW_ARRAY(e->arena, int, from->val.n + 1), n = 0;
    for (int v = 0; v < from->val.n; v++) {
        number[v] = shorter(m, v, &out, number);
        n += number[v] >= 0;
        if (number[v] < 0) number[v] = body_copy_val(&out, &from->val.at[v], number);
    }
    if (!n) return;
    for (int w = 0; w < m->write.n; w++) {
        Write *wr = &m->write.at[w];
        int *val = arena_copy(e->arena, wr->val, (size_t)wr->nstate * sizeof *val);
        for (int k = 0; k < wr->nstate; k++) val[k] = number[val[k]];
        wr->val = val;
    }
    m->body = out;
    map_rewrite(e, m, NULL, 0, NULL, NULL);
}

Flow *pass_shorten(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_shorten(Arena *arena, const Flow *flow, const PassEnv *env) {
    Editing e = {.arena = arena, .flow = flow_clone(arena, flow)};
    if (env->math == MATH_STRICT) return e.flow;
    for (int i = 0; i < e.flow->map.n; i++) shorten_map(&e, e.flow->map.at[i]);
    return e.flow;
}
