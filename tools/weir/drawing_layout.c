/* SPDX-License-Identifier: Apache-2.0 */
/* Places for nodes and edges, by Graphviz: one run of `dot` lays out all drawings. What is too
 * large for it stands in layers by depth, uncrossed as little as it may be. */
#include "tools/weir/drawing.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/toolchain/process.h"

enum { DOT_MOST = 3000 }; /* nodes: seconds */
enum { POINTS = 72, LETTER = 6, WIDTH_LEAST = 60, WIDTH_MOST = 230, HEIGHT = 34, PATH = 22 };

/* What a node shows of its name: the end, which tells more. */
const char *draw_tail(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

/* A path gets room for some of what stands in front of its end. */
static void size_node(DrawNode *n) {
    size_t a = strlen(draw_tail(n->name)), whole = strlen(n->name), b = strlen(n->label);
    if (a < PATH) a = whole < PATH ? whole : PATH;
    float w = (float)(LETTER * (a > b ? a : b) + 18);
    n->w = w < WIDTH_LEAST ? WIDTH_LEAST : w > WIDTH_MOST ? WIDTH_MOST : w;
    n->h = HEIGHT;
}

/* ---- what dot reads -------------------------------------------------------------------------- */

static void put_node(Text *out, int i, const DrawNode *n) {
    text_printf(out, "n%d [width=%.3f height=%.3f];\n", i, (double)n->w / POINTS,
                (double)n->h / POINTS);
}

static void put_groups(Text *out, Drawing *d) {
    int *first = NEW_ARRAY(d->arena, int, d->group.n + 1),
        *next = NEW_ARRAY(d->arena, int, d->node.n + 1);
    for (int i = d->node.n - 1; i >= 0; i--) {
        int g = d->node.at[i].group;
        if (g < 0) continue;
        next[i] = first[g];
        first[g] = i + 1;
    }
    for (int g = 0; g < d->group.n; g++) {
        if (!first[g] || !next[first[g] - 1]) continue;
        text_printf(out, "subgraph cluster_%d { margin=6; ", g);
        for (int i = first[g]; i; i = next[i - 1]) text_printf(out, "n%d; ", i - 1);
        text_put(out, "}\n");
    }
}

/* Larger drawings get fewer rounds of improvement. */
static void put_drawing(Text *out, Drawing *d) {
    bool many = d->node.n > 300, large = d->node.n > 1000;
    text_printf(out,
                "digraph {\ngraph [nodesep=0.3 ranksep=0.3 %s];\nnode [shape=box fixedsize=true "
                "label=\"\"];\n",
                large  ? "nslimit=1 nslimit1=1 mclimit=0.2 splines=line"
                : many ? "nslimit=2 nslimit1=2 splines=spline"
                       : "splines=spline");
    for (int i = 0; i < d->node.n; i++) put_node(out, i, &d->node.at[i]);
    put_groups(out, d);
    for (int i = 0; i < d->edge.n; i++)
        text_printf(out, "n%d -> n%d%s;\n", d->edge.at[i].from, d->edge.at[i].to,
                    d->edge.at[i].again ? " [constraint=false]" : "");
    text_put(out, "}\n");
}

/* ---- what dot writes: "graph 1 W H", "node NAME X Y ...", "edge A B N X1 Y1 ...", "stop" --------
 */

static float points(char **at) {
    return (float)(strtod(*at, at) * POINTS);
}

static void take_node(Drawing *d, char *at) {
    long i = strtol(at + 1, &at, 10);
    if (i < 0 || i >= d->node.n) return;
    d->node.at[i].x = points(&at);
    d->node.at[i].y = d->height - points(&at);
}

static DrawEdge *find_edge(Drawing *d, long from, long to) {
    int lo = 0, hi = d->edge.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const DrawEdge *e = &d->edge.at[mid];
        if (e->from < from || (e->from == from && e->to < to))
            lo = mid + 1;
        else
            hi = mid;
    }
    DrawEdge *e = lo < d->edge.n ? &d->edge.at[lo] : NULL;
    return e && e->from == from && e->to == to ? e : NULL;
}

static void take_edge(Drawing *d, char *at) {
    long from = strtol(at + 1, &at, 10);
    while (*at == ' ') at++;
    long to = strtol(at + 1, &at, 10);
    DrawEdge *e = find_edge(d, from, to);
    long n = strtol(at, &at, 10);
    if (!e || n < 0 || n > 1 << 16) return;
    e->npoint = (int)n;
    e->point = NEW_ARRAY(d->arena, float, 2 * n + 1);
    for (int k = 0; k < n; k++) {
        e->point[2 * k] = points(&at);
        e->point[2 * k + 1] = d->height - points(&at);
    }
}

static void take_line(Drawing *d, char *line) {
    if (!strncmp(line, "graph ", 6)) {
        char *at = line + 6;
        (void)strtod(at, &at);
        d->width = points(&at);
        d->height = points(&at);
    } else if (!strncmp(line, "node ", 5)) {
        take_node(d, line + 5);
    } else if (!strncmp(line, "edge ", 5)) {
        take_edge(d, line + 5);
    }
}

/* The layouts of those that dot got, in order. */
static void take_layouts(Drawing *const *drawing, int n, char *text) {
    int k = 0;
    while (k < n && drawing[k]->node.n > DOT_MOST) k++;
    for (char *line = text, *end; k < n && line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        if (strcmp(line, "stop")) {
            take_line(drawing[k], line);
            continue;
        }
        for (k++; k < n && drawing[k]->node.n > DOT_MOST;) k++;
    }
}

/* ---- without dot ------------------------------------------------------------------------------
 */

/* Nodes stand in program order, so what they take from stands before them, but for loops. */
static void place_layers(Drawing *d) {
    int *depth = NEW_ARRAY(d->arena, int, d->node.n + 1);
    float *right = NEW_ARRAY(d->arena, float, d->node.n + 2);
    for (int i = 0; i < d->edge.n; i++) {
        const DrawEdge *e = &d->edge.at[i];
        if (e->from < e->to && depth[e->to] <= depth[e->from]) depth[e->to] = depth[e->from] + 1;
    }
    for (int i = 0; i < d->node.n; i++) {
        DrawNode *n = &d->node.at[i];
        n->x = right[depth[i]] + n->w / 2;
        n->y = (float)(depth[i] * 2 * HEIGHT) + HEIGHT;
        right[depth[i]] += n->w + 12;
        if (right[depth[i]] > d->width) d->width = right[depth[i]];
        if (n->y + HEIGHT > d->height) d->height = n->y + HEIGHT;
    }
}

static void run_dot(Ctx *ctx, Drawing *const *drawing, int n, const char *text, size_t bytes) {
    char *dot = tool_path("WEIR_DOT", NULL, "dot");
    if (!dot)
        fail(ctx, E_TOOLCHAIN,
             "drawings need Graphviz: install the package \"graphviz\", or set WEIR_DOT to its "
             "program \"dot\"");
    const char *argv[] = {dot, "-Tplain", NULL};
    ToolRun run = {.path = dot, .argv = argv, .in = {(void *)(uintptr_t)text, bytes}};
    char *wrong = tool_run(&run);
    if (!wrong) take_layouts(drawing, n, run.out.at);
    const char *said = wrong ? internf(ctx, "%s", wrong) : NULL;
    free(run.out.at);
    free(wrong);
    free(dot);
    if (said) fail(ctx, E_TOOLCHAIN, "%s", said);
}

void drawing_layout(Ctx *ctx, Drawing *const *drawing, int n) {
    Text in = {.arena = ctx_arena(ctx)};
    for (int i = 0; i < n; i++) {
        Drawing *d = drawing[i];
        for (int k = 0; k < d->node.n; k++) size_node(&d->node.at[k]);
        if (d->node.n > DOT_MOST)
            place_layers(d);
        else
            put_drawing(&in, d);
    }
    if (in.n) run_dot(ctx, drawing, n, text_str(&in), in.n);
}
