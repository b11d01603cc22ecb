/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `quantize`: arithmetic on 8-bit codes stays in integers.
 *
 * A code is a value of an 8-bit integer type, or of an 8-bit float that steps of warps multiply.
 * Sums of products of decoded codes become sums of codes that are scaled behind (quantize_sum.c,
 * not in strict mode); then zero points leave the sums of integers, and these get the sign that the
 * machine's dot products want (quantize_zero.c, exact). Before that, what keeps the order of
 * integers is done on them (quantize_order.c, exact). What the maps compute is read off their
 * bodies alone. */
#include "passes/quantize.h"

Flow *pass_clean(Arena *arena, const Flow *flow, const PassEnv *env);

/* ---- terms ---------------------------------------------------------------------------------- */

static bool is_code(const Body *b, int val) {
    DType t = b->val.at[val].type;
    return t == U8 || t == I8;
}

static int converted_code(const Body *b, int val) {
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_PRIM || v->prim != P_CVT || v->type != I32) return -1;
    return is_code(b, v->arg[0]) ? v->arg[0] : -1;
}

bool code_term(const Body *b, int val, CodeTerm *t) {
    const Val *v = &b->val.at[val];
    Bits bits;
    *t = (CodeTerm){converted_code(b, val), -1};
    if (t->code >= 0) return true;
    if (v->kind != VAL_PRIM || v->prim != P_SUB || v->type != I32) return false;
    t->code = converted_code(b, v->arg[0]);
    t->zero = v->arg[1];
    if (body_const_bits(b, t->zero, &bits) && bits == 0) t->zero = -1;
    return t->code >= 0;
}

bool is_outer_val(const Map *m, int val) {
    const Val *v = &m->body.val.at[val];
    if (v->kind == VAL_CONST) return true;
    if (v->kind == VAL_READ) {
        for (int d = 0; d < m->dim.n; d++)
            if (map_reduces(m, d) && access_uses(m, &v->read, d)) return false;
        return !v->has_else && !access_by_value(m, &v->read);
    }
    if (v->kind != VAL_PRIM) return false;
    for (int a = 0; a < prim_row(v->prim)->arity; a++)
        if (!is_outer_val(m, v->arg[a])) return false;
    return true;
}

int copy_outer_val(Body *to, const Body *from, int val, const DimSubst *subst, int n) {
    int *map = NEW_ARRAY(to->arena, int, from->val.n + 1);
    Body part = {.arena = to->arena};
    body_inline(&part, from, NULL, 0, NULL, NULL, NULL, map);
    int root = map[val];
    body_prune(&part, &root, 1);
    map = NEW_ARRAY(to->arena, int, part.val.n + 1);
    body_inline(to, &part, subst, n, NULL, NULL, NULL, map);
    return map[root];
}

/* ---- new maps ------------------------------------------------------------------------------- */

void insert_after(Quantizing *q, int map, const Items *made) {
    items_insert_beside(q->c.flow, &q->c.flow->body, map, true, made);
}

void insert_before(Quantizing *q, int map, const Items *made) {
    items_insert_beside(q->c.flow, &q->c.flow->body, map, false, made);
}

int codes_as(Quantizing *q, int map, int cont, const char *what, DType to, CodeFn *code) {
    Flow *flow = q->c.flow;
    const Cont c = flow->cont.at[cont];
    const char *name = internf(flow->ctx, "%s.%s", c.name, what);
    int out = flow_cont(flow, name, CONT_TMP, to, c.shape, c.rank);
    flow->cont.at[out].from = c.from;
    Items made = {0};
    Map *m = flow_map(flow, &made, name, c.from);
    Dim at[RANK_MAX];
    for (int k = 0; k < c.rank; k++) at[k] = map_dim(flow, m, "i", c.shape[k]);
    map_write(flow, m, out, at, code(&m->body, map_read(flow, m, cont, at), to), NULL);
    insert_before(q, map, &made);
    return out;
}

void map_over_access(Quantizing *q, const Map *m, const Access *a, const char *name, Items *into,
                     Over *over) {
    Flow *flow = q->c.flow;
    *over = (Over){.map = flow_map(flow, into, name, m->from)};
    for (int k = 0; k < a->rank; k++)
        for (int d = 0; d < m->dim.n; d++) {
            const MapDim *dim = &m->dim.at[d];
            bool known = !dim_uses(a->at[k], dim->sym);
            for (int i = 0; i < over->nsubst; i++) known |= over->subst[i].sym == dim->sym;
            if (known) continue;
            Dim mine = map_dim(flow, over->map, dim_sym_name(dim->sym), dim->extent);
            over->subst[over->nsubst++] = (DimSubst){dim->sym, mine};
        }
    for (int k = 0; k < a->rank; k++)
        over->at[k] = dim_subst(flow->ctx, a->at[k], over->subst, over->nsubst);
}

void codes_like(Quantizing *q, const Map *m, const Access *to, const char *name, DType type,
                Access *at) {
    Flow *flow = q->c.flow;
    Dim shape[RANK_MAX], *index = NEW_ARRAY(flow->arena, Dim, RANK_MAX);
    int rank = 0, dims[2];
    for (int k = 0; k < to->rank; k++) {
        bool joined = access_dim(m, to, k) < 0 && !dim_is_const(to->at[k], NULL) &&
                      joined_dims(flow, m, to->at[k], &dims[0], &dims[1]);
        for (int i = 0; joined && i < 2; i++) {
            shape[rank] = m->dim.at[dims[i]].extent;
            index[rank++] = m->dim.at[dims[i]].sym;
        }
        if (joined) continue;
        shape[rank] = flow->cont.at[to->cont].shape[k];
        index[rank++] = to->at[k];
    }
    *at = (Access){flow_cont(flow, name, CONT_TMP, type, shape, rank), rank, index};
}

int read_over(Quantizing *q, const Over *over, const Access *at) {
    Dim index[RANK_MAX];
    for (int k = 0; k < at->rank; k++)
        index[k] = dim_subst(q->c.flow->ctx, at->at[k], over->subst, over->nsubst);
    return map_read(q->c.flow, over->map, at->cont, index);
}

/* ---- zero points that are all the same ------------------------------------------------------ */

/* A read of codes that are known and all the same is a constant. */
static int equal_codes(void *user, Body *b, const Val *read) {
    const Quantizing *q = user;
    const Cont *c = &q->c.flow->cont.at[read->read.cont];
    bool of_code = c->type == U8 || c->type == I8 || is_float_code(q, c->type);
    if (!of_code || read->has_else || !c->data || !c->data_bytes) return -1;
    if (c->kind != CONT_PARAM && c->kind != CONT_LITERAL) return -1;
    const uint8_t *code = c->data;
    for (int64_t i = 1; i < c->data_bytes; i++)
        if (code[i] != code[0]) return -1;
    return body_bits(b, c->type, mem_get(c->type, c->data, 0));
}

static void fold_equal_codes(Quantizing *q, Map *m) {
    for (int v = 0; v < m->body.val.n; v++) {
        Body none = {.arena = q->c.arena};
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || equal_codes(q, &none, val) < 0) continue;
        map_rewrite(&q->c, m, NULL, 0, equal_codes, q);
        return;
    }
}

Flow *pass_quantize(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_quantize(Arena *arena, const Flow *flow, const PassEnv *env) {
    Quantizing q = {.c = {.arena = arena, .flow = flow_clone(arena, flow)}, .env = env};
    for (int m = 0; m < q.c.flow->map.n; m++) fold_equal_codes(&q, q.c.flow->map.at[m]);
    keep_codes(&q);
    if (env->math != MATH_STRICT) sum_decoded(&q);
    if (env->machine->nuse || code_steps(env->machine)) split_zero_points(&q);
    if (env->math != MATH_STRICT) code_rows(&q);
    return pass_clean(arena, q.c.flow, env);
}
