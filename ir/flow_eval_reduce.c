/* SPDX-License-Identifier: Apache-2.0 */
/* States of reductions while they are built.
 *
 * A float `sum` adds in f64 (a product exactly, as fma does) and rounds once to the state type.
 * Other combines run their merge body: over a block of different results at once; or over a block
 * that goes into one result, by halves where every order gives the same bits, else point by point.
 */
#include "flow_eval_map.h"

#include <math.h>
#include <string.h>

/* Columns of one state tuple: its own, the merge's operands, a scratch pair for f64 sums. */
typedef struct Acc {
    double *sum;                 /* sum: by result */
    char *state[COMBINE_STATES]; /* else: by state, a column */
    char *right[COMBINE_STATES];
    double *x, *y;
    BodyFrame *merge, *finish;
    const Combine *combine;
    Column left_of[COMBINE_STATES], right_of[COMBINE_STATES]; /* operands while a body runs */
    double *sums;                                             /* scatter: by element */
    char *states[COMBINE_STATES];
    uint8_t *touched;
} Acc;

static char *column_new(Arena *arena) {
    return arena_alloc(arena, COLUMN_MAX * 16);
}

void acc_prepare(Runner *r, Arena *arena) {
    const Group *g = r->g;
    r->acc = NEW_ARRAY(arena, Acc, g->nstate);
    for (int s = 0; s < g->nstate; s++) {
        const State *state = &g->state[s];
        Acc *a = &r->acc[s];
        a->combine = state->write->combine;
        if (!a->combine) continue;
        a->sum = NEW_ARRAY(arena, double, COLUMN_MAX);
        a->x = NEW_ARRAY(arena, double, COLUMN_MAX);
        a->y = NEW_ARRAY(arena, double, COLUMN_MAX);
        for (int k = 0; k < a->combine->nstate; k++) {
            a->state[k] = column_new(arena);
            a->right[k] = column_new(arena);
        }
        a->merge = body_frame(arena, state->merge);
        a->finish = state->finish ? body_frame(arena, state->finish) : NULL;
        if (g->mode != RUN_SCATTER) continue;
        int64_t n = tensor_count(&g->e->cont[state->to[0].cont]);
        a->touched = NEW_ARRAY(arena, uint8_t, n);
        a->sums = NEW_ARRAY(arena, double, state->sum ? n : 0);
        for (int64_t i = 0; i < n && state->sum; i++)
            a->sums[i] = bits_to_double(a->combine->type[0], a->combine->identity[0]);
        for (int k = 0; k < a->combine->nstate && !state->sum; k++) {
            DType t = a->combine->type[k];
            a->states[k] = arena_alloc(arena, (size_t)n * (size_t)column_bytes(t));
            Column column = {t, a->states[k]};
            for (int64_t i = 0; i < n; i++) column_set(column, (int)i, a->combine->identity[k]);
        }
    }
}

static void fill_identity(DType t, Bits identity, void *at, int n) {
    Column column = {t, at};
    for (int j = 0; j < n; j++) column_set(column, j, identity);
}

void acc_reset(Runner *r) {
    const Group *g = r->g;
    int n = g->mode == RUN_HORIZONTAL ? 1 : r->n;
    for (int s = 0; s < g->nstate; s++) {
        Acc *a = &r->acc[s];
        const Combine *c = a->combine;
        if (g->state[s].sum) {
            double identity = bits_to_double(c->type[0], c->identity[0]);
            for (int j = 0; j < n; j++) a->sum[j] = identity;
        } else {
            for (int k = 0; k < c->nstate; k++)
                fill_identity(c->type[k], c->identity[k], a->state[k], n);
        }
    }
}

/* ---- float sums ----------------------------------------------------------------------------- */

static const double *as_double(Column c, double *room, int n) {
    if (c.type == F64) return c.at;
    if (c.type == F32)
        for (int j = 0; j < n; j++) room[j] = (double)((const float *)c.at)[j];
    else
        for (int j = 0; j < n; j++) room[j] = bits_to_double(c.type, column_get(c, j));
    return room;
}

/* What is added at each point of the block: x, or x*y when y is not NULL. */
static void addends(Runner *r, int s, const double **x, const double **y) {
    const Group *g = r->g;
    const State *state = &g->state[s];
    Acc *a = &r->acc[s];
    bool product = state->product[0] >= 0;
    int first = product ? state->product[0] : state->write->val[0];
    *x = as_double(body_column(g->code, r->frame, first), a->x, r->n);
    *y = product ? as_double(body_column(g->code, r->frame, state->product[1]), a->y, r->n) : NULL;
}

/* f32 products are exact in f64; those of f64 are fused with the addition. */
static double add(const State *state, double sum, const double *x, const double *y, int j) {
    if (!y) return sum + x[j];
    if (state->write->combine->type[0] == F64) return fma(x[j], y[j], sum);
    return sum + x[j] * y[j];
}

static void sum_vertical(Runner *r, int s) {
    const State *state = &r->g->state[s];
    const double *x, *y;
    double *sum = r->acc[s].sum;
    addends(r, s, &x, &y);
    bool plain = r->all && (!y || state->write->combine->type[0] != F64);
    if (plain && y)
        for (int j = 0; j < r->n; j++) sum[j] += x[j] * y[j];
    else if (plain)
        for (int j = 0; j < r->n; j++) sum[j] += x[j];
    else
        for (int j = 0; j < r->n; j++)
            if (r->all || r->mask[j]) sum[j] = add(state, sum[j], x, y, j);
}

/* Eight partial sums: fixed by the point's place in the block, not by threads. */
static void sum_horizontal(Runner *r, int s) {
    const State *state = &r->g->state[s];
    const double *x, *y;
    double part[8] = {0};
    addends(r, s, &x, &y);
    int j = 0;
    if (r->all && !(y && state->write->combine->type[0] == F64))
        for (; j + 8 <= r->n; j += 8)
            for (int k = 0; k < 8; k++) part[k] += y ? x[j + k] * y[j + k] : x[j + k];
    for (; j < r->n; j++)
        if (r->all || r->mask[j]) part[j % 8] = add(state, part[j % 8], x, y, j);
    for (int k = 4; k > 0; k /= 2)
        for (int i = 0; i < k; i++) part[i] += part[i + k];
    r->acc[s].sum[0] += part[0];
}

/* ---- other combines ------------------------------------------------------------------------- */

typedef struct Params {
    const Body *body;
    const Column *left, *right;
    int nstate;
} Params;

static void fill_param(void *user, int val, Column out, int n) {
    const Params *p = user;
    int k = p->body->val.at[val].arg[0];
    const Column *from = k < p->nstate ? &p->left[k] : &p->right[k - p->nstate];
    memcpy(out.at, from->at, (size_t)n * (size_t)column_bytes(out.type));
}

/* left = merge(left, right) over n results, where `mask` (NULL: everywhere). */
static void merge(const State *state, Acc *a, const Column *left, const Column *right, int n,
                  const uint8_t *mask) {
    const Combine *c = a->combine;
    Params p = {&c->merge, left, right, c->nstate};
    body_run(state->merge, a->merge, n, fill_param, &p);
    for (int k = 0; k < c->nstate; k++) {
        Column from = body_column(state->merge, a->merge, c->merged[k]);
        size_t bytes = (size_t)column_bytes(c->type[k]);
        if (!mask)
            memcpy(left[k].at, from.at, (size_t)n * bytes);
        else
            for (int j = 0; j < n; j++)
                if (mask[j]) column_set(left[k], j, column_get(from, j));
    }
}

static void columns_of(const Acc *a, char *const *at, Column *out) {
    for (int k = 0; k < a->combine->nstate; k++) out[k] = (Column){a->combine->type[k], at[k]};
}

static void values_of(Runner *r, int s, Column *out) {
    const State *state = &r->g->state[s];
    for (int k = 0; k < state->write->nstate; k++)
        out[k] = body_column(r->g->code, r->frame, state->write->val[k]);
}

static void shift(const Combine *c, const Column *from, int by, Column *out) {
    for (int k = 0; k < c->nstate; k++)
        out[k] = (Column){from[k].type, (char *)from[k].at + by * column_bytes(from[k].type)};
}

/* Halves of the block onto each other until one point is left. */
static void fold_exact(const State *state, Acc *a, const Column *block, int n) {
    Column half[COMBINE_STATES];
    while (n > 1) {
        int h = n / 2;
        shift(a->combine, block, n - h, half);
        merge(state, a, block, half, h, NULL);
        n -= h;
    }
}

static void merge_horizontal(Runner *r, int s) {
    const State *state = &r->g->state[s];
    Acc *a = &r->acc[s];
    const Combine *c = a->combine;
    Column left[COMBINE_STATES], value[COMBINE_STATES], at[COMBINE_STATES];
    columns_of(a, a->state, left);
    values_of(r, s, value);
    if (state->exact) {
        columns_of(a, a->right, at);
        for (int k = 0; k < c->nstate; k++) {
            memcpy(at[k].at, value[k].at, (size_t)r->n * (size_t)column_bytes(c->type[k]));
            for (int j = 0; j < r->n && !r->all; j++)
                if (!r->mask[j]) column_set(at[k], j, c->identity[k]);
        }
        fold_exact(state, a, at, r->n);
        merge(state, a, left, at, 1, NULL);
        return;
    }
    for (int j = 0; j < r->n; j++) {
        if (!r->all && !r->mask[j]) continue;
        shift(c, value, j, at);
        merge(state, a, left, at, 1, NULL);
    }
}

static void merge_vertical(Runner *r, int s) {
    Acc *a = &r->acc[s];
    Column left[COMBINE_STATES], right[COMBINE_STATES];
    columns_of(a, a->state, left);
    values_of(r, s, right);
    merge(&r->g->state[s], a, left, right, r->n, r->all ? NULL : r->mask);
}

void acc_vertical(Runner *r) {
    for (int s = 0; s < r->g->nstate; s++) {
        if (r->g->state[s].sum)
            sum_vertical(r, s);
        else
            merge_vertical(r, s);
    }
}

void acc_horizontal(Runner *r) {
    for (int s = 0; s < r->g->nstate; s++) {
        if (r->g->state[s].sum)
            sum_horizontal(r, s);
        else
            merge_horizontal(r, s);
    }
}

/* ---- results -------------------------------------------------------------------------------- */

/* The columns to store: states, a sum rounded once, or what `finish` makes of them. */
static void finish(const State *state, Acc *a, int n, Column *out) {
    const Combine *c = a->combine;
    columns_of(a, a->state, out);
    for (int j = 0; j < n && state->sum; j++)
        column_set(out[0], j, bits_of_double(c->type[0], a->sum[j]));
    if (!state->finish) return;
    Params p = {&c->finish, out, NULL, c->nstate};
    body_run(state->finish, a->finish, n, fill_param, &p);
    for (int k = 0; k < state->write->n; k++)
        out[k] = body_column(state->finish, a->finish, c->finished[k]);
}

void acc_finish(Runner *r, int n) {
    for (int s = 0; s < r->g->nstate; s++) {
        const State *state = &r->g->state[s];
        Column out[COMBINE_STATES];
        finish(state, &r->acc[s], n, out);
        for (int k = 0; k < state->write->n; k++) access_store(r, &state->to[k], out[k], n);
    }
}

/* ---- scatter -------------------------------------------------------------------------------- */

static void scatter_one(Runner *r, int s, int j, int64_t at, const Column *value) {
    const State *state = &r->g->state[s];
    Acc *a = &r->acc[s];
    Column left[COMBINE_STATES], right[COMBINE_STATES];
    for (int k = 0; k < a->combine->nstate; k++)
        left[k] =
            (Column){a->combine->type[k], a->states[k] + at * column_bytes(a->combine->type[k])};
    shift(a->combine, value, j, right);
    merge(state, a, left, right, 1, NULL);
}

void acc_scatter(Runner *r) {
    int64_t address[COLUMN_MAX];
    for (int s = 0; s < r->g->nstate; s++) {
        const State *state = &r->g->state[s];
        Acc *a = &r->acc[s];
        const double *x = NULL, *y = NULL;
        Column value[COMBINE_STATES];
        access_addresses(r, &state->to[0], r->n, false, address);
        if (state->sum)
            addends(r, s, &x, &y);
        else
            values_of(r, s, value);
        for (int j = 0; j < r->n; j++) {
            if (address[j] < 0) continue;
            a->touched[address[j]] = 1;
            if (state->sum)
                a->sums[address[j]] = add(state, a->sums[address[j]], x, y, j);
            else
                scatter_one(r, s, j, address[j], value);
        }
    }
}

/* Elements that no point met hold the identity, unless another map writes this container too. */
static bool is_shared(const Group *g, int cont) {
    int writers = 0;
    for (int m = 0; m < g->e->flow->map.n; m++) {
        const Map *map = g->e->flow->map.at[m];
        for (int w = 0; w < map->write.n; w++)
            for (int k = 0; k < map->write.at[w].n; k++)
                writers += map->write.at[w].to[k].cont == cont;
    }
    return writers > 1;
}

static void scatter_store(const Runner *r, int s, int64_t from, int n, bool shared) {
    const State *state = &r->g->state[s];
    Acc *a = &r->acc[s];
    Column out[COMBINE_STATES];
    for (int j = 0; j < n && state->sum; j++) a->sum[j] = a->sums[from + j];
    for (int k = 0; k < a->combine->nstate && !state->sum; k++) {
        int bytes = column_bytes(a->combine->type[k]);
        memcpy(a->state[k], a->states[k] + from * bytes, (size_t)(n * bytes));
    }
    finish(state, a, n, out);
    for (int k = 0; k < state->write->n; k++) {
        DType t = state->to[k].type;
        for (int j = 0; j < n; j++)
            if (!shared || a->touched[from + j])
                mem_set(t, state->to[k].data, from + j,
                        bits_convert(t, out[k].type, column_get(out[k], j), true));
    }
}

void acc_scatter_finish(Runner *r) {
    for (int s = 0; s < r->g->nstate; s++) {
        const State *state = &r->g->state[s];
        int64_t n = tensor_count(&r->g->e->cont[state->to[0].cont]);
        bool shared = is_shared(r->g, state->to[0].cont);
        for (int64_t i = 0; i < n; i += COLUMN_MAX)
            scatter_store(r, s, i, (int)(n - i < COLUMN_MAX ? n - i : COLUMN_MAX), shared);
    }
}
