/* SPDX-License-Identifier: Apache-2.0 */
/* Preparing a map for evaluation: writes in groups, accesses as affine addresses, dims in spaces.
 */
#include "flow_eval_map.h"

#include <stdlib.h>
#include <string.h>

/* ---- symbols -------------------------------------------------------------------------------- */

static bool find_slot(void *group, Dim sym, int *slot, int64_t *value) {
    Group *g = group;
    *slot = -1;
    for (int d = 0; d < g->ndim; d++)
        if (g->map->dim.at[d].sym == sym) *slot = d;
    for (int s = g->ndim; s < g->nslot; s++)
        if (g->body.val.at[g->symval[s]].sym == sym) *slot = s;
    return *slot >= 0 || eval_symbol(g->e, sym, value);
}

static const DimCode *compile(Group *g, Dim d) {
    Dim unbound;
    const DimCode *code = dim_compile(g->arena, d, find_slot, g, &unbound);
    if (!code)
        fail(g->e->ctx, E_VERIFY, "map \"%s\" uses symbol \"%s\", which has no value here",
             g->map->name, dim_sym_name(unbound));
    return code;
}

static uint64_t symbols_of(const Group *g, const DimCode *code) {
    uint64_t symbols = 0;
    for (int s = g->ndim; s < g->nslot; s++)
        if (dim_code_uses(code, s)) symbols |= (uint64_t)1 << (s - g->ndim);
    return symbols;
}

/* ---- accesses ------------------------------------------------------------------------------- */

/* Smallest and largest of what the dims add to an affine index, each running 0 .. most[d]. */
static void reach(const DimCode *code, const int64_t *most, int64_t *lo, int64_t *hi) {
    *lo = *hi = 0;
    for (int i = 0; i < code->nlinear; i++) {
        int64_t span = code->linear[i].coef * most[code->linear[i].slot];
        *(span < 0 ? lo : hi) += span;
    }
}

static bool always_inside(const Group *g, Spot *s) {
    int64_t *most = NEW_ARRAY(g->arena, int64_t, g->nslot), lo, hi;
    bool all = true;
    for (int d = 0; d < g->ndim; d++) most[d] = g->extent[d] - 1;
    for (int k = 0; k < s->rank; k++) {
        reach(s->at[k], most, &lo, &hi);
        s->safe_at[k] = s->at[k]->constant + lo >= 0 && s->at[k]->constant + hi < s->dim[k];
        all = all && s->safe_at[k];
    }
    return all;
}

static void sum_address(const Group *g, Spot *s) {
    DimLinear *linear = NEW_ARRAY(g->arena, DimLinear, g->ndim);
    for (int k = 0; k < s->rank; k++) s->address.constant += s->at[k]->constant * s->stride[k];
    for (int d = 0; d < g->ndim; d++) {
        int64_t coef = 0;
        for (int k = 0; k < s->rank; k++) coef += dim_code_coef(s->at[k], d) * s->stride[k];
        if (coef) linear[s->address.nlinear++] = (DimLinear){d, coef};
    }
    s->address.linear = linear;
}

/* Offsets of a block's points, and the step when they are evenly spaced. */
static void tabulate(const Group *g, Spot *s) {
    int64_t *offset = NEW_ARRAY(g->arena, int64_t, COLUMN_MAX);
    for (int i = 0; i < s->address.nlinear; i++) {
        const DimLinear *l = &s->address.linear[i];
        const int64_t *rel = g->rel[l->slot];
        for (int j = 0; rel && j < COLUMN_MAX; j++) offset[j] += l->coef * rel[j];
    }
    const Space *space = g->out.blocked ? &g->out : &g->red;
    int64_t n = space->chunk * space->inner;
    s->step = n > 1 ? offset[1] : 1;
    for (int64_t j = 0; j < n && s->step != INT64_MIN; j++)
        if (offset[j] != j * s->step) s->step = INT64_MIN;
    s->offset = offset;
    for (int k = 0; k < s->rank; k++) reach(s->at[k], g->block_hi, &s->lo[k], &s->hi[k]);
}

Spot *spot_prepare(Group *g, const Access *access) {
    Spot *s = NEW(g->arena, Spot);
    const Tensor *t = eval_tensor(g->e, access->cont);
    s->cont = access->cont;
    s->rank = access->rank;
    s->type = t->type;
    s->bytes = dtype_bits(t->type) < 8 ? 0 : dtype_bits(t->type) / 8;
    s->data = t->data;
    s->affine = true;
    int64_t stride = 1;
    for (int k = s->rank - 1; k >= 0; k--) {
        s->dim[k] = t->dim[k];
        s->stride[k] = stride;
        stride *= t->dim[k];
        s->at[k] = compile(g, access->at[k]);
        s->symbols |= symbols_of(g, s->at[k]);
        if (!dim_code_affine(s->at[k])) s->affine = false;
    }
    s->affine = s->affine && !s->symbols;
    if (!s->affine) return s;
    sum_address(g, s);
    s->safe = always_inside(g, s);
    tabulate(g, s);
    return s;
}

/* ---- spaces --------------------------------------------------------------------------------- */

static int64_t extent_of(const Group *g, int d) {
    return g->extent[d] > 0 ? g->extent[d] : 1;
}

void space_block(const Group *g, Space *space) {
    space->blocked = true;
    space->inner = space->chunk = 1;
    space->first = space->n > 0 ? space->n - 1 : 0;
    if (space->n == 0) return;
    while (space->first > 0 && space->dim[space->first] != g->split &&
           space->inner * extent_of(g, space->dim[space->first]) <= COLUMN_MAX)
        space->inner *= extent_of(g, space->dim[space->first--]);
    space->chunk = COLUMN_MAX / space->inner;
    int64_t extent = extent_of(g, space->dim[space->first]);
    if (space->chunk > extent) space->chunk = extent;
    int64_t every = space->inner;
    for (int i = space->first; i < space->n; i++) {
        int d = space->dim[i];
        if (i > space->first) every /= extent_of(g, d);
        int64_t *rel = NEW_ARRAY(g->arena, int64_t, COLUMN_MAX);
        for (int64_t j = 0; j < COLUMN_MAX; j++)
            rel[j] = i > space->first ? j / every % extent_of(g, d) : j / every;
        g->rel[d] = rel;
        g->block_hi[d] = (i > space->first ? extent_of(g, d) : space->chunk) - 1;
    }
}

static Space space_of(const Group *g, bool reduced, bool both) {
    Space space = {.dim = NEW_ARRAY(g->arena, int, g->ndim)};
    for (int d = 0; d < g->ndim; d++)
        if (!g->seq[d] && g->extent[d] != 1 && (both || g->reduced[d] == reduced))
            space.dim[space.n++] = d;
    return space;
}

static int64_t space_points(const Group *g, const Space *space) {
    int64_t n = 1;
    for (int i = 0; i < space->n; i++) n *= g->extent[space->dim[i]];
    return n;
}

/* Different points of the results' dims are different elements: in each index the coefficients are
 * those of a mixed radix, and each dim stands in some index. */
static bool injective(const Group *g, const Access *to) {
    bool seen[RANK_MAX * 4] = {false};
    ASSERT(g->ndim <= RANK_MAX * 4);
    for (int k = 0; k < to->rank; k++) {
        const DimCode *code = compile((Group *)(uintptr_t)g, to->at[k]);
        if (!dim_code_affine(code) || symbols_of(g, code)) continue;
        bool used[RANK_MAX * 4] = {false};
        int64_t span = 0;
        for (int i = 0; i < code->nlinear; i++) {
            const DimLinear *least = NULL;
            for (int l = 0; l < code->nlinear; l++) {
                const DimLinear *c = &code->linear[l];
                if (used[c->slot]) continue;
                if (!least || llabs(c->coef) < llabs(least->coef)) least = c;
            }
            used[least->slot] = true;
            if (llabs(least->coef) <= span && g->extent[least->slot] > 1) {
                span = -1;
                break;
            }
            span += llabs(least->coef) * (g->extent[least->slot] - 1);
        }
        for (int d = 0; span >= 0 && d < g->ndim; d++) seen[d] = seen[d] || used[d];
    }
    for (int d = 0; d < g->ndim; d++)
        if (!g->reduced[d] && !g->seq[d] && g->extent[d] > 1 && !seen[d]) return false;
    return true;
}

/* ---- modes ---------------------------------------------------------------------------------- */

static bool is_sum(const Combine *c) {
    return c->nstate == 1 && c->simple == P_ADD && dtype_is_float(c->type[0]);
}

/* The merge gives the same bits in any order. */
static bool is_exact(const Combine *c) {
    bool ints = true;
    for (int s = 0; s < c->nstate; s++) ints = ints && !dtype_is_float(c->type[s]);
    return c->associative && c->commutative && (c->idempotent || ints);
}

static RunMode choose_mode(const Group *g, const Write *const *write, int n) {
    bool free = true;
    for (int w = 0; w < n; w++) {
        if (!write[w]->combine) return RUN_PLAIN;
        if (!injective(g, &write[w]->to[0])) return RUN_SCATTER;
        free = free && (is_sum(write[w]->combine) || is_exact(write[w]->combine));
    }
    Space out = space_of(g, false, false), red = space_of(g, true, false);
    int64_t results = space_points(g, &out);
    int last = g->ndim - 1;
    while (last > 0 && (g->extent[last] == 1 || g->seq[last])) last--;
    bool inner = last >= 0 && g->reduced[last] && space_points(g, &red) >= 32;
    if (free) return inner || results < 16 ? RUN_HORIZONTAL : RUN_VERTICAL;
    return results >= 4 ? RUN_VERTICAL : RUN_HORIZONTAL;
}

/* The outermost dim of the results that has an index for each thread. */
static void choose_split(Group *g, const Write *const *write, int n) {
    int64_t work = 1 + g->body.val.n;
    g->split = -1;
    g->nrunner = 1;
    for (int d = 0; d < g->ndim; d++)
        if (!g->seq[d]) work = work * g->extent[d] > INT64_MAX >> 20 ? work : work * g->extent[d];
    if (g->e->threads < 2 || g->mode == RUN_SCATTER || work < 400000) return;
    for (int w = 0; w < n; w++)
        for (int k = 0; k < write[w]->n; k++) {
            const Access *to = &write[w]->to[k];
            if (dtype_bits(g->e->flow->cont.at[to->cont].type) < 8) return;
            for (int i = 0; i < to->rank; i++)
                if (symbols_of(g, compile(g, to->at[i]))) return;
        }
    for (int d = 0; d < g->ndim && g->split < 0; d++)
        if (!g->seq[d] && (!g->reduced[d] || g->mode == RUN_PLAIN) && g->extent[d] >= g->e->threads)
            g->split = d;
    if (g->split >= 0) g->nrunner = g->e->threads;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* The map's body with the values as the combines want them, cut to what these writes need. */
static void prepare_body(Group *g, const Write *const *write, int n) {
    const Body *from = &g->map->body;
    VEC(int) root = {0};
    Body *b = &g->body;
    b->arena = g->arena;
    for (int v = 0; v < from->val.n; v++) vec_push(g->arena, &b->val, from->val.at[v]);
    for (int w = 0; w < n; w++) {
        const Write *from_write = write[w];
        State *s = &g->state[w];
        Write *copy = NEW(g->arena, Write);
        *copy = *from_write;
        const Combine *c = copy->combine;
        s->sum = c && is_sum(c);
        s->exact = c && is_exact(c);
        s->product[0] = s->product[1] = -1;
        int *val = NEW_ARRAY(g->arena, int, copy->nstate);
        for (int k = 0; k < copy->nstate; k++) {
            val[k] = from_write->val[k];
            if (c) val[k] = body_cvt(b, c->type[k], val[k]);
        }
        const Val *v = &b->val.at[val[0]];
        if (s->sum && v->kind == VAL_PRIM && v->prim == P_MUL) {
            s->product[0] = v->arg[0];
            s->product[1] = v->arg[1];
        }
        copy->val = val;
        s->write = copy;
    }
    for (int w = 0; w < n; w++) {
        State *s = &g->state[w];
        for (int k = 0; k < 2 && s->product[0] >= 0; k++) vec_push(g->arena, &root, s->product[k]);
        for (int k = 0; k < s->write->nstate && s->product[0] < 0; k++)
            vec_push(g->arena, &root, s->write->val[k]);
    }
    int values = root.n;
    for (int v = 0; v < b->val.n; v++)
        for (int w = 0; w < n && b->val.at[v].sym; w++)
            for (int k = 0; k < write[w]->n; k++)
                for (int i = 0; i < write[w]->to[k].rank; i++)
                    if (dim_uses(write[w]->to[k].at[i], b->val.at[v].sym))
                        vec_push(g->arena, &root, v);
    body_prune(b, root.at, root.n);
    for (int w = 0, r = 0; w < n && r < values; w++) {
        State *s = &g->state[w];
        for (int k = 0; k < 2 && s->product[0] >= 0; k++) s->product[k] = root.at[r++];
        for (int k = 0; k < s->write->nstate && s->product[0] < 0; k++)
            ((int *)(uintptr_t)s->write->val)[k] = root.at[r++];
    }
}

static void prepare_symbols(Group *g) {
    g->nslot = g->ndim;
    g->symval = NEW_ARRAY(g->arena, int, g->ndim + g->body.val.n);
    for (int d = 0; d < g->ndim; d++) g->symval[d] = -1;
    for (int v = 0; v < g->body.val.n; v++)
        if (g->body.val.at[v].sym) g->symval[g->nslot++] = v;
    if (g->nslot - g->ndim > 64) BUG("map \"%s\" indexes by more than 64 values", g->map->name);
    g->rel = NEW_ARRAY(g->arena, const int64_t *, g->nslot);
    g->block_hi = NEW_ARRAY(g->arena, int64_t, g->nslot);
}

static void prepare_constraints(Group *g) {
    g->ncons = g->map->cons.n;
    g->cons = NEW_ARRAY(g->arena, const DimCode *, g->ncons);
    g->cons_reduced = NEW_ARRAY(g->arena, bool, g->ncons);
    for (int c = 0; c < g->ncons; c++) {
        g->cons[c] = compile(g, g->map->cons.at[c]);
        for (int d = 0; d < g->ndim; d++)
            if (g->reduced[d] && dim_code_uses(g->cons[c], d)) g->cons_reduced[c] = true;
    }
}

static void prepare_spaces(Group *g) {
    bool split = g->mode == RUN_VERTICAL || g->mode == RUN_HORIZONTAL;
    g->out = space_of(g, false, !split);
    if (split) g->red = space_of(g, true, false);
    space_block(g, g->mode == RUN_HORIZONTAL ? &g->red : &g->out);
}

static void prepare_accesses(Group *g) {
    int n = g->body.val.n;
    g->read = NEW_ARRAY(g->arena, Spot *, n);
    g->index = NEW_ARRAY(g->arena, const DimCode *, n);
    g->index_symbols = NEW_ARRAY(g->arena, uint64_t, n);
    for (int v = 0; v < n; v++) {
        const Val *val = &g->body.val.at[v];
        if (val->kind == VAL_READ) g->read[v] = spot_prepare(g, &val->read);
        if (val->kind != VAL_INDEX) continue;
        g->index[v] = compile(g, val->index);
        g->index_symbols[v] = symbols_of(g, g->index[v]);
    }
    for (int s = 0; s < g->nstate; s++) {
        State *state = &g->state[s];
        const Combine *c = state->write->combine;
        state->to = NEW_ARRAY(g->arena, Spot, state->write->n);
        for (int k = 0; k < state->write->n; k++)
            state->to[k] = *spot_prepare(g, &state->write->to[k]);
        if (!c) continue;
        state->merge = body_compile(g->arena, &c->merge);
        state->finish = c->finish.val.n ? body_compile(g->arena, &c->finish) : NULL;
    }
}

static void prepare_runners(Group *g) {
    g->runner = NEW_ARRAY(g->arena, Runner, g->nrunner);
    for (int t = 0; t < g->nrunner; t++) {
        Runner *r = &g->runner[t];
        r->g = g;
        r->lo = NEW_ARRAY(g->arena, int64_t, g->nslot);
        r->hi = NEW_ARRAY(g->arena, int64_t, g->nslot);
        r->pos = NEW_ARRAY(g->arena, int64_t, g->nslot);
        for (int d = 0; d < g->ndim; d++) r->hi[d] = g->extent[d];
        if (g->split >= 0) {
            r->lo[g->split] = g->extent[g->split] * t / g->nrunner;
            r->hi[g->split] = g->extent[g->split] * (t + 1) / g->nrunner;
        }
        r->column = NEW_ARRAY(g->arena, const int64_t *, g->nslot);
        for (int d = 0; d < g->ndim; d++) r->column[d] = g->rel[d];
        r->symbol = NEW_ARRAY(g->arena, int64_t *, g->nslot);
        for (int s = g->ndim; s < g->nslot; s++)
            r->symbol[s] = NEW_ARRAY(g->arena, int64_t, COLUMN_MAX);
        r->mask = NEW_ARRAY(g->arena, uint8_t, COLUMN_MAX);
        r->out_mask = NEW_ARRAY(g->arena, uint8_t, COLUMN_MAX);
        r->frame = body_frame(g->arena, g->code);
        acc_prepare(r, g->arena);
    }
}

static Group *prepare(Eval *e, const Map *map, Arena *arena, const bool *reduced,
                      const Write *const *write, int n) {
    Group *g = NEW(arena, Group);
    *g = (Group){.e = e, .map = map, .arena = arena, .ndim = map->dim.n, .nstate = n, .split = -1};
    g->reduced = arena_copy(arena, reduced, (size_t)map->dim.n * sizeof *reduced);
    g->seq = NEW_ARRAY(arena, bool, map->dim.n);
    g->extent = NEW_ARRAY(arena, int64_t, map->dim.n);
    for (int d = 0; d < g->ndim; d++) {
        g->extent[d] = eval_dim(e, map->dim.at[d].extent);
        if (g->extent[d] < 0) g->extent[d] = 0;
        g->seq[d] = map->dim.at[d].seq;
    }
    g->state = NEW_ARRAY(arena, State, n);
    prepare_body(g, write, n);
    prepare_symbols(g);
    prepare_constraints(g);
    g->mode = choose_mode(g, write, n);
    choose_split(g, write, n);
    prepare_spaces(g);
    prepare_accesses(g);
    g->code = body_compile(arena, &g->body);
    prepare_runners(g);
    return g;
}

/* Writes that reduce over the same dims go together; plain ones reduce over none. */
static void find_reduced(const Map *map, const Write *w, bool *reduced) {
    for (int d = 0; d < map->dim.n; d++) {
        reduced[d] = w->combine != NULL && !map->dim.at[d].seq;
        for (int k = 0; k < w->n; k++)
            for (int i = 0; i < w->to[k].rank; i++)
                if (dim_uses(w->to[k].at[i], map->dim.at[d].sym)) reduced[d] = false;
    }
}

void groups_prepare(Eval *e, const Map *map, Arena *arena, Groups *groups) {
    int ndim = map->dim.n, nwrite = map->write.n;
    bool *reduced = NEW_ARRAY(arena, bool, ndim *nwrite), *done = NEW_ARRAY(arena, bool, nwrite);
    const Write **write = NEW_ARRAY(arena, const Write *, nwrite);
    for (int w = 0; w < nwrite; w++) find_reduced(map, &map->write.at[w], reduced + w * ndim);
    for (int w = 0; w < nwrite; w++) {
        int n = 0;
        for (int x = w; x < nwrite; x++) {
            if (done[x] || !map->write.at[x].combine != !map->write.at[w].combine) continue;
            if (memcmp(reduced + w * ndim, reduced + x * ndim, (size_t)ndim)) continue;
            done[x] = true;
            write[n++] = &map->write.at[x];
        }
        if (n) vec_push(arena, groups, prepare(e, map, arena, reduced + w * ndim, write, n));
    }
}
