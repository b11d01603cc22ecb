/* SPDX-License-Identifier: Apache-2.0 */
/* A scale in front of a code goes into what it multiplies:
 *
 *     u8(rint((f32(sum) * s + bias) * k) + z)  =  u8(rint(f32(sum) * (s*k) + bias*k) + z)
 *
 * where s, bias and k are constant. What depends on weights alone is computed when compiling, so
 * that a product for each element goes; the roundings that differ decide ties only. It goes through
 * sums, greater and less of two, and temporaries that one map writes and nothing else reads.
 * Constants so large that they might overflow stay. */
#include <math.h>

#include "passes/quantize.h"

static const double largest = 0x1p64;

static bool is_weight(const Cont *c) {
    return (c->kind == CONT_PARAM || c->kind == CONT_LITERAL) && c->data && c->type == F32;
}

/* The greatest magnitude of a Val that literals and weights alone make; infinite: it may have any,
 * or what makes it is more. */
static double most(const Quantizing *q, const Map *m, int val) {
    const Val *v = &m->body.val.at[val];
    Bits bits;
    if (v->type != F32) return INFINITY;
    if (body_const_bits(&m->body, val, &bits)) return fabs(bits_to_double(F32, bits));
    if (v->kind == VAL_PRIM && v->prim == P_MUL)
        return most(q, m, v->arg[0]) * most(q, m, v->arg[1]);
    if (v->kind != VAL_READ || v->has_else || !is_weight(&q->c.flow->cont.at[v->read.cont]))
        return INFINITY;
    const Cont *c = &q->c.flow->cont.at[v->read.cont];
    int64_t n = c->data_bytes / (int64_t)sizeof(float);
    if ((double)n >= map_volume(m, 1)) return INFINITY;
    double greatest = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs((double)((const float *)c->data)[i]);
        if (!(x <= greatest)) greatest = isnan(x) ? INFINITY : x;
    }
    return greatest;
}

static bool is_factor(const Quantizing *q, const Map *m, int val, double k) {
    return most(q, m, val) * k < largest;
}

static int count_users(const Body *b, int val) {
    int n = 0;
    for (int v = 0; v < b->val.n; v++)
        for (int i = 0; b->val.at[v].kind == VAL_PRIM && i < prim_row(b->val.at[v].prim)->arity;
             i++)
            n += b->val.at[v].arg[i] == val;
    return n;
}

static bool writes_once(const Map *m) {
    return m->write.n == 1 && m->write.at[0].n == 1 && !m->write.at[0].combine;
}

/* The map that makes a temporary for the one read of it, or NULL. */
static Map *maker(const Quantizing *q, const Val *read) {
    const Uses *u = &q->c.uses;
    int cont = read->read.cont;
    if (read->has_else || q->c.flow->cont.at[cont].kind != CONT_TMP || u->held[cont]) return NULL;
    if (u->readers[cont].n != 1 || u->writers[cont].n != 1 || u->asked[cont]) return NULL;
    Map *m = q->c.flow->map.at[u->writers[cont].at[0]];
    return writes_once(m) && map_plain_write(m) ? m : NULL;
}

/* Can a Val be k times as much, k > 0, without a product more? */
static bool scales(const Quantizing *q, const Map *m, int val, double k) {
    const Val *v = &m->body.val.at[val];
    if (is_factor(q, m, val, k)) return true;
    if (v->type != F32 || count_users(&m->body, val) > 1) return false;
    if (v->kind == VAL_READ) {
        const Map *before = maker(q, v);
        return before && scales(q, before, before->write.at[0].val[0], k);
    }
    if (v->kind != VAL_PRIM) return false;
    bool first = (v->prim == P_MUL || v->prim == P_ADD || v->prim == P_SUB || v->prim == P_MAX ||
                  v->prim == P_MIN) &&
                 scales(q, m, v->arg[0], k);
    if (v->prim == P_MUL) return first || scales(q, m, v->arg[1], k);
    return first && scales(q, m, v->arg[1], k);
}

static void set_root(Map *m, int root) {
    body_prune(&m->body, &root, 1);
    m->write.at[0].val = arena_copy(m->body.arena, &root, sizeof root);
}

/* The Val times k, behind all others of the body. */
static int scaled(const Quantizing *q, Map *m, int val, double k) {
    Body *b = &m->body;
    Val v = b->val.at[val];
    Bits bits;
    if (body_const_bits(b, val, &bits)) return body_const(b, F32, bits_to_double(F32, bits) * k);
    if (is_factor(q, m, val, k)) return body_prim2(b, P_MUL, val, body_const(b, F32, k));
    if (v.kind == VAL_READ) {
        Map *before = maker(q, &v);
        set_root(before, scaled(q, before, before->write.at[0].val[0], k));
        return val;
    }
    if (v.prim != P_MUL) {
        int first = scaled(q, m, v.arg[0], k);
        return body_prim2(b, v.prim, first, scaled(q, m, v.arg[1], k));
    }
    int i = scales(q, m, v.arg[0], k) ? 0 : 1;
    int factor = scaled(q, m, v.arg[i], k);
    return i ? body_prim2(b, P_MUL, v.arg[0], factor) : body_prim2(b, P_MUL, factor, v.arg[1]);
}

/* The product with a positive constant k that is rounded to the code a map writes; -1: none. */
static int product_to_code(const Map *m, double *k) {
    const Body *b = &m->body;
    int val = m->write.at[0].val[0];
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_PRIM || v->prim != P_CVT || (v->type != U8 && v->type != I8)) return -1;
    v = &b->val.at[val = v->arg[0]];
    if (v->kind == VAL_PRIM && v->prim == P_ADD) v = &b->val.at[val = v->arg[0]];
    if (v->kind != VAL_PRIM || v->prim != P_RINT || count_users(b, val) > 1) return -1;
    v = &b->val.at[val = v->arg[0]];
    Bits bits;
    if (v->kind != VAL_PRIM || v->prim != P_MUL || v->type != F32 || count_users(b, val) > 1 ||
        !body_const_bits(b, v->arg[1], &bits))
        return -1;
    *k = bits_to_double(F32, bits);
    return isnormal(*k) && *k > 0 ? val : -1;
}

/* Copies what stands between the product and the code, with `value` in the product's place. */
static int code_of(Body *b, int val, int product, int value) {
    if (val == product) return value;
    Val v = b->val.at[val];
    int first = code_of(b, v.arg[0], product, value);
    if (v.prim == P_CVT) return body_cvt(b, v.type, first);
    return v.prim == P_ADD ? body_prim2(b, P_ADD, first, v.arg[1]) : body_prim1(b, P_RINT, first);
}

/* Looks for the one container of codes that a Val is made of, by element-wise maps and with
 * constants, going through so many Vals at most. */
static bool one_source(const Quantizing *q, const Map *m, int val, int *codes, int *left) {
    const Val *v = &m->body.val.at[val];
    const Uses *u = &q->c.uses;
    if (--*left < 0) return false;
    for (int k = 0; v->kind == VAL_PRIM && k < val_args(v); k++)
        if (!one_source(q, m, v->arg[k], codes, left)) return false;
    if (v->kind == VAL_PRIM || v->kind == VAL_CONST) return true;
    if (v->kind != VAL_READ || v->has_else) return false;
    int from = v->read.cont;
    const Cont *c = &q->c.flow->cont.at[from];
    if (c->type == U8 || c->type == I8) {
        if (*codes < 0) *codes = from;
        return *codes == from;
    }
    if (c->kind != CONT_TMP || u->held[from] || u->writers[from].n != 1) return false;
    const Map *before = q->c.flow->map.at[u->writers[from].at[0]];
    return writes_once(before) && one_source(q, before, before->write.at[0].val[0], codes, left);
}

bool of_one_code(const Quantizing *q, const Map *m) {
    enum { VALS_MOST = 256 };
    int codes = -1, left = VALS_MOST;
    return writes_once(m) && one_source(q, m, m->write.at[0].val[0], &codes, &left) && codes >= 0;
}

void take_in_scales(Quantizing *q) {
    uses_count(&q->c);
    for (int i = 0; i < q->c.flow->map.n; i++) {
        Map *m = q->c.flow->map.at[i];
        double k;
        int product = writes_once(m) && !of_one_code(q, m) ? product_to_code(m, &k) : -1;
        if (product < 0) continue;
        int value = m->body.val.at[product].arg[0];
        if (!scales(q, m, value, k)) continue;
        value = scaled(q, m, value, k);
        set_root(m, code_of(&m->body, m->write.at[0].val[0], product, value));
    }
}
