/* SPDX-License-Identifier: Apache-2.0 */
/* Reshapes as index arithmetic, axes, and shapes that only run-time values give.
 *
 * A reshape is cut into groups: shortest runs of dims on both sides with equal products. Inside a
 * group an index is made linear and taken apart again; between groups nothing mixes, so the usual
 * merges and splits of axes become plain dims once `clean` composes them. */
#include "view.h"

#include <string.h>

/* ---- reshape -------------------------------------------------------------------------------- */

typedef struct Group {
    int from0, from1, to0, to1;
} Group;

static void products(Ctx *ctx, const Dim *shape, int rank, Dim *prefix) {
    prefix[0] = dim_const(ctx, 1);
    for (int i = 0; i < rank; i++) prefix[i + 1] = dim_mul(ctx, prefix[i], shape[i]);
}

/* The next pair of positions after (i, j) with equal prefix products, or the end. */
static Group next_group(const Dim *pa, int na, const Dim *pb, int nb, int i, int j) {
    for (int sum = 1; sum <= na - i + nb - j; sum++)
        for (int di = sum <= nb - j ? 0 : sum - (nb - j); di <= sum && i + di <= na; di++)
            if (pa[i + di] == pb[j + sum - di]) return (Group){i, i + di, j, j + sum - di};
    return (Group){i, na, j, nb};
}

static void take_apart(Ctx *ctx, const DimEnv *env, const Dim *from, int first, int last,
                       Dim linear, Dim *index) {
    int outermost = first;
    while (outermost < last && dim_is(from[outermost], 1)) outermost++;
    for (int k = last; k-- > first;) {
        if (dim_is(from[k], 1) || dim_is(from[k], 0)) {
            index[k] = dim_const(ctx, 0);
            continue;
        }
        Dim at = k == outermost ? linear : dim_mod(ctx, linear, from[k]);
        index[k] = dim_simplify(ctx, at, env);
        if (k > outermost) linear = dim_simplify(ctx, dim_div(ctx, linear, from[k]), env);
    }
}

void onnx_reshape_index(Lower *lo, const DimEnv *env, const Dim *from, int nfrom, const Dim *to,
                        int nto, const Dim *at, Dim *index) {
    Ctx *ctx = lo->ctx;
    Dim pa[RANK_MAX + 1], pb[RANK_MAX + 1];
    products(ctx, from, nfrom, pa);
    products(ctx, to, nto, pb);
    for (int i = 0, j = 0; i < nfrom || j < nto;) {
        Group g = next_group(pa, nfrom, pb, nto, i, j);
        Dim linear = dim_const(ctx, 0);
        for (int k = g.to0; k < g.to1; k++)
            linear = dim_add(ctx, dim_mul(ctx, linear, to[k]), at[k]);
        take_apart(ctx, env, from, g.from0, g.from1, linear, index);
        i = g.from1;
        j = g.to1;
    }
}

/* When the counts are not provably equal, a wrong shape given at run time must not read outside. */
void onnx_reshape(Lower *lo, const char *name, int from, int to) {
    const Cont a = lo->flow->cont.at[from], b = lo->flow->cont.at[to];
    Map *m = lower_map(lo, name);
    Dim at[RANK_MAX], index[RANK_MAX];
    lower_dims(lo, m, b.shape, b.rank, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    onnx_reshape_index(lo, &env, a.shape, a.rank, b.shape, b.rank, at, index);
    bool exact = dim_product(lo->ctx, a.shape, a.rank) == dim_product(lo->ctx, b.shape, b.rank);
    int val = exact ? map_read(lo->flow, m, from, index)
                    : map_read_else(lo->flow, m, from, index, body_const(&m->body, a.type, 0));
    map_write(lo->flow, m, to, at, val, NULL);
}

/* ---- indices from data ---------------------------------------------------------------------- */

Dim onnx_value_index(Lower *lo, Map *m, int val, Dim extent, bool *guard) {
    DimEnv env = map_env(lo->arena, lo->flow, m);
    Body *b = &m->body;
    int arg[2] = {body_cvt(b, I64, val), body_index(b, extent)};
    int at = body_expr(b, "max(min(select($0 < 0, $0 + $1, $0), $1 - 1), 0)", arg, 2, NULL, 0, I64);
    if (!dim_ge0(lo->ctx, dim_addc(lo->ctx, extent, -1), &env)) *guard = true;
    return body_symbol(b, at, "r");
}

int onnx_read(Lower *lo, Map *m, int cont, const Dim *at, bool guard) {
    if (!guard) return map_read(lo->flow, m, cont, at);
    return map_read_else(lo->flow, m, cont, at,
                         body_const(&m->body, lo->flow->cont.at[cont].type, 0));
}

/* ---- attributes and operands ---------------------------------------------------------------- */

Infer onnx_reader(Lower *lo) {
    return (Infer){.ctx = lo->ctx,
                   .arena = lo->arena,
                   .graph = (Graph *)lo->graph,
                   .node = (Node *)lo->node,
                   .ops = lo->ops};
}

int onnx_ints(Infer *in, int operand, const char *attr, const int64_t **ints) {
    const Dim *at;
    int n;
    if (operand < 0 || !infer_in(in, operand))
        return attr ? attr_ints(in->ctx, in->node, attr, ints) : -1;
    if (!infer_known(in, operand, &at, &n)) return -2;
    int64_t *list = NEW_ARRAY(in->arena, int64_t, n);
    for (int i = 0; i < n; i++)
        if (!dim_is_const(at[i], &list[i])) return -2;
    *ints = list;
    return n;
}

int onnx_axes(Infer *in, int operand, const char *attr, int rank, bool *flag) {
    const int64_t *axes;
    int n = onnx_ints(in, operand, attr, &axes);
    memset(flag, 0, sizeof *flag * (size_t)rank);
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            fail(in->ctx, E_ATTRIBUTE,
                 "axis %lld is out of range: it must be in %d..%d for rank %d", (long long)axes[i],
                 -rank, rank - 1, rank);
        if (flag[axis]) fail(in->ctx, E_ATTRIBUTE, "axis %lld is given twice", (long long)axes[i]);
        flag[axis] = true;
    }
    return n;
}

DType onnx_dtype(Ctx *ctx, const Node *node, const char *name, DType otherwise) {
    int64_t to = attr_int(ctx, node, name, 0);
    if (!to && !node_attr(node, name)) return otherwise;
    DType t = to == (int)to ? dtype_from_onnx((int)to) : DT_NONE;
    if (t == DT_NONE)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is %lld, which is no data type of ONNX", name,
             (long long)to);
    return t;
}

/* ---- shapes that data give ------------------------------------------------------------------ */

const Dim onnx_any_size[RANK_MAX] = {NULL};

static bool compatible(const Type *declared, const Dim *shape, int rank) {
    if (declared->rank != rank) return false;
    for (int i = 0; i < rank; i++) {
        bool differ = shape[i] && shape[i] != declared->shape[i] && dim_is_const(shape[i], NULL) &&
                      dim_is_const(declared->shape[i], NULL);
        if (differ) return false;
    }
    return true;
}

/* A symbol that data defines always has a bound: that tells it from the model's own. */
static Dim fresh(Infer *in, int axis, Dim upper) {
    const char *name = internf(in->ctx, "%s_d%d", in->node->row->name, axis);
    return infer_fresh(in, name, upper ? upper : dim_const(in->ctx, INT32_MAX));
}

void onnx_set_unknown(Infer *in, int operand, DType t, Dim *shape, int rank, const Dim *upper) {
    const Type *declared = infer_declared(in, 0);
    const Value *out = infer_out(in, 0), *v = infer_in(in, operand);
    if (!out) return;
    if (declared && rank >= 0 && compatible(declared, shape, rank)) {
        infer_set(in, 0, t, declared->shape, declared->rank);
        return;
    }
    if (rank < 0 || !upper)
        fail(in->ctx, E_UNSUPPORTED,
             "values of operand \"%s\" are not known at compile time and the result's "
             "shape is not declared: make it a constant, or declare the shape",
             v ? v->name : "");
    for (int i = 0; i < rank; i++)
        if (!shape[i]) shape[i] = fresh(in, i, upper[i]);
    infer_set(in, 0, t, shape, rank);
}

int onnx_vector_length(Infer *in, int operand) {
    const Type *t = &infer_tensor(in, operand)->type;
    int64_t n = -1;
    if (t->rank == 1 && dim_is_const(t->shape[0], &n) && n > RANK_MAX)
        fail(in->ctx, E_LIMIT, "shape of rank %lld: the most is %d", (long long)n, RANK_MAX);
    return t->rank == 1 ? (int)n : -1;
}

void onnx_need_type(Infer *in, int operand, DType t) {
    const Value *v = infer_in(in, operand);
    if (v && v->type.dtype != t)
        fail(in->ctx, E_TYPE, "operand \"%s\" has type %s: it must be %s", v->name,
             dtype_name(v->type.dtype), dtype_name(t));
}

void onnx_need_length(Infer *in, int operand, int n) {
    const Value *v = infer_in(in, operand);
    if (!v || onnx_vector_length(in, operand) == n) return;
    if (v->type.rank == 1 && !dim_is_const(v->type.shape[0], NULL)) {
        infer_require(in, v->type.shape[0], dim_const(in->ctx, n), false);
        return;
    }
    fail(in->ctx, E_SHAPE, "operand \"%s\" is %s: it must be a vector of %d elements", v->name,
         type_str(in->ctx, &v->type), n);
}

void onnx_take_partly(Infer *in, int operand, Dim *shape, int rank) {
    int n = 0;
    const Dim *at = infer_partly(in, operand, &n);
    DimEnv env = infer_env(in);
    for (int i = 0; at && i < n && i < rank; i++)
        if (at[i] && dim_ge0(in->ctx, dim_addc(in->ctx, at[i], -1), &env)) shape[i] = at[i];
}

void onnx_unknown_shape(Infer *in, int operand, DType t, Dim upper) {
    int rank = onnx_vector_length(in, operand);
    Dim shape[RANK_MAX] = {NULL}, most[RANK_MAX];
    for (int i = 0; i < rank; i++) most[i] = upper;
    onnx_take_partly(in, operand, shape, rank);
    onnx_set_unknown(in, operand, t, shape, rank, most);
}

/* An extent, or an element that is known, of an operand. */
static bool comes_from_operand(const Lower *lo, Dim sym) {
    for (int i = 0; i < lo->node->in.n; i++) {
        const Value *v = lower_value(lo, i);
        if (!v || v->type.kind != TYPE_TENSOR) continue;
        for (int k = 0; k < v->type.rank; k++)
            if (dim_uses(v->type.shape[k], sym)) return true;
        int64_t count = v->known ? type_count(&v->type) : 0;
        for (int64_t k = 0; k < count; k++)
            if (dim_uses(v->known[k], sym)) return true;
    }
    return false;
}

static bool is_fresh(const Lower *lo, Dim extent) {
    const Graph *root = graph_root(lo->graph);
    for (int k = 0; k < root->symbol.n; k++) {
        const Symbol *s = &root->symbol.at[k];
        if (s->sym == extent && s->upper) return !comes_from_operand(lo, extent);
    }
    return false;
}

int onnx_fresh_axes(const Lower *lo, int *axes) {
    if (lo->node->out.at[0] < 0) return 0;
    const Type *t = &lo->graph->value.at[lo->node->out.at[0]].type;
    int n = 0;
    for (int i = 0; i < t->rank; i++)
        if (is_fresh(lo, t->shape[i])) axes[n++] = i;
    return n;
}

static void define_by(Lower *lo, int vector, int64_t element, Dim symbol) {
    int64_t attr[3] = {element, 0, INT64_MAX};
    lower_call(lo, "value", &vector, 1, NULL, 0, attr, 3, &symbol, 1);
}

void onnx_define_axes(Lower *lo, OnnxSizeFn *size) {
    int axes[RANK_MAX], n = onnx_fresh_axes(lo, axes);
    Dim length = dim_const(lo->ctx, n), define[RANK_MAX];
    if (!n) return;
    int dims = lower_tmp(lo, "dims", I64, &length, 1);
    for (int i = 0; i < n; i++) {
        Map *m = lower_map(lo, "dim");
        Dim place = dim_const(lo->ctx, i);
        map_write(lo->flow, m, dims, &place, size(lo, m, axes[i]), NULL);
        define[i] = lo->flow->cont.at[lower_out(lo, 0)].shape[axes[i]];
    }
    for (int i = 0; i < n; i++) define_by(lo, dims, i, define[i]);
}

void onnx_define(Lower *lo, int vector, const int *axes, int n) {
    const Dim *shape = lo->flow->cont.at[lower_out(lo, 0)].shape;
    for (int i = 0; i < n; i++) define_by(lo, vector, axes[i], shape[axes[i]]);
}

void onnx_define_result(Lower *lo, int result, int axis, int vector, int64_t element) {
    int to = lower_out(lo, result);
    if (to < 0) return;
    Dim extent = lo->flow->cont.at[to].shape[axis];
    if (is_fresh(lo, extent)) define_by(lo, vector, element, extent);
}

int onnx_checked_sizes(Lower *lo, int sizes, const char *combine, Dim total) {
    Dim n = lo->flow->cont.at[sizes].shape[0];
    int all = lower_tmp(lo, combine, I64, NULL, 0), checked = lower_tmp(lo, "checked", I64, &n, 1);
    Map *m = lower_map(lo, combine);
    Dim k = map_dim(lo->flow, m, "k", n);
    map_write(lo->flow, m, all, NULL, map_read(lo->flow, m, sizes, &k),
              combine_get(lo->ctx, combine, I64));
    m = lower_map(lo, "checked");
    k = map_dim(lo->flow, m, "k", n);
    int arg[3] = {map_read(lo->flow, m, sizes, &k), body_index(&m->body, total),
                  map_read(lo->flow, m, all, NULL)};
    map_write(
        lo->flow, m, checked, &k,
        body_expr(&m->body, "select(($1 == $2) & ($0 >= 0), $0, highest)", arg, 3, NULL, 0, I64),
        NULL);
    return checked;
}
