/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `library`: products of matrices and convolutions go to a vendor's library.
 *
 * Only where the options allow one (Machine.library) and mathematics are not strict, since sums
 * take an order of the library's; where the kernel holds a contraction whose operands and result a
 * library's product (library_product.c) or convolution (library_convolution.c) can describe, with
 * nothing fused but what the library makes too: to products a bias along the dim whose results lie
 * side by side, to convolutions a bias by channel, to both a residual (another matrix, or other
 * images), to convolutions a ReLU behind all that; and where the library takes less than the
 * kernel's own lines. These stay: they say what the kernel means, and the library's line says who
 * makes it. Sums and what is added to them are rounded once by a library, at the end, wherever the
 * kernel rounds to halves between.
 *
 * Times: a library's kernels cut the result into tiles, of which the core that has most decides.
 * With the rate and the beginning of targets/cuda/machine.c that gives what cuBLAS took for squares
 * of 1024 to 8192 (f16, tests/results/gpu-h100.md) within 8 percent. That convolutions take what
 * the product takes that has a row for each channel and a column for each place is a guess. */
#include "passes/library_parts.h"

#include <math.h>
#include <string.h>

#include "passes/schedule.h"

const char *kernel_library(const Kernel *kernel) {
    for (int i = 0; i < kernel->line.n; i++)
        if (kernel->line.at[i].kind == LINE_LIBRARY) return kernel->line.at[i].name;
    return NULL;
}

/* ---- work -------------------------------------------------------------------------------------
 */

static bool product_work(Parts *parts, LibraryWork *work) {
    LibraryProduct *p = &work->product;
    if (!library_product(parts, p)) return false;
    work->kind = LIBRARY_PRODUCT;
    work->batch = p->batch, work->rows = p->rows;
    work->columns = p->columns, work->depth = p->depth;
    return true;
}

/* Rows are channels of a group, columns all places, the reduction a window's inputs. */
static bool convolution_work(Parts *parts, LibraryWork *work) {
    LibraryConvolution *c = &work->convolution;
    if (!library_convolution(parts, c)) return false;
    const int64_t *x = c->x.size, *y = c->y.size;
    work->kind = LIBRARY_CONVOLUTION;
    work->batch = c->groups, work->rows = y[IMAGE_C] / c->groups;
    work->columns = y[IMAGE_N] * y[IMAGE_H] * y[IMAGE_W];
    work->depth = x[IMAGE_C] / c->groups * c->window[0].taps * c->window[1].taps;
    return true;
}

bool library_work(const Flow *flow, const Kernel *kernel, LibraryWork *work) {
    Parts parts;
    if (!parts_find(&parts, flow, kernel)) return false;
    work->factor = parts.factor;
    return product_work(&parts, work) || convolution_work(&parts, work);
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
static double shape_seconds(const Machine *m, const LibraryWork *p, Shape t, double flops) {
    double rows = (double)p->rows, columns = (double)p->columns, depth = (double)p->depth;
    double tiles =
        (double)p->batch * upward(rows, t.rows) / t.rows * upward(columns, t.columns) / t.columns;
    double each = upward(tiles, m->cores) / m->cores;
    double compute = 2.0 * t.rows * t.columns * depth * each / flops;
    double fetch = (t.rows + t.columns) * depth * (dtype_bits(p->factor.type) / 8) * each /
                   m->level[1].bandwidth;
    return compute > fetch ? compute : fetch;
}

/* Bytes of all elements. */
static double image_bytes(const LibraryImages *m, DType type) {
    double elements = 1;
    for (int i = 0; i < IMAGE_DIMS; i++) elements *= (double)m->size[i];
    return elements * dtype_bits(type) / 8;
}

/* Seconds of what a convolution does besides the sums, all of it reading and writing images once.
 * Tensor cores' kernels for halves want channels last: where they are first cuDNN turns inputs and
 * residuals before, and results behind. A ReLU is a call of its own (cuda_convolutions.c). */
static double around_seconds(const Machine *m, const LibraryWork *p, const LibraryRate *by) {
    const LibraryConvolution *c = &p->convolution;
    if (p->kind != LIBRARY_CONVOLUTION) return 0;
    double x = 2 * image_bytes(&c->x, p->factor.type), y = 2 * image_bytes(&c->y, p->factor.type);
    bool halves = p->factor.type != F32;
    double bytes = halves && c->x.step[IMAGE_C] != 1 ? x : 0;
    if (halves && c->y.step[IMAGE_C] != 1) bytes += c->residual.cont >= 0 ? 2 * y : y;
    if (c->relu) bytes += y;
    return bytes / (m->level[m->nlevels - 1].bandwidth * m->cores) + (c->relu ? by->begin : 0);
}

static double library_seconds(const Machine *m, const LibraryWork *p, const LibraryRate *by) {
    static const Shape shapes[] = {{256, 128}, {128, 256}, {128, 128},
                                   {128, 64},  {64, 128},  {64, 64}};
    double least = INFINITY;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double seconds = shape_seconds(m, p, shapes[i], by->flops);
        if (seconds < least) least = seconds;
    }
    return by->begin + least + around_seconds(m, p, by);
}

/* By steps of warps as schedule_warps.c weighs them, else about half of what multiply-adds make, in
 * tiles that are no higher than the result. */
static double own_seconds(const Scheduling *s, const Kernel *kernel, const LibraryWork *p) {
    const Machine *machine = s->env->machine;
    const Map *m = s->flow->map.at[kernel->map.at[0]];
    int x, y;
    const WarpStep *step = product_step(machine, m, &x, &y);
    Product product;
    bool steps = false;
    for (int i = 0; i < kernel->line.n; i++) steps |= kernel->line.at[i].kind == LINE_USE;
    if (steps && step && product_sizes(s->flow, machine, m, step, &product))
        return product_seconds(&product);
    Shape tile = {p->rows < 64 ? (int)p->rows : 64, 64};
    return shape_seconds(machine, p, tile, machine->fma_flops / 2);
}

/* ---- the pass ---------------------------------------------------------------------------------
 */

static const LibraryRate *rate_of(const Machine *m, const LibraryWork *p) {
    for (int i = 0; i < m->nlibrary; i++) {
        const LibraryRate *by = &m->library[i];
        if (by->kind == p->kind && by->factor == p->factor.type && by->round == p->factor.round)
            return by;
    }
    return NULL;
}

/* What no library may make; a recipe cannot ask for one. */
static void keep_own(const PassEnv *env, const char *name) {
    const Decision *d = recipe_find(env, "library", name);
    if (d && strcmp(d->choice, "own"))
        recipe_refuse(
            env->recipe, d->line,
            "\"%s\" may not make \"%s\": the option gpu-libraries does not allow it, strict "
            "mathematics do not, or it knows no such work",
            d->choice, name);
}

/* As the recipe says, or whichever takes less. */
static void decide(const Scheduling *s, Kernel *kernel) {
    const Machine *machine = s->env->machine;
    const char *name = s->flow->map.at[kernel->map.at[kernel->map.n - 1]]->name;
    LibraryWork p;
    if (kernel_library(kernel) || !library_work(s->flow, kernel, &p)) return;
    const LibraryRate *by = s->env->math == MATH_STRICT ? NULL : rate_of(machine, &p);
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
