/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to Graph: names to numbers, nested graphs with what they capture, functions inlined.
 *
 * A name is looked up in its graph, then in those around it; a value found outside becomes a
 * capture in every graph on the way. The body of a function is imported into the graph of the call,
 * under names of its own: it sees nothing but its parameters. Initializers that are inputs too are
 * parameters unless the caller says that it feeds them. */
#include "import.h"

#include <limits.h>
#include <string.h>

enum { IR_NEWEST = 14, OPSET_NEWEST = 28, NODES_MAX = 4000000, CALL_DEPTH = 64, GRAPH_DEPTH = 60 };

/* ---- names ---------------------------------------------------------------------------------- */

static int lookup(Import *im, Scope *scope, const char *name) {
    int v = (int)(intptr_t)table_get(scope->names, name) - 1;
    if (v >= 0 || !scope->outer) return v;
    int outer = lookup(im, scope->outer, name);
    if (outer < 0) return -1;
    if (scope->graph != scope->outer->graph) {
        Value from = scope->outer->graph->value.at[outer];
        Value capture = {.name = from.name, .kind = VALUE_OUTER, .type = from.type, .outer = outer};
        outer = graph_value(scope->graph, capture);
    }
    table_put(scope->names, name, (void *)(intptr_t)(outer + 1));
    return outer;
}

static int find_name(Import *im, Scope *scope, const char *name) {
    int v = lookup(im, scope, name);
    if (v < 0)
        fail(im->ctx, E_MODEL,
             "tensor \"%s\" is not defined: no input, initializer or node gives it", name);
    return v;
}

static void define(Import *im, Scope *scope, const char *name, int value) {
    if (table_get(scope->names, name))
        fail(im->ctx, E_MODEL, "tensor \"%s\" is defined twice: names must be unique", name);
    table_put(scope->names, name, (void *)(intptr_t)(value + 1));
}

static const char *new_name(Import *im, const Scope *scope, const char *name) {
    return scope->prefix ? internf(im->ctx, "%s/%s", scope->prefix, name) : name;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static const char *domain_of(const char *domain) {
    return !domain || !strcmp(domain, "ai.onnx") ? "" : domain;
}

/* A model need not import what has one version only. */
static int64_t opset_version(Import *im, const Scope *scope, const char *domain) {
    int64_t version = -1;
    for (size_t i = 0; i < scope->nopset; i++)
        if (!strcmp(domain_of(scope->opset[i]->domain), domain)) version = scope->opset[i]->version;
    bool only = domain[0] ? !strcmp(domain, "com.microsoft") : im->model->ir_version < 3;
    if (version < 0 && only) return 1;
    if (version < 0)
        fail(im->ctx, E_MODEL, "operator set \"%s\" is used but not imported by the model",
             domain[0] ? domain : "ai.onnx");
    if (version < 1 || version > (domain[0] ? INT_MAX : OPSET_NEWEST))
        fail(im->ctx, E_UNSUPPORTED,
             "opset %lld of \"%s\" is not known: versions 1 to %d are; export with an "
             "older opset",
             (long long)version, domain[0] ? domain : "ai.onnx", OPSET_NEWEST);
    return version;
}

static bool any_version(const OpTable *ops, const char *domain, const char *name) {
    for (int i = 0; i < ops->n; i++)
        for (const OpRow *row = ops->family[i]; row->name; row++)
            if (!strcmp(row->name, name) && !strcmp(row->domain, domain)) return true;
    return false;
}

static const OpRow *find_row(Import *im, const char *domain, const char *name, int64_t version) {
    const OpTable *ops = im->options && im->options->ops ? im->options->ops : onnx_ops();
    const OpRow *row = op_find(ops, domain, name, (int)version);
    if (row) return row;
    if (any_version(ops, domain, name))
        fail(im->ctx, E_UNSUPPORTED,
             "operator \"%s\" is not supported at opset %lld: convert the model to "
             "another opset",
             name, (long long)version);
    fail(im->ctx, E_UNSUPPORTED,
         "operator \"%s\" of domain \"%s\" is not supported: `weir ops` lists those "
         "that are",
         name, domain[0] ? domain : "ai.onnx");
}

static int add_result(Import *im, Scope *scope, const char *name, int node, int result) {
    const OnnxValueInfo *declared = table_get(scope->declared, name);
    Value v = {
        .name = new_name(im, scope, name), .kind = VALUE_NODE, .node = node, .result = result};
    if (declared) v.type = import_type(im, declared->type, NULL);
    int number = graph_value(scope->graph, v);
    define(im, scope, name, number);
    return number;
}

static void import_operator(Import *im, Scope *scope, const OnnxNode *from, const char *op,
                            const char *domain) {
    Graph *g = scope->graph;
    int64_t version = opset_version(im, scope, domain);
    Node node = {.version = (int)version, .row = find_row(im, domain, op, version)};
    node.name = new_name(im, scope, text_or(from->name, from->n_output ? from->output[0] : op));
    im->ctx->where.opset = node.version;
    for (size_t i = 0; i < from->n_input; i++) {
        const char *name = from->input[i];
        vec_push(im->arena, &node.in, name[0] ? find_name(im, scope, name) : -1);
    }
    import_attributes(im, scope, from, &node);
    int number = g->node.n;
    for (size_t i = 0; i < from->n_output; i++) {
        const char *name = from->output[i];
        vec_push(im->arena, &node.out, name[0] ? add_result(im, scope, name, number, i) : -1);
    }
    vec_push(im->arena, &g->node, node);
}

/* ---- functions ------------------------------------------------------------------------------ */

static const OnnxFunction *find_function(const Import *im, const char *domain,
                                         const OnnxNode *node) {
    const char *overload = onnx_overload(im->ctx, node);
    for (int i = 0; i < im->function.n; i++) {
        const OnnxFunction *f = &im->function.at[i];
        if (!strcmp(text_or(f->body->name, ""), node->op_type) &&
            !strcmp(domain_of(f->body->domain), domain) && f->overload == overload)
            return f;
    }
    return NULL;
}

static void import_nodes(Import *im, Scope *scope, OnnxNode *const *node, size_t n);

static void inline_function(Import *im, Scope *caller, const OnnxNode *call,
                            const OnnxFunction *f) {
    Frame frame = {f, call, caller, caller->frame ? caller->frame->depth + 1 : 1};
    const char *name = text_or(call->name, call->n_output ? call->output[0] : f->body->name);
    Scope inner = {
        caller->graph, table_new(im->arena),  table_new(im->arena),    NULL,
        &frame,        f->body->opset_import, f->body->n_opset_import, new_name(im, caller, name)};
    if (frame.depth > CALL_DEPTH)
        fail(im->ctx, E_LIMIT,
             "functions call each other deeper than %d: function \"%s\" may call itself",
             CALL_DEPTH, f->body->name);
    if (call->n_input > f->body->n_input || call->n_output > f->body->n_output)
        fail(im->ctx, E_MODEL,
             "function \"%s\" takes %zu operands and gives %zu results, the call has %zu and %zu",
             f->body->name, f->body->n_input, f->body->n_output, call->n_input, call->n_output);
    for (int i = 0; i < f->value_info.n; i++)
        if (f->value_info.at[i]->name)
            table_put(inner.declared, f->value_info.at[i]->name, f->value_info.at[i]);
    for (size_t i = 0; i < call->n_input; i++)
        if (call->input[i][0])
            define(im, &inner, f->body->input[i], find_name(im, caller, call->input[i]));
    Where where = im->ctx->where;
    import_nodes(im, &inner, f->body->node, f->body->n_node);
    im->ctx->where = where;
    for (size_t i = 0; i < call->n_output; i++)
        if (call->output[i][0])
            define(im, caller, call->output[i], find_name(im, &inner, f->body->output[i]));
}

/* In a function's body, a parameter that the call leaves out is an absent operand. */
static const OnnxNode *without_absent(Import *im, const Scope *scope, const OnnxNode *node) {
    const Frame *frame = scope->frame;
    if (!frame) return node;
    OnnxNode *copy = NULL;
    for (size_t i = 0; i < node->n_input; i++)
        for (size_t k = 0; k < frame->function->body->n_input; k++) {
            if (node->input[i] != frame->function->body->input[k]) continue;
            bool given = k < frame->call->n_input && frame->call->input[k][0];
            if (given) continue;
            if (!copy) {
                copy = arena_copy(im->arena, node, sizeof *node);
                copy->input =
                    arena_copy(im->arena, node->input, sizeof(char *) * (size_t)node->n_input);
            }
            copy->input[i] = (char *)intern(im->ctx, "");
        }
    return copy ? copy : node;
}

static void import_node(Import *im, Scope *scope, const OnnxNode *node) {
    const char *op = text_or(node->op_type, NULL), *domain = domain_of(node->domain);
    const char *name = text_or(node->name, node->n_output ? node->output[0] : "");
    im->ctx->where.node = name;
    im->ctx->where.op = !op ? NULL : domain[0] ? internf(im->ctx, "%s.%s", domain, op) : op;
    if (!op) fail(im->ctx, E_MODEL, "a node has no operator: export the model again");
    if (++im->nodes > NODES_MAX)
        fail(im->ctx, E_LIMIT, "the model has more than %d nodes", NODES_MAX);
    node = without_absent(im, scope, node);
    const OnnxFunction *f = find_function(im, domain, node);
    if (f)
        inline_function(im, scope, node, f);
    else if (!domain[0] && !strcmp(op, "Constant") && node->n_output == 1 && node->output[0][0])
        define(im, scope, node->output[0],
               graph_value(scope->graph,
                           import_constant(im, scope, node, new_name(im, scope, node->output[0]))));
    else
        import_operator(im, scope, node, op, domain);
}

static void import_nodes(Import *im, Scope *scope, OnnxNode *const *node, size_t n) {
    Where where = im->ctx->where;
    if (n > NODES_MAX) fail(im->ctx, E_LIMIT, "the model has more than %d nodes", NODES_MAX);
    const int *order = import_order(im, node, (int)n);
    for (size_t i = 0; i < n; i++) import_node(im, scope, node[order[i]]);
    im->ctx->where = where;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static bool is_fed(const Import *im, const char *name) {
    for (int i = 0; im->options && i < im->options->nfeed; i++)
        if (!strcmp(im->options->feed[i], name)) return true;
    return false;
}

static void import_inputs(Import *im, Scope *scope, const OnnxGraph *g, Table *initial) {
    for (size_t i = 0; i < g->n_input; i++) {
        const OnnxValueInfo *info = g->input[i];
        const char *name = text_or(info->name, NULL);
        if (!name)
            fail(im->ctx, E_MODEL, "input %zu of the graph has no name: export the model again", i);
        const OnnxTensor *t = table_get(initial, name);
        if (t && !is_fed(im, name)) continue;
        Value v = {.name = name, .kind = VALUE_INPUT};
        if (t) v = import_tensor(im, t, name), v.kind = VALUE_INPUT, v.is_default = true;
        im->ctx->where.tensor = name;
        v.type = import_type(im, info->type, scope->outer ? NULL : name);
        if (v.type.kind == TYPE_UNKNOWN && !scope->outer)
            fail(im->ctx, E_MODEL, "input \"%s\" has no type: export the model again", name);
        int number = graph_value(scope->graph, v);
        define(im, scope, name, number);
        vec_push(im->arena, &scope->graph->input, number);
    }
    im->ctx->where.tensor = NULL;
}

static void import_initializers(Import *im, Scope *scope, const OnnxGraph *g) {
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = text_or(g->initializer[i]->name, NULL);
        if (!name) fail(im->ctx, E_MODEL, "initializer %zu has no name: export the model again", i);
        if (is_fed(im, name) && table_get(scope->names, name)) continue;
        define(im, scope, name,
               graph_value(scope->graph, import_tensor(im, g->initializer[i], name)));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const OnnxTensor *values = g->sparse_initializer[i]->values;
        const char *name = text_or(values ? values->name : NULL, NULL);
        if (!name)
            fail(im->ctx, E_MODEL, "sparse initializer %zu has no name: export the model again", i);
        define(im, scope, name,
               graph_value(scope->graph, import_sparse(im, g->sparse_initializer[i], name)));
    }
}

static void import_declared(Scope *scope, const OnnxGraph *g) {
    for (size_t i = 0; i < g->n_value_info; i++)
        if (g->value_info[i]->name)
            table_put(scope->declared, g->value_info[i]->name, g->value_info[i]);
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name) table_put(scope->declared, g->output[i]->name, g->output[i]);
}

static void fill_graph(Import *im, Scope *scope, const OnnxGraph *g) {
    Table *initial = table_new(im->arena);
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name) table_put(initial, g->initializer[i]->name, g->initializer[i]);
    import_declared(scope, g);
    import_inputs(im, scope, g, initial);
    import_initializers(im, scope, g);
    import_nodes(im, scope, g->node, g->n_node);
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = text_or(g->output[i]->name, NULL);
        if (!name)
            fail(im->ctx, E_MODEL, "output %zu of the graph has no name: export the model again",
                 i);
        vec_push(im->arena, &scope->graph->output, find_name(im, scope, name));
    }
    if (!scope->outer && !g->n_output)
        fail(im->ctx, E_MODEL, "the graph has no outputs: nothing to compute");
}

static int graph_depth(const Graph *g) {
    int depth = 0;
    for (; g; g = g->outer) depth++;
    return depth;
}

Graph *import_graph(Import *im, const OnnxGraph *g, Scope *outer) {
    const char *name = text_or(g->name, "graph");
    if (!outer && im->options && im->options->name) name = im->options->name;
    Graph *graph = graph_new(im->arena, name, outer ? outer->graph : NULL);
    Scope scope = {graph,
                   table_new(im->arena),
                   table_new(im->arena),
                   outer,
                   outer ? outer->frame : NULL,
                   outer ? outer->opset : im->model->opset_import,
                   outer ? outer->nopset : im->model->n_opset_import,
                   outer ? outer->prefix : NULL};
    if (graph_depth(graph) > GRAPH_DEPTH)
        fail(im->ctx, E_LIMIT, "graphs nest deeper than %d: simplify the model", GRAPH_DEPTH);
    if (!outer) {
        im->root = graph;
        import_symbols(im, g);
    }
    fill_graph(im, &scope, g);
    return graph;
}

static void check_model(Import *im) {
    const OnnxModel *m = im->model;
    if (m->ir_version < 1)
        fail(im->ctx, E_MODEL,
             "the model has no IR version: the file is damaged or not an ONNX model");
    if (m->ir_version > IR_NEWEST)
        fail(im->ctx, E_UNSUPPORTED,
             "IR version %lld is newer than %d, the newest known: export with an "
             "older onnx",
             (long long)m->ir_version, IR_NEWEST);
    if (!m->n_opset_import && m->ir_version >= 3)
        fail(im->ctx, E_MODEL, "the model imports no operator set: export it again");
}

Graph *onnx_import_memory(Arena *arena, const void *bytes, size_t n, const char *folder,
                          const ImportOptions *options) {
    Import *im = NEW(arena, Import);
    im->arena = arena;
    im->ctx = arena_ctx(arena);
    im->options = options;
    im->folder = folder;
    im->files = table_new(arena);
    im->symbols = table_new(arena);
    im->unknown = graph_unknown_dim(im->ctx);
    im->model = onnx_decode(arena, (Span){bytes, n});
    im->function = onnx_functions(arena, im->model);
    check_model(im);
    return import_graph(im, im->model->graph, NULL);
}

Graph *onnx_import_file(Arena *arena, const char *path, const ImportOptions *options) {
    const char *slash = strrchr(path, '/');
    const char *folder = !slash ? "." : slash == path ? "/" : NULL;
    if (!folder) folder = arena_printf(arena, "%.*s", (int)(slash - path), path);
    arena_ctx(arena)->where.file = intern(arena_ctx(arena), path);
    Span s = import_map(arena, path, E_FILE);
    return onnx_import_memory(arena, s.at, s.n, folder, options);
}
