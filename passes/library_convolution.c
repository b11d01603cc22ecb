/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are convolutions, as a library makes them: sums of products of filters and of the
 * inputs in a window, which slides along one or two dims of an image.
 *
 * What a dim is follows from the operands that use it. Those of inputs and results alone are
 * places, and an image's number; those of filters and results channels of the results, reduced ones
 * channels of the inputs, those of all three groups. A reduced dim that stands beside a place in an
 * index of the inputs is a window's taps. Where windows reach beyond the inputs these must count as
 * 0, as far behind them as in front. Images may have any steps; filters lie as the library stores
 * them, with their channels last only where those of all images do. Windows of one tap that neither
 * stride nor reach beyond the inputs make a product of matrices, which is none here. */
#include "passes/library_parts.h"

/* An index of the inputs over which places move, with or without taps; -1: there are none. */
typedef struct Slide {
    int index, place, tap;
} Slide;

enum { SLIDES = 3 };
/* Bytes on a multiple of which what a library gets must begin. */
enum { BEGIN_ALIGN = 16 };

/* The contraction's dims by what they are; -1: there is none of more than one index. */
typedef struct Dims {
    const Parts *p;
    int64_t extent[MAP_DIMS];
    int image, group, out, in;
    int nslide;
    Slide slide[SLIDES]; /* along IMAGE_H and IMAGE_W, once they are in order */
} Dims;

static int64_t extent_of(const Dims *d, int dim) {
    return dim < 0 ? 1 : d->extent[dim];
}

static bool begins(const Dims *d, int operand, int64_t *first) {
    return parts_first(d->p, operand, first) &&
           library_align(d->p->flow, d->p->access[operand]->cont, *first) >= BEGIN_ALIGN;
}

static int64_t step_of(const Dims *d, int operand, int dim) {
    return dim < 0 ? 0 : parts_step(d->p, operand, dim, d->extent[dim]);
}

/* ---- what dims are ----------------------------------------------------------------------------
 */

static bool read_extents(Dims *d) {
    const Map *m = d->p->map;
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].seq || !dim_is_const(m->dim.at[i].extent, &d->extent[i]) ||
            d->extent[i] < 1)
            return false;
    return true;
}

static bool is_placed(const Dims *d, int dim) {
    bool is = d->image == dim;
    for (int i = 0; i < d->nslide; i++) is |= d->slide[i].place == dim || d->slide[i].tap == dim;
    return is;
}

/* Notes a place that index k of the inputs has; false when it has more than one, and its taps. */
static bool read_index(Dims *d, int k) {
    const Map *m = d->p->map;
    Slide s = {k, -1, -1};
    int n = 0;
    for (int i = 0; i < m->dim.n; i++) {
        if (d->extent[i] == 1 || !dim_uses(d->p->access[OF_A]->at[k], m->dim.at[i].sym)) continue;
        n++;
        if (map_reduces(m, i))
            s.tap = i;
        else if (!access_uses(m, d->p->access[OF_B], i))
            s.place = i;
    }
    if (s.place < 0) return true;
    if (n > 1 + (s.tap >= 0) || d->nslide == SLIDES) return false;
    if (is_placed(d, s.place) || (s.tap >= 0 && is_placed(d, s.tap))) return false;
    d->slide[d->nslide++] = s;
    return true;
}

/* Of three the first counts images, and of two one that is the first index; both have no taps. */
static bool order_slides(Dims *d) {
    bool images =
        d->nslide == SLIDES || (d->nslide == 2 && d->slide[0].index == 0 && d->slide[0].tap < 0);
    if (images) {
        if (d->slide[0].tap >= 0) return false;
        d->image = d->slide[0].place;
        d->slide[0] = d->slide[1], d->slide[1] = d->slide[2];
        d->nslide--;
    }
    if (d->nslide == 1) {
        d->slide[1] = d->slide[0], d->slide[0] = (Slide){-1, -1, -1};
        d->nslide++;
    }
    return d->nslide == 2;
}

/* What is left: channels and groups, of each one dim at most. */
static bool read_channels(Dims *d) {
    const Map *m = d->p->map;
    for (int i = 0; i < m->dim.n; i++) {
        if (d->extent[i] == 1 || is_placed(d, i)) continue;
        bool x = access_uses(m, d->p->access[OF_A], i), w = access_uses(m, d->p->access[OF_B], i);
        int *of = !w ? NULL : !map_reduces(m, i) ? (x ? &d->group : &d->out) : x ? &d->in : NULL;
        if (!of || *of >= 0) return false;
        *of = i;
    }
    return true;
}

static bool find_dims(Dims *d, const Parts *p) {
    *d = (Dims){.p = p, .image = -1, .group = -1, .out = -1, .in = -1};
    if (!read_extents(d)) return false;
    for (int k = 0; k < p->access[OF_A]->rank; k++)
        if (!read_index(d, k)) return false;
    return order_slides(d) && read_channels(d);
}

/* ---- windows ----------------------------------------------------------------------------------
 */

/* An index of the inputs: at the first of all dims, and how much each adds. */
typedef struct Linear {
    int64_t first, by[MAP_DIMS];
} Linear;

static bool read_linear(const Dims *d, int k, Linear *l) {
    const Map *m = d->p->map;
    Dim sym[MAP_DIMS], by[MAP_DIMS], rest;
    for (int i = 0; i < m->dim.n; i++) sym[i] = m->dim.at[i].sym;
    if (!dim_affine(d->p->flow->ctx, d->p->access[OF_A]->at[k], sym, m->dim.n, by, &rest) ||
        !dim_is_const(rest, &l->first))
        return false;
    for (int i = 0; i < m->dim.n; i++)
        if (!dim_is_const(by[i], &l->by[i])) return false;
    return true;
}

static bool shape_at(const Dims *d, int k, int64_t *size) {
    const Access *a = d->p->access[OF_A];
    return dim_is_const(d->p->flow->cont.at[a->cont].shape[k], size);
}

/* Are all elements at index k inside, where those outside are allowed? */
static bool stays_inside(const Dims *d, int k) {
    Linear l;
    int64_t size;
    if (!d->p->read[0]->has_else) return true;
    if (!read_linear(d, k, &l) || !shape_at(d, k, &size)) return false;
    int64_t least = l.first, most = l.first;
    for (int i = 0; i < d->p->map->dim.n; i++)
        *(l.by[i] < 0 ? &least : &most) += l.by[i] * (d->extent[i] - 1);
    return least >= 0 && most < size;
}

/* Only windows reach beyond the inputs, which count as 0 there. */
static bool pads_zeros(const Dims *d) {
    const Val *x = d->p->read[0];
    if (d->p->read[1]->has_else) return false;
    if (!x->has_else) return true;
    const Val *otherwise = &d->p->map->body.val.at[x->arg[0]];
    if (otherwise->kind != VAL_CONST || otherwise->bits) return false;
    for (int k = 0; k < x->read.rank; k++)
        if (k != d->slide[0].index && k != d->slide[1].index && !stays_inside(d, k)) return false;
    return true;
}

static int64_t places_of(const LibraryWindow *w, int64_t size) {
    int64_t span = size + 2 * w->padding - ((w->taps - 1) * w->dilation + 1);
    return span < 0 ? 0 : span / w->stride + 1;
}

/* The window along a direction, and the rows of inputs that it moves over: all of them, or those
 * that are read. */
static bool set_window(const Dims *d, int direction, LibraryConvolution *c) {
    const Slide *s = &d->slide[direction];
    LibraryWindow *w = &c->window[direction];
    int64_t *size = &c->x.size[IMAGE_H + direction], *step = &c->x.step[IMAGE_H + direction];
    Linear l;
    *w = (LibraryWindow){1, 1, 1, 0};
    *size = 1;
    if (s->place < 0) return true;
    if (!read_linear(d, s->index, &l) || !shape_at(d, s->index, size)) return false;
    w->taps = extent_of(d, s->tap);
    w->stride = l.by[s->place];
    if (s->tap >= 0) w->dilation = l.by[s->tap];
    if (w->stride < 1 || w->dilation < 1) return false;
    int64_t places = d->extent[s->place], apart = step_of(d, OF_A, s->place);
    w->padding = l.first < 0 ? -l.first : 0;
    *size -= l.first > 0 ? l.first : 0;
    if (places_of(w, *size) != places && stays_inside(d, s->index))
        *size = (places - 1) * w->stride + (w->taps - 1) * w->dilation + 1;
    if (places_of(w, *size) != places || apart % w->stride) return false;
    *step = apart / w->stride;
    return s->tap < 0 || step_of(d, OF_A, s->tap) == *step * w->dilation;
}

/* ---- images and filters -----------------------------------------------------------------------
 */

/* Channels of a group are `of`, or each group has but one. */
static bool set_channels(const Dims *d, int operand, int of, LibraryImages *m) {
    int64_t each = extent_of(d, of), group = step_of(d, operand, d->group);
    m->size[IMAGE_C] = each * extent_of(d, d->group);
    m->step[IMAGE_C] = of < 0 ? group : step_of(d, operand, of);
    return of < 0 || d->group < 0 || group == m->step[IMAGE_C] * each;
}

/* Along dims of one index as if images were packed. */
static void fill_steps(LibraryImages *m) {
    static const int order[] = {IMAGE_H, IMAGE_C, IMAGE_N};
    for (int i = 0; i < 3; i++) {
        int inner = i == 0 ? IMAGE_W : IMAGE_H;
        if (m->size[order[i]] > 1) continue;
        m->step[order[i]] = m->size[inner] * m->step[inner];
        if (order[i] == IMAGE_N && m->step[IMAGE_C] * m->size[IMAGE_C] > m->step[IMAGE_N])
            m->step[IMAGE_N] = m->step[IMAGE_C] * m->size[IMAGE_C];
    }
}

static bool fits(const LibraryImages *m) {
    int64_t last = 0;
    for (int i = 0; i < IMAGE_DIMS; i++) {
        if (m->size[i] > INT32_MAX || m->step[i] < 1 || m->step[i] > INT32_MAX) return false;
        last += (m->size[i] - 1) * m->step[i];
        if (last > INT32_MAX) return false;
    }
    return true;
}

static bool set_images(const Dims *d, LibraryConvolution *c) {
    for (int i = 0; i < 2; i++) {
        if (!set_window(d, i, c)) return false;
        c->y.size[IMAGE_H + i] = extent_of(d, d->slide[i].place);
        c->y.step[IMAGE_H + i] = step_of(d, OF_D, d->slide[i].place);
    }
    c->x.size[IMAGE_N] = c->y.size[IMAGE_N] = extent_of(d, d->image);
    c->x.step[IMAGE_N] = step_of(d, OF_A, d->image);
    c->y.step[IMAGE_N] = step_of(d, OF_D, d->image);
    if (!set_channels(d, OF_A, d->in, &c->x) || !set_channels(d, OF_D, d->out, &c->y)) return false;
    fill_steps(&c->x), fill_steps(&c->y);
    c->x.cont = d->p->access[OF_A]->cont, c->y.cont = d->p->access[OF_D]->cont;
    return fits(&c->x) && fits(&c->y) && begins(d, OF_A, &c->x.first) &&
           begins(d, OF_D, &c->y.first);
}

static bool channels_last(const LibraryImages *m) {
    const int64_t *size = m->size, *step = m->step;
    int64_t row = size[IMAGE_W] * size[IMAGE_C];
    return (size[IMAGE_C] == 1 || step[IMAGE_C] == 1) && step[IMAGE_W] == size[IMAGE_C] &&
           (size[IMAGE_H] == 1 || step[IMAGE_H] == row) &&
           (size[IMAGE_N] == 1 || step[IMAGE_N] == row * size[IMAGE_H]);
}

/* Do filters lie side by side with these dims, the innermost first? */
static bool lies_so(const Dims *d, const int *dims) {
    int64_t step = 1;
    for (int i = 0; i < 5; i++) {
        if (dims[i] >= 0 && step_of(d, OF_B, dims[i]) != step) return false;
        step *= extent_of(d, dims[i]);
    }
    return step <= INT32_MAX;
}

static bool set_filters(const Dims *d, LibraryConvolution *c) {
    int h = d->slide[0].tap, w = d->slide[1].tap;
    const int last[] = {d->in, w, h, d->out, d->group}, first[] = {w, h, d->in, d->out, d->group};
    c->groups = extent_of(d, d->group);
    c->w.cont = d->p->access[OF_B]->cont;
    c->channels_last = channels_last(&c->x) && channels_last(&c->y) && lies_so(d, last);
    return (c->channels_last || lies_so(d, first)) && begins(d, OF_B, &c->w.first);
}

/* An element for each channel of the results. */
static bool set_bias(const Dims *d, LibraryConvolution *c) {
    const int same[] = {d->image, d->slide[0].place, d->slide[1].place};
    c->bias.cont = -1;
    if (!d->p->access[OF_BIAS]) return true;
    for (int i = 0; i < 3; i++)
        if (step_of(d, OF_BIAS, same[i])) return false;
    c->bias.cont = d->p->access[OF_BIAS]->cont;
    return (d->out < 0 || step_of(d, OF_BIAS, d->out) == 1) &&
           (d->group < 0 || step_of(d, OF_BIAS, d->group) == extent_of(d, d->out)) &&
           begins(d, OF_BIAS, &c->bias.first);
}

/* An element for each result, which lies as that does. */
static bool set_residual(const Dims *d, LibraryConvolution *c) {
    const int dims[] = {d->image, d->group, d->out, d->slide[0].place, d->slide[1].place};
    c->residual.cont = -1;
    if (!d->p->access[OF_C]) return true;
    for (int i = 0; i < 5; i++)
        if (step_of(d, OF_C, dims[i]) != step_of(d, OF_D, dims[i])) return false;
    c->residual.cont = d->p->access[OF_C]->cont;
    return begins(d, OF_C, &c->residual.first);
}

static bool has_window(const LibraryConvolution *c) {
    bool is = false;
    for (int i = 0; i < 2; i++) {
        const LibraryWindow *w = &c->window[i];
        is |= w->taps > 1 || w->stride > 1 || w->padding > 0;
    }
    return is;
}

static bool filters_are_second(const Parts *p, LibraryConvolution *out) {
    Dims d;
    *out = (LibraryConvolution){.relu = p->relu};
    return find_dims(&d, p) && pads_zeros(&d) && set_images(&d, out) && set_filters(&d, out) &&
           set_bias(&d, out) && set_residual(&d, out) && has_window(out);
}

bool library_convolution(Parts *p, LibraryConvolution *out) {
    if (!parts_results(p, p->factor.type)) return false;
    if (filters_are_second(p, out)) return true;
    parts_swap(p);
    return filters_are_second(p, out);
}
