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
    if (!v || n > KNOWN_MAX || type_count(&v->type) != n) return;
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
    if (dim_is_const(a, NULL) && dim_is_const(b, NULL)) {
        if (broadcast && (dim_is(a, 1) || dim_is(b, 1))) return true;
        fail(in->ctx, E_SHAPE, "sizes %s and %s must be equal%s", dim_str(in->ctx, a),
             dim_str(in->ctx, b), broadcast ? ", or one of them 1" : "");
    }
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

/* The standard's own types were checked before, by the operator's schema. */
static void check_operand(const Infer *in) {
    const char *types = in->node->row->types;
    const Value *v = infer_in(in, 0);
    if (!types || !v || v->type.kind != TYPE_TENSOR) return;
    if (v->type.dtype == STRING && !type_allowed(types, STRING))
        fail(in->ctx, E_UNSUPPORTED,
             "operand \"%s\" is text: this operator compiles for numbers only", v->name);
    if (!type_allowed(types, v->type.dtype))
        fail(in->ctx, in->node->row->domain[0] ? E_TYPE : E_UNSUPPORTED,
             "operand \"%s\" has type %s: the operator takes %s", v->name,
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

/* Every result that is asked for was written down. */
static void check_composed(Infer *in) {
    for (int i = 0; i < in->node->out.n; i++) {
        const Value *v = infer_out(in, i);
        if (v && v->node < 0)
            fail(in->ctx, E_UNSUPPORTED, "result %d, \"%s\", is not supported: export without it",
                 i, v->name);
    }
}

static void infer_composition(Infer *in) {
    node_where(in->ctx, in->node);
    if (in->ops->check) in->ops->check(in);
    check_operand(in);
    for (int i = 0; i < in->node->out.n; i++)
        if (in->node->out.at[i] >= 0) infer_out(in, i)->node = -1;
    in->node->row->infer(in);
    check_composed(in);
}

/* The node at the end of the list, whose results are in the graph; or what it stands for. */
static void append(Infer *in, Node node) {
    Graph *g = in->graph;
    if (node.row->flags & OP_COMPOSED) {
        Infer inner = *in;
        inner.node = arena_copy(in->arena, &node, sizeof node);
        infer_composition(&inner);
        return;
    }
    vec_push(g->arena, &g->node, node);
    for (int i = 0; i < node.out.n; i++)
        if (node.out.at[i] >= 0) g->value.at[node.out.at[i]].node = g->node.n - 1;
    Infer inner = *in;
    inner.node = &g->node.at[g->node.n - 1];
    if (node_matters(inner.node)) infer_node(&inner);
}

static Node appended(Infer *in, const OpRow *row, int version, const int *operand, int n) {
    Node node = {.row = row, .version = version, .composed = true};
    node.name = internf(in->ctx, "%s/%s", in->node->name, row->name);
    for (int i = 0; i < n; i++) vec_push(in->graph->arena, &node.in, operand[i]);
    return node;
}

int infer_append(Infer *in, const OpRow *row, int version, const int *operand, int n, int nout) {
    Graph *g = in->graph;
    Node node = appended(in, row, version, operand, n);
    for (int i = 0; i < in->attr.n; i++) vec_push(g->arena, &node.attr, in->attr.at[i]);
    in->attr.n = 0;
    int first = g->value.n;
    for (int i = 0; i < nout; i++) {
        const char *name = internf(in->ctx, "%s.%d", node.name, g->value.n);
        Value v = {.name = name, .kind = VALUE_NODE, .result = i};
        vec_push(g->arena, &node.out, graph_value(g, v));
    }
    append(in, node);
    return first;
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
    in->list = node, in->nlist = n;
    for (int i = 0; i < n; i++) append(in, node[i]);
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
