/* SPDX-License-Identifier: Apache-2.0 */
/* Models on NVIDIA GPUs: devices with a model's code and weights, and its instances.
 *
 * Code and weights go to a device once; the instances of a model there share them. They live in the
 * device's primary context, the one that other libraries of the process use, so their pointers are
 * ours. The list of devices hangs on a word of the model's own library (weir_image.shared). */
#include "runtime/cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR = 75, MINOR = 76, DYNAMIC_SHARED = 8, NO_TIMING = 2, NON_BLOCKING = 1 };
/* The capability that a function was compiled for; from this one on kernels wait for the launch
 * ahead themselves (follow in compiler/targets/cuda/cuda.in). */
enum { MADE_FOR = 5, FOLLOWING = 90 };

weir_status cuda_check(weir_instance *in, int error, const char *what) {
    if (!error) return WEIR_OK;
    return weir_instance_fail(in, error == CUDA_MEMORY ? WEIR_E_MEMORY : WEIR_E_DEVICE,
                              "%s failed: %s", what, cuda_text(&in->device->shared->cu, error));
}

int cuda_enter(weir_instance *in) {
    return in->device->shared->cu.context_push(in->device->shared->context);
}

void cuda_leave(weir_instance *in) {
    cu_handle was;
    in->device->shared->cu.context_pop(&was);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void lock(const weir_image *image) {
    weir_lock(&image->home->lock);
}

static void unlock(const weir_image *image) {
    weir_unlock(&image->home->lock);
}

static void shared_free(CudaShared *s) {
    cu_handle was;
    if (s->context && s->cu.context_push(s->context) == 0) {
        cuda_library_close(s);
        if (s->weights) s->cu.free(s->weights);
        if (s->module) s->cu.module_unload(s->module);
        s->cu.context_pop(&was);
    }
    if (s->context) s->cu.context_release(s->device);
    cuda_close(&s->cu);
    free(s->function);
    free(s);
}

/* Why the code does not fit the device. */
static weir_status wrong_device(weir_instance *in, const CudaShared *s, int error) {
    int major = 0, minor = 0;
    s->cu.device_attribute(&major, MAJOR, s->device);
    s->cu.device_attribute(&minor, MINOR, s->device);
    if (error != CUDA_NO_CODE)
        return weir_instance_fail(in, error == CUDA_MEMORY ? WEIR_E_MEMORY : WEIR_E_DEVICE,
                                  "cannot load the model's code: %s", cuda_text(&s->cu, error));
    return weir_instance_fail(in, WEIR_E_DEVICE,
                              "the model has no code for this GPU (sm_%d%d); compile it with "
                              "--gpu=sm_%d%d",
                              major, minor, major, minor);
}

static weir_status load_functions(weir_instance *in, CudaShared *s) {
    const weir_image *image = in->program->image;
    s->function = calloc((size_t)image->nkernels + 1, sizeof *s->function);
    if (!s->function) return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    int error = s->cu.module_load(&s->module, image->code);
    if (error) return wrong_device(in, s, error);
    int made_for = 0;
    for (int k = 0; k < image->nkernels; k++) {
        const weir_device_kernel *kernel = &image->kernel[k];
        error = s->cu.module_function(&s->function[k], s->module, kernel->name);
        if (!error && kernel->shared)
            error = s->cu.function_set(s->function[k], DYNAMIC_SHARED, kernel->shared);
        if (!error) error = s->cu.function_get(&made_for, MADE_FOR, s->function[k]);
        if (error)
            return weir_instance_fail(in, WEIR_E_DEVICE, "kernel \"%s\" (%s) cannot be used: %s",
                                      kernel->name, kernel->from, cuda_text(&s->cu, error));
    }
    s->follows = made_for >= FOLLOWING;
    return WEIR_OK;
}

static weir_status load_weights(weir_instance *in, CudaShared *s) {
    size_t bytes = in->weights ? (size_t)in->program->model.weight_bytes : 0;
    if (!bytes) return WEIR_OK;
    int error = s->cu.alloc(&s->weights, bytes);
    if (error)
        return weir_instance_fail(in, WEIR_E_MEMORY,
                                  "cannot allocate %zu bytes of the GPU's memory for weights: %s",
                                  bytes, cuda_text(&s->cu, error));
    error = s->cu.to_device(s->weights, in->weights, bytes, NULL);
    if (!error) error = s->cu.stream_wait(NULL);
    if (!error) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE, "cannot copy weights to the GPU: %s",
                              cuda_text(&s->cu, error));
}

static weir_status shared_open(weir_instance *in, CudaShared *s) {
    cu_handle was;
    int error = s->cu.context_retain(&s->context, s->device);
    if (error) s->context = NULL;
    if (!error) error = s->cu.context_push(s->context);
    if (error)
        return weir_instance_fail(in, WEIR_E_DEVICE, "GPU %d cannot be used: %s", s->device,
                                  cuda_text(&s->cu, error));
    weir_status status = load_functions(in, s);
    if (!status) status = load_weights(in, s);
    if (!status) status = cuda_library_open(in, s);
    s->cu.context_pop(&was);
    return status;
}

/* The device that the instance asks for. */
static weir_status choose(weir_instance *in, const CudaDriver *cu, int *device) {
    int count = 0, ordinal = in->ordinal;
    cu->device_count(&count);
    if (count < 1)
        return weir_instance_fail(in, WEIR_E_DEVICE,
                                  "there is no NVIDIA GPU that this process may use");
    cu_handle current = NULL;
    if (ordinal < 0 && cu->context_current(&current) == 0 && current &&
        cu->context_device(device) == 0)
        return WEIR_OK;
    if (ordinal < 0) ordinal = 0;
    if (ordinal < count && cu->device_get(device, ordinal) == 0) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE, "there is no GPU %d, only %d", ordinal, count);
}

/* Under the lock: the device's entry, made when it is the first. */
static weir_status shared_get(weir_instance *in, CudaShared **out) {
    const weir_image *image = in->program->image;
    char why[256];
    CudaShared *s = calloc(1, sizeof *s);
    if (!s) return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    weir_status status = cuda_open(&s->cu, why);
    if (status) weir_instance_fail(in, status, "%s", why);
    if (!status) status = choose(in, &s->cu, &s->device);
    for (CudaShared *at = image->home->first; at && !status; at = at->next) {
        if (at->device != s->device) continue;
        shared_free(s);
        at->holders++;
        *out = at;
        return WEIR_OK;
    }
    if (!status) status = shared_open(in, s);
    if (status) {
        shared_free(s);
        return status;
    }
    s->holders = 1;
    s->next = image->home->first;
    image->home->first = *out = s;
    return WEIR_OK;
}

static void shared_drop(const weir_image *image, CudaShared *s) {
    lock(image);
    bool last = --s->holders == 0;
    for (CudaShared **at = &image->home->first; last && *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    unlock(image);
    if (last) shared_free(s);
}

/* ---- instances ------------------------------------------------------------------------------- */

static void state_free(CudaState *d) {
    free(d->tensor);
    free(d->remote);
    free(d->slot);
    free(d->key);
    free(d->call);
    free(d->scratch);
    free(d);
}

static CudaState *state_alloc(const weir_program *p) {
    CudaState *d = calloc(1, sizeof *d);
    size_t n = (size_t)p->model.ninputs + (size_t)p->model.noutputs + 1;
    if (!d) return NULL;
    d->nkey = (int)n + p->nsymbol;
    d->tensor = calloc(n, sizeof *d->tensor);
    d->remote = calloc(n, 1);
    d->slot = calloc(n, sizeof *d->slot);
    d->key = calloc((size_t)d->nkey, (1 + RECORDS) * sizeof *d->key);
    if (d->tensor && d->remote && d->slot && d->key) {
        for (int i = 0; i < RECORDS; i++) d->record[i].key = d->key + (1 + i) * d->nkey;
        return d;
    }
    state_free(d);
    return NULL;
}

static void device_close(weir_instance *in) {
    CudaState *d = in->device;
    CudaShared *s = d->shared;
    if (s && cuda_enter(in) == 0) {
        if (d->out) s->cu.event_wait(d->ended);
        if (d->stream) s->cu.stream_wait(d->stream);
        cuda_forget(in);
        if (d->block) s->cu.free(d->block);
        if (d->made) s->cu.free(d->made);
        if (d->room) s->cu.free(d->room);
        if (d->pinned) s->cu.host_free(d->pinned);
        for (int i = 0; i < in->program->nheap; i++)
            if (in->heap[i]) s->cu.free((cu_address)(uintptr_t)in->heap[i]);
        if (in->late_thread) s->cu.free((cu_address)(uintptr_t)in->late_thread);
        if (d->ended) s->cu.event_free(d->ended);
        if (d->stream) s->cu.stream_free(d->stream);
        cuda_leave(in);
    }
    for (int i = 0; i < in->program->nheap; i++) in->heap[i] = NULL;
    in->late_thread = NULL;
    in->device = NULL;
    weir_rt_weights_free(d->of);
    state_free(d);
    if (s) shared_drop(in->program->image, s);
}

/* Is a variable of the environment set to anything but 0? `otherwise`: it is not set. */
static int is_asked(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? strcmp(value, "0") != 0 : otherwise;
}

static weir_status device_open(weir_instance *in) {
    CudaState *d = in->device = state_alloc(in->program);
    if (!d) return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    d->blocking = is_asked("WEIR_CUDA_BLOCKING", 0);
    lock(in->program->image);
    weir_status status = shared_get(in, &d->shared);
    unlock(in->program->image);
    if (status) return status;
    d->early = d->shared->follows ? is_asked("WEIR_CUDA_FOLLOW", EARLY_RECORDED) : EARLY_NEVER;
    const CudaDriver *cu = &d->shared->cu;
    int error = cuda_enter(in);
    if (error) return cuda_check(in, error, "entering the GPU's context");
    error = cu->stream_new(&d->stream, NON_BLOCKING);
    if (!error) error = cu->event_new(&d->ended, NO_TIMING);
    cuda_leave(in);
    d->on = d->stream;
    return cuda_check(in, error, "making a stream");
}

/* Memory that grows while a run is under way keeps what it holds. */
static int device_grow(weir_instance *in, char **at, int64_t have, int64_t need) {
    CudaState *d = in->device;
    const CudaDriver *cu = &d->shared->cu;
    cu_address more = 0;
    if (cu->alloc(&more, (size_t)need) != 0) return 0;
    int error = 0;
    if (*at && have) error = cu->copy(more, (cu_address)(uintptr_t)*at, (size_t)have, d->on);
    if (!error) error = cu->stream_wait(d->on);
    if (*at) cu->free((cu_address)(uintptr_t)*at);
    *at = (char *)(uintptr_t)more;
    return !error;
}

const weir_device weir_device_cuda = {.open = device_open,
                                      .close = device_close,
                                      .reserve = cuda_reserve,
                                      .run = cuda_run,
                                      .grow = device_grow};
