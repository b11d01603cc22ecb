/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are products of matrices, as a library makes them.
 *
 * Dims that are walked with one stride in all matrices are joined, so that rows may be an
 * image's places and a batch several heads. Of two dims of rows (or of columns) that cannot be
 * joined one becomes a batch, along which the other operand does not move. */
#include "passes/library_parts.h"

/* Of a side, and of the reduction; smaller products are no work for tiles. */
enum { LEAST_SIDE = 8, LEAST_DEPTH = 8 };

/* A dim, or several joined, and how far it steps in each matrix. */
typedef struct Axis {
    DimRole role;
    int64_t extent, step[OPERANDS];
} Axis;

typedef struct Axes {
    int n;
    Axis at[MAP_DIMS];
} Axes;

/* The contraction's dims of more than one index; false when one has no place in a product. */
static bool find_axes(const Parts *p, const Contraction *c, Axes *axes) {
    for (int d = 0; d < p->map->dim.n; d++) {
        const MapDim *dim = &p->map->dim.at[d];
        Axis axis = {.role = c->role[d]};
        if (dim->seq || !dim_is_const(dim->extent, &axis.extent)) return false;
        if (axis.extent == 1) continue;
        if (axis.extent < 1 || axis.role == ROLE_WINDOW || axis.role == ROLE_OTHER) return false;
        for (int i = 0; i < OPERANDS; i++)
            if ((axis.step[i] = parts_step(p, i, d, axis.extent)) == INT64_MAX) return false;
        axes->at[axes->n++] = axis;
    }
    return true;
}

static bool follows(const Axis *outer, const Axis *inner) {
    bool joined = outer != inner && outer->role == inner->role;
    for (int i = 0; i < OPERANDS; i++)
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

static bool find_matrices(const Parts *p, LibraryProduct *out) {
    LibraryMatrix *const matrix[] = {&out->a, &out->b, &out->c, &out->bias, &out->d};
    for (int i = 0; i < OPERANDS; i++) {
        matrix[i]->cont = p->access[i] ? p->access[i]->cont : -1;
        if (p->access[i] && !parts_first(p, i, &matrix[i]->first)) return false;
    }
    return true;
}

/* Results are f32 or what is multiplied. cuBLASLt's ReLU makes 0 of a NaN, which ours keeps: such
 * kernels are none that it makes. */
bool library_product(Parts *p, LibraryProduct *out) {
    Contraction c = map_contraction(p->flow, p->map);
    Axes axes = {0};
    *out = (LibraryProduct){0};
    if (p->relu || !c.is || p->read[0]->has_else || p->read[1]->has_else) return false;
    if (p->read[0] != &p->map->body.val.at[c.a]) parts_swap(p);
    if (!parts_results(p, p->factor.type) && !parts_results(p, F32)) return false;
    if (!find_matrices(p, out) || !find_axes(p, &c, &axes)) return false;
    join(&axes);
    make_batch(&axes);
    return set_product(out, &axes);
}
