/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of products by codes become codes. Weights are often codes of 4 or 8 bits with a scale and a
 * zero point for each block of a column's terms:
 *
 *     sum over b: sum over k: x[b,k] * ((f32(w[b,k]) - zero[b]) * scale[b])
 *
 * Where the product may take its rows in 8 bits (the map says `coded`, or mathematics are fast),
 * each block of x becomes c = i8(rint(x / s)), s[b] = max |x[b,k]| / 127, and the product
 *
 *     sum over b: (f32(sum over k: c*w) - zero[b] * f32(sum over k: c)) * (s[b] * scale[b])
 *
 * whose inner sums are exact in integers, by an instruction of the machine that multiplies these
 * types sooner than floats are. Products of the same rows share their codes. */
#include "passes/clean.h"
#include "passes/decode.h"
#include "passes/quantize.h"
#include "passes/recipe.h"

enum { BLOCK_LEAST = 16, COLUMNS_LEAST = 16, CODE_MOST = 127 };

/* What one operand's rows became. Indices and dims are those of a product: its dims by number,
 * rows, parts and the block's index. */
typedef struct Coded {
    int from, rank, ndim; /* a container, and dims without the block's */
    Dim at[RANK_MAX], extent[MAP_DIMS];
    int codes, scale, sums; /* [dims.., k] of i8, [dims..] of f32, [dims..] of i32 */
} Coded;

typedef struct Coding {
    Quantizing *q;
    int map;
    Map *m;
    int x, code, zero, scale; /* Vals: what is rounded, a weight's code, zero point and scale; -1 */
    DType type; /* of codes as they are multiplied: those with signs become such without where what
                   multiplies them takes no others */
    int k;      /* the dim of a block's terms */
    int terms;  /* the weights' index that counts them */
    Dim part, blocks; /* what counts blocks there, and how many there are; NULL: they have an index
                         of their own */
    int dim[MAP_DIMS], ndim; /* of m, that x has beside k: rows and parts */
    VEC(Coded) coded;
} Coding;

/* ---- which products ------------------------------------------------------------------------- */

/* The group of an instruction that multiplies codes of i8 by these, as they are, sooner than floats
 * are; 0: there is none. */
static int quick_group(const Quantizing *q, DType weights) {
    const Machine *m = q->env->machine;
    for (int i = 0; i < m->nuse; i++)
        if (m->use[i]->a == I8 && m->use[i]->b == weights && m->use_speed[i] > 1)
            return m->use[i]->group;
    return 0;
}

/* The type of such a code less the least of it. */
static DType without_sign(DType t) {
    return t == I4 ? U4 : t == I8 ? U8 : t;
}

static bool is_prim(const Val *v, Prim prim) {
    return v->kind == VAL_PRIM && v->prim == prim && v->type == F32;
}

/* The code that a Val is in a wider type. To a byte no conversion leads: it may have wrapped. */
static int narrow(const Body *b, int val) {
    const Val *v = &b->val.at[val];
    for (; v->kind == VAL_PRIM && v->prim == P_CVT && dtype_bits(v->type) > 8; v = &b->val.at[val])
        val = v->arg[0];
    return val;
}

/* What a float takes the second from the first of, in floats or in integers; NULL: nothing. */
static const int *difference(const Body *b, int val) {
    const Val *v = &b->val.at[val];
    if (v->kind == VAL_PRIM && v->prim == P_CVT && b->val.at[v->arg[0]].type == I32)
        v = &b->val.at[v->arg[0]];
    return v->kind == VAL_PRIM && v->prim == P_SUB ? v->arg : NULL;
}

/* The code that a Val is, or is less a zero point. */
static bool find_code(Coding *c, int val) {
    Body *b = &c->m->body;
    const int *of = difference(b, val);
    c->code = narrow(b, of ? of[0] : val);
    c->zero = of ? body_cvt(b, F32, of[1]) : -1;
    const Val *v = &b->val.at[c->code];
    c->type = quick_group(c->q, v->type) ? v->type : without_sign(v->type);
    return v->kind == VAL_READ && !v->has_else && quick_group(c->q, c->type) &&
           is_weight(&c->q->c.flow->cont.at[v->read.cont]);
}

/* (code - zero) * scale, in either order. */
static bool find_weight(Coding *c, int val) {
    const Val *v = &c->m->body.val.at[val];
    if (!is_prim(v, P_MUL)) return false;
    for (int i = 0; i < 2; i++) {
        c->scale = v->arg[1 - i];
        if (find_code(c, v->arg[i])) return true;
    }
    return false;
}

static bool find_factors(Coding *c) {
    const Val *product = &c->m->body.val.at[c->m->write.at[0].val[0]];
    if (!is_prim(product, P_MUL)) return false;
    for (int i = 0; i < 2; i++) {
        c->x = product->arg[1 - i];
        const Val *x = &c->m->body.val.at[body_unconverted(&c->m->body, c->x)];
        if (x->kind == VAL_READ && !x->has_else && !access_by_value(c->m, &x->read) &&
            find_weight(c, product->arg[i]))
            return true;
    }
    return false;
}

/* Is a Val the same for all terms of a block? */
static bool of_block(const Coding *c, int val) {
    const Val *v = &c->m->body.val.at[val];
    bool fixed = v->kind != VAL_INDEX;
    if (v->kind == VAL_READ)
        fixed =
            !v->has_else && !access_by_value(c->m, &v->read) && !access_uses(c->m, &v->read, c->k);
    for (int a = 0; v->kind == VAL_PRIM && a < prim_row(v->prim)->arity; a++)
        fixed = fixed && of_block(c, v->arg[a]);
    return fixed;
}

/* The one index of the codes that is no dim alone: part*K + k. Weights may be seen as having two
 * in its place. */
static bool find_parts(Coding *c, const Access *code) {
    Ctx *ctx = c->q->c.flow->ctx;
    const Cont *weights = &c->q->c.flow->cont.at[code->cont];
    Dim coef;
    c->k = -1;
    for (int d = 0; d < c->m->dim.n && c->k < 0; d++) {
        Dim k = c->m->dim.at[d].sym;
        if (!dim_affine(ctx, code->at[c->terms], &k, 1, &coef, &c->part)) return false;
        if (dim_is(coef, 1)) c->k = d;
    }
    if (c->k < 0 || !weights->data || weights->layout || code->rank == RANK_MAX) return false;
    Dim extent = c->m->dim.at[c->k].extent;
    return dim_divides(ctx, c->part, extent, &c->part) && dim_sym_name(c->part) &&
           dim_divides(ctx, weights->shape[c->terms], extent, &c->blocks);
}

/* The dim of a block's terms: codes stand as [.., part, .., k, ..], or as [.., part*K + k, ..]. */
static bool find_blocks(Coding *c) {
    const Access *code = &c->m->body.val.at[c->code].read;
    int apart = 0;
    c->part = NULL;
    for (int i = 0; i < code->rank; i++)
        if (access_dim(c->m, code, i) < 0) apart++, c->terms = i;
    if (apart) return apart == 1 && find_parts(c, code);
    for (int i = code->rank - 1; i >= 0; i--) {
        c->k = access_dim(c->m, code, i);
        if (map_reduces(c->m, c->k) && of_block(c, c->scale)) return true;
    }
    return false;
}

/* Sees such a weight as [.., blocks, K, ..]. */
static void view_blocks(Coding *c) {
    Flow *flow = c->q->c.flow;
    Val *code = &c->m->body.val.at[c->code];
    const Cont weights = flow->cont.at[code->read.cont];
    const MapDim *k = &c->m->dim.at[c->k];
    int rank = 0;
    if (!c->part) return;
    Dim *at = NEW_ARRAY(flow->arena, Dim, code->read.rank + 1), shape[RANK_MAX];
    for (int i = 0; i < code->read.rank; i++) {
        bool terms = i == c->terms;
        if (terms) at[rank] = c->part, shape[rank++] = c->blocks;
        at[rank] = terms ? k->sym : code->read.at[i];
        shape[rank++] = terms ? k->extent : weights.shape[i];
    }
    const char *name = internf(flow->ctx, "%s.blocks", weights.name);
    int seen = flow_cont(flow, name, weights.kind, weights.type, shape, rank);
    Cont *view = &flow->cont.at[seen];
    view->data = weights.data, view->data_bytes = weights.data_bytes, view->from = weights.from;
    code->read = (Access){seen, rank, at};
}

/* Dims beside k that x has; those that are summed must count blocks, so x and the weights have all
 * of them. */
static bool find_dims(Coding *c) {
    const Body *b = &c->m->body;
    const Access *x = &b->val.at[body_unconverted(b, c->x)].read, *w = &b->val.at[c->code].read;
    int64_t block = map_extent(c->m, c->k, 0);
    int group = quick_group(c->q, c->type);
    int parts = 0;
    c->ndim = 0;
    if (access_slides(c->m, x)) return false;
    for (int d = 0; d < c->m->dim.n; d++) {
        bool in_x = access_uses(c->m, x, d), in_w = access_uses(c->m, w, d);
        if (map_reduces(c->m, d) && (!in_x || !in_w)) return false;
        if (!in_x || d == c->k) continue;
        parts += map_reduces(c->m, d);
        c->dim[c->ndim++] = d;
    }
    if (c->m->write.at[0].to[0].rank + parts > RANK_MAX || c->ndim == RANK_MAX) return false;
    return parts && map_reduces(c->m, c->k) && block >= BLOCK_LEAST && block % group == 0 &&
           (double)block * CODE_MOST * 255 <= INT32_MAX;
}

static bool may_be_coded(const Quantizing *q, const Map *m) {
    return m->coded || q->env->math == MATH_FAST;
}

/* What the map, a product that may be coded, multiplies by and weights decode to; -1: it is none.
 */
static int decoded_factor(const Coding *c) {
    const Flow *flow = c->q->c.flow;
    const Map *m = c->m;
    if (!may_be_coded(c->q, m) || m->cons.n || m->write.n != 1) return -1;
    const Write *w = &m->write.at[0];
    if (w->n != 1 || !w->combine || w->combine->simple != P_ADD || w->combine->t != F32) return -1;
    for (int k = 0; k < w->to[0].rank; k++)
        if (access_dim(m, &w->to[0], k) < 0 && !dim_is_const(w->to[0].at[k], NULL)) return -1;
    Contraction r = map_contraction(flow, m);
    if (!r.is || contraction_usual(flow, m, &r, ROLE_N) < COLUMNS_LEAST) return -1;
    int by = m->body.val.at[r.b].read.cont;
    return decode_bits(&c->q->c, by) < cont_bits(&flow->cont.at[by]) ? by : -1;
}

/* Is it such a product? The decoding of `by` then stands in its body, dims are split by blocks. */
static bool recognize(Coding *c, int by) {
    Map *m = c->m;
    decode_into(&c->q->c, m, by);
    split_dims(&c->q->c, m);
    return find_factors(c) && find_blocks(c) && find_dims(c) && of_block(c, c->scale) &&
           (c->zero < 0 || of_block(c, c->zero));
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* A map over the dims of x, and k; its indices, and what the product's dims are there. */
typedef struct RowMap {
    Map *map;
    Dim at[RANK_MAX];
    DimSubst subst[MAP_DIMS];
} RowMap;

static RowMap row_map(Coding *c, Items *into, const char *what, bool with_k) {
    Flow *flow = c->q->c.flow;
    RowMap r = {
        .map = flow_map(flow, into, internf(flow->ctx, "%s.%s", c->m->name, what), c->m->from)};
    for (int i = 0; i < c->ndim + with_k; i++) {
        const MapDim *dim = &c->m->dim.at[i < c->ndim ? c->dim[i] : c->k];
        r.at[i] = map_dim(flow, r.map, dim_sym_name(dim->sym), dim->extent);
        r.subst[i] = (DimSubst){dim->sym, r.at[i]};
    }
    return r;
}

static int row_cont(Coding *c, const char *what, DType type, bool with_k) {
    Flow *flow = c->q->c.flow;
    Dim shape[RANK_MAX];
    for (int i = 0; i < c->ndim; i++) shape[i] = c->m->dim.at[c->dim[i]].extent;
    shape[c->ndim] = c->m->dim.at[c->k].extent;
    const char *name = internf(flow->ctx, "%s.%s", c->m->name, what);
    return flow_cont(flow, name, CONT_TMP, type, shape, c->ndim + with_k);
}

/* x in a map over its dims. */
static int read_x(const Coding *c, RowMap *r) {
    return copy_outer_val(&r->map->body, &c->m->body, c->x, r->subst, c->ndim + 1);
}

/* A map that makes one number of another, for each block. */
static int block_value(Coding *c, Items *made, const char *what, int from, const char *expr) {
    Flow *flow = c->q->c.flow;
    RowMap r = row_map(c, made, what, false);
    int to = row_cont(c, what, F32, false), v = map_read(flow, r.map, from, r.at);
    v = body_expr(&r.map->body, expr, &v, 1, NULL, 0, F32);
    map_write(flow, r.map, to, r.at, v, NULL);
    return to;
}

static void make_codes(Coding *c, Coded *y, Items *made) {
    Flow *flow = c->q->c.flow;
    RowMap r = row_map(c, made, "most", true);
    int most = row_cont(c, "most", F32, false);
    map_write(flow, r.map, most, r.at, body_prim1(&r.map->body, P_ABS, read_x(c, &r)),
              combine_get(flow->ctx, "max", F32));
    y->scale = block_value(c, made, "rounded", most, "$0 / 127");
    int per = block_value(c, made, "per", y->scale, "select($0 == 0, 0, 1 / $0)");
    r = row_map(c, made, "codes", true);
    y->codes = row_cont(c, "codes", I8, true);
    int args[] = {read_x(c, &r), map_read(flow, r.map, per, r.at)};
    int code = body_expr(&r.map->body, "rint($0 * $1)", args, 2, NULL, 0, F32);
    map_write(flow, r.map, y->codes, r.at, body_cvt(&r.map->body, I8, code), NULL);
    r = row_map(c, made, "sums", true);
    y->sums = row_cont(c, "sums", I32, false);
    code = body_cvt(&r.map->body, I32, map_read(flow, r.map, y->codes, r.at));
    map_write(flow, r.map, y->sums, r.at, code, combine_get(flow->ctx, "sum", I32));
}

/* Rows that another product has coded the same way, or new ones. */
static Coded codes_of(Coding *c) {
    Ctx *ctx = c->q->c.flow->ctx;
    const Access *x = &c->m->body.val.at[body_unconverted(&c->m->body, c->x)].read;
    Coded key = {.from = x->cont, .rank = x->rank, .ndim = c->ndim};
    DimSubst subst[MAP_DIMS];
    for (int i = 0; i <= c->ndim; i++) {
        const MapDim *dim = &c->m->dim.at[i < c->ndim ? c->dim[i] : c->k];
        subst[i] = (DimSubst){dim->sym, flow_layout_sym(ctx, i)};
        key.extent[i] = dim->extent;
    }
    for (int k = 0; k < x->rank; k++) key.at[k] = dim_subst(ctx, x->at[k], subst, c->ndim + 1);
    for (int i = 0; i < c->coded.n; i++) {
        const Coded *o = &c->coded.at[i];
        if (o->from == key.from && o->rank == key.rank && o->ndim == key.ndim &&
            dims_equal(o->at, key.at, key.rank) && dims_equal(o->extent, key.extent, key.ndim + 1))
            return *o;
    }
    Items made = {0};
    make_codes(c, &key, &made);
    insert_before(c->q, c->map, &made);
    vec_push(c->q->c.arena, &c->coded, key);
    return key;
}

/* ---- the product ---------------------------------------------------------------------------- */

/* The sums of integers by part, and in `o` the map behind, which weighs and adds them up. */
static Access sums_apart(Coding *c, Over *o) {
    Flow *flow = c->q->c.flow;
    const Map *m = c->m;
    const Access *to = &m->write.at[0].to[0];
    const Cont *y = &flow->cont.at[to->cont];
    Dim shape[RANK_MAX], *at = NEW_ARRAY(flow->arena, Dim, RANK_MAX);
    int rank = to->rank;
    for (int k = 0; k < rank; k++) shape[k] = y->shape[k], at[k] = to->at[k];
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || d == c->k) continue;
        const MapDim *dim = &m->dim.at[d];
        shape[rank] = dim->extent, at[rank] = dim->sym;
        o->at[rank++] = map_dim(flow, o->map, dim_sym_name(dim->sym), dim->extent);
        o->subst[o->nsubst++] = (DimSubst){dim->sym, o->at[rank - 1]};
    }
    const char *name = internf(flow->ctx, "%s.parts", y->name);
    return (Access){flow_cont(flow, name, CONT_TMP, I32, shape, rank), rank, at};
}

/* A read of what rows have for each block, in the map behind. */
static int row_value(const Coding *c, const Over *o, int cont, DType type) {
    Ctx *ctx = c->q->c.flow->ctx;
    Dim *at = NEW_ARRAY(o->map->body.arena, Dim, c->ndim + 1);
    for (int i = 0; i < c->ndim; i++)
        at[i] = dim_subst(ctx, c->m->dim.at[c->dim[i]].sym, o->subst, o->nsubst);
    return body_read(&o->map->body, (Access){cont, c->ndim, at}, type);
}

static int as_byte(Body *b, int val, DType to) {
    return body_cvt(b, to, val);
}

/* Zero points of less than a byte, which lanes would read one by one, as bytes. */
static void widen_zeros(Coding *c) {
    Body *b = &c->m->body;
    if (c->zero < 0) return;
    const Val *zero = &b->val.at[narrow(b, c->zero)];
    if (zero->kind != VAL_READ || dtype_bits(zero->type) >= 8) return;
    Access read = zero->read;
    DType byte = zero->type == I4 ? I8 : U8;
    read.cont = codes_as(c->q, c->map, read.cont, "bytes", byte, as_byte);
    c->zero = body_cvt(b, F32, body_read(b, read, byte));
}

static int less_least(Body *b, int val, DType to) {
    int least = body_const(b, I32, to == U4 ? -8 : -128);
    return body_cvt(b, to, body_prim2(b, P_SUB, body_cvt(b, I32, val), least));
}

/* Codes with signs, and their zero point, less the least of their type: as many without. */
static void move_codes(Coding *c) {
    Body *b = &c->m->body;
    const Val *code = &b->val.at[c->code];
    Access read = code->read;
    if (code->type == c->type) return;
    read.cont = codes_as(c->q, c->map, read.cont, "moved", c->type, less_least);
    c->code = body_read(b, read, c->type);
    int by = body_const(b, F32, c->type == U4 ? 8 : 128);
    c->zero = c->zero < 0 ? by : body_prim2(b, P_ADD, c->zero, by);
}

static void multiply_codes(Coding *c) {
    Flow *flow = c->q->c.flow;
    Map *m = c->m;
    const Coded rows = codes_of(c);
    view_blocks(c);
    widen_zeros(c);
    move_codes(c);
    const Access to = m->write.at[0].to[0];
    Items after = {0};
    Over o;
    map_over_access(c->q, m, &to, internf(flow->ctx, "%s.added", m->name), &after, &o);
    Access *parts = NEW(flow->arena, Access);
    *parts = sums_apart(c, &o);
    Body *b = &o.map->body;
    int v = body_cvt(b, F32, map_read(flow, o.map, parts->cont, o.at));
    if (c->zero >= 0) {
        int zero = copy_outer_val(b, &m->body, c->zero, o.subst, o.nsubst);
        int args[] = {v, zero, body_cvt(b, F32, row_value(c, &o, rows.sums, I32))};
        v = body_expr(b, "$0 - $1 * $2", args, 3, NULL, 0, F32);
    }
    int scale = copy_outer_val(b, &m->body, c->scale, o.subst, o.nsubst);
    int args[] = {v, row_value(c, &o, rows.scale, F32), scale};
    v = body_expr(b, "$0 * ($1 * $2)", args, 3, NULL, 0, F32);
    map_write(flow, o.map, to.cont, o.at, body_cvt(b, flow->cont.at[to.cont].type, v),
              m->write.at[0].combine);
    Dim *at = NEW_ARRAY(flow->arena, Dim, c->ndim + 1);
    for (int i = 0; i <= c->ndim; i++) at[i] = m->dim.at[i < c->ndim ? c->dim[i] : c->k].sym;
    int code =
        body_cvt(&m->body, I32, body_read(&m->body, (Access){rows.codes, c->ndim + 1, at}, I8));
    int root = body_prim2(&m->body, P_MUL, code, body_cvt(&m->body, I32, c->code));
    body_prune(&m->body, &root, 1);
    m->write.at[0].to = parts;
    m->write.at[0].val = arena_copy(flow->arena, &root, sizeof root);
    m->write.at[0].combine = combine_get(flow->ctx, "sum", I32);
    m->coded = false;
    insert_after(c->q, c->map, &after);
}

/* As a recipe says, or codes. */
static bool decide(const Coding *c) {
    static const char *const words[] = {"floats", "codes", NULL};
    const char *name = internf(c->q->c.flow->ctx, "%s.rows", c->m->name);
    return recipe_decide(c->q->env, "quantize", name, words, true);
}

void code_rows(Quantizing *q) {
    int nmap = q->c.flow->map.n;
    Coding c = {.q = q};
    bool any = false;
    for (int i = 0; i < nmap; i++) any |= may_be_coded(q, q->c.flow->map.at[i]);
    if (!any || (!quick_group(q, U8) && !quick_group(q, U4))) return;
    uses_count(&q->c);
    for (int i = 0; i < nmap; i++) {
        c.map = i, c.m = q->c.flow->map.at[i];
        int by = decoded_factor(&c);
        if (by < 0) continue;
        const Map before = map_saved(q->c.arena, c.m);
        if (recognize(&c, by) && decide(&c))
            multiply_codes(&c);
        else
            *c.m = before;
    }
}
