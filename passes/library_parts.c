/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel as the pass `library` sees it: what is multiplied and summed, what comes behind the
 * sums, and how all of it lies in memory. */
#include "passes/library_parts.h"

#include "passes/schedule.h"

/* Bytes on a multiple of which containers begin: ports on a device (runtime/cuda_run.c) at least.
 */
enum { CONT_ALIGN = 16 };

/* ---- factors ----------------------------------------------------------------------------------
 */

/* The read that Val v is, taken as it is or by one function. */
static int factor_read(const Body *b, int v, Prim *by) {
    const Val *val = &b->val.at[v];
    *by = val->kind == VAL_PRIM ? val->prim : PRIM_NONE;
    if (val->kind == VAL_PRIM && prim_row(val->prim)->arity == 1) v = val->arg[0];
    return b->val.at[v].kind == VAL_READ ? v : -1;
}

/* The factors, their type and rounding. */
static bool find_factors(Parts *p) {
    const Map *m = p->map;
    const Write *w = &m->write.at[0];
    if (m->write.n != 1 || w->n != 1 || !w->combine || w->combine->simple != P_ADD ||
        w->combine->nstate != 1 || w->combine->type[0] != F32)
        return false;
    const Val *v = &m->body.val.at[w->val[0]];
    Prim by[2];
    if (v->kind != VAL_PRIM || v->prim != P_MUL || v->type != F32) return false;
    int x = factor_read(&m->body, v->arg[0], &by[0]), y = factor_read(&m->body, v->arg[1], &by[1]);
    if (x < 0 || y < 0 || x == y || by[0] != by[1]) return false;
    p->read[0] = &m->body.val.at[x], p->read[1] = &m->body.val.at[y];
    p->access[OF_A] = &p->read[0]->read, p->access[OF_B] = &p->read[1]->read;
    p->factor.type = p->read[0]->type;
    bool widened = by[0] == P_CVT && (p->factor.type == F16 || p->factor.type == BF16);
    bool words = p->factor.type == F32 && (by[0] == PRIM_NONE || by[0] == P_TF32);
    p->factor.round = words ? by[0] : PRIM_NONE;
    return p->read[1]->type == p->factor.type && (widened || words);
}

void parts_swap(Parts *p) {
    const Val *read = p->read[0];
    const Access *a = p->access[OF_A];
    p->read[0] = p->read[1], p->read[1] = read;
    p->access[OF_A] = p->access[OF_B], p->access[OF_B] = a;
}

/* ---- what comes behind the sums ---------------------------------------------------------------
 */

/* The dims at which the root has the contraction's results; false unless each of its own is one. */
static bool tie_dims(Parts *p, const Access *read) {
    const Access *to = &p->map->write.at[0].to[0];
    int tied = 0, dims = 0;
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(p->map, to, k), r = access_dim(p->root, read, k);
        if (d < 0 && r < 0 && to->at[k] == read->at[k]) continue;
        if (d < 0 || r < 0 || p->at[d] >= 0) return false;
        if (p->map->dim.at[d].extent != p->root->dim.at[r].extent) return false;
        p->at[d] = r;
        tied++;
    }
    for (int r = 0; r < p->root->dim.n; r++) dims += !dim_is(p->root->dim.at[r].extent, 1);
    for (int d = 0; d < p->map->dim.n; d++)
        tied -= p->at[d] >= 0 && dim_is(p->map->dim.at[d].extent, 1);
    return tied == dims;
}

/* Does the access use all of the root's dims? */
static bool covers_root(const Parts *p, const Access *a) {
    bool all = true;
    for (int r = 0; r < p->root->dim.n; r++)
        all &= dim_is(p->root->dim.at[r].extent, 1) || access_uses(p->root, a, r);
    return all;
}

static bool is_rounded(const Val *v) {
    return dtype_is_float(v->type) && dtype_bits(v->type) >= 16;
}

/* Is Val v of the root the results, or a sum of them and of what else a library adds, whatever
 * halves are rounded to between? */
static bool find_added(Parts *p, int v, bool *results) {
    const Body *b = &p->root->body;
    const Val *val = &b->val.at[v];
    if (!is_rounded(val)) return false;
    if (val->kind == VAL_PRIM && val->prim == P_CVT) return find_added(p, val->arg[0], results);
    if (val->kind == VAL_PRIM && val->prim == P_ADD)
        return find_added(p, val->arg[0], results) && find_added(p, val->arg[1], results);
    if (val->kind != VAL_READ || val->has_else) return false;
    if (val->read.cont == p->map->write.at[0].to[0].cont) {
        bool first = !*results;
        *results = true;
        return first && tie_dims(p, &val->read);
    }
    const Access **as = &p->access[covers_root(p, &val->read) ? OF_C : OF_BIAS];
    bool first = !*as;
    *as = &val->read;
    return first;
}

static bool is_zero(const Body *b, int v) {
    return b->val.at[v].kind == VAL_CONST && !b->val.at[v].bits;
}

/* What a ReLU is taken of, when Val v of the root is one, rounded or not; or v. */
static int behind_relu(Parts *p, int v) {
    const Body *b = &p->root->body;
    int at = v;
    while (b->val.at[at].kind == VAL_PRIM && b->val.at[at].prim == P_CVT &&
           is_rounded(&b->val.at[at]))
        at = b->val.at[at].arg[0];
    const Val *max = &b->val.at[at];
    if (max->kind != VAL_PRIM || max->prim != P_MAX) return v;
    int zero = is_zero(b, max->arg[1]) ? 1 : 0;
    p->relu = is_rounded(max) && is_zero(b, max->arg[zero]);
    return p->relu ? max->arg[1 - zero] : v;
}

/* Does no memory hold what the contraction hands on? */
static bool hands_on(const Kernel *kernel, int cont) {
    for (int i = 0; i < kernel->line.n; i++)
        if (kernel->line.at[i].kind == LINE_KEEP && kernel->line.at[i].cont == cont)
            return kernel->line.at[i].storage != KEEP_ARENA;
    return false;
}

static bool find_root(Parts *p, const Kernel *kernel) {
    bool results = false;
    p->root = p->flow->map.at[kernel->map.at[kernel->map.n - 1]];
    const Write *w = &p->root->write.at[0];
    p->access[OF_D] = &w->to[0];
    for (int d = 0; d < p->map->dim.n; d++)
        p->at[d] = p->root != p->map || map_reduces(p->map, d) ? -1 : d;
    if (p->root == p->map) return true;
    return kernel->map.n == 2 && hands_on(kernel, p->map->write.at[0].to[0].cont) &&
           p->root->write.n == 1 && !w->combine && !p->root->cons.n && !has_seq(p->root) &&
           find_added(p, behind_relu(p, w->val[0]), &results) && results;
}

bool parts_find(Parts *p, const Flow *flow, const Kernel *kernel) {
    *p = (Parts){.flow = flow, .map = flow->map.at[kernel->map.at[0]]};
    return !p->map->cons.n && find_factors(p) && find_root(p, kernel);
}

bool parts_results(const Parts *p, DType type) {
    const Cont *d = &p->flow->cont.at[p->access[OF_D]->cont];
    bool fit = d->type == type && !(d->layout && d->layout->has_fill);
    for (int i = OF_C; i <= OF_BIAS; i++)
        fit = fit && (!p->access[i] || p->flow->cont.at[p->access[i]->cont].type == type);
    return fit;
}

/* ---- how they lie -----------------------------------------------------------------------------
 */

static const Map *map_of(const Parts *p, int operand) {
    return operand <= OF_B ? p->map : p->root;
}

bool parts_first(const Parts *p, int operand, int64_t *first) {
    const Map *m = map_of(p, operand);
    const Access *a = p->access[operand];
    const Cont *cont = &p->flow->cont.at[a->cont];
    Ctx *ctx = p->flow->ctx;
    Dim index[RANK_MAX], at[RANK_MAX], box[RANK_MAX];
    DimSubst zero[MAP_DIMS];
    int64_t begin;
    if (access_by_value(m, a)) return false;
    for (int d = 0; d < m->dim.n; d++) zero[d] = (DimSubst){m->dim.at[d].sym, dim_const(ctx, 0)};
    for (int k = 0; k < a->rank; k++) {
        index[k] = dim_subst(ctx, a->at[k], zero, m->dim.n);
        if (dim_is_const(index[k], &begin) && begin < 0) index[k] = dim_const(ctx, 0);
    }
    int rank = cont_address(ctx, cont, index, &(DimEnv){0}, at);
    cont_storage(ctx, cont, box);
    return dim_is_const(dim_flat(ctx, at, box, rank), first) && *first >= 0;
}

int64_t parts_step(const Parts *p, int operand, int d, int64_t extent) {
    int own = operand <= OF_B ? d : p->at[d];
    if (!p->access[operand] || own < 0) return 0;
    int64_t step = access_stride(p->flow, map_of(p, operand), p->access[operand], own, extent);
    return step < 0 ? INT64_MAX : step;
}

int library_align(const Flow *flow, int cont, int64_t element) {
    int64_t bytes = dtype_bits(flow->cont.at[cont].type) / 8, align = CONT_ALIGN, offset;
    for (int i = 0; i < flow->alias.n; i++) {
        const Alias *a = &flow->alias.at[i];
        if (a->cont != cont || a->when) continue;
        if (!dim_is_const(a->offset, &offset)) return (int)bytes;
        align = library_align(flow, a->of, 0);
        element += offset;
    }
    while (element * bytes % align) align /= 2;
    return (int)align;
}
