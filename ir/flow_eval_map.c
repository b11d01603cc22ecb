/* SPDX-License-Identifier: Apache-2.0 */
/* What a map means: walking its domain, in blocks, on threads.
 *
 * Constraints mask the points of a block; the body runs over all of them, and what a masked point
 * reads outside is 0. Threads split a dim of the results, so every result is made by one of them,
 * in the same order whatever their number. Threads only compute: a fault is kept and raised after.
 */
#include "flow_eval_map.h"

#include <pthread.h>
#include <string.h>

/* ---- spaces --------------------------------------------------------------------------------- */

static void set_points(Runner *r, const Space *s) {
    if (!s->blocked) return;
    if (s->n == 0) {
        r->n = 1;
        return;
    }
    int d = s->dim[s->first];
    int64_t left = r->hi[d] - r->pos[d];
    r->n = (int)((left < s->chunk ? left : s->chunk) * s->inner);
}

static bool space_begin(Runner *r, const Space *s) {
    for (int i = 0; i < s->n; i++) {
        r->pos[s->dim[i]] = r->lo[s->dim[i]];
        if (r->lo[s->dim[i]] >= r->hi[s->dim[i]]) return false;
    }
    set_points(r, s);
    return true;
}

static bool space_next(Runner *r, const Space *s) {
    for (int i = s->blocked ? s->first : s->n - 1; i >= 0 && s->n > 0; i--) {
        int d = s->dim[i];
        r->pos[d] += s->blocked && i == s->first ? s->chunk : 1;
        if (r->pos[d] < r->hi[d]) {
            set_points(r, s);
            return true;
        }
        r->pos[d] = r->lo[d];
    }
    return false;
}

/* ---- constraints ---------------------------------------------------------------------------- */

static bool any_active(const Runner *r) {
    if (r->all) return true;
    for (int j = 0; j < r->n; j++)
        if (r->mask[j]) return true;
    return false;
}

static void mask_by(Runner *r, const DimCode *cons) {
    int64_t value[COLUMN_MAX];
    DimColumns in = {r->pos, r->column};
    dim_code_column(cons, &in, r->n, value);
    if (r->all) memset(r->mask, 1, (size_t)r->n);
    r->all = false;
    for (int j = 0; j < r->n; j++) r->mask[j] &= value[j] >= 0;
}

/* Cuts the mask by the constraints that use (or do not use) reduced dims. False: no point is left.
 */
static bool mask_block(Runner *r, bool reduced, bool both) {
    const Group *g = r->g;
    for (int c = 0; c < g->ncons; c++) {
        const DimCode *cons = g->cons[c];
        if (!both && g->cons_reduced[c] != reduced) continue;
        if (dim_code_affine(cons)) {
            int64_t at = dim_code_value(cons, r->pos), lo = 0, hi = 0;
            for (int i = 0; i < cons->nlinear; i++) {
                int64_t span = cons->linear[i].coef * g->block_hi[cons->linear[i].slot];
                *(span < 0 ? &lo : &hi) += span;
            }
            if (at + lo >= 0) continue;
            if (at + hi < 0) return false;
        }
        mask_by(r, cons);
    }
    return any_active(r);
}

/* ---- the four ways -------------------------------------------------------------------------- */

static void run_body(Runner *r) {
    body_run(r->g->code, r->frame, r->n, access_fill, r);
}

static void run_plain(Runner *r) {
    const Group *g = r->g;
    for (bool on = space_begin(r, &g->out); on && !r->fault.set; on = space_next(r, &g->out)) {
        r->all = true;
        if (!mask_block(r, false, true)) continue;
        run_body(r);
        if (g->mode == RUN_SCATTER) acc_scatter(r);
        for (int s = 0; s < g->nstate && g->mode == RUN_PLAIN; s++) {
            const State *state = &g->state[s];
            for (int k = 0; k < state->write->n; k++)
                access_store(r, &state->to[k], body_column(g->code, r->frame, state->write->val[k]),
                             r->n);
        }
    }
    if (g->mode == RUN_SCATTER) acc_scatter_finish(r);
}

static void run_vertical(Runner *r) {
    const Group *g = r->g;
    for (bool on = space_begin(r, &g->out); on && !r->fault.set; on = space_next(r, &g->out)) {
        r->all = true;
        for (int i = 0; i < g->red.n; i++) r->pos[g->red.dim[i]] = 0;
        if (!mask_block(r, false, false)) continue;
        r->out_all = r->all;
        if (!r->all) memcpy(r->out_mask, r->mask, (size_t)r->n);
        acc_reset(r);
        for (bool in = space_begin(r, &g->red); in && !r->fault.set; in = space_next(r, &g->red)) {
            r->all = r->out_all;
            if (!r->all) memcpy(r->mask, r->out_mask, (size_t)r->n);
            if (!mask_block(r, true, false)) continue;
            run_body(r);
            acc_vertical(r);
        }
        r->all = r->out_all;
        if (!r->all) memcpy(r->mask, r->out_mask, (size_t)r->n);
        acc_finish(r, r->n);
    }
}

static bool point_active(Runner *r) {
    const Group *g = r->g;
    for (int c = 0; c < g->ncons; c++)
        if (!g->cons_reduced[c] && dim_code_value(g->cons[c], r->pos) < 0) return false;
    return true;
}

static void run_horizontal(Runner *r) {
    const Group *g = r->g;
    for (bool on = space_begin(r, &g->out); on && !r->fault.set; on = space_next(r, &g->out)) {
        if (!point_active(r)) continue;
        acc_reset(r);
        for (bool in = space_begin(r, &g->red); in && !r->fault.set; in = space_next(r, &g->red)) {
            r->all = true;
            if (!mask_block(r, true, false)) continue;
            run_body(r);
            acc_horizontal(r);
        }
        for (int i = 0; i < g->red.n; i++) r->pos[g->red.dim[i]] = 0;
        r->all = true;
        acc_finish(r, 1);
    }
}

static void *run_part(void *runner) {
    Runner *r = runner;
    switch (r->g->mode) {
    case RUN_PLAIN:
    case RUN_SCATTER: run_plain(r); break;
    case RUN_VERTICAL: run_vertical(r); break;
    case RUN_HORIZONTAL: run_horizontal(r); break;
    }
    return NULL;
}

/* ---- threads -------------------------------------------------------------------------------- */

static void raise_fault(const Group *g, const Fault *f) {
    fail(g->e->ctx, f->symbols ? E_RUN : E_VERIFY,
         "index %lld is outside dim %d of \"%s\", which has %lld elements, in map \"%s\"",
         (long long)f->index, f->dim, g->e->flow->cont.at[f->cont].name, (long long)f->extent,
         g->map->name);
}

/* A thread that cannot be started has its part run here. */
void parallel_run(void *(*fn)(void *), void *at, size_t size, int n) {
    pthread_t thread[256];
    bool started[256] = {false};
    if (n > 256) BUG("%d threads", n);
    for (int t = 1; t < n; t++)
        started[t] = pthread_create(&thread[t], NULL, fn, (char *)at + size * (size_t)t) == 0;
    fn(at);
    for (int t = 1; t < n; t++) {
        if (started[t])
            pthread_join(thread[t], NULL);
        else
            fn((char *)at + size * (size_t)t);
    }
}

void group_run(Group *g) {
    if (contract_run(g)) return;
    parallel_run(run_part, g->runner, sizeof *g->runner, g->nrunner);
    for (int t = 0; t < g->nrunner; t++)
        if (g->runner[t].fault.set) raise_fault(g, &g->runner[t].fault);
}

/* ---- the map -------------------------------------------------------------------------------- */

static void set_seq(Groups *groups, int dim, int64_t index) {
    for (int i = 0; i < groups->n; i++)
        for (int t = 0; t < groups->at[i]->nrunner; t++) groups->at[i]->runner[t].pos[dim] = index;
}

/* Sequential dims outermost, in order; all groups run at each of their points. */
static void run_seq(const Map *map, Groups *groups, int dim) {
    while (dim < map->dim.n && !map->dim.at[dim].seq) dim++;
    if (dim == map->dim.n) {
        for (int i = 0; i < groups->n; i++) group_run(groups->at[i]);
        return;
    }
    for (int64_t t = 0; t < groups->at[0]->extent[dim]; t++) {
        set_seq(groups, dim, t);
        run_seq(map, groups, dim + 1);
    }
}

void eval_map(Eval *e, const Map *map) {
    Arena *arena = arena_new(e->ctx);
    Groups groups = {0};
    if (map->from) e->ctx->where.node = from_words(e->ctx, map->from);
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++) eval_make(e, map->write.at[w].to[k].cont);
    groups_prepare(e, map, arena, &groups);
    if (groups.n) run_seq(map, &groups, 0);
    arena_free(arena);
}
