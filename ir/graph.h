/* SPDX-License-Identifier: Apache-2.0 */
/* Level 1, Graph: what the model says. Values, nodes that point at their operator's row, nested
 * graphs. Weights are views of the mapped file. Operators are known only through `OpRow`s, which a
 * frontend fills in: this folder knows no operator's name.
 *
 * Shape inference carries values too: `known` holds the elements of small integer tensors as Dims,
 * so that the shape arithmetic of dynamic models becomes symbolic sizes, not run-time work. */
#ifndef WEIR_IR_GRAPH_H
#define WEIR_IR_GRAPH_H

#include "flow.h"

typedef struct Graph Graph;
typedef struct Node Node;

typedef enum {
    TYPE_UNKNOWN,
    TYPE_TENSOR,
    TYPE_SEQUENCE,
    TYPE_OPTIONAL,
    TYPE_MAP,
    TYPE_SPARSE
} TypeKind;
typedef struct Type {
    TypeKind kind;
    DType dtype; /* element type; of a map: the key's */
    int rank;    /* TENSOR, SPARSE; -1 while unknown */
    const Dim *shape;
    const struct Type *elem; /* SEQUENCE, OPTIONAL, MAP */
} Type;

typedef enum { VALUE_INPUT, VALUE_PARAM, VALUE_NODE, VALUE_OUTER } ValueKind;
typedef struct Value {
    const char *name;
    ValueKind kind;
    Type type;
    const void *data; /* VALUE_PARAM: packed little-endian elements: a view, never copied */
    int64_t data_bytes;
    const char *const *strings; /* VALUE_PARAM of strings */
    const int64_t *string_bytes;
    const Dim *known; /* elements as Dims, when type is a small integer tensor; else NULL */
    const Dim
        *partly;      /* while types are inferred: the same, NULL for elements that are not known */
    int node, result; /* VALUE_NODE: producer and which of its results */
    int outer;        /* VALUE_OUTER: the value of the enclosing graph it captures */
    /* VALUE_PARAM: the data may be swapped in the compiled model, so nothing may be derived from
     * them: they are read through value_look alone, which ends this. */
    bool hidden;
    bool is_default; /* VALUE_INPUT with a default: `data` holds it */
} Value;

typedef enum {
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_STRING,
    ATTR_TENSOR,
    ATTR_GRAPH,
    ATTR_INTS,
    ATTR_FLOATS,
    ATTR_STRINGS,
    ATTR_TYPE
} AttrKind;
typedef struct Attr {
    const char *name;
    AttrKind kind;
    int n; /* elements of the plural kinds; bytes of a string */
    int64_t i;
    float f;
    const char *s;
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    const int64_t *string_bytes;
    Value tensor; /* ATTR_TENSOR: a VALUE_PARAM without a place in the graph */
    Graph *graph;
    Type type;
} Attr;

typedef struct Infer Infer; /* one node under inference: op.h */
typedef struct Lower Lower; /* one node being lowered: op.h */

/* OP_SAME: the result holds the elements of operand 0, each of them, in some shape and order.
 * OP_COMPOSED: `infer` appends nodes that give the results, and this node goes. */
enum { OP_RANDOM = 1, OP_SIDE = 2, OP_COMPOSED = 4, OP_SAME = 8 };
/* Such a node is neither evaluated when compiling nor made one with an equal one. */
enum { OP_ONCE = OP_RANDOM | OP_SIDE | OP_COMPOSED };
typedef struct OpRow {
    const char *domain, *name; /* "" is ai.onnx */
    int since, until;          /* versions [since, until] of the domain's opset; until 0: newest */
    void (*infer)(
        Infer *in); /* types (and known values) of the results from those of the operands */
    void (*lower)(Lower *lo); /* appends maps and calls to the flow */
    const char *expr;         /* element-wise operators: the body as text for body_expr */
    const char *types; /* dtypes of operand 0 it takes: "float int uint bool" words or names */
    unsigned flags;    /* OP_* */
} OpRow;

/* All operators of a frontend: families, each an array that a row without a name ends. */
typedef struct OpTable {
    const OpRow *const *family;
    int n;
    void (*check)(const Infer *in); /* what all rows ask of operands and attributes; may be NULL */
} OpTable;
const OpRow *op_find(const OpTable *table, const char *domain, const char *name, int version);

struct Node {
    const char *name;
    const OpRow *row;
    int version;  /* of the operator's opset in this model */
    VEC(int) in;  /* value numbers; -1: absent optional */
    VEC(int) out; /* -1: unused */
    VEC(Attr) attr;
    bool composed; /* written down by a composition: types, attributes beyond the standard's */
    /* While types are inferred, of one with branches: its number in the model, and what was decided
     * (SPLIT_*, or how often readers moved into its branches); of a loop, how many iterations stand
     * before it. */
    int serial, split, peeled;
};

/* An extent that more than one size broadcasts to, and these. */
typedef struct Joined {
    Dim dim;
    int n;
    const Dim *of;
} Joined;

struct Graph {
    Arena *arena;
    Ctx *ctx;
    const char *name;
    const Graph *outer;   /* nested: the enclosing graph */
    VEC(Symbol) symbol;   /* outermost: dims of the model; nested: the loop's variable */
    VEC(Require) require; /* outermost: what inference found that the model's dims must hold */
    VEC(Joined) joined;   /* outermost: while types are inferred */
    VEC(Value) value;
    VEC(Node) node;         /* in topological order */
    VEC(int) input, output; /* value numbers */
};

/* A dim of a declared type that nothing tells: `infer` finds its value. */
Dim graph_unknown_dim(Ctx *ctx);
Graph *graph_new(Arena *arena, const char *name, const Graph *outer);
int graph_value(Graph *g, Value v);
Graph *graph_clone(Arena *arena, const Graph *g);
Node node_clone(Arena *arena, const Node *node, const Graph *outer);
/* Readers of results of node `at`, so many layers of them, move into each of its nested graphs, and
 * results that nobody reads go; false when only the graph around reads them. (graph_sink.c) */
bool graph_sink(Graph *g, int at, const int *result, int n, int layers);
/* The name, or one made of it that no value of g has. */
const char *graph_free_name(const Graph *g, const char *name);
int graph_capture(Graph *g, int value); /* a value of the enclosing graph, as one of g */
/* The outermost graph without the symbol, or the term (dim_replace): `to` in its place, in nested
 * graphs too. */
void graph_subst(Graph *g, Dim sym, Dim to);
const Graph *graph_root(const Graph *g);        /* the outermost enclosing graph */
DimEnv graph_env(Arena *arena, const Graph *g); /* ranges of the model's symbols */
int64_t type_count(const Type *t);              /* elements of a tensor; -1: not a constant */
const char *type_str(Ctx *ctx, const Type *t);  /* "f32[N,4]": for messages */
const Value *value_source(const Graph *g,
                          const Value *v); /* through captures to the value itself */
/* A parameter's data, to derive types and code from; NULL: not known when compiling. */
const void *value_look(const Value *v);
bool type_is_integral(DType t);              /* integer or bool: values that `known` can carry */
bool node_matters(const Node *node);         /* somebody uses a result, or it does something else */
void node_where(Ctx *ctx, const Node *node); /* points ctx->where at the node */
const Attr *node_attr(const Node *node, const char *name); /* NULL when absent */

void graph_print(Text *out, const Graph *g);
Graph *graph_parse(Arena *arena, const OpTable *ops, const char *text, const char **end);
void graph_verify(const Graph *g);

/* ---- what operator functions get (op.c) ----------------------------------------------------- */

/* What inference asks for when branches give a result of different ranks, or a loop changes one. */
enum {
    SPLIT_FIRST = -1, /* the rest is for one branch, the other ends a run */
    SPLIT_SECOND = -2,
    SPLIT_OPEN = -3 /* results that only the graph around reads have a rank that is not known */
};
typedef void GraphRewrite(Graph *g, int at, const OpTable *ops); /* node `at` in other words */
typedef struct RankSplit {
    bool asked;
    int serial, choice; /* the node; one of the above, or 0: readers of .. */
    const int *result;  /* .. these values of its graph move into its branches */
    int n;
    GraphRewrite *rewrite; /* if not NULL: this is done to the node instead */
} RankSplit;

struct Infer {
    Ctx *ctx;
    Arena *arena;
    Graph *graph;
    Node *node;
    const OpTable *ops;
    const Type
        *declared; /* of the node's results, as the model (or an earlier inference) has them */
    void (*done)(Infer *in); /* called after each node (may be NULL): folds constants on the way */
    VEC(Attr) attr;          /* for the next infer_append */
    const Node *list;        /* the graph's nodes, when some are composed ones */
    int nlist;
    RankSplit *split; /* may be NULL: nobody will do what is asked for */
};

/* Types and known values of all nodes of in->graph, in order. A row without `infer` is element-wise
 * over operands of one type. For a nested graph: set the types of its inputs, then infer_graph. */
void infer_nodes(Infer *in);
void infer_graph(const Infer *in, Graph *sub);
/* For a composed row: appends a node with in->attr (emptied then) and `nout` results, and infers
 * it. Returns the number of the first result; the others follow. */
int infer_append(Infer *in, const OpRow *row, int version, const int *operand, int n, int nout);
/* Makes value `from` what result `result` of the composed node is, by a node of `row`, which must
 * mean identity. */
void infer_become(Infer *in, const OpRow *row, int version, int from, int result);

/* Operand i (NULL when absent) and result i (NULL when unused). */
const Value *infer_in(const Infer *in, int i);
Value *infer_out(Infer *in, int i);
/* Operand i, which must be there and be a tensor of known rank. */
const Value *infer_tensor(const Infer *in, int i);
/* E_MODEL unless there are least..most operands, the first `least` all given. */
void infer_arity(const Infer *in, int least, int most);
bool infer_same(const Infer *in, int i, int j); /* E_TYPE unless both, when there, have one dtype */
DimEnv infer_env(const Infer *in);
/* Result i as the model declares it (value_info), when that is complete: for operators whose shape
 * depends on data. NULL otherwise. Ask before infer_set. */
const Type *infer_declared(Infer *in, int result);
/* Gives the result's elements as Dims (copied). */
void infer_set_known(Infer *in, int result, const Dim *elements, int n); /* NULL: not known */
enum { KNOWN_MAX = 1024 }; /* elements: larger integer tensors are not carried */
void infer_set(Infer *in, int result, DType t, const Dim *shape, int rank);
void infer_set_type(Infer *in, int result, const Type *t); /* of any kind */
/* Elements of a small integer operand as Dims; false when they are not known at compile time. */
bool infer_known(const Infer *in, int operand, const Dim **elements, int *n);
/* The same of a value of `g`. */
bool value_known(const Infer *in, const Graph *g, const Value *v, const Dim **elements, int *n);
/* The same with NULL for those that are not known; NULL when none is. */
const Dim *infer_partly(const Infer *in, int operand, int *n);
Dim infer_fresh(Infer *in, const char *name, Dim upper); /* a data-dependent dim */
/* The node makes sense only where the two sizes are equal, or (broadcast) one of them is 1. Kept in
 * the outermost graph when both are over the model's symbols: `infer` makes one symbol of two that
 * must be equal, the rest is checked when a run begins. False when the sizes differ and are not of
 * that kind. */
bool infer_require(const Infer *in, Dim a, Dim b, bool broadcast);
/* numpy broadcasting of shapes; E_SHAPE names both. */
int infer_broadcast(Infer *in, const Type *a, const Type *b, Dim *out);
void infer_pointwise(Infer *in);             /* operands of one type, broadcast; result alike */
void infer_pointwise_to(Infer *in, DType t); /* the same with a result of type t */

struct Lower {
    Ctx *ctx;
    Arena *arena; /* the flow's */
    Flow *flow;
    Items *into; /* where maps go now */
    const Graph *graph;
    const Node *node;
    const OpTable *ops;
    int *cont; /* container of each value of the graph; -1: not yet */
    struct Lower *outer;
};

/* Lowers all nodes of lo->graph. Results whose values are known become literals or index values. */
void lower_nodes(Lower *lo);
int lower_cont(Lower *lo, int value); /* container of a value of lo->graph */
int lower_in(Lower *lo, int i);       /* container of operand i; -1 when absent */
int lower_out(Lower *lo, int i);      /* container of result i, made on first use; -1 when unused */
const Value *lower_value(const Lower *lo, int i); /* operand's graph value */
int lower_tmp(Lower *lo, const char *name, DType t, const Dim *shape, int rank);
Map *lower_map(Lower *lo, const char *name); /* named after the node */
/* An element-wise map: dims of `shape`, every operand broadcast to it, body `expr` computed in
 * dtype_compute of its operands' type, rounded once to `to`'s type. */
void lower_pointwise(Lower *lo, const char *name, const char *expr, const int *from, int nfrom,
                     int to);
/* What a container of values of type t holds: pairs of f64 are texts of 16 bytes (none: zero) in
 * between, as nothing computes with them; the model's inputs and outputs are converted. */
DType lower_type(DType t);
void lower_expr(Lower *lo); /* the row's expr over all operands: what a row without `lower` means */
void lower_copy(Lower *lo, const char *name, int from, int to); /* equal shapes */
/* Map dims over a shape: at[k] is the index, 0 where the extent is 1 (no map dim then). */
void lower_dims(Lower *lo, Map *m, const Dim *shape, int rank, Dim *at);
/* Reads cont at the trailing-aligned broadcast of the indices `dims`; one-element literals become
 * constants. The value has cont's type. */
int lower_read_broadcast(Lower *lo, Map *m, int cont, const Dim *dims, int rank);
/* A literal container with the given packed elements (copied). */
int lower_literal(Lower *lo, const char *name, DType t, const Dim *shape, int rank,
                  const void *data);
/* A literal of n strings. */
int lower_texts(Lower *lo, const char *name, const char *const *at, const int64_t *bytes,
                int64_t n);
int lower_scalar(Lower *lo, const char *name, DType t, double v);
/* Lowers a nested graph's nodes into `into`; its inputs are bound to conts, its outputs returned.
 */
void lower_graph(Lower *lo, const Graph *sub, Items *into, const int *inputs, int *outputs);
void lower_call(Lower *lo, const char *row, const int *in, int nin, const int *out, int nout,
                const int64_t *attr, int nattr, const Dim *define, int ndefine);

/* Attributes with a default; E_ATTRIBUTE on wrong kinds. */
int64_t attr_int(Ctx *ctx, const Node *node, const char *name, int64_t otherwise);
float attr_float(Ctx *ctx, const Node *node, const char *name, float otherwise);
const char *attr_string(Ctx *ctx, const Node *node, const char *name, const char *otherwise);
int attr_ints(Ctx *ctx, const Node *node, const char *name, const int64_t **ints); /* -1: absent */
int64_t attr_axis(Ctx *ctx, const Node *node, const char *name, int64_t otherwise, int rank);

#endif
