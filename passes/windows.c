/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `windows`: windows over several dims (pooling) are taken dim by dim.
 *
 * The greatest of 5 x 5 neighbours is the greatest of five, each the greatest of a column of five:
 * r + s elements a result instead of r * s. The outermost dim goes first: what stands in between
 * belongs to one row of results, and where windows step over elements, their last dim alone has to
 * sift them out of vectors. Sums come in another order, so they stay whole in strict mathematics.
 */
#include "passes/margin.h"

/* What is read directly must be so many times what is read dim by dim. */
#define WORTH 1.5

/* A reduced dim `tap` that slides along result dim `row` in index `at` of the map's only read, by
 * `step` elements a result; neither dim stands in another index. */
typedef struct Slide {
    int row, tap, at;
    int64_t step;
} Slide;

typedef struct Window {
    Slide slide[MAP_DIMS]; /* by the index, outermost first */
    int n;
    bool given; /* the caller orders the operand: lanes go along its last dim */
} Window;

/* The slide along reduced dim `tap`. */
static bool find_slide(const Flow *flow, const Map *m, const Access *a, int tap, Slide *s) {
    Sliding at;
    for (int k = 0; k < a->rank; k++) {
        if (!index_slides(flow, m, a->at[k], &at) || at.tap != tap) continue;
        *s = (Slide){at.result, tap, k, at.step};
        return at.step > 0 && slides_alone(m, a, k, &at);
    }
    return false;
}

/* One read of a container, reduced to one place in any order, and what it finds outside of the
 * container counts for nothing. */
static bool reduces_read(const Flow *flow, const Map *m, bool strict) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || m->dim.n > RANK_MAX) return false;
    const Write *w = &m->write.at[0];
    const Val *v = &m->body.val.at[w->val[0]];
    Bits outside;
    if (!w->combine || v->kind != VAL_READ || access_by_value(m, &v->read)) return false;
    if (strict ? !combine_rounds_nothing(w->combine) : !combine_any_order(w->combine)) return false;
    return v->type == w->combine->type[0] && flow->cont.at[w->to[0].cont].type == v->type &&
           (!v->has_else ||
            (body_const_bits(&m->body, v->arg[0], &outside) && outside == w->combine->identity[0]));
}

/* Is m a window over two dims or more of one operand? */
static bool find_window(const Flow *flow, const Map *m, bool strict, Window *win) {
    win->n = 0;
    if (!reduces_read(flow, m, strict)) return false;
    const Access *a = &m->body.val.at[m->write.at[0].val[0]].read;
    for (int d = 0; d < m->dim.n; d++) {
        Slide s;
        if (m->dim.at[d].seq) return false;
        if (!map_reduces(m, d)) continue;
        if (!find_slide(flow, m, a, d, &s)) return false;
        int k = win->n++;
        for (; k && win->slide[k - 1].at >= s.at; k--) {
            if (win->slide[k - 1].at == s.at) return false;
            win->slide[k] = win->slide[k - 1];
        }
        win->slide[k] = s;
    }
    win->given |= flow->cont.at[a->cont].kind == CONT_IN;
    return win->n > 1;
}

/* What an element along the last slide costs, next to a plain one: the caller's order has lanes of
 * every step-th; elsewhere layouts find a dim that no window slides along. */
static double element_cost(const Window *win, const Access *a) {
    const Slide *last = &win->slide[win->n - 1];
    return win->given && last->at == a->rank - 1 && last->step > 1 ? 1 + (double)last->step : 1;
}

/* Elements along a slide for each result. */
static double elements_each(const Flow *flow, const Map *m, const Access *a, const Slide *s) {
    int64_t rows = map_extent(m, s->row, 0),
            from = extent_or(flow->cont.at[a->cont].shape[s->at], 0);
    return rows && from ? (double)from / (double)rows : (double)s->step;
}

/* Is the first slide worth a map of its own? */
static bool worth_splitting(const Flow *flow, const Map *m, const Window *win) {
    const Access *a = &m->body.val.at[m->write.at[0].val[0]].read;
    double first = (double)map_extent(m, win->slide[0].tap, 0), behind = element_cost(win, a),
           between = 1;
    for (int k = 1; k < win->n; k++) {
        behind *= (double)map_extent(m, win->slide[k].tap, 0);
        between *= elements_each(flow, m, a, &win->slide[k]);
    }
    return first * behind >= WORTH * (between * (first + 1) + behind);
}

/* A map in front of m reduces along the window's first slide, for all indices of the others; m
 * reads what it makes. */
static void split_window(Flow *flow, Map *m, const Window *win, Items *into) {
    Val *read = &m->body.val.at[m->write.at[0].val[0]];
    const Access a = read->read;
    const int tap = win->slide[0].tap;
    const char *name = internf(flow->ctx, "%s.%s", m->name, dim_sym_name(m->dim.at[tap].sym));
    Map *first = flow_map(flow, into, name, m->from);
    Dim shape[RANK_MAX], made[RANK_MAX], row[RANK_MAX];
    Dim *index = NEW_ARRAY(flow->arena, Dim, RANK_MAX);
    DimSubst subst[MAP_DIMS];
    int n = 0, rank = 0;
    for (int k = 0; k < a.rank; k++) row[k] = a.at[k];
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        const Slide *along = NULL;
        for (int k = 1; k < win->n; k++)
            if (win->slide[k].row == d) along = &win->slide[k];
        if (map_reduces(m, d) && d != tap) continue;
        Dim extent = along ? flow->cont.at[a.cont].shape[along->at] : dim->extent;
        Dim own = map_dim(flow, first, dim_sym_name(dim->sym), extent);
        subst[n++] = (DimSubst){dim->sym, own};
        if (along) row[along->at] = dim->sym;
        if (d == tap) continue;
        shape[rank] = extent, made[rank] = own;
        index[rank++] = along ? a.at[along->at] : dim->sym;
    }
    for (int k = 0; k < a.rank; k++) row[k] = dim_subst(flow->ctx, row[k], subst, n);
    const Combine *combine = m->write.at[0].combine;
    int cont = flow_cont(flow, name, CONT_TMP, combine->type[0], shape, rank);
    Access from = {a.cont, a.rank, row};
    int none = read->has_else ? body_bits(&first->body, read->type, combine->identity[0]) : -1;
    int val = read->has_else ? body_read_else(&first->body, from, read->type, none)
                             : body_read(&first->body, from, read->type);
    map_write(flow, first, cont, made, val, combine);
    read->read = (Access){cont, rank, index};
    for (int d = tap; d + 1 < m->dim.n; d++) m->dim.at[d] = m->dim.at[d + 1];
    m->dim.n--;
}

static void windows_items(Flow *flow, bool strict, Items *items) {
    Items out = {0};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        Window win = {0};
        windows_items(flow, strict, &it.body);
        windows_items(flow, strict, &it.other);
        Map *m = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
        while (m && find_window(flow, m, strict, &win) && worth_splitting(flow, m, &win))
            split_window(flow, m, &win, &out);
        vec_push(flow->arena, &out, it);
    }
    *items = out;
}

Flow *pass_windows(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_windows(Arena *arena, const Flow *flow, const PassEnv *env) {
    Flow *out = flow_clone(arena, flow);
    if (!env->machine->block_threads) windows_items(out, env->math == MATH_STRICT, &out->body);
    flow_compact(out);
    return out;
}
