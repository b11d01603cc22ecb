/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on a GPU.
 *
 * Device memory of a run is one block: a place for each input and output that lies in the host's
 * memory or in no order that kernels take, then the arena, room for loops, for kernels' arrays and
 * for a library.
 * Those ports are copied through pinned memory of the same shape; its first word is where kernels
 * write what went wrong, so a run without a fault moves nothing for it. A run whose kernels do not
 * depend on data is recorded (cuda_record.c). Calls that have no form for the device run on the
 * host: their operands are copied there and back, with everything before them waited for. */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_ALIGN = 16 }; /* what kernels fetch at once */
enum { FAULT_BYTES = 256, MEMORY_TYPE = 2, ON_DEVICE = 2, DEVICE_ORDINAL = 9 };

/* ---- places ---------------------------------------------------------------------------------- */

enum { HERE, ON_GPU, ON_OTHER }; /* where a port's data lie */

/* The driver knows no memory of the host but what it pinned, and says so by a type of 0. */
static int place_of(const CudaShared *s, const void *data) {
    unsigned type = 0;
    int device = -1, what[] = {MEMORY_TYPE, DEVICE_ORDINAL};
    void *value[] = {&type, &device};
    if (!data || s->cu.pointer_attributes(2, what, value, cuda_address(data)) != 0) return HERE;
    return type != ON_DEVICE ? HERE : device == s->device ? ON_GPU : ON_OTHER;
}

/* Notes which ports lie on the device; `all`: every one does. */
static weir_status find_remote(weir_instance *in, const weir_tensor *inputs,
                               const weir_tensor *outputs, int *all) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    *all = 1;
    for (int i = 0; i < m->ninputs + m->noutputs; i++) {
        int k = i < m->ninputs ? i : i - m->ninputs;
        const weir_port *port = i < m->ninputs ? &m->inputs[k] : &m->outputs[k];
        const weir_tensor *t = i < m->ninputs ? inputs : outputs;
        int place = t && !weir_is_object(port->dtype) ? place_of(d->shared, t[k].data) : HERE;
        if (place == ON_OTHER)
            return weir_instance_fail(
                in, WEIR_E_ARGUMENT, "%s \"%s\" lies on another GPU than this instance, GPU %d",
                i < m->ninputs ? "input" : "output", port->name, d->shared->device);
        d->remote[i] = place == ON_GPU;
        *all &= d->remote[i];
    }
    return WEIR_OK;
}

/* Elements that output k may get: an output whose size calls decide before anything is written has
 * the caller's room. */
static int64_t most_elements(const weir_instance *in, int k) {
    weir_tensor t = {.rank = in->program->model.outputs[k].rank};
    memcpy(t.dims, weir_out_dims(in, k), sizeof(int64_t) * (size_t)t.rank);
    int64_t n = weir_tensor_count(&t);
    if (in->program->when[k] >= WEIR_ON_HEAP) return 0;
    return in->program->when[k] == WEIR_LATE && in->room[k] < INT64_MAX ? in->room[k] : n;
}

static int64_t input_bytes(const weir_instance *in, int k) {
    const weir_port *p = &in->program->model.inputs[k];
    weir_tensor t = {.dtype = p->dtype, .rank = p->rank};
    memcpy(t.dims, weir_in_dims(in, k), sizeof(int64_t) * (size_t)p->rank);
    return cuda_tensor_bytes(&t);
}

static int64_t port_bytes(const weir_instance *in, int i) {
    const weir_model *m = &in->program->model;
    if (i < m->ninputs) return input_bytes(in, i);
    return weir_bytes(m->outputs[i - m->ninputs].dtype, most_elements(in, i - m->ninputs));
}

/* Takes the caller's tensors, if kernels can. */
static weir_status look(weir_instance *in, const weir_tensor *inputs, const weir_tensor *outputs) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    for (int i = 0; i < m->ninputs + m->noutputs; i++) {
        const weir_tensor *t = i < m->ninputs ? &inputs[i] : &outputs[i - m->ninputs];
        d->tensor[i] = *t;
        if (!d->remote[i]) d->tensor[i].strides = NULL;
        int direct =
            i < m->ninputs ? weir_direct_in(in, i, t) : weir_direct_out(in, i - m->ninputs, t);
        if (d->remote[i] && !direct)
            return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                      "%s \"%s\" lies on the GPU with strides that kernels do not "
                                      "take; give a dense one",
                                      i < m->ninputs ? "input" : "output",
                                      i < m->ninputs ? m->inputs[i].name
                                                     : m->outputs[i - m->ninputs].name);
        if (d->remote[i] && (uintptr_t)t->data % KERNEL_ALIGN)
            return weir_instance_fail(
                in, WEIR_E_ARGUMENT,
                "%s \"%s\" lies on the GPU at an address that is no multiple "
                "of %d bytes",
                i < m->ninputs ? "input" : "output",
                i < m->ninputs ? m->inputs[i].name : m->outputs[i - m->ninputs].name, KERNEL_ALIGN);
    }
    return WEIR_OK;
}

/* Does port i need a place in the block? One that calls fill may need more than the caller has. */
static int has_place(const weir_instance *in, int i) {
    const CudaState *d = in->device;
    int k = i - in->program->model.ninputs;
    if (!d->remote[i]) return k < 0 || in->program->when[k] < WEIR_ON_HEAP;
    return k >= 0 && in->program->when[k] == WEIR_BY_CALL && in->room[k] < most_elements(in, k);
}

/* Bytes of the block; of its pinned twin, which holds the fault and the ports. */
static int64_t block_need(weir_instance *in, int64_t *pinned) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    *pinned = FAULT_BYTES;
    for (int i = 0; i < m->ninputs + m->noutputs; i++) {
        d->slot[i] = -1;
        if (!has_place(in, i)) continue;
        d->slot[i] = *pinned;
        *pinned = weir_sum(*pinned, cuda_rounded(port_bytes(in, i)));
    }
    int64_t need = weir_sum(*pinned, cuda_rounded(in->value[WEIR_V_ARENA]));
    need = weir_sum(need, cuda_rounded(in->value[WEIR_V_CALL]));
    need = weir_sum(need, cuda_rounded(in->value[WEIR_V_THREAD]));
    return weir_sum(need, cuda_rounded(cuda_library_bytes(d->shared)));
}

static weir_status block_grow(weir_instance *in, int64_t need, int64_t pinned) {
    CudaState *d = in->device;
    const CudaDriver *cu = &d->shared->cu;
    if (need > d->block_bytes) {
        cuda_forget(in);
        if (d->block) cu->free(d->block);
        d->block = 0;
        d->block_bytes = 0;
        if (need > INT64_MAX / 2 || cu->alloc(&d->block, (size_t)need) != 0)
            return weir_instance_fail(in, WEIR_E_MEMORY,
                                      "cannot allocate %lld bytes of the GPU's memory for a run "
                                      "with these dims",
                                      (long long)need);
        d->block_bytes = need;
    }
    if (pinned > d->pinned_bytes) {
        cuda_forget(in);
        if (d->pinned) cu->host_free(d->pinned);
        d->pinned = NULL;
        d->pinned_bytes = 0;
        void *at = NULL;
        if (cu->host_alloc(&at, (size_t)pinned, 0) != 0)
            return weir_instance_fail(in, WEIR_E_MEMORY, "cannot pin %lld bytes of memory",
                                      (long long)pinned);
        d->pinned = at;
        memset(d->pinned, 0, FAULT_BYTES);
        d->pinned_bytes = pinned;
    }
    if (cuda_host_grow(&d->scratch, &d->scratch_bytes, in->value[WEIR_V_CALL])) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate scratch for calls");
}

/* As for inputs and outputs in the host's memory. */
weir_status cuda_reserve(weir_instance *in, const weir_tensor *largest) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    int64_t pinned;
    (void)largest;
    memset(d->remote, 0, (size_t)(m->ninputs + m->noutputs));
    for (int k = 0; k < m->noutputs; k++) in->room[k] = INT64_MAX;
    int64_t need = block_need(in, &pinned);
    int error = cuda_enter(in);
    if (error) return cuda_check(in, error, "entering the GPU's context");
    weir_status s = block_grow(in, need, pinned);
    cuda_leave(in);
    return s;
}

/* ---- the frame ------------------------------------------------------------------------------- */

/* What the constant part made, on the device: always at the same place, which recorded runs name.
 * The copy stands behind the runs of the stream, and after one that fails there is no set there. */
static weir_status bring_made(weir_instance *in) {
    CudaState *d = in->device;
    const CudaDriver *cu = &d->shared->cu;
    size_t bytes = (size_t)in->program->made_bytes;
    if (!in->set || !bytes) return WEIR_OK;
    weir_weights *set = weir_rt_weights_of(in);
    if (!d->made && cu->alloc(&d->made, bytes)) {
        weir_rt_weights_free(set);
        return weir_instance_fail(
            in, WEIR_E_MEMORY, "cannot allocate %zu bytes of the GPU's memory for weights", bytes);
    }
    weir_weights *before = d->of;
    int error = 0;
    if (set != before) {
        error = cu->to_device(d->made, weir_weights_made(set), bytes, d->on);
        if (!error) error = cu->stream_wait(d->on);
        d->of = error ? NULL : set;
    }
    weir_rt_weights_free(before);
    if (error) weir_rt_weights_free(set);
    return cuda_check(in, error, "copying weights to the GPU");
}

static void frame_set(weir_instance *in) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    char *at = cuda_pointer(d->block) + d->slot_end;
    d->frame = (weir_frame){.symbol = in->symbol,
                            .place = in->place,
                            .in = in->in,
                            .out = in->out,
                            .weights = cuda_pointer(d->shared->weights),
                            .made = cuda_pointer(d->made),
                            .heap = in->heap,
                            .objects = in->objects,
                            .program = in->program,
                            .instance = in};
    weir_frame *f = &d->frame;
    f->fault = (int32_t *)(void *)d->pinned;
    f->arena = at;
    d->hold_bytes = cuda_rounded(in->value[WEIR_V_CALL]);
    f->hold = at += cuda_rounded(in->value[WEIR_V_ARENA]);
    f->thread = at + d->hold_bytes;
    f->thread_bytes = weir_rounded(in->value[WEIR_V_THREAD]);
    d->work = f->thread + cuda_rounded(in->value[WEIR_V_THREAD]);
    f->scratch = d->scratch;
    f->scratch_bytes = d->scratch_bytes;
    for (int k = 0; k < m->ninputs; k++) in->in[k] = d->tensor[k].data;
    for (int k = 0; k < m->noutputs; k++) {
        int i = m->ninputs + k;
        in->out[k] = d->tensor[i].data;
        in->staged[k] = (char)(d->slot[i] >= 0 && in->program->when[k] == WEIR_BY_CALL);
    }
}

/* Inputs of the host to pinned memory. */
static weir_status gather(weir_instance *in, const weir_tensor *inputs) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    for (int k = 0; k < m->ninputs; k++) {
        const weir_tensor *t = &inputs[k];
        char *to = d->pinned + d->slot[k];
        weir_status s;
        if (d->slot[k] < 0 || weir_tensor_count(t) == 0) continue;
        if (weir_is_object(m->inputs[k].dtype)) {
            if ((s = weir_take(in, k, t, to))) return s;
        } else if (weir_is_dense(t)) {
            memcpy(to, t->data, (size_t)cuda_tensor_bytes(t));
        } else {
            weir_gather(to, t);
        }
    }
    return WEIR_OK;
}

/* ---- on the stream --------------------------------------------------------------------------- */

static void bring_inputs(weir_frame *f) {
    weir_instance *in = f->instance;
    CudaState *d = in->device;
    const CudaDriver *cu = &d->shared->cu;
    for (int k = 0; k < in->program->model.ninputs; k++) {
        size_t bytes = (size_t)input_bytes(in, k);
        if (d->slot[k] < 0 || !bytes || f->status) continue;
        cuda_note(f, cu->to_device(cuda_address(in->in[k]), d->pinned + d->slot[k], bytes, d->on),
                  "a copy to the GPU", in->program->model.inputs[k].name);
    }
}

/* Elements of less than a byte are merged into what is there: bits behind the last one are 0. */
static void clear_outputs(weir_frame *f) {
    weir_instance *in = f->instance;
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    for (int k = 0; k < m->noutputs; k++) {
        int i = m->ninputs + k;
        size_t bytes = (size_t)port_bytes(in, i);
        if (d->slot[i] < 0 || !bytes || weir_bits(m->outputs[k].dtype) >= 8) continue;
        cuda_note(f, d->shared->cu.fill(cuda_address(in->out[k]), 0, bytes, d->on), "clearing",
                  m->outputs[k].name);
    }
}

static const char *result_at(const weir_instance *in, int k) {
    int when = in->program->when[k];
    return when >= WEIR_ON_HEAP ? in->heap[when - WEIR_ON_HEAP] : in->out[k];
}

/* Outputs whose places are fixed, to pinned memory. */
static void take_outputs(weir_frame *f) {
    weir_instance *in = f->instance;
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    const CudaDriver *cu = &d->shared->cu;
    for (int k = 0; k < m->noutputs; k++) {
        int i = m->ninputs + k;
        size_t bytes = (size_t)port_bytes(in, i);
        if (d->slot[i] < 0 || !bytes || f->status) continue;
        cuda_note(f, cu->to_host(d->pinned + d->slot[i], cuda_address(in->out[k]), bytes, d->on),
                  "a copy from the GPU", m->outputs[k].name);
    }
}

void cuda_put(weir_frame *f) {
    bring_inputs(f);
    clear_outputs(f);
    if (!f->status) f->program->run(f, 0, 1);
    if (f->program->image->fixed) take_outputs(f);
}

/* ---- results --------------------------------------------------------------------------------- */

/* One output to the caller; `bytes` of it are final. */
static void hand_over(weir_frame *f, int k, weir_tensor *t, const char **at) {
    weir_instance *in = f->instance;
    CudaState *d = in->device;
    int i = in->program->model.ninputs + k;
    int64_t bytes = cuda_tensor_bytes(t);
    const char *from = result_at(in, k);
    *at = d->slot[i] >= 0 ? d->pinned + d->slot[i] : NULL;
    if (d->remote[i]) {
        if (from == t->data) return;
        weir_device_copy(f, t->data, from, bytes);
        weir_device_settle(f);
        return;
    }
    if (!in->program->image->fixed) {
        if (!*at || weir_is_object(t->dtype)) {
            if (!cuda_host_grow(&d->call, &d->call_bytes, bytes)) {
                weir_rt_fail(f, WEIR_E_MEMORY, "cannot allocate an output");
                return;
            }
            *at = d->call;
        }
        cuda_fetch(f, (char *)(uintptr_t)*at, from, bytes);
    }
    if (f->status || weir_is_object(t->dtype) || !bytes) return;
    if (weir_is_dense(t))
        memcpy(t->data, *at, (size_t)bytes);
    else
        weir_scatter(t, *at);
}

static weir_status deliver(weir_instance *in, weir_tensor *outputs) {
    CudaState *d = in->device;
    weir_frame *f = &d->frame;
    int n = in->program->model.noutputs;
    const char *one = NULL;
    for (int k = 0; k < n && !f->status; k++) {
        hand_over(f, k, &outputs[k], &one);
        if (f->status || !weir_is_object(outputs[k].dtype)) continue;
        weir_status s = weir_give_one(in, k, &outputs[k], one);
        if (s) return s;
    }
    return f->status ? weir_instance_fail(in, (weir_status)f->status, "%s", f->reason) : WEIR_OK;
}

/* The kernels are done, or failed with `error`: says what went wrong in them. */
static void settle(weir_instance *in, int error) {
    CudaState *d = in->device;
    weir_frame *f = &d->frame;
    if (!f->status && error) {
        snprintf(d->reason, sizeof d->reason,
                 "the GPU failed in a kernel: %s; WEIR_CUDA_BLOCKING=1 in the environment tells "
                 "which",
                 cuda_text(&d->shared->cu, error));
        weir_rt_fail(f, WEIR_E_DEVICE, d->reason);
    }
    int32_t *word = (int32_t *)(void *)d->pinned, fault = f->status ? 0 : *word;
    *word = 0;
    if (fault > 0 && fault < in->program->image->nlaunches) {
        snprintf(d->reason, sizeof d->reason, "an index is out of range in %s",
                 in->program->image->launch[fault]);
        weir_rt_fail(f, WEIR_E_INDEX, d->reason);
    }
}

static weir_status finish(weir_instance *in, weir_tensor *outputs, int error) {
    CudaState *d = in->device;
    settle(in, error);
    weir_status s = weir_run_end(in, outputs);
    if (d->frame.status)
        return weir_instance_fail(in, (weir_status)d->frame.status, "%s", d->frame.reason);
    return s ? s : deliver(in, outputs);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Where kernels find the ports: the caller's place, or one in the block. */
static void place_ports(weir_instance *in) {
    CudaState *d = in->device;
    for (int i = 0; i < in->program->model.ninputs + in->program->model.noutputs; i++)
        if (d->slot[i] >= 0) d->tensor[i].data = cuda_pointer(d->block) + d->slot[i];
}

static weir_status make_room(weir_instance *in) {
    int64_t pinned, need = block_need(in, &pinned);
    if (in->reserved && need > in->device->block_bytes)
        return weir_instance_fail(in, WEIR_E_RESERVE,
                                  "this run needs %lld bytes, %lld are reserved", (long long)need,
                                  (long long)in->device->block_bytes);
    in->device->slot_end = pinned;
    return block_grow(in, need, pinned);
}

static weir_status begin(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    CudaState *d = in->device;
    const weir_model *m = &in->program->model;
    weir_status s;
    in->remote = d->remote;
    s = weir_run_begin(in, inputs, outputs);
    in->remote = NULL;
    if (s || (s = look(in, inputs, outputs)) || (s = make_room(in))) return s;
    place_ports(in);
    weir_bind_memory(in, d->tensor, d->tensor + m->ninputs);
    if ((s = weir_check_overlap(in, d->tensor, d->tensor + m->ninputs))) return s;
    if ((s = make_room(in))) return s;
    place_ports(in);
    if (in->objects) weir_objects_reset(in->objects);
    if ((s = gather(in, inputs))) return s;
    if ((s = bring_made(in))) return s;
    frame_set(in);
    weir_profile_begin(in);
    cuda_start(&d->frame);
    return WEIR_OK;
}

weir_status cuda_run(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    CudaState *d = in->device;
    int error = cuda_enter(in);
    if (error) return cuda_check(in, error, "entering the GPU's context");
    d->on = d->stream;
    int all;
    weir_status s = find_remote(in, inputs, outputs, &all);
    if (!s) s = begin(in, inputs, outputs);
    if (!s) s = finish(in, outputs, d->shared->cu.stream_wait(d->on));
    cuda_leave(in);
    return s;
}

/* ---- asynchronous ---------------------------------------------------------------------------- */

/* May a run begin? Behind one that was submitted, if that needs no more from the host than this. */
static int may_begin(weir_instance *in, cu_handle on) {
    const CudaState *d = in->device;
    int idle = 0;
    if (__atomic_compare_exchange_n(&in->busy, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 1;
    return d->out && d->alone && d->on == on && in->program->image->fixed;
}

static weir_status submit(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs) {
    CudaState *d = in->device;
    const CudaDriver *cu = &d->shared->cu;
    int all;
    weir_status s = find_remote(in, inputs, outputs, &all);
    if (s) return s;
    if (d->out && !all)
        return weir_instance_fail(in, WEIR_E_ARGUMENT,
                                  "a run was submitted: wait for it before one whose inputs or "
                                  "outputs do not lie on the GPU");
    s = begin(in, inputs, outputs);
    if (!s && d->frame.status) return finish(in, outputs, cu->stream_wait(d->on));
    if (!s) s = cuda_check(in, cu->event_record(d->ended, d->on), "marking the end of a run");
    if (s) cu->stream_wait(d->on);
    d->alone = all;
    return s;
}

weir_status weir_device_submit(weir_instance *in, const weir_tensor *inputs, weir_tensor *outputs,
                               void *stream) {
    CudaState *d = in->device;
    cu_handle on = stream ? stream : d->stream;
    if (!may_begin(in, on)) return WEIR_E_ARGUMENT;
    int error = cuda_enter(in);
    weir_status s = cuda_check(in, error, "entering the GPU's context");
    d->on = on;
    if (!s) s = submit(in, inputs, outputs);
    if (s == WEIR_E_CAPACITY) weir_open_dims(in, outputs);
    if (!error) cuda_leave(in);
    if (!s) d->out = outputs;
    if (!d->out) __atomic_store_n(&in->busy, 0, __ATOMIC_RELEASE);
    return s;
}

weir_status weir_device_wait(weir_instance *in) {
    CudaState *d = in->device;
    if (!d->out) return weir_instance_fail(in, WEIR_E_ARGUMENT, "no run was submitted");
    int error = cuda_enter(in);
    weir_status s = cuda_check(in, error, "entering the GPU's context");
    if (!s) s = finish(in, d->out, d->shared->cu.event_wait(d->ended));
    if (s == WEIR_E_CAPACITY) weir_open_dims(in, d->out);
    if (!error) cuda_leave(in);
    d->out = NULL;
    __atomic_store_n(&in->busy, 0, __ATOMIC_RELEASE);
    return s;
}
