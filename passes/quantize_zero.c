/* SPDX-License-Identifier: Apache-2.0 */
/* Zero points leave the sum. In integers that wrap,
 *
 *     sum (a - za)*(b - zb)  =  sum a*b  -  za * sum b  -  zb * sum a  +  K*za*zb
 *
 * holds exactly, and the sum of a*b alone is what dot-product instructions compute. Sums of weights
 * are constants. Instructions of the machine want a in u8 and b in i8: codes of the other sign are
 * moved by 128, and so is their zero point. Steps of warps take codes of any sign. A read that
 * takes a value outside its box counts as any other.
 */
#include "passes/quantize.h"

enum { GROUP = 4 };

typedef struct Split {
    Quantizing *q;
    int map;
    CodeTerm a, b;
    Contraction r;
    Grouped groups;
} Split;

/* Does the machine take codes of that type as they are, where others must be of `plain`? */
static bool takes(const Quantizing *q, DType t, DType plain) {
    return t == plain || code_steps(q->env->machine);
}

static bool uses_reduced(const Map *m, Dim d, bool *all) {
    bool any = false;
    for (int i = 0; i < m->dim.n; i++) {
        bool uses = dim_uses(d, m->dim.at[i].sym);
        if (map_reduces(m, i)) any |= uses, all[i] |= uses;
    }
    return any;
}

/* Every reduced dim indexes this read. */
static bool covers_reduced(const Map *m, int read) {
    bool used[MAP_DIMS] = {false};
    const Access *a = &m->body.val.at[read].read;
    for (int k = 0; k < a->rank; k++) uses_reduced(m, a->at[k], used);
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && !used[d] && !dim_is(m->dim.at[d].extent, 1)) return false;
    return true;
}

/* The map is a sum of products of two codes, worth an instruction, and not yet in its form. */
static bool can_split(Quantizing *q, int map, Split *s) {
    const Map *m = q->c.flow->map.at[map];
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return false;
    const Write *w = &m->write.at[0];
    const Val *v = &m->body.val.at[w->val[0]];
    if (w->combine->simple != P_ADD || w->combine->t != I32) return false;
    if (v->kind != VAL_PRIM || v->prim != P_MUL) return false;
    *s = (Split){.q = q, .map = map, .r = map_contraction(q->c.flow, m)};
    if (!s->r.is || !code_term(&m->body, v->arg[0], &s->a) ||
        !code_term(&m->body, v->arg[1], &s->b))
        return false;
    if (s->a.code == s->r.b) {
        CodeTerm t = s->a;
        s->a = s->b, s->b = t;
    }
    if (s->a.code != s->r.a || s->b.code != s->r.b) return false;
    const Val *a = &m->body.val.at[s->a.code], *b = &m->body.val.at[s->b.code];
    if (b->has_else || access_by_value(m, &a->read) || access_by_value(m, &b->read)) return false;
    if (!sums_groups(q, m, &s->groups) || !covers_reduced(m, s->r.a) || !covers_reduced(m, s->r.b))
        return false;
    for (int i = 0; i < 2; i++) {
        int zero = i ? s->b.zero : s->a.zero;
        if (zero >= 0 && !is_outer_val(m, zero)) return false;
    }
    /* Windows of a channel each: lanes have their own weights. */
    bool each = q->c.flow->cont.at[b->read.cont].kind == CONT_PARAM;
    double lanes = 1, terms = 1;
    for (int d = 0; d < m->dim.n; d++) {
        if (s->r.role[d] == ROLE_N || (each && s->r.role[d] == ROLE_BATCH))
            lanes *= (double)map_extent(m, d, 64);
        if (map_reduces(m, d)) terms *= (double)map_extent(m, d, 64);
    }
    bool done = s->a.zero < 0 && s->b.zero < 0 && takes(q, a->type, U8) && takes(q, b->type, I8);
    return (!done || s->groups.groups >= 0) && lanes >= GROUP && terms >= GROUP;
}

/* ---- codes of the other sign ---------------------------------------------------------------- */

static int moved(Body *b, int val, DType to) {
    int shift = body_const(b, I32, to == U8 ? 128 : -128);
    return body_cvt(b, to, body_prim2(b, P_ADD, body_cvt(b, I32, val), shift));
}

/* The container that holds the codes of `cont` in the other 8-bit type. */
static int recode(Quantizing *q, int map, int cont, DType to) {
    if (cont < q->nrecoded && q->recoded[cont]) return q->recoded[cont];
    int out = codes_as(q, map, cont, dtype_name(to), to, moved);
    if (cont < q->nrecoded) q->recoded[cont] = out;
    return out;
}

typedef struct Replace {
    int from, to;
} Replace;

static int replaced(void *user, Body *b, const Val *read) {
    const Replace *r = user;
    if (read->read.cont != r->from) return -1;
    Access at = read->read;
    at.cont = r->to;
    DType to = read->type == I8 ? U8 : I8;
    if (!read->has_else) return body_read(b, at, to);
    return body_read_else(b, at, to, moved(b, read->arg[0], to));
}

/* ---- sums of one operand -------------------------------------------------------------------- */

/* A map that sums the codes of one operand over all reduced dims; its container, and in `over` the
 * result dims it has. */
static int sum_codes(Split *s, int read, const char *what, Items *made, Dim *index, int *rank) {
    Flow *flow = s->q->c.flow;
    const Map *m = flow->map.at[s->map];
    const Val *val = &m->body.val.at[read];
    DimSubst subst[MAP_DIMS];
    Dim shape[RANK_MAX], at[RANK_MAX];
    int n = 0;
    Map *sum = flow_map(flow, made, internf(flow->ctx, "%s.%s", m->name, what), m->from);
    *rank = 0;
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        bool uses = map_reduces(m, d);
        for (int k = 0; k < val->read.rank; k++) uses |= dim_uses(val->read.at[k], dim->sym);
        if (!uses) continue;
        Dim mine = map_dim(flow, sum, dim_sym_name(dim->sym), dim->extent);
        subst[n++] = (DimSubst){dim->sym, mine};
        if (map_reduces(m, d)) continue;
        index[*rank] = dim->sym, shape[*rank] = dim->extent, at[(*rank)++] = mine;
    }
    int to =
        flow_cont(flow, internf(flow->ctx, "%s.%s", m->name, what), CONT_TMP, I32, shape, *rank);
    int *map = NEW_ARRAY(flow->arena, int, m->body.val.n + 1);
    body_inline(&sum->body, &m->body, subst, n, NULL, NULL, NULL, map);
    int root = body_cvt(&sum->body, I32, map[read]);
    body_prune(&sum->body, &root, 1);
    map_write(flow, sum, to, at, root, combine_get(flow->ctx, "sum", I32));
    return to;
}

/* value - zero * sum[index], in the correcting map. */
static int corrected(Split *s, Over *o, int value, int zero, int sums, const Dim *index, int rank) {
    const Map *m = s->q->c.flow->map.at[s->map];
    Body *b = &o->map->body;
    Dim *at = NEW_ARRAY(b->arena, Dim, rank + 1);
    for (int k = 0; k < rank; k++)
        at[k] = dim_subst(s->q->c.flow->ctx, index[k], o->subst, o->nsubst);
    int z = copy_outer_val(b, &m->body, zero, o->subst, o->nsubst);
    int sum = body_read(b, (Access){sums, rank, at}, I32);
    return body_prim2(b, P_SUB, value, body_prim2(b, P_MUL, z, sum));
}

static int terms(const Split *s, Body *b) {
    Ctx *ctx = s->q->c.flow->ctx;
    const Map *m = s->q->c.flow->map.at[s->map];
    Dim n = dim_const(ctx, 1);
    int64_t known;
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d)) n = dim_mul(ctx, n, m->dim.at[d].extent);
    if (dim_is_const(n, &known)) return body_const(b, I32, (double)known);
    return body_cvt(b, I32, body_index(b, n));
}

/* The result container keeps its meaning: a map behind takes the zero points off. */
static void split(Split *s) {
    Flow *flow = s->q->c.flow;
    Map *m = flow->map.at[s->map];
    const Access to = m->write.at[0].to[0];
    const Cont c = flow->cont.at[to.cont];
    Items before = {0}, after = {0};
    Dim ib[RANK_MAX], ia[RANK_MAX];
    int rb = 0, ra = 0, sum_b = -1, sum_a = -1;
    if (s->a.zero >= 0) sum_b = sum_codes(s, s->b.code, "sums", &before, ib, &rb);
    if (s->b.zero >= 0) sum_a = sum_codes(s, s->a.code, "sums", &before, ia, &ra);
    Access *codes = NEW(flow->arena, Access);
    codes_like(s->q, m, &to, internf(flow->ctx, "%s.codes", c.name), I32, codes);
    Over o;
    map_over_access(s->q, m, &to, internf(flow->ctx, "%s.zero", m->name), &after, &o);
    Body *b = &o.map->body;
    int value = read_over(s->q, &o, codes);
    if (s->a.zero >= 0) value = corrected(s, &o, value, s->a.zero, sum_b, ib, rb);
    if (s->b.zero >= 0) value = corrected(s, &o, value, s->b.zero, sum_a, ia, ra);
    if (s->a.zero >= 0 && s->b.zero >= 0) {
        int za = copy_outer_val(b, &m->body, s->a.zero, o.subst, o.nsubst);
        int zb = copy_outer_val(b, &m->body, s->b.zero, o.subst, o.nsubst);
        int both = body_prim2(b, P_MUL, body_prim2(b, P_MUL, za, zb), terms(s, b));
        value = body_prim2(b, P_ADD, value, both);
    }
    map_write(flow, o.map, to.cont, o.at, body_cvt(b, c.type, value), NULL);
    int root = body_prim2(&m->body, P_MUL, body_cvt(&m->body, I32, s->a.code),
                          body_cvt(&m->body, I32, s->b.code));
    body_prune(&m->body, &root, 1);
    m->write.at[0].to = codes;
    m->write.at[0].val = arena_copy(flow->arena, &root, sizeof root);
    insert_before(s->q, s->map, &before);
    insert_after(s->q, s->map, &after);
}

/* Moves one operand by 128: its reads, and its zero point. */
static void recode_operand(Split *s, CodeTerm *t, DType to) {
    Flow *flow = s->q->c.flow;
    Map *m = flow->map.at[s->map];
    Replace r = {.from = m->body.val.at[t->code].read.cont};
    r.to = recode(s->q, s->map, r.from, to);
    m = flow->map.at[s->map];
    Body *b = &m->body;
    int zero = body_const(b, I32, to == U8 ? 128 : -128);
    if (t->zero >= 0) zero = body_prim2(b, P_ADD, t->zero, zero);
    int code = body_cvt(b, I32, t->code);
    int other = t == &s->a ? s->b.code : s->a.code, other_zero = t == &s->a ? s->b.zero : s->a.zero;
    int term = body_prim2(b, P_SUB, code, zero), rest = body_cvt(b, I32, other);
    if (other_zero >= 0) rest = body_prim2(b, P_SUB, rest, other_zero);
    int root = t == &s->a ? body_prim2(b, P_MUL, term, rest) : body_prim2(b, P_MUL, rest, term);
    m->write.at[0].val = arena_copy(flow->arena, &root, sizeof root);
    map_rewrite(&s->q->c, m, NULL, 0, replaced, &r);
}

bool code_steps(const Machine *machine) {
    for (int i = 0; i < machine->nstep; i++)
        if (machine->step[i]->c == I32) return true;
    return false;
}

void split_zero_points(Quantizing *q) {
    int nmap = q->c.flow->map.n;
    q->nrecoded = q->c.flow->cont.n;
    q->recoded = NEW_ARRAY(q->c.arena, int, q->nrecoded + 1);
    for (int i = 0; i < nmap; i++) {
        Split s;
        if (!can_split(q, i, &s)) continue;
        if (widen_groups(q, i, &s.groups, &s.b) && !can_split(q, i, &s)) continue;
        const Body *b = &q->c.flow->map.at[i]->body;
        bool a_other = !takes(q, b->val.at[s.a.code].type, U8);
        bool b_other = !takes(q, b->val.at[s.b.code].type, I8);
        if (a_other && b->val.at[s.a.code].read.cont == b->val.at[s.b.code].read.cont) continue;
        if (a_other) recode_operand(&s, &s.a, U8);
        if (a_other && !can_split(q, i, &s)) continue;
        if (b_other) recode_operand(&s, &s.b, I8);
        if ((a_other || b_other) && !can_split(q, i, &s)) continue;
        split(&s);
    }
}
