/* SPDX-License-Identifier: Apache-2.0 */
/* weir info, explain, ops: what a library or model, a code and this compiler are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "frontends/onnx/onnx.h"
#include "tools/weir/engine.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

static void print_ports(const char *what, const weir_port *port, int n) {
    for (int i = 0; i < n; i++) {
        printf("%s %s: %s[", what, port[i].name, dtype_text(port[i].dtype));
        for (int k = 0; k < port[i].rank; k++) printf("%s%s", k ? "," : "", port[i].dims[k]);
        printf("]\n");
    }
}

/* A text in the descriptor's build JSON, without its quotes; "?" when it has none. */
static void print_built(const char *what, const char *build, const char *key, const char *unit) {
    const char *at = strstr(build, key), *end;
    if (at) at = strchr(at + strlen(key), '"');
    printf("%s%s", what, *what ? " " : "");
    for (end = at ? at + 1 : NULL; end && *end && *end != '"'; end++) {
        if (*end == '\\' && end[1]) end++;
        putchar(*end);
    }
    printf("%s%s", end ? "" : "?", unit);
}

/* Code for several CPUs, and which of it runs here. */
static void print_versions(const weir_model *m) {
    char why[256] = "";
    int taken = m->nversions ? m->version(why) : 0;
    for (int i = 0; i < m->nversions; i++)
        printf("version %s%s\n", m->versions[i], i == taken ? ", which runs here" : "");
    if (taken < 0) printf("version none runs here: %s\n", why);
}

static void print_library(const weir_model *m) {
    printf("model   %s\n", m->name);
    if (m->create_on) print_built("target  cuda:", m->build, "\"gpu\":", "\n");
    print_ports("input  ", m->inputs, m->ninputs);
    print_ports("output ", m->outputs, m->noutputs);
    for (int i = 0; i < m->nshared; i++)
        printf("shared  %s may lie in the memory of %s and continue it along dim %d\n",
               m->outputs[m->shared[i].output].name, m->inputs[m->shared[i].input].name,
               m->shared[i].dim);
    printf("weights %lld bytes, ", (long long)m->weight_bytes);
    print_built("packed at", m->build, "\"packing\":", "\n");
    print_ports("weight ", m->weights, m->nweights);
    print_built("memory ", m->build, "\"arena_bytes\":", " bytes a run, ");
    print_built("", m->build, "\"thread_bytes\":", " for each thread\n");
    print_built("made by weir", m->build, "\"weir\":", ", ");
    print_built("LLVM", m->build, "\"llvm\":", " for ");
    print_built("", m->build, "\"cpu\":", "\n");
    print_versions(m);
    print_built("of model", m->build, "\"model_blake3\":", " (blake3)\n");
    printf("build   %s\n", m->build);
}

/* ---- a model that is not compiled ------------------------------------------------------------ */

static void print_values(Ctx *ctx, const char *what, const Graph *g, const int *value, int n) {
    for (int i = 0; i < n; i++) {
        const Value *v = &g->value.at[value[i]];
        printf("%s %s: %s\n", what, v->name, type_str(ctx, &v->type));
    }
}

/* What a graph holds, with the graphs of its branches and loops. */
typedef struct Census {
    int64_t bytes;
    int tensors, nodes;
    VEC(const char *) name; /* of operators, as they come first */
    VEC(int) times;
} Census;

static void count_node(Arena *arena, Census *all, const char *name) {
    int i = 0;
    while (i < all->name.n && strcmp(all->name.at[i], name)) i++;
    if (i == all->name.n) {
        vec_push(arena, &all->name, name);
        vec_push(arena, &all->times, 0);
    }
    all->times.at[i]++;
    all->nodes++;
}

static void count_graph(Arena *arena, Census *all, const Graph *g) {
    for (int i = 0; i < g->value.n; i++) {
        if (g->value.at[i].kind != VALUE_PARAM) continue;
        all->bytes += g->value.at[i].data_bytes;
        all->tensors++;
    }
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        count_node(arena, all, node->row->name);
        for (int k = 0; k < node->attr.n; k++)
            if (node->attr.at[k].kind == ATTR_GRAPH)
                count_graph(arena, all, node->attr.at[k].graph);
    }
}

static void print_graph(Session *s) {
    const Graph *g = s->driver.stage.graph;
    Census all = {0};
    if (!g) fail(s->ctx, E_OPTION, "it is no graph any more; \"weir dump\" prints it");
    count_graph(s->arena, &all, g);
    printf("model   %s, not compiled\n", g->name);
    print_values(s->ctx, "input  ", g, g->input.at, g->input.n);
    print_values(s->ctx, "output ", g, g->output.at, g->output.n);
    printf("weights %lld bytes in %d tensors\n", (long long)all.bytes, all.tensors);
    printf("nodes   %d:", all.nodes);
    for (int i = 0; i < all.name.n; i++)
        printf("%s %d %s", i ? "," : "", all.times.at[i], all.name.at[i]);
    printf("\n");
}

int verb_info(Args *a) {
    const char *path = NULL;
    while (args_next(a)) {
        if (a->name[0] || path) return usage_error(a, "does not know \"%s\"", args_operand(a));
        path = args_operand(a);
    }
    if (!path) return usage_error(a, "needs a library or a model");
    weir_context *c = context_new(false);
    int rc = EXIT_MODEL;
    if (!is_library(path)) {
        rc = session_run(c, path, "infer", print_graph, NULL);
    } else {
        weir_loaded *l = weir_open(c, path);
        if (l) print_library(weir_loaded_model(l));
        if (l) rc = EXIT_DONE, weir_unload(l);
    }
    weir_context_free(c);
    return rc;
}

/* ---- explain -------------------------------------------------------------------------------- */

static void explain_pass(const Pass *pass) {
    static const char *const level[] = {"graph", "flow", "nest"};
    printf("%s: %s\n", pass->name, pass->what);
    printf("takes a %s, makes a %s; ", level[pass->level], level[pass_result(pass)]);
    printf(pass->effect == PASS_EXACT ? "results keep every bit"
                                      : "may change the order of sums, within rounding");
    printf(pass->optional ? "; --skip %s leaves it out\n" : "; cannot be skipped\n", pass->name);
}

static int list_passes(void) {
    int n;
    const Pass *pass = pass_list(&n);
    for (int i = 0; i < n; i++) printf("%-12s %s\n", pass[i].name, pass[i].what);
    return EXIT_DONE;
}

static int list_codes(void) {
    for (int i = 0; i < CODE_COUNT; i++) printf("%s %s\n", code_id((Code)i), code_title((Code)i));
    return EXIT_DONE;
}

int verb_explain(Args *a) {
    Code code;
    if (!args_next(a))
        return usage_error(
            a, "needs a code such as W012, the name of a pass, \"codes\" or \"passes\"");
    const char *word = args_operand(a);
    if (args_next(a)) return usage_error(a, "takes one word, not \"%s\" too", args_operand(a));
    if (!strcmp(word, "passes")) return list_passes();
    if (!strcmp(word, "codes")) return list_codes();
    if (find_pass(word)) return explain_pass(find_pass(word)), EXIT_DONE;
    if (!code_parse(word, &code))
        return usage_error(
            a, "there is no code and no pass \"%s\" (\"codes\" and \"passes\" list them)", word);
    printf("%s: %s\n%s\n", code_id(code), code_title(code), code_explanation(code));
    return EXIT_DONE;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void print_op(const OpRow *row, const char *format, bool first) {
    const char *domain = row->domain[0] ? row->domain : "ai.onnx",
               *types = row->types ? row->types : "";
    char until[16] = "";
    if (row->until) snprintf(until, sizeof until, "%d", row->until);
    if (!strcmp(format, "json"))
        printf("%s  {\"domain\": \"%s\", \"op\": \"%s\", \"since\": %d, \"until\": %s, \"types\": "
               "\"%s\"}",
               first ? "" : ",\n", domain, row->name, row->since, until[0] ? until : "null", types);
    else if (!strcmp(format, "markdown"))
        printf("| %s | %s | %d%s%s | %s |\n", domain, row->name, row->since, until[0] ? "–" : "+",
               until, types);
    else
        printf("%-14s %-28s %d%s%-4s %s\n", domain, row->name, row->since, until[0] ? "-" : "+",
               until, types);
}

int verb_ops(Args *a) {
    const char *format = "text";
    while (args_next(a)) {
        if (!args_is(a, "format")) return usage_error(a, "does not know \"%s\"", args_operand(a));
        if (!(format = args_value(a))) return EXIT_USAGE;
    }
    if (strcmp(format, "text") && strcmp(format, "markdown") && strcmp(format, "json"))
        return usage_error(a, "\"--format %s\" is none of text, markdown, json", format);
    const OpTable *ops = onnx_ops();
    if (!strcmp(format, "json")) printf("[\n");
    if (!strcmp(format, "markdown"))
        printf("| domain | operator | versions | types |\n|---|---|---|---|\n");
    for (int i = 0; i < ops->n; i++)
        for (const OpRow *row = ops->family[i]; row->name; row++)
            print_op(row, format, !i && row == ops->family[0]);
    if (!strcmp(format, "json")) printf("\n]\n");
    return EXIT_DONE;
}
