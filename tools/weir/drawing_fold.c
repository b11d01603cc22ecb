/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated layers, found in the order of the program: stretches of nodes that look like the nodes a
 * period before them (a tandem repeat). Names play no part, so layers of any exporter are found,
 * and a flow's maps as well as a graph's operators. */
#include "tools/weir/drawing.h"

#include <string.h>

enum { PERIOD_MOST = 2048, SAVED_LEAST = 4 };

/* Equal numbers for nodes that look alike. */
static int *looks(Arena *arena, const Drawing *d) {
    int *look = NEW_ARRAY(arena, int, d->node.n + 1);
    Table *seen = table_new(arena);
    for (int i = 0; i < d->node.n; i++) {
        const DrawNode *n = &d->node.at[i];
        const char *key = internf(arena_ctx(arena), "%s %s %s %s", n->kind, n->class, n->label,
                                  n->look ? n->look : "");
        look[i] = (int)(intptr_t)table_get(seen, key);
        if (!look[i]) table_put(seen, key, (void *)(intptr_t)(look[i] = i + 1));
    }
    return look;
}

/* The stretch of period p that saves most nodes; folded nodes (look 0) are like none. */
static void best_of_period(const int *look, int n, int p, Fold *best) {
    for (int i = 0, run = 0; i + p < n; i++) {
        run = look[i] && look[i] == look[i + p] ? run + 1 : 0;
        int times = run / p + 1;
        if ((times - 1) * p > (best->times - 1) * best->period)
            *best = (Fold){i + p + 1 - (run + p), p, times};
    }
}

Folds drawing_folds(Arena *arena, const Drawing *of) {
    Folds folds = {0};
    int *look = looks(arena, of), n = of->node.n;
    for (;;) {
        Fold best = {0, 1, 1};
        for (int p = 1; p <= n / 2 && p <= PERIOD_MOST; p++) best_of_period(look, n, p, &best);
        if ((best.times - 1) * best.period < SAVED_LEAST) return folds;
        vec_push(arena, &folds, best);
        for (int i = 0; i < best.period * best.times; i++) look[best.start + i] = 0;
    }
}

/* Node i stands for itself and its repeats: the number it has in the folded drawing. */
static int *fold_nodes(Arena *arena, const Drawing *of, const Folds *folds, Drawing *to) {
    int *stands = NEW_ARRAY(arena, int, of->node.n + 1);
    int *of_fold = NEW_ARRAY(arena, int, of->node.n + 1);
    for (int f = 0; f < folds->n; f++)
        for (int i = 0; i < folds->at[f].period * folds->at[f].times; i++)
            of_fold[folds->at[f].start + i] = f + 1;
    for (int i = 0; i < of->node.n; i++) {
        const Fold *f = of_fold[i] ? &folds->at[of_fold[i] - 1] : NULL;
        if (f && i - f->start >= f->period) {
            stands[i] = stands[i - f->period];
            continue;
        }
        stands[i] = to->node.n;
        vec_push(arena, &to->node, of->node.at[i]);
        to->node.at[to->node.n - 1].times = f ? f->times : 1;
    }
    return stands;
}

Drawing *drawing_fold(Arena *arena, const Drawing *of, const Folds *folds) {
    Drawing *to = NEW(arena, Drawing);
    Table *seen = table_new(arena);
    to->arena = arena;
    int *stands = fold_nodes(arena, of, folds, to);
    for (int i = 0; i < of->edge.n; i++) {
        DrawEdge e = of->edge.at[i];
        e.again = stands[e.to] <= stands[e.from] && e.to > e.from;
        e.from = stands[e.from], e.to = stands[e.to];
        uintptr_t key = ((uintptr_t)e.from * (uintptr_t)of->node.n + (uintptr_t)e.to) * 2 + 1;
        if (e.from == e.to || table_get(seen, (void *)key)) continue;
        table_put(seen, (void *)key, to);
        vec_push(arena, &to->edge, e);
    }
    to->group = of->group;
    drawing_sort(to);
    return to;
}
