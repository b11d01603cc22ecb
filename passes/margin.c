/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/margin.h"

bool adds_products(const Flow *flow, const Map *m, Contraction *c) {
    *c = map_contraction(flow, m);
    if (!c->is || m->cons.n || m->write.n != 1 || m->write.at[0].n != 1) return false;
    const Write *w = &m->write.at[0];
    const Val *product = &m->body.val.at[c->product];
    return w->combine->simple == P_ADD && w->val[0] == c->product && product->prim == P_MUL;
}

/* ---- what maps fill with zeros ----------------------------------------------------------------
 */

/* Along each dim of a container: where the margins end. */
typedef struct Margins {
    Dim low[RANK_MAX], high[RANK_MAX];
} Margins;

/* The box of zeros that the map writes of the container: from .. to - 1 along each dim. */
static bool zero_box(const Flow *flow, const Map *m, int cont, Dim *from, Dim *to) {
    Bits bits = 1;
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->write.at[0].combine || m->cons.n)
        return false;
    const Access *a = &m->write.at[0].to[0];
    if (a->cont != cont || !body_const_bits(&m->body, m->write.at[0].val[0], &bits) || bits)
        return false;
    for (int k = 0; k < a->rank; k++) {
        Dim coef, extent = dim_const(flow->ctx, 1);
        from[k] = a->at[k];
        for (int d = 0; d < m->dim.n; d++) {
            Dim sym = m->dim.at[d].sym, rest = from[k];
            if (!dim_uses(rest, sym)) continue;
            bool plain = dim_affine(flow->ctx, rest, &sym, 1, &coef, &from[k]);
            if (!plain || !dim_is(coef, 1) || !dim_is(extent, 1)) return false;
            extent = m->dim.at[d].extent;
        }
        to[k] = dim_add(flow->ctx, from[k], extent);
    }
    return true;
}

/* Is the box, along all dims but k, all that lies in no margin? */
static bool fills_side(const Cont *c, const Margins *known, const Dim *from, const Dim *to, int k) {
    bool all = true;
    for (int d = 0; d < c->rank; d++)
        all &= d == k || ((dim_is(from[d], 0) || from[d] == known->low[d]) &&
                          (to[d] == c->shape[d] || to[d] == known->high[d]));
    return all;
}

/* Margins of a dim are filled where those of the dims before it are not. */
static Margins find_margins(const Flow *flow, int cont) {
    const Cont *c = &flow->cont.at[cont];
    Dim from[RANK_MAX], to[RANK_MAX];
    Margins known;
    for (int k = 0; k < c->rank; k++)
        known.low[k] = dim_const(flow->ctx, 0), known.high[k] = c->shape[k];
    for (int k = 0; k < c->rank; k++)
        for (int i = 0; i < flow->map.n; i++) {
            if (!zero_box(flow, flow->map.at[i], cont, from, to)) continue;
            if (!fills_side(c, &known, from, to, k)) continue;
            if (dim_is(from[k], 0)) known.low[k] = to[k];
            if (to[k] == c->shape[k]) known.high[k] = from[k];
        }
    return known;
}

/* ---- who reads them -------------------------------------------------------------------------- */

bool index_slides(const Flow *flow, const Map *m, Dim at, Sliding *s) {
    Dim coef[2];
    s->result = s->tap = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!dim_uses(at, m->dim.at[d].sym)) continue;
        int *of = map_reduces(m, d) ? &s->tap : &s->result;
        if (*of >= 0) return false;
        *of = d;
    }
    if (s->result < 0 || s->tap < 0) return false;
    Dim sym[] = {m->dim.at[s->result].sym, m->dim.at[s->tap].sym};
    return dim_affine(flow->ctx, at, sym, 2, coef, &s->first) && dim_is_const(coef[0], &s->step) &&
           dim_is_const(coef[1], &s->apart);
}

bool slides_alone(const Map *m, const Access *a, int k, const Sliding *s) {
    for (int i = 0; i < a->rank; i++)
        if (i != k && (dim_uses(a->at[i], m->dim.at[s->result].sym) ||
                       dim_uses(a->at[i], m->dim.at[s->tap].sym)))
            return false;
    return true;
}

/* Is index `at` of the read as MarginRead says of it? */
static bool slides(const Flow *flow, const Map *m, int d, MarginRead *r) {
    Sliding s;
    if (!index_slides(flow, m, r->val->read.at[r->at], &s) || s.tap != d) return false;
    r->result = s.result, r->step = s.step, r->apart = s.apart;
    return s.step > 0 && s.apart > 0;
}

bool margin_read(const Flow *flow, const Map *m, int d, MarginRead *r) {
    Contraction c;
    if (!adds_products(flow, m, &c)) return false;
    for (int factor = 0; factor < 2; factor++) {
        r->val = &m->body.val.at[factor ? c.b : c.a];
        for (r->at = 0; !r->val->has_else && r->at < r->val->read.rank; r->at++) {
            if (!dim_uses(r->val->read.at[r->at], m->dim.at[d].sym)) continue;
            if (!slides(flow, m, d, r)) continue;
            Margins known = find_margins(flow, r->val->read.cont);
            r->low = known.low[r->at], r->high = known.high[r->at];
            if (!dim_is(r->low, 0) || r->high != flow->cont.at[r->val->read.cont].shape[r->at])
                return true;
        }
    }
    return false;
}
