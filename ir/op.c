/* SPDX-License-Identifier: Apache-2.0 */
/* What operator rows get while types are inferred: operands, results, attributes, broadcasting. */
#include "graph.h"

#include <string.h>

/* ---- attributes ----------------------------------------------------------------------------- */

static const char *const kind_name[] = {"int",  "float",  "string",  "tensor", "graph",
                                        "ints", "floats", "strings", "type"};

static const Attr *attr_of(Ctx *ctx, const Node *node, const char *name, AttrKind kind) {
    const Attr *a = node_attr(node, name);
    if (a && a->kind != kind)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is of kind %s: it must be of kind %s", name,
             kind_name[a->kind], kind_name[kind]);
    return a;
}

int64_t attr_int(Ctx *ctx, const Node *node, const char *name, int64_t otherwise) {
    const Attr *a = attr_of(ctx, node, name, ATTR_INT);
    return a ? a->i : otherwise;
}

float attr_float(Ctx *ctx, const Node *node, const char *name, float otherwise) {
    const Attr *a = attr_of(ctx, node, name, ATTR_FLOAT);
    return a ? a->f : otherwise;
}

const char *attr_string(Ctx *ctx, const Node *node, const char *name, const char *otherwise) {
    const Attr *a = attr_of(ctx, node, name, ATTR_STRING);
    return a ? a->s : otherwise;
}

int attr_ints(Ctx *ctx, const Node *node, const char *name, const int64_t **ints) {
    const Attr *a = attr_of(ctx, node, name, ATTR_INTS);
    if (!a) return -1;
    *ints = a->ints;
    return a->n;
}

int64_t attr_axis(Ctx *ctx, const Node *node, const char *name, int64_t otherwise, int rank) {
    int64_t axis = attr_int(ctx, node, name, otherwise);
    if (axis < -rank || axis >= rank)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"%s\" is %lld: it must be in %d..%d for a tensor of rank %d", name,
             (long long)axis, -rank, rank - 1, rank);
    return axis < 0 ? axis + rank : axis;
}

/* ---- operands and results ------------------------------------------------------------------- */

const Value *infer_in(const Infer *in, int i) {
    if (i >= in->node->in.n || in->node->in.at[i] < 0) return NULL;
    return &in->graph->value.at[in->node->in.at[i]];
}

Value *infer_out(Infer *in, int i) {
    if (i >= in->node->out.n || in->node->out.at[i] < 0) return NULL;
    return &in->graph->value.at[in->node->out.at[i]];
}

const Value *infer_tensor(const Infer *in, int i) {
    const Value *v = infer_in(in, i);
    if (!v) fail(in->ctx, E_MODEL, "operand %d is missing: the operator needs it", i);
    if (v->type.kind != TYPE_TENSOR)
        fail(in->ctx, E_TYPE,
             "operand %d, \"%s\", is not a tensor: the operator takes tensors only", i, v->name);
    if (v->type.rank < 0)
        fail(in->ctx, E_UNSUPPORTED,
             "rank of operand %d, \"%s\", is not known at compile time: give the model's inputs "
             "shapes",
             i, v->name);
    return v;
}

void infer_arity(const Infer *in, int least, int most) {
    int n = in->node->in.n;
    while (n > most && in->node->in.at[n - 1] < 0) n--;
    if (n > most || n < least)
        fail(in->ctx, E_MODEL, "the node has %d operands: the operator takes %d%s%s", n, least,
             most > least ? " to " : "", most > least ? internf(in->ctx, "%d", most) : "");
    for (int i = 0; i < least; i++)
        if (!infer_in(in, i))
            fail(in->ctx, E_MODEL, "operand %d is missing: the operator needs it", i);
}

bool infer_same(const Infer *in, int i, int j) {
    const Value *a = infer_in(in, i), *b = infer_in(in, j);
    if (!a || !b) return false;
    if (a->type.dtype != b->type.dtype)
        fail(
            in->ctx, E_TYPE,
            "operands \"%s\" of type %s and \"%s\" of type %s must have one type: cast one of them",
            a->name, dtype_name(a->type.dtype), b->name, dtype_name(b->type.dtype));
    return true;
}

DimEnv infer_env(const Infer *in) {
    return graph_env(in->arena, in->graph);
}

/* Sizes beyond what a machine addresses end here, where the node is known. */
static void check_size(const Infer *in, const char *name, const Dim *shape, int rank) {
    double count = 1;
    int64_t extent;
    for (int k = 0; k < rank; k++) {
        if (!dim_is_const(shape[k], &extent)) continue;
        if (extent < 0)
            fail(in->ctx, E_SHAPE, "result \"%s\" has a dim of %lld: dims must not be negative",
                 name, (long long)extent);
        count *= (double)extent;
    }
    if (count > 0x1p46)
        fail(in->ctx, E_LIMIT, "result \"%s\" has %.3g elements: the most is 2^46", name, count);
}

void infer_set(Infer *in, int result, DType t, const Dim *shape, int rank) {
    Value *v = infer_out(in, result);
    if (!v) return;
    if (rank > RANK_MAX)
        fail(in->ctx, E_LIMIT, "result \"%s\" has rank %d: the most is %d", v->name, rank,
             RANK_MAX);
    check_size(in, v->name, shape, rank);
    const Dim *copy = arena_copy(in->arena, shape, sizeof *shape * (size_t)rank);
    v->type = (Type){TYPE_TENSOR, t, rank, copy, NULL};
    v->known = v->partly = NULL;
}

void infer_set_type(Infer *in, int result, const Type *t) {
    Value *v = infer_out(in, result);
    if (!v) return;
    v->type = *t;
    v->known = v->partly = NULL;
}

void infer_set_known(Infer *in, int result, const Dim *elements, int n) {
    Value *v = infer_out(in, result);
    if (!v || n > KNOWN_MAX) return;
    const Dim *copy = arena_copy(in->arena, elements, sizeof *elements * (size_t)n);
    bool all = true;
    for (int i = 0; i < n; i++) all = all && elements[i];
    v->known = all ? copy : NULL;
    v->partly = all ? NULL : copy;
}

const void *value_look(const Value *v) {
    if (v->kind != VALUE_PARAM) return NULL;
    ((Value *)v)->hidden = false; /* a mark for the passes behind, not a part of the value */
    return v->data;
}

bool type_is_integral(DType t) {
    return dtype_is_int(t) || t == BOOL;
}

const Value *value_source(const Graph *g, const Value *v) {
    for (; v->kind == VALUE_OUTER; g = g->outer) v = &g->outer->value.at[v->outer];
    return v;
}

bool value_known(const Infer *in, const Graph *g, const Value *v, const Dim **elements, int *n) {
    if (!v || v->type.kind != TYPE_TENSOR || !type_is_integral(v->type.dtype)) return false;
    int64_t count = type_count(&v->type);
    if (count < 0 || count > KNOWN_MAX) return false;
    *n = (int)count;
    *elements = v->known;
    if (v->known) return true;
    v = value_source(g, v);
    if (v->kind != VALUE_PARAM || (!v->data && count)) return false;
    Dim *at = NEW_ARRAY(in->arena, Dim, count);
    for (int i = 0; i < *n; i++)
        at[i] = dim_const(in->ctx, bits_to_int(v->type.dtype, mem_get(v->type.dtype, v->data, i)));
    *elements = at;
    return true;
}

bool infer_known(const Infer *in, int operand, const Dim **elements, int *n) {
    return value_known(in, in->graph, infer_in(in, operand), elements, n);
}

const Dim *infer_partly(const Infer *in, int operand, int *n) {
    const Dim *elements;
    const Value *v = infer_in(in, operand);
    if (infer_known(in, operand, &elements, n)) return elements;
    if (!v || !v->partly) return NULL;
    *n = (int)type_count(&v->type);
    return v->partly;
}

static bool symbol_taken(const Graph *root, Dim sym) {
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].sym == sym) return true;
    return false;
}

/* Symbols belong to the outermost graph, which is as much under construction as the nested one. */
Dim infer_fresh(Infer *in, const char *name, Dim upper) {
    Graph *root = (Graph *)graph_root(in->graph);
    Dim sym = dim_sym(in->ctx, intern(in->ctx, name));
    for (int i = 1; symbol_taken(root, sym); i++)
        sym = dim_sym(in->ctx, internf(in->ctx, "%s_%d", name, i));
    vec_push(root->arena, &root->symbol, (Symbol){sym, 0, INT64_MAX, upper});
    return sym;
}

typedef struct Declared {
    const Graph *root;
    bool ok;
} Declared;

static void declared_symbol(void *user, Dim sym) {
    Declared *d = user;
    bool found = false;
    for (int i = 0; i < d->root->symbol.n; i++)
        if (d->root->symbol.at[i].sym == sym && !d->root->symbol.at[i].upper) found = true;
    d->ok = d->ok && found;
}

const Type *infer_declared(Infer *in, int result) {
    if (!in->declared || result >= in->node->out.n) return NULL;
    const Type *t = &in->declared[result];
    if (t->kind != TYPE_TENSOR || t->rank < 0) return NULL;
    Declared d = {graph_root(in->graph), true};
    for (int i = 0; i < t->rank; i++) dim_symbols(t->shape[i], declared_symbol, &d);
    return d.ok ? t : NULL;
}

/* ---- sizes that must agree ------------------------------------------------------------------ */

bool infer_require(const Infer *in, Dim a, Dim b, bool broadcast) {
    Graph *root = (Graph *)graph_root(in->graph);
    Declared model = {root, true};
    if (a == b) return true;
    if (dim_is_const(a, NULL) && dim_is_const(b, NULL) && !broadcast)
        fail(in->ctx, E_SHAPE, "sizes %s and %s must be equal", dim_str(in->ctx, a),
             dim_str(in->ctx, b));
    dim_symbols(a, declared_symbol, &model);
    dim_symbols(b, declared_symbol, &model);
    if (!model.ok) return false;
    for (int i = 0; i < root->require.n; i++) {
        const Require *r = &root->require.at[i];
        if (r->a == a && r->b == b && r->broadcast == broadcast) return true;
    }
    vec_push(root->arena, &root->require, (Require){a, b, broadcast, NULL, in->node->name});
    return true;
}

/* ---- broadcasting --------------------------------------------------------------------------- */

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

/* Is `both` what x and y broadcast to, whether each symbol is 0, 1 or more? */
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
        Dim a = dim_simplify(ctx, dim_subst(ctx, x, subst, nsubst), &env);
        Dim b = dim_simplify(ctx, dim_subst(ctx, y, subst, nsubst), &env);
        Dim r = dim_simplify(ctx, dim_subst(ctx, both, subst, nsubst), &env);
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

/* One extent of two that are broadcast together. A constant other than 1 decides. Of two
 * polynomials one is taken when it is right in every case, or when the model declares it. Else
 * either may turn out to be 1 at run time, or 0: max(x, y), cut to 0 where a side is empty. Readers
 * index with min(i, extent - 1). */
static Dim broadcast_dim(Infer *in, Dim x, Dim y, Dim declared, bool *bad) {
    Ctx *ctx = in->ctx;
    int64_t a, b;
    if (x == y || dim_is(y, 1)) return x;
    if (dim_is(x, 1)) return y;
    bool ca = dim_is_const(x, &a), cb = dim_is_const(y, &b);
    if (ca && cb) *bad = true;
    if (!ca && !cb) {
        if (narrow(in, x, y)) return x;
        if (narrow(in, y, x)) return y;
        if (broadcast_is(in, x, y, x)) return x;
        if (broadcast_is(in, x, y, y)) return y;
    }
    infer_require(in, x, y, true);
    if (ca || declared == x) return x;
    if (cb || declared == y) return y;
    DimEnv env = infer_env(in);
    Dim one = dim_const(ctx, 1), both = dim_max(ctx, x, y);
    both = dim_mul(ctx, both, dim_mul(ctx, dim_min(ctx, one, x), dim_min(ctx, one, y)));
    return dim_simplify(ctx, both, &env);
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

/* ---- all nodes ------------------------------------------------------------------------------ */

static bool type_allowed(const char *types, DType t) {
    static const char *const word[] = {"float", "int", "uint", "bool", "complex", "string"};
    const char *class = word[dtype_class(t)], *name = dtype_name(t);
    for (const char *at = types; *at;) {
        size_t n = strcspn(at, " ");
        if ((n == strlen(class) && !memcmp(at, class, n)) ||
            (n == strlen(name) && !memcmp(at, name, n)))
            return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}

static void check_operand(const Infer *in) {
    const char *types = in->node->row->types;
    const Value *v = infer_in(in, 0);
    for (int i = 0; i < in->node->in.n; i++)
        if (infer_in(in, i) && infer_in(in, i)->type.dtype == C128)
            fail(in->ctx, E_UNSUPPORTED,
                 "operand \"%s\" is c128: complex numbers compile as c64 only",
                 infer_in(in, i)->name);
    if (!types || !v || v->type.kind != TYPE_TENSOR) return;
    if (v->type.dtype == STRING && !type_allowed(types, STRING))
        fail(in->ctx, E_UNSUPPORTED,
             "operand \"%s\" is text: this operator compiles for numbers only", v->name);
    if (!type_allowed(types, v->type.dtype))
        fail(in->ctx, E_TYPE, "operand \"%s\" has type %s: the operator takes %s", v->name,
             dtype_name(v->type.dtype), types);
}

/* Values captured from outside have their types by now: nested graphs are inferred with their node.
 */
static void take_outer_types(Graph *g) {
    for (int i = 0; i < g->value.n; i++) {
        Value *v = &g->value.at[i];
        if (v->kind != VALUE_OUTER) continue;
        v->type = g->outer->value.at[v->outer].type;
        v->known = g->outer->value.at[v->outer].known;
        v->partly = g->outer->value.at[v->outer].partly;
    }
}

void node_where(Ctx *ctx, const Node *node) {
    const OpRow *row = node->row;
    ctx->where.node = node->name;
    ctx->where.op = row->domain[0] ? internf(ctx, "%s.%s", row->domain, row->name) : row->name;
    ctx->where.opset = node->version;
}

/* A row that is its expression takes as many operands as that names. */
static void check_expr(const Infer *in) {
    const OpRow *row = in->node->row;
    int n = 0;
    for (const char *at = row->expr; at && !row->lower && *at; at++)
        if (*at == '$' && at[1] >= '0' && at[1] - '0' >= n) n = at[1] - '0' + 1;
    if (n) infer_arity(in, n, n);
}

/* Moves the results' types to `declared`. */
static void take_declared(Infer *in) {
    Type *declared = NEW_ARRAY(in->arena, Type, in->node->out.n);
    for (int i = 0; i < in->node->out.n; i++) {
        Value *v = infer_out(in, i);
        if (!v) continue;
        declared[i] = v->type;
        v->type = (Type){0};
        v->known = v->partly = NULL;
    }
    in->declared = declared;
}

bool node_matters(const Node *node) {
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0) return true;
    return (node->row->flags & OP_SIDE) != 0;
}

static void infer_node(Infer *in) {
    const OpRow *row = in->node->row;
    node_where(in->ctx, in->node);
    if (in->ops->check) in->ops->check(in);
    check_operand(in);
    check_expr(in);
    take_declared(in);
    if (row->infer)
        row->infer(in);
    else
        infer_pointwise(in);
    for (int i = 0; i < in->node->out.n; i++) {
        const Value *v = infer_out(in, i);
        if (v && v->type.kind == TYPE_UNKNOWN)
            fail(in->ctx, E_MODEL, "result %d, \"%s\": the operator has no such result", i,
                 v->name);
    }
    if (in->done) in->done(in);
}

/* The node at the end of the list, whose results are in the graph. */
static void append(Infer *in, Node node) {
    Graph *g = in->graph;
    vec_push(g->arena, &g->node, node);
    for (int i = 0; i < node.out.n; i++)
        if (node.out.at[i] >= 0) g->value.at[node.out.at[i]].node = g->node.n - 1;
    Infer inner = *in;
    inner.node = &g->node.at[g->node.n - 1];
    if (node_matters(inner.node)) infer_node(&inner);
}

static Node appended(Infer *in, const OpRow *row, int version, const int *operand, int n) {
    Node node = {
        internf(in->ctx, "%s/%s", in->node->name, row->name), row, version, {0}, {0}, {0}, true};
    for (int i = 0; i < n; i++) vec_push(in->graph->arena, &node.in, operand[i]);
    return node;
}

int infer_append(Infer *in, const OpRow *row, int version, const int *operand, int n, int nout) {
    Graph *g = in->graph;
    Node node = appended(in, row, version, operand, n);
    for (int i = 0; i < in->attr.n; i++) vec_push(g->arena, &node.attr, in->attr.at[i]);
    in->attr.n = 0;
    for (int i = 0; i < nout; i++) {
        const char *name = internf(in->ctx, "%s.%d", node.name, g->value.n);
        Value v = {.name = name, .kind = VALUE_NODE, .result = i};
        vec_push(g->arena, &node.out, graph_value(g, v));
    }
    append(in, node);
    return g->value.n - nout;
}

void infer_become(Infer *in, const OpRow *row, int version, int from, int result) {
    if (result >= in->node->out.n || in->node->out.at[result] < 0) return;
    Node node = appended(in, row, version, &from, 1);
    vec_push(in->graph->arena, &node.out, in->node->out.at[result]);
    in->graph->value.at[in->node->out.at[result]].result = 0;
    append(in, node);
}

static bool any_composed(const Graph *g) {
    for (int i = 0; i < g->node.n; i++)
        if (g->node.at[i].row->flags & OP_COMPOSED) return true;
    return false;
}

/* The list of nodes anew, with what composed ones stand for. */
static void infer_composed(Infer *in) {
    Graph *g = in->graph;
    const Node *node = g->node.at;
    int n = g->node.n;
    g->node.at = NULL, g->node.n = g->node.cap = 0;
    for (int i = 0; i < n; i++) {
        if (!(node[i].row->flags & OP_COMPOSED)) {
            append(in, node[i]);
            continue;
        }
        Infer inner = *in;
        inner.node = arena_copy(in->arena, &node[i], sizeof node[i]);
        node_where(in->ctx, inner.node);
        check_operand(&inner);
        inner.node->row->infer(&inner);
    }
}

void infer_nodes(Infer *in) {
    Where where = in->ctx->where;
    if (in->graph->outer) take_outer_types(in->graph);
    if (any_composed(in->graph)) {
        infer_composed(in);
    } else {
        for (int i = 0; i < in->graph->node.n; i++) {
            in->node = &in->graph->node.at[i];
            if (node_matters(in->node)) infer_node(in);
        }
    }
    in->ctx->where = where;
}

void infer_graph(const Infer *in, Graph *sub) {
    Infer inner = *in;
    inner.graph = sub;
    infer_nodes(&inner);
}
