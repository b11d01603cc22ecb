/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as text: one line of the schedule per line, each as ir/README.md explains its word. */
#include "flow_text.h"

#include "lex.h"

typedef struct KernelText {
    Printer *p;
    const Flow *flow;
    const Kernel *kernel;
    int root, said; /* positions: the last map; the map named by the last `at` */
} KernelText;

static const char *map_name(const KernelText *t, int position) {
    if (position < 0 || position >= t->kernel->map.n) return "?";
    int map = t->kernel->map.at[position];
    return map < 0 || map >= t->flow->map.n ? "?" : t->flow->map.at[map]->name;
}

/* Dims of the root stand bare, of others as `map.dim`. */
static void put_dim(KernelText *t, const Line *line, const char *dim) {
    Ctx *ctx = t->flow->ctx;
    bool root = line->map == t->root || line->kind == LINE_AT;
    text_name(t->p->out, root ? dim : internf(ctx, "%s.%s", map_name(t, line->map), dim));
}

static void put_args(KernelText *t, const Line *line) {
    for (int i = 0; i < line->narg; i++) {
        text_put(t->p->out, " ");
        put_dim(t, line, line->arg[i].dim);
        if (line->arg[i].size) text_printf(t->p->out, ":%lld", (long long)line->arg[i].size);
    }
}

static void put_list(KernelText *t, const Line *line) {
    text_put(t->p->out, " (");
    for (int i = 0; i < line->narg; i++) {
        if (i) text_put(t->p->out, ", ");
        put_dim(t, line, line->arg[i].dim);
        if (line->arg[i].size) text_printf(t->p->out, ":%lld", (long long)line->arg[i].size);
    }
    text_put(t->p->out, ")");
}

/* Lines without dims name their map first, when it is not the one the reader assumes. */
static void put_map(KernelText *t, const Line *line) {
    int assumed = line->kind == LINE_KEEP ? t->said : t->root;
    bool dims = line->kind != LINE_KEEP && line->kind != LINE_PREFETCH && line->kind != LINE_USE &&
                line->kind != LINE_STAGE;
    if (line->kind != LINE_AT && (dims || line->map == assumed)) return;
    text_name(t->p->out, map_name(t, line->map));
    text_put(t->p->out, " ");
}

static void print_kernel_line(KernelText *t, const Line *line) {
    Text *out = t->p->out;
    print_line(t->p);
    print_see(t->p, line);
    put_map(t, line);
    text_put(out, line_words[line->kind]);
    switch (line->kind) {
    case LINE_AT:
        t->said = line->map;
        put_list(t, line);
        break;
    case LINE_MERGE: put_list(t, line); break;
    case LINE_KEEP:
    case LINE_PREFETCH:
    case LINE_STAGE:
        text_put(out, " ");
        text_name(out, t->flow->cont.at[line->cont].name);
        if (line->kind == LINE_KEEP) text_printf(out, " %s", storage_words[line->storage]);
        if (line->ahead) text_printf(out, " ahead %d", line->ahead);
        put_args(t, line);
        break;
    case LINE_USE:
    case LINE_SERIAL:
    case LINE_LIBRARY:
        text_put(out, " ");
        text_name(out, line->name);
        break;
    case LINE_ALTERNATE: break;
    default: put_args(t, line);
    }
    print_end(t->p);
}

void print_kernel_maps(Text *out, const Flow *flow, const Kernel *kernel) {
    const KernelText t = {.flow = flow, .kernel = kernel};
    text_put(out, "kernel ");
    text_name(out, kernel->name);
    text_put(out, " =");
    for (int i = 0; i < kernel->map.n; i++) {
        text_put(out, " ");
        text_name(out, map_name(&t, i));
    }
}

void print_kernel(Printer *p, const Flow *flow, const Kernel *kernel) {
    KernelText t = {.p = p, .flow = flow, .kernel = kernel};
    t.root = t.said = kernel->map.n - 1;
    print_line(p);
    print_see(p, kernel);
    print_kernel_maps(p->out, flow, kernel);
    if (kernel->on) {
        text_put(p->out, " on ");
        text_name(p->out, kernel->on);
    }
    if (kernel->when.n) text_put(p->out, " when ");
    print_guards(p->out, kernel->when.at, kernel->when.n);
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    for (int i = 0; i < kernel->line.n; i++) print_kernel_line(&t, &kernel->line.at[i]);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}
