/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text: symbols, inputs, params, captures, nodes in order, outputs. */
#include "graph_text.h"

#include <string.h>

#include "lex.h"

static void put_value(Text *out, const Graph *g, int value) {
    if (value < 0)
        text_put(out, "-");
    else
        text_name(out, value < g->value.n ? g->value.at[value].name : "?");
}

/* ---- types ------------------------------------------------------------------------------- */

static void print_tensor_type(Text *out, const Type *type) {
    text_put(out, type->dtype ? dtype_name(type->dtype) : "?");
    if (type->rank < 0) {
        text_put(out, "[?]");
        return;
    }
    text_put(out, "[");
    print_dims(out, type->shape, type->rank);
    text_put(out, "]");
}

static void print_type(Text *out, const Type *type) {
    switch (type->kind) {
    case TYPE_UNKNOWN: text_put(out, "?"); return;
    case TYPE_TENSOR: print_tensor_type(out, type); return;
    case TYPE_SPARSE:
        text_put(out, "sparse ");
        print_tensor_type(out, type);
        return;
    case TYPE_SEQUENCE: text_put(out, "seq("); break;
    case TYPE_OPTIONAL: text_put(out, "optional("); break;
    case TYPE_MAP: text_printf(out, "map(%s, ", dtype_name(type->dtype)); break;
    }
    print_type(out, type->elem);
    text_put(out, ")");
}

/* ---- data -------------------------------------------------------------------------------- */

static void print_strings(Text *out, const char *const *strings, const int64_t *bytes, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (i) text_put(out, ", ");
        text_quoted(out, strings[i], (size_t)bytes[i]);
    }
}

/* Complex elements are written as two numbers. */
static void print_elements(Text *out, const Value *v, int64_t n) {
    DType t = v->type.dtype == C64 ? F32 : v->type.dtype == C128 ? F64 : v->type.dtype;
    if (t != v->type.dtype) n *= 2;
    for (int64_t i = 0; i < n; i++) {
        if (i) text_put(out, ", ");
        bits_print(out, t, mem_get(t, v->data, i));
    }
}

static void print_data(Text *out, const Value *v, int64_t most) {
    int64_t n = type_count(&v->type);
    if (n < 0 || n > most || !(v->strings || v->data)) return;
    text_put(out, " = { ");
    if (v->strings)
        print_strings(out, v->strings, v->string_bytes, n);
    else
        print_elements(out, v, n);
    text_put(out, " }");
}

static void print_typed(Text *out, const Value *v) {
    text_name(out, v->name);
    text_put(out, " : ");
    print_type(out, &v->type);
    if (!v->known) return;
    text_put(out, " known (");
    print_dims(out, v->known, (int)type_count(&v->type));
    text_put(out, ")");
}

/* ---- attributes -------------------------------------------------------------------------- */

static void print_float(Text *out, float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits_print(out, F32, bits);
}

static void print_list(Text *out, const Attr *attr) {
    static const char *const empty[] = {"ints", "floats", "strings"};
    if (!attr->n) text_put(out, empty[attr->kind - ATTR_INTS]);
    text_put(out, "[");
    if (attr->kind == ATTR_STRINGS) print_strings(out, attr->strings, attr->string_bytes, attr->n);
    for (int i = 0; i < attr->n && attr->kind != ATTR_STRINGS; i++) {
        if (i) text_put(out, ", ");
        if (attr->kind == ATTR_INTS)
            text_printf(out, "%lld", (long long)attr->ints[i]);
        else
            print_float(out, attr->floats[i]);
    }
    text_put(out, "]");
}

static void print_graph(Printer *p, const Graph *g);

static void print_attr(Printer *p, const Attr *attr) {
    Text *out = p->out;
    text_name(out, attr->name);
    text_put(out, "=");
    switch (attr->kind) {
    case ATTR_INT: text_printf(out, "%lld", (long long)attr->i); break;
    case ATTR_FLOAT: print_float(out, attr->f); break;
    case ATTR_STRING: text_quoted(out, attr->s, (size_t)attr->n); break;
    case ATTR_INTS:
    case ATTR_FLOATS:
    case ATTR_STRINGS: print_list(out, attr); break;
    case ATTR_TENSOR:
        text_put(out, "tensor ");
        print_type(out, &attr->tensor.type);
        print_data(out, &attr->tensor, INT64_MAX);
        break;
    case ATTR_TYPE:
        text_put(out, "type ");
        print_type(out, &attr->type);
        break;
    case ATTR_GRAPH: print_graph(p, attr->graph); break;
    }
}

/* ---- nodes ------------------------------------------------------------------------------- */

static void print_results(Printer *p, const Graph *g, const Node *node) {
    for (int i = 0; i < node->out.n; i++) {
        int value = node->out.at[i];
        if (i) text_put(p->out, ", ");
        if (value < 0 || value >= g->value.n) {
            put_value(p->out, g, value);
            continue;
        }
        print_see(p, &g->value.at[value]);
        print_typed(p->out, &g->value.at[value]);
    }
}

static void print_node(Printer *p, const Graph *g, const Node *node) {
    Text *out = p->out;
    const OpRow *row = node->row;
    print_line(p);
    print_see(p, node);
    print_results(p, g, node);
    text_put(out, " = ");
    const char *dot = row->domain[0] ? "." : "";
    text_name(out, internf(g->ctx, "%s%s%s", row->domain, dot, row->name));
    text_printf(out, "@%d", node->version);
    for (int i = 0; i < node->in.n; i++) {
        text_put(out, " ");
        put_value(out, g, node->in.at[i]);
    }
    for (int i = 0; i < node->attr.n; i++) {
        text_put(out, i ? ", " : " {");
        print_attr(p, &node->attr.at[i]);
    }
    if (node->attr.n) text_put(out, "}");
    if (node->name && node->name[0]) print_from(out, node->name);
    print_end(p);
}

/* ---- the graph --------------------------------------------------------------------------- */

static void print_declared(Printer *p, const Graph *g, const char *word, const Value *v) {
    print_line(p);
    print_see(p, v);
    text_printf(p->out, "%-5s ", word);
    print_typed(p->out, v);
    if (v->kind == VALUE_OUTER) {
        text_put(p->out, " = ");
        put_value(p->out, g->outer, v->outer);
    } else {
        print_data(p->out, v, PARAM_SHOWN);
    }
    print_end(p);
}

/* From `graph` to the closing brace, which ends no line: nested graphs stand inside braces. */
static void print_graph(Printer *p, const Graph *g) {
    Text *out = p->out;
    print_see(p, g);
    text_put(out, "graph ");
    text_name(out, g->name);
    print_symbols(out, g->symbol.at, g->symbol.n);
    text_put(out, " {");
    print_end(p);
    p->indent++;
    for (int i = 0; i < g->input.n; i++) print_declared(p, g, "in", &g->value.at[g->input.at[i]]);
    for (int i = 0; i < g->value.n; i++)
        if (g->value.at[i].kind == VALUE_PARAM) print_declared(p, g, "param", &g->value.at[i]);
    for (int i = 0; i < g->value.n; i++)
        if (g->value.at[i].kind == VALUE_OUTER) print_declared(p, g, "outer", &g->value.at[i]);
    for (int i = 0; i < g->node.n; i++) print_node(p, g, &g->node.at[i]);
    for (int i = 0; i < g->output.n; i++) {
        print_line(p);
        text_put(out, "out   ");
        put_value(out, g, g->output.at[i]);
        print_end(p);
    }
    p->indent--;
    print_line(p);
    text_put(out, "}");
}

void graph_print_marked(Printer *p, const Graph *g) {
    print_line(p);
    print_graph(p, g);
    print_end(p);
}

void graph_print(Text *out, const Graph *g) {
    Printer p = {.out = out};
    graph_print_marked(&p, g);
}
