/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps the order of codes. Decoding, f32(i32(code) - zero) * scale with a positive constant
 * scale, never falls as codes rise, so the greatest of decoded codes is the decoded greatest code,
 * bit for bit: pools run over bytes and decode what they found. And a code that is decoded and
 * becomes the same code again, for each of the 256, is copied. */
#include "passes/quantize.h"

enum { WINDOW_MOST = 64 };

/* ---- greatest and least codes --------------------------------------------------------------- */

/* The index with one dim replaced by a number. */
static Dim index_at(Ctx *ctx, Dim at, Dim sym, int64_t v) {
    return dim_subst(ctx, at, &(DimSubst){sym, dim_const(ctx, v)}, 1);
}

/* Does some index of reduced dim d keep all indices of the access that use it inside the box? Then
 * it takes the dim's place there. */
static bool fix_inside(const Quantizing *q, const Map *m, int d, int cont, Dim *at) {
    const Cont *c = &q->c.flow->cont.at[cont];
    Ctx *ctx = q->c.flow->ctx;
    Dim sym = m->dim.at[d].sym;
    DimEnv env = map_env(q->c.arena, q->c.flow, m);
    int64_t extent = map_extent(m, d, 0);
    for (int64_t v = 0; v < extent && v < WINDOW_MOST; v++) {
        bool inside = true;
        for (int k = 0; inside && k < c->rank; k++) {
            if (!dim_uses(at[k], sym)) continue;
            Dim i = index_at(ctx, at[k], sym, v);
            Dim room = dim_sub(ctx, dim_addc(ctx, c->shape[k], -1), i);
            inside = dim_ge0(ctx, i, &env) && dim_ge0(ctx, room, &env);
        }
        for (int k = 0; inside && k < c->rank; k++)
            if (dim_uses(at[k], sym)) at[k] = index_at(ctx, at[k], sym, v);
        if (inside) return true;
    }
    return false;
}

/* Does every result meet an element inside the box? */
static bool meets_inside(const Quantizing *q, const Map *m, const Access *from) {
    Dim at[RANK_MAX];
    for (int k = 0; k < from->rank; k++) at[k] = from->at[k];
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && !fix_inside(q, m, d, from->cont, at)) return false;
    return true;
}

static bool is_bits(const Body *b, int val, Bits bits) {
    Bits is;
    return body_const_bits(b, val, &is) && is == bits;
}

/* A maximum or minimum of what a container's decoder alone wrote. */
static bool orders_decoded(const Quantizing *q, const Map *m, Decoded *d) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return false;
    const Combine *c = m->write.at[0].combine;
    const Val *v = &m->body.val.at[m->write.at[0].val[0]];
    if ((c->simple != P_MAX && c->simple != P_MIN) || c->type[0] != F32 || v->kind != VAL_READ)
        return false;
    const Map *p = access_by_value(m, &v->read) ? NULL : decoder_of(q, v->read.cont, d);
    Bits scale = bits_of_double(F32, 1);
    if (!p || (d->scale >= 0 && !body_const_bits(&p->body, d->scale, &scale))) return false;
    if (!(bits_to_double(F32, scale) > 0)) return false;
    if (dtype_is_float(p->body.val.at[d->term.code].type)) return false;
    if (d->term.zero >= 0 && !body_const_bits(&p->body, d->term.zero, &(Bits){0})) return false;
    if (!v->has_else) return true;
    return is_bits(&m->body, v->arg[0], c->identity[0]) && meets_inside(q, m, &v->read) &&
           decodes_same_box(q, p, &p->body.val.at[d->term.code].read, &v->read);
}

/* The map takes codes, and a map behind it decodes its results. */
static void order_codes(Quantizing *q, int map, const Decoded *d) {
    Flow *flow = q->c.flow;
    Map *m = flow->map.at[map];
    const Access to = m->write.at[0].to[0];
    const Map *p = flow->map.at[q->c.uses.writer[m->body.val.at[m->write.at[0].val[0]].read.cont]];
    DType type = p->body.val.at[d->term.code].type;
    bool greatest = m->write.at[0].combine->simple == P_MAX;
    const Combine *combine = combine_get(flow->ctx, greatest ? "max" : "min", type);
    const Cont c = flow->cont.at[to.cont];
    int codes =
        flow_cont(flow, internf(flow->ctx, "%s.codes", c.name), CONT_TMP, type, c.shape, c.rank);
    Items after = {0};
    Over o;
    map_over_access(q, m, &to, internf(flow->ctx, "%s.scale", m->name), &after, &o);
    Body *b = &o.map->body;
    int value = body_cvt(b, I32, map_read(flow, o.map, codes, o.at));
    if (d->term.zero >= 0)
        value = body_prim2(b, P_SUB, value, copy_outer_val(b, &p->body, d->term.zero, NULL, 0));
    value = body_cvt(b, F32, value);
    if (d->scale >= 0)
        value = body_prim2(b, P_MUL, value, copy_outer_val(b, &p->body, d->scale, NULL, 0));
    map_write(flow, o.map, to.cont, o.at, value, NULL);

    Val read = m->body.val.at[m->write.at[0].val[0]];
    Body body = {.arena = flow->arena};
    read.read = code_access(q, p, d, &read.read);
    int root = read.has_else ? body_read_else(&body, read.read, type,
                                              body_bits(&body, type, combine->identity[0]))
                             : body_read(&body, read.read, type);
    Access *write = arena_copy(flow->arena, &to, sizeof to);
    write->cont = codes;
    m = flow->map.at[map];
    m->body = body;
    m->write.at[0].to = write;
    m->write.at[0].val = arena_copy(flow->arena, &root, sizeof root);
    m->write.at[0].combine = combine;
    insert_after(q, map, &after);
}

/* ---- codes that come back ------------------------------------------------------------------- */

/* A BodyReadFn: every read is this code. */
typedef struct One {
    DType type;
    Bits code;
} One;

static int read_code(void *user, Body *b, const Val *read) {
    const One *one = user;
    (void)read;
    return body_bits(b, one->type, one->code);
}

/* The only read of a body, of a code, or -1. */
static int only_code(const Body *b) {
    int only = -1;
    for (int v = 0; v < b->val.n; v++) {
        const Val *val = &b->val.at[v];
        if (val->kind == VAL_INDEX || val->sym) return -1;
        if (val->kind != VAL_READ) continue;
        if (only >= 0 || val->has_else || (val->type != U8 && val->type != I8)) return -1;
        only = v;
    }
    return only;
}

/* Does root give back each code that the only read may be? */
static bool gives_back(const Quantizing *q, const Body *b, int read, int root) {
    One one = {b->val.at[read].type, 0};
    if (b->val.at[root].type != one.type) return false;
    for (; one.code < 256; one.code++) {
        Body at = {.arena = q->c.arena};
        int *map = NEW_ARRAY(q->c.arena, int, b->val.n + 1);
        body_inline(&at, b, NULL, 0, NULL, read_code, &one, map);
        if (!is_bits(&at, map[root], one.code)) return false;
    }
    return true;
}

/* A map that makes codes of what one decoder wrote, and the same ones, copies them. */
static void copy_codes(Quantizing *q, Map *m) {
    const Access *to = map_plain_write(m);
    DType type = to ? q->c.flow->cont.at[to->cont].type : DT_NONE;
    Decoded d;
    int reads = 0, decoded = 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        reads++;
        decoded += !access_by_value(m, &val->read) && decoder_of(q, val->read.cont, &d);
    }
    if ((type != U8 && type != I8) || reads != 1 || decoded != 1) return;
    map_rewrite(&q->c, m, NULL, 0, decode_read, q);
    int root = m->write.at[0].val[0], read = only_code(&m->body);
    if (read < 0 || read == root || !gives_back(q, &m->body, read, root)) return;
    m->write.at[0].val = arena_copy(q->c.flow->arena, &read, sizeof read);
    map_rewrite(&q->c, m, NULL, 0, NULL, NULL);
}

void keep_codes(Quantizing *q) {
    int nmap = q->c.flow->map.n;
    bool any = false;
    uses_count(&q->c);
    for (int i = 0; i < nmap; i++) {
        Decoded d;
        if (!orders_decoded(q, q->c.flow->map.at[i], &d)) continue;
        order_codes(q, i, &d);
        any = true;
    }
    if (any) uses_count(&q->c);
    for (int i = 0; i < nmap; i++) copy_codes(q, q->c.flow->map.at[i]);
}
