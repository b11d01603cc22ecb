/* SPDX-License-Identifier: Apache-2.0 */
/* Types as text, and numpy broadcasting of shapes whose sizes may be symbols. */
#include "graph.h"

#include <string.h>

static const char *shape_text(Ctx *ctx, const Type *t) {
    Text text = {ctx_arena(ctx), NULL, 0, 0};
    text_put(&text, "[");
    for (int i = 0; i < t->rank; i++)
        text_printf(&text, "%s%s", i ? "," : "", dim_str(ctx, t->shape[i]));
    text_put(&text, "]");
    return text_str(&text);
}

const char *type_str(Ctx *ctx, const Type *t) {
    const char *dtype = t->dtype ? dtype_name(t->dtype) : "?";
    switch (t->kind) {
    case TYPE_UNKNOWN: return "?";
    case TYPE_SPARSE:
    case TYPE_TENSOR: return internf(ctx, "%s%s", dtype, t->rank < 0 ? "[?]" : shape_text(ctx, t));
    case TYPE_SEQUENCE: return internf(ctx, "seq(%s)", type_str(ctx, t->elem));
    case TYPE_OPTIONAL: return internf(ctx, "optional(%s)", type_str(ctx, t->elem));
    case TYPE_MAP: return internf(ctx, "map(%s, %s)", dtype, type_str(ctx, t->elem));
    }
    BUG("type of kind %d", t->kind);
}

enum { CASES_MAX = 3 };

typedef struct Cases {
    Ctx *ctx;
    Dim sym[CASES_MAX];
    int n;
    bool over;
} Cases;

static void case_symbol(void *user, Dim sym) {
    Cases *c = user;
    for (int i = 0; i < c->n; i++)
        if (c->sym[i] == sym) return;
    c->over = c->over || c->n == CASES_MAX;
    if (!c->over) c->sym[c->n++] = sym;
}

/* Is `both` what x and y broadcast to, whether each symbol is 0, 1 or more? Where they have no
 * value (a size divided by 0), nothing is asked of them. */
static bool broadcast_is(Infer *in, Dim x, Dim y, Dim both) {
    Ctx *ctx = in->ctx;
    Cases c = {.ctx = ctx};
    int total = 1;
    dim_symbols(x, case_symbol, &c);
    dim_symbols(y, case_symbol, &c);
    for (int i = 0; i < c.n; i++) total *= 3;
    for (int k = 0; k < total && !c.over; k++) {
        DimSubst subst[CASES_MAX];
        DimRange range[CASES_MAX];
        int nsubst = 0, nrange = 0;
        for (int i = 0, rest = k; i < c.n; i++, rest /= 3) {
            if (rest % 3 < 2)
                subst[nsubst++] = (DimSubst){c.sym[i], dim_const(ctx, rest % 3)};
            else
                range[nrange++] = (DimRange){c.sym[i], dim_const(ctx, 2), NULL};
        }
        DimEnv env = {range, nrange};
        Dim a = dim_try_subst(ctx, x, subst, nsubst), b = dim_try_subst(ctx, y, subst, nsubst),
            r = dim_try_subst(ctx, both, subst, nsubst);
        if (!a || !b || !r) continue;
        a = dim_simplify(ctx, a, &env), b = dim_simplify(ctx, b, &env);
        r = dim_simplify(ctx, r, &env);
        if (!(a == b ? r == a : dim_is(a, 1) ? r == b : dim_is(b, 1) && r == a)) return false;
    }
    return !c.over;
}

/* y is min(x, c) for a symbol x: beyond c the model has no meaning, so x ranges to c only. */
static bool narrow(Infer *in, Dim x, Dim y) {
    int64_t c;
    if (!dim_sym_name(x) || y->nterms != 1 || y->term[0].coef != 1 || y->term[0].natoms != 1)
        return false;
    const Atom *m = y->term[0].atom[0];
    if (m->kind != ATOM_MIN || (m->a != x && m->b != x) ||
        !dim_is_const(m->a == x ? m->b : m->a, &c) || c < 2)
        return false;
    Graph *root = (Graph *)graph_root(in->graph);
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].sym == x && root->symbol.at[i].hi > c) root->symbol.at[i].hi = c;
    return true;
}

/* The sizes that were joined to x: x itself when none were. */
static Joined joined_to(const Graph *root, const Dim *x) {
    for (int i = 0; i < root->joined.n; i++)
        if (root->joined.at[i].dim == *x) return root->joined.at[i];
    return (Joined){*x, 1, x};
}

static bool joins(const Joined *j, Dim size) {
    for (int i = 0; i < j->n; i++)
        if (j->of[i] == size) return true;
    return false;
}

/* What the sizes broadcast to when each may turn out to be 1 at run time, or 0: the largest, cut to
 * 0 where one is empty. */
static Dim joined_formula(Infer *in, const Joined *j) {
    Ctx *ctx = in->ctx;
    DimEnv env = infer_env(in);
    Dim all = j->of[0], one = dim_const(ctx, 1);
    for (int i = 1; i < j->n; i++) all = dim_max(ctx, all, j->of[i]);
    for (int i = 0; i < j->n; i++) all = dim_mul(ctx, all, dim_min(ctx, one, j->of[i]));
    return dim_simplify(ctx, all, &env);
}

/* Sizes that were joined before stay one list, however often they meet: joining a list with a part
 * of it gives the same Dim. */
static Dim joined_dim(Infer *in, Dim x, Dim y) {
    Graph *root = (Graph *)graph_root(in->graph);
    Joined a = joined_to(root, &x), b = joined_to(root, &y);
    Dim *of = NEW_ARRAY(root->arena, Dim, a.n + b.n);
    Joined all = {NULL, a.n, of};
    memcpy(of, a.of, sizeof *of * (size_t)a.n);
    for (int i = 0; i < b.n; i++)
        if (!joins(&a, b.of[i])) of[all.n++] = b.of[i];
    for (int i = 0; i < root->joined.n; i++) {
        const Joined *j = &root->joined.at[i];
        bool same = j->n == all.n;
        for (int k = 0; same && k < all.n; k++) same = joins(j, of[k]);
        if (same) return j->dim;
    }
    all.dim = joined_formula(in, &all);
    vec_push(root->arena, &root->joined, all);
    return all.dim;
}

/* Multiples of 2 and more are not 1, whatever the symbols are (heads of several for each row of a
 * batch), nor is what is larger. */
static bool may_be_one(Infer *in, Dim d) {
    DimEnv env = infer_env(in);
    return dim_factor(d) == 1 && !dim_ge0(in->ctx, dim_addc(in->ctx, d, -2), &env);
}

/* One extent of two that are broadcast together. A size that is not 1 decides. Of two
 * polynomials one is taken when it is right in every case, or when the model declares it. Readers
 * index with min(i, extent - 1). */
static Dim broadcast_dim(Infer *in, Dim x, Dim y, Dim declared, bool *bad) {
    if (x == y || dim_is(y, 1)) return x;
    if (dim_is(x, 1)) return y;
    bool cx = dim_is_const(x, NULL), cy = dim_is_const(y, NULL);
    if (cx && cy) {
        *bad = true;
        return x;
    }
    if (!cx && !cy) {
        if (narrow(in, x, y)) return x;
        if (narrow(in, y, x)) return y;
        if (broadcast_is(in, x, y, x)) return x;
        if (broadcast_is(in, x, y, y)) return y;
    }
    bool one_x = may_be_one(in, x), one_y = may_be_one(in, y);
    infer_require(in, x, y, one_x || one_y);
    if (!one_x || declared == x) return x;
    if (!one_y || declared == y) return y;
    return joined_dim(in, x, y);
}

int infer_broadcast(Infer *in, const Type *a, const Type *b, Dim *out) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    bool bad = false;
    Dim one = dim_const(in->ctx, 1);
    const Type *t = in->declared && in->node->out.n ? &in->declared[0] : NULL;
    if (t && (t->kind != TYPE_TENSOR || t->rank < rank)) t = NULL;
    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        Dim declared = t ? t->shape[t->rank - rank + i] : NULL;
        out[i] = broadcast_dim(in, ia < 0 ? one : a->shape[ia], ib < 0 ? one : b->shape[ib],
                               declared, &bad);
    }
    if (bad)
        fail(in->ctx, E_SHAPE,
             "shapes %s and %s do not broadcast: aligned from the right, two extents must be equal "
             "or "
             "one of them 1",
             shape_text(in->ctx, a), shape_text(in->ctx, b));
    return rank;
}

void infer_pointwise_to(Infer *in, DType t) {
    Dim shape[RANK_MAX], next[RANK_MAX];
    const Value *first = infer_tensor(in, 0);
    Type all = first->type;
    if (all.rank > RANK_MAX) fail(in->ctx, E_LIMIT, "rank %d: the most is %d", all.rank, RANK_MAX);
    for (int i = 0; i < all.rank; i++) shape[i] = all.shape[i];
    all.shape = shape;
    for (int i = 1; i < in->node->in.n; i++) {
        infer_tensor(in, i);
        infer_same(in, 0, i);
        all.rank = infer_broadcast(in, &all, &infer_tensor(in, i)->type, next);
        memcpy(shape, next, sizeof *shape * (size_t)all.rank);
    }
    infer_set(in, 0, t, shape, all.rank);
}

void infer_pointwise(Infer *in) {
    infer_pointwise_to(in, infer_tensor(in, 0)->type.dtype);
}
