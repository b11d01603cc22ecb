/* SPDX-License-Identifier: Apache-2.0 */
/* Where the caller's tensors lie.
 *
 * Kernels read and write dense tensors, and for the inputs and outputs of a legal pair (a cache and
 * its new rows) dense ones with rows to spare: the strides of a buffer that has room for more. Any
 * other strides mean one copy, in or out, in memory of the run that `reserve` counts. */
#include "runtime/instance.h"

#include <string.h>

/* ---- forms ----------------------------------------------------------------------------------- */

int weir_is_dense(const weir_tensor *t) {
    if (!t->strides || weir_tensor_count(t) <= 1) return 1;
    int64_t run = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dims[d] != 1 && t->strides[d] != run) return 0;
        run *= t->dims[d];
    }
    return 1;
}

int64_t weir_reach(const weir_tensor *t) {
    if (weir_tensor_count(t) == 0) return 0;
    if (!t->strides) return weir_tensor_count(t);
    int64_t r = 1;
    for (int d = 0; d < t->rank; d++) {
        int64_t more;
        if (__builtin_mul_overflow(t->dims[d] - 1, t->strides[d], &more) ||
            __builtin_add_overflow(r, more, &r))
            return INT64_MAX;
    }
    return r;
}

static int64_t between(const weir_tensor *t, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++)
        if (__builtin_mul_overflow(n, t->dims[d], &n)) return 0;
    return n;
}

/* Are the strides those of a dense tensor with `*spare` more rows along `dim`? The innermost of the
 * dims outside it says how many. */
static int has_spare(const weir_tensor *t, int dim, int64_t *spare) {
    int64_t inner = between(t, dim + 1, t->rank), rows = t->dims[dim];
    *spare = 0;
    if (!t->strides || !inner) return weir_is_dense(t);
    for (int d = t->rank - 1; d >= dim; d--)
        if (t->dims[d] > 1 && t->strides[d] != between(t, d + 1, t->rank)) return 0;
    int first = dim - 1;
    while (first >= 0 && t->dims[first] == 1) first--;
    if (first >= 0 && t->dims[first]) rows = t->strides[first] / inner / between(t, first + 1, dim);
    if (rows < t->dims[dim]) return 0;
    for (int d = first; d >= 0; d--)
        if (t->dims[d] != 1 && t->strides[d] != inner * between(t, d + 1, dim) * rows) return 0;
    *spare = rows - t->dims[dim];
    return 1;
}

/* The symbol that says how many rows a port has to spare, or NULL. */
static const weir_symbol *spare_symbol(const weir_instance *in, int from, int port) {
    for (int i = 0; i < in->program->nsymbol; i++) {
        const weir_symbol *s = &in->program->symbol[i];
        if (s->from == from && s->port == port) return s;
    }
    return NULL;
}

static int direct(const weir_instance *in, int from, int port, const weir_tensor *t) {
    const weir_symbol *s = spare_symbol(in, from, port);
    int64_t spare;
    return s ? has_spare(t, s->dim, &spare) : weir_is_dense(t);
}

int weir_direct_in(const weir_instance *in, int k, const weir_tensor *t) {
    if (weir_is_object(in->program->model.inputs[k].dtype)) return 0;
    return direct(in, WEIR_FROM_SPARE_IN, k, t);
}

int weir_direct_out(const weir_instance *in, int k, const weir_tensor *t) {
    if (weir_is_object(in->program->model.outputs[k].dtype)) return 0;
    return direct(in, WEIR_FROM_SPARE_OUT, k, t);
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* Is output s->dim bound to the memory of input s->port? Rows to spare must agree where they are
 * stepped over. */
static int is_shared(const weir_instance *in, const weir_symbol *s, const weir_tensor *inputs,
                     const weir_tensor *outputs) {
    const weir_tensor *x = &inputs[s->port], *y = &outputs[s->dim];
    const weir_symbol *of = spare_symbol(in, WEIR_FROM_SPARE_IN, s->port);
    int64_t a, b;
    if (!of || !x->data || x->data != y->data || !has_spare(x, of->dim, &a) ||
        !has_spare(y, of->dim, &b))
        return 0;
    return between(x, 0, of->dim) == 1 || x->dims[of->dim] + a == y->dims[of->dim] + b;
}

void weir_bind_memory(weir_instance *in, const weir_tensor *inputs, const weir_tensor *outputs) {
    const weir_program *p = in->program;
    int changed = 0;
    for (int i = 0; i < p->nsymbol; i++) {
        const weir_symbol *s = &p->symbol[i];
        int64_t v = 0;
        if (s->from == WEIR_FROM_SPARE_IN && !has_spare(&inputs[s->port], s->dim, &v)) v = 0;
        if (s->from == WEIR_FROM_SPARE_OUT && !has_spare(&outputs[s->port], s->dim, &v)) v = 0;
        if (s->from == WEIR_FROM_SHARED) v = is_shared(in, s, inputs, outputs);
        if (!v) continue;
        in->symbol[i] = v;
        changed = 1;
    }
    if (!changed) return;
    p->bound(in->symbol, in->place);
    p->eval(in->symbol, in->place, in->value);
}

/* ---- overlap --------------------------------------------------------------------------------- */

/* Bytes of a tensor; an output whose size depends on data has at most what there is room for. */
static int64_t extent(const weir_tensor *t, int64_t room) {
    int64_t n = weir_reach(t);
    return weir_bytes(t->dtype, n < room ? n : room);
}

static int overlap(const char *p, int64_t n, const char *q, int64_t m) {
    return p && q && n && m && p < q + m && q < p + n;
}

/* Is output o, in this run, bound to input k? */
static int bound_to(const weir_instance *in, int o, int k) {
    for (int i = 0; i < in->program->nsymbol; i++) {
        const weir_symbol *s = &in->program->symbol[i];
        if (s->from == WEIR_FROM_SHARED && s->port == k && s->dim == o) return (int)in->symbol[i];
    }
    return 0;
}

static weir_status overlaps(weir_instance *in, int o, int k) {
    const weir_model *m = &in->program->model;
    const char *out = m->outputs[o].name, *from = m->inputs[k].name;
    for (int i = 0; i < m->nshared; i++)
        if (m->shared[i].output == o && m->shared[i].input == k)
            return weir_instance_fail(
                in, WEIR_E_ARGUMENT,
                "output \"%s\" overlaps input \"%s\" but is not bound to it: give both the same "
                "data "
                "and strides, the ones outside dim %d with room for all rows of the output",
                out, from, m->shared[i].dim);
    return weir_instance_fail(in, WEIR_E_ARGUMENT,
                              "output \"%s\" overlaps input \"%s\"; give it memory of its own", out,
                              from);
}

/* Two elements of an output in one place, or one before its data? Strides by size must each step
 * over all that smaller ones reach. */
static int writes_twice(const weir_tensor *t) {
    int64_t done = 0, covered = 1, more;
    for (int n = 0; t->strides && n < t->rank; n++) {
        int best = -1;
        for (int d = 0; d < t->rank; d++)
            if (!(done >> d & 1) && (best < 0 || t->strides[d] < t->strides[best])) best = d;
        done |= (int64_t)1 << best;
        if (t->dims[best] <= 1) continue;
        if (t->strides[best] < covered ||
            __builtin_mul_overflow(t->dims[best] - 1, t->strides[best], &more) ||
            __builtin_add_overflow(covered, more, &covered))
            return 1;
    }
    return 0;
}

weir_status weir_check_overlap(weir_instance *in, const weir_tensor *inputs,
                               const weir_tensor *outputs) {
    const weir_model *m = &in->program->model;
    for (int o = 0; o < m->noutputs; o++) {
        const char *at = outputs[o].data;
        if (in->program->when[o] == WEIR_KNOWN && weir_tensor_count(&outputs[o]) > 0 &&
            writes_twice(&outputs[o]))
            return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                      "output \"%s\": its strides put two elements in one place",
                                      m->outputs[o].name);
        int64_t bytes = extent(&outputs[o], in->room[o]);
        for (int k = 0; k < m->ninputs; k++)
            if (overlap(at, bytes, inputs[k].data, extent(&inputs[k], INT64_MAX)) &&
                !bound_to(in, o, k))
                return overlaps(in, o, k);
        for (int k = 0; k < o; k++)
            if (overlap(at, bytes, outputs[k].data, extent(&outputs[k], in->room[k])))
                return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                          "output \"%s\" overlaps output \"%s\"; give it "
                                          "memory of its own",
                                          m->outputs[o].name, m->outputs[k].name);
    }
    return WEIR_OK;
}

/* ---- strided copies -------------------------------------------------------------------------- */

/* Walks the tensor row by row of its last dim; `to_dense` says the direction. */
static void copy_strided(const weir_tensor *t, char *dense, int to_dense) {
    int64_t size = weir_bits(t->dtype) / 8, index[WEIR_RANK_MAX] = {0};
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1, step = t->rank ? t->strides[t->rank - 1] : 1;
    int64_t rows = row ? weir_tensor_count(t) / row : 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = 0;
        for (int d = 0; d < t->rank - 1; d++) at += index[d] * t->strides[d];
        char *p = (char *)t->data + at * size;
        for (int64_t i = 0; i < row; i++, dense += size)
            memcpy(to_dense ? dense : p + i * step * size, to_dense ? p + i * step * size : dense,
                   (size_t)size);
        for (int d = t->rank - 2; d >= 0 && ++index[d] == t->dims[d]; d--) index[d] = 0;
    }
}

void weir_gather(char *dense, const weir_tensor *t) {
    copy_strided(t, dense, 1);
}

void weir_scatter(const weir_tensor *t, const char *dense) {
    copy_strided(t, (char *)dense, 0);
}
