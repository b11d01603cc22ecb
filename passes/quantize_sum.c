/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of decoded codes become sums of codes. A value is decoded when it is
 *
 *     f32(i32(code) - zero) * scale
 *
 * and where neither scale depends on what is summed over,
 *
 *     sum (f32(a - za)*sa) * (f32(b - zb)*sb)  =  f32(sum (a - za)*(b - zb)) * (sa*sb)
 *
 * up to the rounding that the left side makes in every term and the right side twice; the integer
 * sum is exact, its terms being few enough. What is outside a box and was 0 is the zero point.
 * Floats of 8 bits that steps of warps multiply are such codes, too, without zero points: their
 * products are exact in f32, in which they are summed.
 *
 * And where a value becomes a code, u8(rint(x / c) + z) with a constant c, the division is a
 * product with 1/c: the quotient's last bit decides ties only. */
#include <math.h>

#include "passes/quantize.h"

bool is_float_code(const Quantizing *q, DType t) {
    const Machine *m = q->env->machine;
    for (int i = 0; i < m->nstep; i++)
        if (m->step[i]->a == t && dtype_is_float(t) && dtype_bits(t) == 8) return true;
    return false;
}

/* f32(code), or that less 0. */
static bool decoded_float(const Quantizing *q, const Body *b, int val, Decoded *d) {
    const Val *v = &b->val.at[val];
    Bits bits;
    if (v->kind == VAL_PRIM && v->prim == P_SUB && body_const_bits(b, v->arg[1], &bits) && !bits)
        v = &b->val.at[val = v->arg[0]];
    if (v->kind != VAL_PRIM || v->prim != P_CVT || v->type != F32) return false;
    d->value = val;
    d->term = (CodeTerm){v->arg[0], -1};
    return is_float_code(q, b->val.at[v->arg[0]].type);
}

static bool decoded_cvt(const Quantizing *q, const Body *b, int val, Decoded *d) {
    const Val *v = &b->val.at[val];
    if (decoded_float(q, b, val, d)) return true;
    if (v->kind != VAL_PRIM || v->prim != P_CVT || v->type != F32) return false;
    d->value = v->arg[0];
    return code_term(b, v->arg[0], &d->term);
}

static bool decoded_val(const Quantizing *q, const Body *b, int val, Decoded *d) {
    const Val *v = &b->val.at[val];
    d->scale = -1;
    if (decoded_cvt(q, b, val, d)) return true;
    for (int i = 0; i < 2 && v->kind == VAL_PRIM && v->prim == P_MUL && v->type == F32; i++) {
        d->scale = v->arg[1 - i];
        if (decoded_cvt(q, b, v->arg[i], d)) return true;
    }
    return false;
}

/* ---- the map that decodes a container ------------------------------------------------------- */

const Map *decoder_of(const Quantizing *q, int cont, Decoded *d) {
    int writer = q->c.uses.writer[cont];
    const Map *m = writer < 0 ? NULL : q->c.flow->map.at[writer];
    const Access *to = m ? map_plain_write(m) : NULL;
    if (!to || !writes_whole(q->c.flow, m, to)) return NULL;
    if (!decoded_val(q, &m->body, m->write.at[0].val[0], d)) return NULL;
    const Val *code = &m->body.val.at[d->term.code];
    if (code->kind != VAL_READ || code->has_else || access_by_value(m, &code->read)) return NULL;
    if (d->scale >= 0 && !is_outer_val(m, d->scale)) return NULL;
    if (d->term.zero >= 0 && !is_outer_val(m, d->term.zero)) return NULL;
    return m;
}

bool decodes_same_box(const Quantizing *q, const Map *m, const Access *from, const Access *at) {
    const Cont *c = &q->c.flow->cont.at[from->cont];
    const Access *to = &m->write.at[0].to[0];
    for (int k = 0; k < to->rank; k++)
        if (access_dim(m, to, k) < 0 && !dim_is_const(at->at[k], NULL)) return false;
    for (int k = 0; k < from->rank; k++) {
        int d = access_dim(m, from, k);
        if (d < 0 ? !dim_is(c->shape[k], 1) : m->dim.at[d].extent != c->shape[k]) return false;
    }
    return access_covers(m, from);
}

static bool uses_no_dims(const Map *m, int val) {
    const Val *v = &m->body.val.at[val];
    for (int k = 0; v->kind == VAL_READ && k < v->read.rank; k++)
        if (!dim_is_const(v->read.at[k], NULL)) return false;
    for (int a = 0; v->kind == VAL_PRIM && a < prim_row(v->prim)->arity; a++)
        if (!uses_no_dims(m, v->arg[a])) return false;
    return v->kind != VAL_INDEX;
}

/* Does a scale or zero point of decoder p, read at `at`, stay the same while r sums? */
static bool fixed_in_sum(const Map *r, const Access *at, const Map *p, int val) {
    const Access *to = &p->write.at[0].to[0];
    const Val *v = &p->body.val.at[val];
    for (int a = 0; v->kind == VAL_PRIM && a < prim_row(v->prim)->arity; a++)
        if (!fixed_in_sum(r, at, p, v->arg[a])) return false;
    if (v->kind != VAL_READ) return true;
    for (int k = 0; k < v->read.rank; k++)
        for (int j = 0; j < to->rank; j++) {
            int dim = access_dim(p, to, j);
            if (dim < 0 || !dim_uses(v->read.at[k], p->dim.at[dim].sym)) continue;
            for (int d = 0; d < r->dim.n; d++)
                if (map_reduces(r, d) && dim_uses(at->at[j], r->dim.at[d].sym)) return false;
        }
    return true;
}

/* A factor of r's sum is decoded in place: a code of which type; or DT_NONE. */
static DType decoded_here(const Quantizing *q, const Map *r, int val) {
    Decoded d;
    if (!decoded_val(q, &r->body, val, &d)) return DT_NONE;
    const Val *code = &r->body.val.at[d.term.code];
    bool fixed = code->kind == VAL_READ && (d.scale < 0 || is_outer_val(r, d.scale)) &&
                 (d.term.zero < 0 || is_outer_val(r, d.term.zero));
    return fixed ? code->type : DT_NONE;
}

/* The same of a read of what was decoded. */
static DType decoded_before(const Quantizing *q, const Map *r, const Val *v) {
    Decoded d;
    Bits bits;
    const Map *p = access_by_value(r, &v->read) ? NULL : decoder_of(q, v->read.cont, &d);
    if (!p) return DT_NONE;
    if (d.scale >= 0 && !fixed_in_sum(r, &v->read, p, d.scale)) return DT_NONE;
    if (d.term.zero >= 0 && !fixed_in_sum(r, &v->read, p, d.term.zero)) return DT_NONE;
    const Val *code = &p->body.val.at[d.term.code];
    bool same = !v->has_else || (body_const_bits(&r->body, v->arg[0], &bits) && bits == 0 &&
                                 decodes_same_box(q, p, &code->read, &v->read) &&
                                 (d.term.zero < 0 || uses_no_dims(p, d.term.zero)));
    return same ? code->type : DT_NONE;
}

static DType decoded_factor(const Quantizing *q, const Map *r, int val) {
    const Val *v = &r->body.val.at[val];
    return v->kind == VAL_READ ? decoded_before(q, r, v) : decoded_here(q, r, val);
}

/* ---- decoding where it is read -------------------------------------------------------------- */

/* Replaces the dims of decoder p by the indices of a read of what it writes. */
static int decoder_dims(const Quantizing *q, const Map *p, const Access *read, DimSubst *subst) {
    const Access *to = &p->write.at[0].to[0];
    int n = 0;
    for (int k = 0; k < to->rank; k++) {
        int dim = access_dim(p, to, k);
        if (dim >= 0) subst[n++] = (DimSubst){p->dim.at[dim].sym, read->at[k]};
    }
    for (int i = 0; i < p->dim.n; i++)
        if (dim_is(p->dim.at[i].extent, 1))
            subst[n++] = (DimSubst){p->dim.at[i].sym, dim_const(q->c.flow->ctx, 0)};
    return n;
}

Access code_access(const Quantizing *q, const Map *p, const Decoded *d, const Access *read) {
    const Access *code = &p->body.val.at[d->term.code].read;
    DimSubst subst[MAP_DIMS];
    int n = decoder_dims(q, p, read, subst);
    Dim *at = NEW_ARRAY(q->c.flow->arena, Dim, code->rank + 1);
    for (int k = 0; k < code->rank; k++) at[k] = dim_subst(q->c.flow->ctx, code->at[k], subst, n);
    return (Access){code->cont, code->rank, at};
}

int decode_read(void *user, Body *b, const Val *read) {
    const Quantizing *q = user;
    Decoded d;
    const Map *p = decoder_of(q, read->read.cont, &d);
    if (!p) return -1;
    const Val *code = &p->body.val.at[d.term.code];
    DimSubst subst[MAP_DIMS];
    int n = decoder_dims(q, p, &read->read, subst);
    Access from = code_access(q, p, &d, &read->read);
    int zero = d.term.zero < 0 ? -1 : copy_outer_val(b, &p->body, d.term.zero, subst, n), value;
    if (read->has_else) {
        int none = zero < 0 ? body_const(b, code->type, 0) : body_cvt(b, code->type, zero);
        value = body_read_else(b, from, code->type, none);
    } else {
        value = body_read(b, from, code->type);
    }
    if (!dtype_is_float(code->type)) value = body_cvt(b, I32, value);
    if (zero >= 0) value = body_prim2(b, P_SUB, value, zero);
    value = body_cvt(b, F32, value);
    if (d.scale < 0) return value;
    return body_prim2(b, P_MUL, value, copy_outer_val(b, &p->body, d.scale, subst, n));
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* How a sum is made: as it stands, of codes, or of codes where sizes tell that no sum leaves i32.
 */
typedef enum { SUM_DECODED, SUM_CODES, SUM_EITHER } SumForm;

/* A choice is worth it for an instruction. */
static SumForm by_terms(const Quantizing *q, const Map *m) {
    const Machine *machine = q->env->machine;
    Dim left = terms_left(q->c.flow, m);
    DimEnv env = map_env(q->c.arena, q->c.flow, m);
    if (dim_ge0(q->c.flow->ctx, left, &env)) return SUM_CODES;
    bool taken = machine->nuse || code_steps(machine);
    bool never =
        dim_ge0(q->c.flow->ctx, dim_sub(q->c.flow->ctx, dim_const(q->c.flow->ctx, -1), left), &env);
    return taken && !never ? SUM_EITHER : SUM_DECODED;
}

/* Is a factor no more than a float code? */
static bool is_plain(const Body *b, int val) {
    return b->val.at[val].kind == VAL_PRIM && b->val.at[val].prim == P_CVT;
}

/* Where groups become wider, codes of 0 stand between their weights: is there one for all? */
static bool may_widen(const Quantizing *q, const Map *m, const Val *product, const Grouped *g) {
    for (int i = 0; g->wider > 1 && i < 2; i++) {
        const Val *v = &m->body.val.at[product->arg[i]];
        Decoded d;
        const Map *p = v->kind == VAL_READ ? decoder_of(q, v->read.cont, &d) : NULL;
        if (!p) return false;
        if (access_plain(m, &v->read, g->terms) < 0) continue;
        if (d.term.zero >= 0 && !body_const_bits(&p->body, d.term.zero, NULL)) return false;
    }
    return true;
}

/* The same weights in wider groups. */
static void widen(Quantizing *q, int map, const Grouped *g) {
    const Body *b = &q->c.flow->map.at[map]->body;
    const Val product = b->val.at[q->c.flow->map.at[map]->write.at[0].val[0]];
    for (int i = 0; i < 2; i++) {
        Decoded d;
        decoded_val(q, b, product.arg[i], &d);
        bool weights =
            access_plain(q->c.flow->map.at[map], &b->val.at[d.term.code].read, g->terms) >= 0;
        if (weights && widen_groups(q, map, g, &d.term)) return;
    }
}

static SumForm form_of(const Quantizing *q, const Map *m) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m))
        return SUM_DECODED;
    const Write *w = &m->write.at[0];
    const Val *product = &m->body.val.at[w->val[0]];
    if (w->combine->simple != P_ADD || w->combine->t != F32) return SUM_DECODED;
    if (product->kind != VAL_PRIM || product->prim != P_MUL) return SUM_DECODED;
    Grouped groups;
    if (!sums_groups(q, m, &groups) || !may_widen(q, m, product, &groups)) return SUM_DECODED;
    DType a = decoded_factor(q, m, product->arg[0]), b = decoded_factor(q, m, product->arg[1]);
    if (!a || !b || dtype_is_float(a) != dtype_is_float(b)) return SUM_DECODED;
    if (!dtype_is_float(a)) return by_terms(q, m);
    bool plain = is_plain(&m->body, product->arg[0]) && is_plain(&m->body, product->arg[1]);
    return plain ? SUM_DECODED : SUM_CODES;
}

/* What stood in the sum stands behind it, as a map of the scales. */
static void sum_codes(Quantizing *q, int map) {
    Flow *flow = q->c.flow;
    Map *m = flow->map.at[map];
    Grouped groups;
    sums_groups(q, m, &groups);
    map_rewrite(&q->c, m, NULL, 0, decode_read, q);
    if (groups.wider > 1) widen(q, map, &groups);
    m = flow->map.at[map];
    const Val product = m->body.val.at[m->write.at[0].val[0]];
    Decoded a, b;
    if (!decoded_val(q, &m->body, product.arg[0], &a) ||
        !decoded_val(q, &m->body, product.arg[1], &b))
        BUG("a factor of map \"%s\" is no decoded code", m->name);
    const Access to = m->write.at[0].to[0];
    const Cont c = flow->cont.at[to.cont];
    const DType type = m->body.val.at[a.value].type;
    Access *codes = NEW(flow->arena, Access);
    const char *name = internf(flow->ctx, "%s.sum%d", c.name, flow->cont.n);
    codes_like(q, m, &to, name, type, codes);
    Items after = {0};
    Over o;
    map_over_access(q, m, &to, internf(flow->ctx, "%s.scale", m->name), &after, &o);
    Body *body = &o.map->body;
    int value = body_cvt(body, F32, read_over(q, &o, codes)), scale = -1;
    for (int i = 0; i < 2; i++) {
        int from = i ? b.scale : a.scale;
        if (from < 0) continue;
        int s = copy_outer_val(body, &m->body, from, o.subst, o.nsubst);
        scale = scale < 0 ? s : body_prim2(body, P_MUL, scale, s);
    }
    if (scale >= 0) value = body_prim2(body, P_MUL, value, scale);
    map_write(flow, o.map, to.cont, o.at, body_cvt(body, c.type, value), NULL);
    int root = body_prim2(&m->body, P_MUL, a.value, b.value);
    body_prune(&m->body, &root, 1);
    m->write.at[0].to = codes;
    m->write.at[0].val = arena_copy(flow->arena, &root, sizeof root);
    m->write.at[0].combine = combine_get(flow->ctx, "sum", type);
    insert_after(q, map, &after);
}

/* ---- becoming a code ------------------------------------------------------------------------ */

static bool to_code(const Body *b, int val, int *quotient) {
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_PRIM || v->prim != P_CVT || (v->type != U8 && v->type != I8)) return false;
    v = &b->val.at[v->arg[0]];
    if (v->kind == VAL_PRIM && v->prim == P_ADD) v = &b->val.at[v->arg[0]];
    if (v->kind != VAL_PRIM || v->prim != P_RINT) return false;
    *quotient = v->arg[0];
    v = &b->val.at[*quotient];
    return v->kind == VAL_PRIM && v->prim == P_DIV && v->type == F32;
}

/* In flows whose sums round otherwise already (others keep every bit): x / c becomes x * (1/c), in
 * place: the constant's place is taken by a new one behind, so the body
 * is put in order by copying it. */
static void multiply_to_codes(Quantizing *q, Map *m) {
    Body out = {.arena = q->c.arena};
    int *map = NEW_ARRAY(q->c.arena, int, m->body.val.n + 1), quotient = -1;
    Bits bits;
    bool *change = NEW_ARRAY(q->c.arena, bool, m->body.val.n + 1), any = false;
    for (int v = 0; v < m->body.val.n; v++) {
        if (!to_code(&m->body, v, &quotient)) continue;
        if (!body_const_bits(&m->body, m->body.val.at[quotient].arg[1], &bits)) continue;
        double c = 1 / bits_to_double(F32, bits);
        if (isnormal((float)c)) change[quotient] = any = true;
    }
    for (int v = 0; any && v < m->body.val.n; v++) {
        const Val *from = &m->body.val.at[v];
        if (change[v]) {
            body_const_bits(&m->body, from->arg[1], &bits);
            int c = body_const(&out, F32, (float)(1 / bits_to_double(F32, bits)));
            map[v] = body_prim2(&out, P_MUL, map[from->arg[0]], c);
            continue;
        }
        map[v] = body_copy_val(&out, from, map);
    }
    if (!any) return;
    for (int w = 0; w < m->write.n; w++) {
        int *val = NEW_ARRAY(q->c.arena, int, m->write.at[w].nstate);
        for (int k = 0; k < m->write.at[w].nstate; k++) val[k] = map[m->write.at[w].val[k]];
        m->write.at[w].val = val;
    }
    m->body = out;
    map_rewrite(&q->c, m, NULL, 0, NULL, NULL);
}

void sum_decoded(Quantizing *q) {
    int nmap = q->c.flow->map.n;
    uses_count(&q->c);
    SumForm *form = NEW_ARRAY(q->c.arena, SumForm, nmap + 1);
    bool any = false;
    for (int i = 0; i < nmap; i++) {
        form[i] = form_of(q, q->c.flow->map.at[i]);
        any |= form[i] != SUM_DECODED;
    }
    for (int i = 0; i < nmap; i++)
        if (form[i] == SUM_CODES) sum_codes(q, i);
    for (int i = 0; i < nmap; i++)
        if (form[i] == SUM_EITHER) sum_codes(q, choose_by_terms(q, i));
    if (!any) return;
    nmap = q->c.flow->map.n;
    uses_count(&q->c);
    for (int i = 0; i < nmap; i++)
        if (!of_one_code(q, q->c.flow->map.at[i])) multiply_to_codes(q, q->c.flow->map.at[i]);
    take_in_scales(q);
}
