/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `library`: products of matrices go to a vendor's library.
 *
 * Only where the options allow one (Machine.library) and mathematics are not strict, since sums
 * take an order of the library's; where the kernel holds a contraction whose operands and result a
 * library's product can describe, with nothing fused but what the library adds too: a bias along
 * the dim whose results lie side by side, and another matrix (a residual); and where the library
 * takes less than the kernel's own lines. These stay: they say what the kernel means, and the
 * library's line says who makes it.
 *
 * Dims that are walked with one stride in all matrices are joined, so that rows may be an
 * image's places and a batch several heads. Of two dims of rows (or of columns) that cannot be
 * joined one becomes a batch, along which the other operand does not move.
 *
 * Times: a library's kernels cut the result into tiles, of which the core that has most decides.
 * With the rate and the beginning of targets/cuda/machine.c that gives what cuBLAS took for squares
 * of 1024 to 8192 (f16, tests/results/gpu.md) within 8 percent. */
#include "passes/library.h"

#include <math.h>
#include <string.h>

#include "passes/schedule.h"

/* Of a side, and of the reduction; smaller products are no work for tiles. */
enum { LEAST_SIDE = 8, LEAST_DEPTH = 8 };

const char *kernel_library(const Kernel *kernel) {
    for (int i = 0; i < kernel->line.n; i++)
        if (kernel->line.at[i].kind == LINE_LIBRARY) return kernel->line.at[i].name;
    return NULL;
}

/* ---- shape ------------------------------------------------------------------------------------
 */

enum { OF_A, OF_B, OF_C, OF_BIAS, OF_D, MATRICES };

/* A dim, or several joined, and how far it steps in each matrix. */
typedef struct Axis {
    DimRole role;
    int64_t extent, step[MATRICES];
} Axis;

typedef struct Axes {
    int n;
    Axis at[MAP_DIMS];
} Axes;

/* The kernel's contraction and its root, which may be the same; what they read and write. */
typedef struct Parts {
    const Flow *flow;
    const Map *map, *root;
    int at[MAP_DIMS];               /* by the contraction's dim: the root's; -1: it is reduced */
    const Access *access[MATRICES]; /* NULL: there is none */
} Parts;

/* The read that Val v is, taken as it is or by one function. */
static int factor_read(const Body *b, int v, Prim *by) {
    const Val *val = &b->val.at[v];
    *by = val->kind == VAL_PRIM ? val->prim : PRIM_NONE;
    if (val->kind == VAL_PRIM && prim_row(val->prim)->arity == 1) v = val->arg[0];
    return b->val.at[v].kind == VAL_READ ? v : -1;
}

/* The factors' type and rounding; the Vals that read them. */
static bool find_factors(const Map *m, LibraryProduct *p, int *x, int *y) {
    const Write *w = &m->write.at[0];
    if (m->write.n != 1 || w->n != 1 || !w->combine || w->combine->simple != P_ADD ||
        w->combine->nstate != 1 || w->combine->type[0] != F32)
        return false;
    const Val *v = &m->body.val.at[w->val[0]];
    Prim by[2];
    if (v->kind != VAL_PRIM || v->prim != P_MUL || v->type != F32) return false;
    *x = factor_read(&m->body, v->arg[0], &by[0]), *y = factor_read(&m->body, v->arg[1], &by[1]);
    if (*x < 0 || *y < 0 || *x == *y || by[0] != by[1]) return false;
    p->factor = m->body.val.at[*x].type;
    bool widened = by[0] == P_CVT && (p->factor == F16 || p->factor == BF16);
    bool words = p->factor == F32 && (by[0] == PRIM_NONE || by[0] == P_TF32);
    p->round = words ? by[0] : PRIM_NONE;
    return m->body.val.at[*y].type == p->factor && (widened || words);
}

/* ---- what is added ----------------------------------------------------------------------------
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

/* Is Val v of the root the results, or a sum of them and of what else a library adds, whatever
 * halves are rounded to between? */
static bool find_added(Parts *p, int v, bool *results) {
    const Body *b = &p->root->body;
    const Val *val = &b->val.at[v];
    if (!dtype_is_float(val->type) || dtype_bits(val->type) < 16) return false;
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
           find_added(p, w->val[0], &results) && results;
}

/* ---- how they lie -----------------------------------------------------------------------------
 */

static const Map *map_of(const Parts *p, int matrix) {
    return matrix <= OF_B ? p->map : p->root;
}

/* Begins the matrix, if there is one, at a constant element? */
static bool lies_plain(const Parts *p, int matrix, LibraryMatrix *to) {
    const Map *m = map_of(p, matrix);
    const Access *a = p->access[matrix];
    Ctx *ctx = p->flow->ctx;
    Dim index[RANK_MAX], at[RANK_MAX], box[RANK_MAX];
    DimSubst zero[MAP_DIMS];
    to->cont = a ? a->cont : -1;
    if (!a) return true;
    if (access_by_value(m, a)) return false;
    for (int d = 0; d < m->dim.n; d++) zero[d] = (DimSubst){m->dim.at[d].sym, dim_const(ctx, 0)};
    for (int k = 0; k < a->rank; k++) index[k] = dim_subst(ctx, a->at[k], zero, m->dim.n);
    int rank = cont_address(ctx, &p->flow->cont.at[a->cont], index, &(DimEnv){0}, at);
    cont_storage(ctx, &p->flow->cont.at[a->cont], box);
    return dim_is_const(dim_flat(ctx, at, box, rank), &to->first) && to->first >= 0;
}

/* How far the contraction's dim d steps in a matrix; INT64_MAX: not known, or backward. */
static int64_t step_of(const Parts *p, int matrix, int d, int64_t extent) {
    int own = matrix <= OF_B ? d : p->at[d];
    if (!p->access[matrix] || own < 0) return 0;
    int64_t step = access_stride(p->flow, map_of(p, matrix), p->access[matrix], own, extent);
    return step < 0 ? INT64_MAX : step;
}

/* The contraction's dims of more than one index; false when one has no place in a product. */
static bool find_axes(const Parts *p, const Contraction *c, Axes *axes) {
    for (int d = 0; d < p->map->dim.n; d++) {
        const MapDim *dim = &p->map->dim.at[d];
        Axis axis = {.role = c->role[d]};
        if (dim->seq || !dim_is_const(dim->extent, &axis.extent)) return false;
        if (axis.extent == 1) continue;
        if (axis.extent < 1 || axis.role == ROLE_WINDOW || axis.role == ROLE_OTHER) return false;
        for (int i = 0; i < MATRICES; i++)
            if ((axis.step[i] = step_of(p, i, d, axis.extent)) == INT64_MAX) return false;
        axes->at[axes->n++] = axis;
    }
    return true;
}

static bool follows(const Axis *outer, const Axis *inner) {
    bool joined = outer != inner && outer->role == inner->role;
    for (int i = 0; i < MATRICES; i++)
        joined = joined && outer->step[i] == inner->step[i] * inner->extent;
    return joined;
}

static void drop(Axes *axes, int k) {
    axes->n--;
    for (; k < axes->n; k++) axes->at[k] = axes->at[k + 1];
}

static void join(Axes *axes) {
    for (int i = 0; i < axes->n; i++)
        for (int k = 0; k < axes->n; k++) {
            if (!follows(&axes->at[i], &axes->at[k])) continue;
            axes->at[k].extent *= axes->at[i].extent;
            drop(axes, i);
            i = -1;
            break;
        }
}

/* The axis of a role, or NULL; how many there are. */
static Axis *axis_of(Axes *axes, DimRole role, int *n) {
    Axis *found = NULL;
    *n = 0;
    for (int i = 0; i < axes->n; i++)
        if (axes->at[i].role == role) found = &axes->at[i], ++*n;
    return found;
}

/* Where there is no batch: of two rows, or columns, the shorter, but for one whose results lie side
 * by side. */
static void make_batch(Axes *axes) {
    static const DimRole sides[] = {ROLE_M, ROLE_N};
    int batches, n;
    axis_of(axes, ROLE_BATCH, &batches);
    for (int s = 0; s < 2 && !batches; s++) {
        Axis *batch = NULL;
        axis_of(axes, sides[s], &n);
        for (int i = 0; i < axes->n && n == 2; i++) {
            Axis *axis = &axes->at[i];
            if (axis->role == sides[s] && axis->step[OF_D] != 1 &&
                (!batch || axis->extent < batch->extent))
                batch = axis;
        }
        if (!batch) continue;
        batch->role = ROLE_BATCH;
        batches = 1;
    }
}

/* One axis along which the matrix is stored side by side, the other at least a row apart. */
static bool set_matrix(LibraryMatrix *to, int of, const Axis *i, const Axis *j, const Axis *batch) {
    const Axis *inner = i->step[of] == 1 ? i : j, *outer = inner == i ? j : i;
    to->across = inner == j;
    to->apart = outer->step[of];
    to->step = batch ? batch->step[of] : 0;
    return inner->step[of] == 1 && to->apart >= inner->extent;
}

/* False when there are other axes than those of a product, or it is none that a library makes. */
static bool set_product(LibraryProduct *p, Axes *axes) {
    int rows, columns, depths, batches;
    Axis *m = axis_of(axes, ROLE_M, &rows), *n = axis_of(axes, ROLE_N, &columns);
    const Axis *k = axis_of(axes, ROLE_K, &depths), *batch = axis_of(axes, ROLE_BATCH, &batches);
    int of_m = OF_A, of_n = OF_B;
    if (rows != 1 || columns != 1 || depths != 1 || batches > 1) return false;
    if (n->step[OF_D] == 1) {
        Axis *t = m;
        m = n, n = t;
        of_m = OF_B, of_n = OF_A;
        LibraryMatrix a = p->a;
        p->a = p->b, p->b = a;
    }
    p->rows = m->extent, p->columns = n->extent, p->depth = k->extent;
    p->batch = batch ? batch->extent : 1;
    for (int i = 0; i < axes->n; i++)
        if (axes->at[i].extent > INT32_MAX) return false;
    bool bias = m->step[OF_BIAS] == 1 && !n->step[OF_BIAS] && (!batch || !batch->step[OF_BIAS]);
    return p->rows >= LEAST_SIDE && p->columns >= LEAST_SIDE && p->depth >= LEAST_DEPTH &&
           set_matrix(&p->a, of_m, m, k, batch) && set_matrix(&p->b, of_n, k, n, batch) &&
           set_matrix(&p->d, OF_D, m, n, batch) && !p->d.across &&
           (p->c.cont < 0 || (set_matrix(&p->c, OF_C, m, n, batch) && !p->c.across)) &&
           (p->bias.cont < 0 || bias);
}

/* Results are f32 or what is multiplied; what is added is of their type. */
static bool types_fit(const Flow *flow, const LibraryProduct *p) {
    const Cont *d = &flow->cont.at[p->d.cont];
    const int added[] = {p->c.cont, p->bias.cont};
    bool fit = (d->type == F32 || d->type == p->factor) && !(d->layout && d->layout->has_fill);
    for (int i = 0; i < 2; i++)
        fit = fit && (added[i] < 0 || flow->cont.at[added[i]].type == d->type);
    return fit;
}

bool library_product(const Flow *flow, const Kernel *kernel, LibraryProduct *p) {
    Parts parts = {.flow = flow, .map = flow->map.at[kernel->map.at[0]]};
    const Map *m = parts.map;
    int x, y;
    *p = (LibraryProduct){0};
    if (m->cons.n || !find_factors(m, p, &x, &y)) return false;
    Contraction c = map_contraction(flow, m);
    if (!c.is || m->body.val.at[x].has_else || m->body.val.at[y].has_else) return false;
    parts.access[OF_A] = &m->body.val.at[c.a].read, parts.access[OF_B] = &m->body.val.at[c.b].read;
    if (!find_root(&parts, kernel)) return false;
    LibraryMatrix *const matrix[] = {&p->a, &p->b, &p->c, &p->bias, &p->d};
    for (int i = 0; i < MATRICES; i++)
        if (!lies_plain(&parts, i, matrix[i])) return false;
    Axes axes = {0};
    if (!types_fit(flow, p) || !find_axes(&parts, &c, &axes)) return false;
    join(&axes);
    make_batch(&axes);
    return set_product(p, &axes);
}

/* ---- times ------------------------------------------------------------------------------------
 */

typedef struct Shape {
    int rows, columns;
} Shape;

static double upward(double n, double by) {
    return ceil(n / by) * by;
}

/* Seconds of the core that has most tiles of a shape: computing them, or fetching what they read.
 */
static double shape_seconds(const Machine *m, const LibraryProduct *p, Shape t, double flops) {
    double rows = (double)p->rows, columns = (double)p->columns, depth = (double)p->depth;
    double tiles =
        (double)p->batch * upward(rows, t.rows) / t.rows * upward(columns, t.columns) / t.columns;
    double each = upward(tiles, m->cores) / m->cores;
    double compute = 2.0 * t.rows * t.columns * depth * each / flops;
    double fetch =
        (t.rows + t.columns) * depth * (dtype_bits(p->factor) / 8) * each / m->level[1].bandwidth;
    return compute > fetch ? compute : fetch;
}

static double library_seconds(const Machine *m, const LibraryProduct *p, const LibraryRate *by) {
    static const Shape shapes[] = {{256, 128}, {128, 256}, {128, 128},
                                   {128, 64},  {64, 128},  {64, 64}};
    double least = INFINITY;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double seconds = shape_seconds(m, p, shapes[i], by->flops);
        if (seconds < least) least = seconds;
    }
    return by->begin + least;
}

/* By steps of warps as schedule_warps.c weighs them, else about half of what multiply-adds make. */
static double own_seconds(const Scheduling *s, const Kernel *kernel, const LibraryProduct *p) {
    const Machine *machine = s->env->machine;
    const Map *m = s->flow->map.at[kernel->map.at[0]];
    int x, y;
    const WarpStep *step = product_step(machine, m, &x, &y);
    Product product;
    bool steps = false;
    for (int i = 0; i < kernel->line.n; i++) steps |= kernel->line.at[i].kind == LINE_USE;
    if (steps && step && product_sizes(s->flow, machine, m, step, &product))
        return product_seconds(&product);
    return shape_seconds(machine, p, (Shape){64, 64}, machine->fma_flops / 2);
}

/* ---- the pass ---------------------------------------------------------------------------------
 */

static const LibraryRate *products_of(const Machine *m, const LibraryProduct *p) {
    for (int i = 0; i < m->nlibrary; i++)
        if (m->library[i].factor == p->factor && m->library[i].round == p->round)
            return &m->library[i];
    return NULL;
}

/* What no library may make; a recipe cannot ask for one. */
static void keep_own(const PassEnv *env, const char *name) {
    const Decision *d = recipe_find(env, "library", name);
    if (d && strcmp(d->choice, "own"))
        recipe_refuse(
            env->recipe, d->line,
            "\"%s\" may not make \"%s\": the option gpu-libraries does not allow it, strict "
            "mathematics do not, or it knows no such product",
            d->choice, name);
}

/* As the recipe says, or whichever takes less. */
static void decide(const Scheduling *s, Kernel *kernel) {
    const Machine *machine = s->env->machine;
    const char *name = s->flow->map.at[kernel->map.at[kernel->map.n - 1]]->name;
    LibraryProduct p;
    if (kernel_library(kernel) || !library_product(s->flow, kernel, &p)) return;
    const LibraryRate *by = s->env->math == MATH_STRICT ? NULL : products_of(machine, &p);
    if (!by) {
        keep_own(s->env, name);
        return;
    }
    const char *words[] = {"own", by->library, NULL};
    bool less = library_seconds(machine, &p, by) < own_seconds(s, kernel, &p);
    if (recipe_decide(s->env, "library", name, words, less))
        kernel_line(s->flow, kernel, LINE_LIBRARY, kernel->map.n - 1)->name = by->library;
}

Flow *pass_library(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_library(Arena *arena, const Flow *flow, const PassEnv *env) {
    Scheduling s = {.flow = flow_clone(arena, flow), .env = env};
    for (int k = 0; k < s.flow->kernel.n && env->machine->block_threads; k++)
        decide(&s, s.flow->kernel.at[k]);
    return s.flow;
}
