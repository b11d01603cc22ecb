/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded runs. Sizes and the places of ports decide what a run launches, where data do not: a run
 * that comes a second time with the same ones is recorded as a graph, and is one launch from then
 * on, on the caller's stream where one is given.
 *
 * The last RECORDS different runs are remembered, recorded or seen once; the one that was not asked
 * for longest makes room. So sizes that take turns keep their graphs, and sizes that only grow,
 * where none comes back soon, cost no recording. */
#include "runtime/cuda.h"

#include <string.h>

enum { CAPTURE_THREAD = 1 };

static void make_key(weir_instance *in, int64_t *key) {
    const weir_model *m = &in->program->model;
    for (int i = 0; i < in->program->nsymbol; i++) *key++ = in->symbol[i];
    for (int k = 0; k < m->ninputs; k++) *key++ = (int64_t)(intptr_t)in->in[k];
    for (int k = 0; k < m->noutputs; k++) *key++ = (int64_t)(intptr_t)in->out[k];
}

static void drop(CudaState *d, CudaRecord *r) {
    if (r->exec) d->shared->cu.exec_free(r->exec);
    r->exec = NULL;
    r->walks = 0;
    r->asked = 0;
}

void cuda_forget(weir_instance *in) {
    for (int i = 0; i < RECORDS; i++) drop(in->device, &in->device->record[i]);
}

/* The run's, or the one that makes room for it. */
static CudaRecord *find(CudaState *d, const int64_t *key) {
    CudaRecord *oldest = d->record;
    size_t bytes = sizeof *key * (size_t)d->nkey;
    for (CudaRecord *r = d->record; r < d->record + RECORDS; r++) {
        if (r->asked && memcmp(r->key, key, bytes) == 0) return r;
        if (r->asked < oldest->asked) oldest = r;
    }
    drop(d, oldest);
    memcpy(oldest->key, key, bytes);
    return oldest;
}

/* Records the walk; launches come back as errors only here. */
static void record(weir_frame *f, CudaRecord *r) {
    CudaState *d = f->instance->device;
    const CudaDriver *cu = &d->shared->cu;
    cu_handle graph = NULL, on = d->on;
    int error = cu->capture_begin(d->stream, CAPTURE_THREAD);
    if (error) {
        cuda_note(f, error, "recording a run", NULL);
        return;
    }
    d->on = d->stream;
    d->recording = 1;
    cuda_put(f);
    r->walks = d->recording > LAUNCHES_MOST;
    d->recording = 0;
    d->on = on;
    error = cu->capture_end(d->stream, &graph);
    if (!f->status) cuda_note(f, error, "recording a run", NULL);
    if (!f->status && !r->walks) {
        cuda_note(f, cu->graph_instantiate(&r->exec, graph, 0), "making a graph", NULL);
        if (f->status) r->exec = NULL;
    }
    if (graph) cu->graph_free(graph);
}

void cuda_start(weir_frame *f) {
    CudaState *d = f->instance->device;
    if (!f->program->image->fixed || d->blocking) {
        cuda_put(f);
        return;
    }
    make_key(f->instance, d->key);
    CudaRecord *r = find(d, d->key);
    if (r->asked && !r->exec && !r->walks) record(f, r);
    r->asked = ++d->asked;
    if (f->status) return;
    if (r->exec)
        cuda_note(f, d->shared->cu.graph_launch(r->exec, d->on), "launching a run", NULL);
    else
        cuda_put(f);
}
