/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs from text. Nested graphs see the values of the graphs around them only through `outer`
 * lines, their symbols directly. */
#include "graph_text.h"

#include <string.h>

#include "parse.h"

typedef struct GraphScan {
    Lex *lex;
    Arena *arena;
    Graph *g;
    const OpTable *ops;
    Table *values; /* name -> number + 1 */
    int depth;
} GraphScan;

static Dim find_sym(void *user, const char *name) {
    for (const Graph *g = ((const GraphScan *)user)->g; g; g = g->outer)
        for (int i = 0; i < g->symbol.n; i++)
            if (dim_sym_name(g->symbol.at[i].sym) == name) return g->symbol.at[i].sym;
    if (!strcmp(name, DIM_UNKNOWN)) return dim_sym(((const GraphScan *)user)->lex->ctx, name);
    return NULL;
}

static int find_value(const GraphScan *s, const Graph *g) {
    for (int i = g->value.n - 1; i >= 0; i--)
        if (g->value.at[i].name == s->lex->t.text) return i;
    return -1;
}

static int scan_value(GraphScan *s) {
    if (lex_take(s->lex, "-")) return -1;
    int number =
        lex_name_next(s->lex) ? (int)(intptr_t)table_get(s->values, s->lex->t.text) - 1 : -1;
    if (number < 0) lex_fail(s->lex, "expected a value that stands before");
    lex_next(s->lex);
    return number;
}

static int value_add(GraphScan *s, Value v) {
    if (table_get(s->values, v.name))
        lex_fail(s->lex, "value \"%s\" is declared twice, before this", v.name);
    int number = graph_value(s->g, v);
    table_put(s->values, v.name, (void *)(intptr_t)(number + 1));
    return number;
}

/* ---- types and data ---------------------------------------------------------------------- */

static Type scan_tensor_type(GraphScan *s, TypeKind kind) {
    Dim shape[RANK_MAX];
    Type type = {.kind = kind, .rank = -1};
    if (!lex_take(s->lex, "?")) type.dtype = parse_type(s->lex);
    Lex before = *s->lex;
    lex_expect(s->lex, "[");
    if (lex_take(s->lex, "?")) {
        lex_expect(s->lex, "]");
        return type;
    }
    *s->lex = before;
    type.rank = parse_dims(s->lex, "[", "]", find_sym, s, shape, RANK_MAX);
    type.shape = arena_copy(s->arena, shape, (size_t)type.rank * sizeof *shape);
    return type;
}

static Type scan_type(GraphScan *s) {
    static const char *const words[] = {"seq", "optional", "map", NULL};
    static const TypeKind kinds[] = {TYPE_SEQUENCE, TYPE_OPTIONAL, TYPE_MAP};
    if (++s->depth > 50) lex_fail(s->lex, "type nested too deeply");
    Type type = {.kind = TYPE_UNKNOWN};
    int word = parse_word(s->lex, words);
    if (word >= 0) {
        Type *elem = NEW(s->arena, Type);
        type.kind = kinds[word];
        lex_expect(s->lex, "(");
        if (type.kind == TYPE_MAP) {
            type.dtype = parse_type(s->lex);
            lex_expect(s->lex, ",");
        }
        *elem = scan_type(s);
        type.elem = elem;
        lex_expect(s->lex, ")");
    } else if (lex_take(s->lex, "sparse")) {
        type = scan_tensor_type(s, TYPE_SPARSE);
    } else if (!lex_is(s->lex, "?") || *s->lex->p == '[') {
        type = scan_tensor_type(s, TYPE_TENSOR);
    } else {
        lex_next(s->lex);
    }
    s->depth--;
    return type;
}

static void scan_strings(GraphScan *s, int64_t n, const char *close, Value *v) {
    const char **strings = NEW_ARRAY(s->arena, const char *, n);
    int64_t *bytes = NEW_ARRAY(s->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        size_t size;
        if (i) lex_expect(s->lex, ",");
        strings[i] = lex_string(s->lex, &size);
        bytes[i] = (int64_t)size;
    }
    lex_expect(s->lex, close);
    v->strings = strings;
    v->string_bytes = bytes;
}

/* `= { ... }`, as many elements as the type holds. Data of values lives in the context: graphs are
 * cloned without it. */
static void scan_data(GraphScan *s, Value *v) {
    if (!lex_take(s->lex, "=")) return;
    int64_t n = type_count(&v->type);
    DType t = v->type.dtype == C64 ? F32 : v->type.dtype == C128 ? F64 : v->type.dtype;
    if (n < 0 || n > (int64_t)strlen(s->lex->p)) lex_fail(s->lex, "data needs a constant shape");
    lex_expect(s->lex, "{");
    if (t == STRING) {
        scan_strings(s, n, "}", v);
        return;
    }
    if (t != v->type.dtype) n *= 2;
    v->data_bytes = dtype_bytes(t, n);
    void *data = arena_alloc(ctx_arena(s->lex->ctx), (size_t)v->data_bytes);
    for (int64_t i = 0; i < n; i++) {
        if (i) lex_expect(s->lex, ",");
        mem_set(t, data, i, parse_bits(s->lex, t));
    }
    lex_expect(s->lex, "}");
    v->data = data;
}

/* `x : f32[N,4] known (..)` */
static Value scan_typed(GraphScan *s, ValueKind kind) {
    Value v = {.kind = kind, .name = lex_name(s->lex, "a value's name"), .node = -1, .outer = -1};
    lex_expect(s->lex, ":");
    v.type = scan_type(s);
    if (!lex_take(s->lex, "known")) return v;
    Dim known[KNOWN_MAX];
    int n = parse_dims(s->lex, "(", ")", find_sym, s, known, KNOWN_MAX);
    if (n != type_count(&v.type)) lex_fail(s->lex, "%d known elements do not fit the type", n);
    v.known = arena_copy(s->arena, known, (size_t)n * sizeof *known);
    return v;
}

static void scan_declared(GraphScan *s, ValueKind kind) {
    Value v = scan_typed(s, kind);
    if (kind == VALUE_OUTER) {
        lex_expect(s->lex, "=");
        v.outer = s->g->outer && lex_name_next(s->lex) ? find_value(s, s->g->outer) : -1;
        if (v.outer < 0) lex_fail(s->lex, "expected a value of the graph around this one");
        lex_next(s->lex);
    } else if (kind == VALUE_PARAM && lex_take(s->lex, "@")) {
        lex_int(s->lex, "an offset");
    } else {
        scan_data(s, &v);
        v.is_default = kind == VALUE_INPUT && (v.data || v.strings);
    }
    int number = value_add(s, v);
    if (kind == VALUE_INPUT) vec_push(s->arena, &s->g->input, number);
}

/* ---- attributes -------------------------------------------------------------------------- */

static float scan_float(GraphScan *s) {
    float f;
    uint32_t bits = (uint32_t)parse_bits(s->lex, F32);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Integers have neither point nor exponent. */
static bool int_next(const Lex *lex) {
    Lex ahead = *lex;
    lex_take(&ahead, "-");
    return ahead.t.kind == TOK_INT;
}

static void scan_list(GraphScan *s, Attr *attr) {
    VEC(int64_t) ints = {0}, bytes = {0};
    VEC(float) floats = {0};
    VEC(const char *) strings = {0};
    while (!lex_take(s->lex, "]")) {
        size_t size = 0;
        if (attr->n++) lex_expect(s->lex, ",");
        if (attr->kind == ATTR_INTS) {
            vec_push(s->arena, &ints, lex_int(s->lex, "an integer"));
        } else if (attr->kind == ATTR_FLOATS) {
            vec_push(s->arena, &floats, scan_float(s));
        } else {
            vec_push(s->arena, &strings, lex_string(s->lex, &size));
            vec_push(s->arena, &bytes, (int64_t)size);
        }
    }
    attr->ints = ints.at;
    attr->floats = floats.at;
    attr->strings = strings.at;
    attr->string_bytes = bytes.at;
}

static bool scan_worded(GraphScan *s, Attr *attr) {
    static const char *const words[] = {"tensor", "type", "ints", "floats", "strings", NULL};
    if (lex_is(s->lex, "graph")) {
        attr->kind = ATTR_GRAPH;
        attr->graph = graph_scan(s->lex, s->ops, s->g);
        return true;
    }
    int word = parse_word(s->lex, words);
    if (word < 0) return false;
    if (word == 0) {
        attr->kind = ATTR_TENSOR;
        attr->tensor = (Value){.kind = VALUE_PARAM, .type = scan_type(s), .node = -1, .outer = -1};
        scan_data(s, &attr->tensor);
    } else if (word == 1) {
        attr->kind = ATTR_TYPE;
        attr->type = scan_type(s);
    } else {
        attr->kind = (AttrKind)(ATTR_INTS + word - 2);
        lex_expect(s->lex, "[");
        lex_expect(s->lex, "]");
    }
    return true;
}

static Attr scan_attr(GraphScan *s) {
    Attr attr = {.name = lex_name(s->lex, "an attribute's name")};
    lex_expect(s->lex, "=");
    if (scan_worded(s, &attr)) return attr;
    if (lex_take(s->lex, "[")) {
        attr.kind = s->lex->t.kind == TOK_STRING ? ATTR_STRINGS : ATTR_FLOATS;
        if (int_next(s->lex)) attr.kind = ATTR_INTS;
        scan_list(s, &attr);
    } else if (s->lex->t.kind == TOK_STRING) {
        size_t size;
        attr.kind = ATTR_STRING;
        attr.s = lex_string(s->lex, &size);
        attr.n = (int)size;
    } else if (int_next(s->lex)) {
        attr.kind = ATTR_INT;
        attr.i = lex_int(s->lex, "an integer");
    } else {
        attr.kind = ATTR_FLOAT;
        attr.f = scan_float(s);
    }
    return attr;
}

/* ---- nodes ------------------------------------------------------------------------------- */

/* `domain.Name@version`; without a version the newest. */
static void scan_operator(GraphScan *s, Node *node) {
    Lex before = *s->lex;
    const char *full = lex_name(s->lex, "an operator");
    const char *dot = strrchr(full, '.');
    const char *domain = dot ? intern_n(s->lex->ctx, full, (size_t)(dot - full)) : "";
    int64_t version = INT32_MAX;
    bool given = lex_take(s->lex, "@");
    if (given) version = lex_int(s->lex, "a version");
    if (s->ops && version > 0 && version <= INT32_MAX)
        node->row = op_find(s->ops, domain, dot ? dot + 1 : full, (int)version);
    if (!node->row) {
        *s->lex = before;
        lex_fail(s->lex, "no operator \"%s\" of this version is known", full);
    }
    node->version = given ? (int)version : node->row->since;
}

static void scan_node(GraphScan *s) {
    Node node = {0};
    VEC(Value) result = {0};
    do {
        bool none = lex_take(s->lex, "-");
        Value v = {0};
        if (!none) v = scan_typed(s, VALUE_NODE);
        vec_push(s->arena, &result, v);
    } while (lex_take(s->lex, ","));
    lex_expect(s->lex, "=");
    scan_operator(s, &node);
    int line = s->lex->t.line;
    while ((lex_is(s->lex, "-") || lex_name_next(s->lex)) && !lex_is(s->lex, "from") &&
           s->lex->t.line == line)
        vec_push(s->arena, &node.in, scan_value(s));
    if (lex_take(s->lex, "{")) {
        do vec_push(s->arena, &node.attr, scan_attr(s));
        while (lex_take(s->lex, ","));
        lex_expect(s->lex, "}");
    }
    node.name = parse_from(s->lex);
    if (!node.name) node.name = intern(s->lex->ctx, "");
    for (int i = 0; i < result.n; i++) {
        result.at[i].node = s->g->node.n;
        result.at[i].result = i;
        vec_push(s->arena, &node.out, result.at[i].name ? value_add(s, result.at[i]) : -1);
    }
    vec_push(s->arena, &s->g->node, node);
}

Graph *graph_scan(Lex *lex, const OpTable *ops, Graph *outer) {
    static const char *const words[] = {"in", "param", "outer", NULL};
    static const ValueKind kinds[] = {VALUE_INPUT, VALUE_PARAM, VALUE_OUTER};
    int depth = 0;
    for (const Graph *g = outer; g; g = g->outer) depth++;
    if (depth > 50) lex_fail(lex, "graphs nested too deeply");
    lex_expect(lex, "graph");
    Graph *g = graph_new(lex->arena, lex_name(lex, "the graph's name"), outer);
    GraphScan s = {.lex = lex, .arena = lex->arena, .g = g, .ops = ops};
    s.values = table_new(lex->arena);
    Symbols symbols = {0};
    parse_symbols(lex, find_sym, &s, &symbols);
    for (int i = 0; i < symbols.n; i++) vec_push(lex->arena, &g->symbol, symbols.at[i]);
    lex_expect(lex, "{");
    while (!lex_take(lex, "}")) {
        int word = parse_word(lex, words);
        if (word >= 0)
            scan_declared(&s, kinds[word]);
        else if (lex_take(lex, "out"))
            vec_push(lex->arena, &g->output, scan_value(&s));
        else
            scan_node(&s);
    }
    return g;
}

Graph *graph_parse(Arena *arena, const OpTable *ops, const char *text, const char **end) {
    Lex lex;
    Where where = arena_ctx(arena)->where;
    lex_init(&lex, arena, text);
    Graph *g = graph_scan(&lex, ops, NULL);
    if (end) *end = lex.t.at;
    arena_ctx(arena)->where = where;
    return g;
}
