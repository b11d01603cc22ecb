/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `infer`: types, symbolic shapes and known values of all results, from the rows' type rules.
 *
 * Small constant results are evaluated on the way, because the shapes after them may depend on
 * them. Symbols that data defines are made anew each time, so the rules may run again: they do when
 * they found a bound of a dim. */
#include "graph_passes.h"

enum { SMALL = 8 * KNOWN_MAX };

static void fold_small(Infer *in) {
    fold_node(in, SMALL);
}

static void drop_data_symbols(Graph *g) {
    int n = 0;
    for (int i = 0; i < g->symbol.n; i++)
        if (!g->symbol.at[i].upper) g->symbol.at[n++] = g->symbol.at[i];
    g->symbol.n = n;
}

/* Inference may find that a dim cannot be larger than something; then shapes become simpler. */
static int bounded(const Graph *g) {
    int n = 0;
    for (int i = 0; i < g->symbol.n; i++)
        n += !g->symbol.at[i].upper && g->symbol.at[i].hi != INT64_MAX;
    return n;
}

Graph *pass_infer(Arena *arena, const Graph *g, const PassEnv *env);
Graph *pass_infer(Arena *arena, const Graph *g, const PassEnv *env) {
    Graph *out = graph_clone(arena, g);
    Infer in = {.ctx = g->ctx, .arena = arena, .graph = out, .ops = env->ops, .done = fold_small};
    for (int before = -1; before != bounded(out);) {
        before = bounded(out);
        drop_data_symbols(out);
        infer_nodes(&in);
    }
    return out;
}
