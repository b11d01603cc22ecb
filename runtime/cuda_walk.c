/* SPDX-License-Identifier: Apache-2.0 */
/* What emitted code asks for while it walks a program on a GPU: launches, copies, and calls that
 * run on the host. The first failure is kept; after it nothing more is launched. */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures while walking ------------------------------------------------------------------ */

void cuda_note(weir_frame *f, int error, const char *what, const char *of) {
    CudaState *d = f->instance->device;
    if (!error || f->status) return;
    snprintf(d->reason, sizeof d->reason, "%s%s%s failed: %s", what, of ? " of " : "", of ? of : "",
             cuda_text(&d->shared->cu, error));
    weir_rt_fail(f, error == CUDA_MEMORY ? WEIR_E_MEMORY : WEIR_E_DEVICE, d->reason);
}

/* ---- called by emitted code ------------------------------------------------------------------ */

enum { MOST_ARGUMENTS = 256, START_EARLY = 6 };

/* Arguments are words, then descriptions of tensors. */
static void launch(weir_frame *f, int32_t kernel, int64_t blocks, int32_t sides,
                   const uint64_t *arg, int32_t n, CudaTensor *tensor, int32_t ntensor) {
    CudaState *d = f->instance->device;
    const weir_device_kernel *k = &f->program->image->kernel[kernel];
    const CudaDriver *cu = &d->shared->cu;
    void *params[MOST_ARGUMENTS + 1];
    if (blocks <= 0 || f->status) return;
    if (d->recording && d->recording++ > LAUNCHES_MOST) return;
    if (n + ntensor > MOST_ARGUMENTS || blocks > INT32_MAX) {
        snprintf(d->reason, sizeof d->reason, "kernel \"%s\" (%s) is too large to launch", k->name,
                 k->from);
        weir_rt_fail(f, WEIR_E_DEVICE, d->reason);
        return;
    }
    for (int i = 0; i < n; i++) params[i] = (void *)(uintptr_t)&arg[i];
    for (int i = 0; i < ntensor; i++) params[n + i] = &tensor[i];
    params[n + ntensor] = NULL;
    CudaAttribute early = {.what = START_EARLY, .value = 1};
    CudaLaunch how = {.grid = {(unsigned)blocks, (unsigned)sides, 1},
                      .block = {(unsigned)k->threads, 1, 1},
                      .shared = (unsigned)k->shared,
                      .stream = d->on,
                      .attribute = &early,
                      .nattribute =
                          d->early == EARLY_RECORDED ? d->recording > 0 : d->early == EARLY_ALWAYS};
    int error = cu->launch(&how, d->shared->function[kernel], params, NULL);
    if (!error && d->blocking) error = cu->stream_wait(d->on);
    cuda_note(f, error, k->name, k->from);
}

void weir_device_launch(weir_frame *f, int32_t kernel, int64_t blocks, int32_t sides,
                        const uint64_t *arg, int32_t n) {
    launch(f, kernel, blocks, sides, arg, n, NULL, 0);
}

/* Of tensors that have no element nothing is copied: any size will do. */
static int describe(const CudaDriver *cu, const weir_device_box *b, CudaTensor *out) {
    enum { BYTES, HALVES, WORDS, ROUNDED = 11, SWIZZLE_128 = 3, PROMOTE_128 = 2 };
    uint64_t size[WEIR_BOX_DIMS], stride[WEIR_BOX_DIMS], apart = (uint64_t)b->bytes;
    unsigned box[WEIR_BOX_DIMS], step[WEIR_BOX_DIMS];
    for (int k = 0; k < b->rank; k++) {
        size[k] = b->size[k] > 0 ? (uint64_t)b->size[k] : 1;
        stride[k] = apart *= size[k];
        box[k] = k == 0 ? (unsigned)b->row : k == b->outer ? (unsigned)b->rows : 1;
        step[k] = 1;
    }
    int type = b->rounds ? ROUNDED : b->bytes == 1 ? BYTES : b->bytes == 2 ? HALVES : WORDS;
    return cu->describe(out, type, (unsigned)b->rank, (void *)(uintptr_t)b->at, size, stride, box,
                        step, 0, SWIZZLE_128, PROMOTE_128, 0);
}

void weir_device_launch_boxes(weir_frame *f, int32_t kernel, int64_t blocks, int32_t sides,
                              const uint64_t *arg, int32_t n, const weir_device_box *box,
                              int32_t nbox) {
    CudaState *d = f->instance->device;
    CudaTensor tensor[WEIR_BOXES];
    if (blocks <= 0 || f->status) return;
    int error = nbox > WEIR_BOXES ? CUDA_INVALID : 0;
    for (int i = 0; i < nbox && !error; i++) error = describe(&d->shared->cu, &box[i], &tensor[i]);
    cuda_note(f, error, "describing tensors", f->program->image->kernel[kernel].from);
    launch(f, kernel, blocks, sides, arg, n, tensor, nbox);
}

void weir_device_settle(weir_frame *f) {
    CudaState *d = f->instance->device;
    if (!f->status) cuda_note(f, d->shared->cu.stream_wait(d->on), "a kernel", NULL);
}

void weir_device_copy(weir_frame *f, char *to, const char *from, int64_t bytes) {
    CudaState *d = f->instance->device;
    if (to == from || bytes <= 0 || f->status) return;
    cuda_note(f, d->shared->cu.copy(cuda_address(to), cuda_address(from), (size_t)bytes, d->on),
              "a copy", NULL);
}

/* Waits for what was launched, and brings bytes here. */
void cuda_fetch(weir_frame *f, void *to, const void *from, int64_t bytes) {
    CudaState *d = f->instance->device;
    const CudaDriver *cu = &d->shared->cu;
    if (bytes <= 0 || f->status) return;
    int error = cu->to_host(to, cuda_address(from), (size_t)bytes, d->on);
    if (!error) error = cu->stream_wait(d->on);
    cuda_note(f, error, "a copy from the GPU", NULL);
}

uint8_t weir_device_byte(weir_frame *f, const char *at) {
    uint8_t byte = 0;
    cuda_fetch(f, &byte, at, 1);
    return byte;
}

int cuda_host_grow(char **at, int64_t *have, int64_t need) {
    void *more = NULL;
    if (need <= *have) return 1;
    if (need > INT64_MAX / 2 || posix_memalign(&more, CUDA_ALIGN, (size_t)need) != 0) return 0;
    free(*at);
    *at = more;
    *have = need;
    return 1;
}

int64_t cuda_tensor_bytes(const weir_tensor *t) {
    return t->dtype ? weir_bytes(t->dtype, weir_tensor_count(t)) : 0;
}

/* What was launched may still use the smaller room: it ends first. */
char *cuda_room(weir_frame *f, int64_t need) {
    CudaState *d = f->instance->device;
    const CudaDriver *cu = &d->shared->cu;
    if (f->status) return NULL;
    if (need <= d->hold_bytes) return f->hold;
    if (need > d->room_bytes) {
        weir_device_settle(f);
        if (d->room) cu->free(d->room);
        d->room = 0;
        d->room_bytes = 0;
        if (need > INT64_MAX / 2 || cu->alloc(&d->room, (size_t)need) != 0) return NULL;
        d->room_bytes = need;
    }
    return cuda_pointer(d->room);
}

/* The operand number i of a call, inputs first. */
static weir_tensor *operand(weir_call *c, int i) {
    return i < c->nin ? (weir_tensor *)(uintptr_t)&c->in[i] : &c->out[i - c->nin];
}

void weir_device_call(weir_frame *f, weir_call *c, weir_call_fn *function) {
    CudaState *d = f->instance->device;
    int64_t need = 0, at = 0;
    int n = c->nin + c->nout;
    char *device[MOST_ARGUMENTS];
    for (int i = 0; i < n; i++)
        need = weir_sum(need, cuda_rounded(cuda_tensor_bytes(operand(c, i))));
    if (n > MOST_ARGUMENTS || !cuda_host_grow(&d->call, &d->call_bytes, need)) {
        c->status = WEIR_E_MEMORY;
        c->reason = "cannot allocate the operands of a call on the host";
    }
    for (int i = 0; i < n && !c->status; i++) {
        weir_tensor *t = operand(c, i);
        int64_t bytes = cuda_tensor_bytes(t);
        device[i] = t->data;
        if (!t->data) continue;
        t->data = d->call + at;
        if (i < c->nin) cuda_fetch(f, t->data, device[i], bytes);
        at += cuda_rounded(bytes);
    }
    if (f->status) c->status = (weir_status)f->status, c->reason = f->reason;
    if (c->status) return;
    function(c);
    for (int i = c->nin; i < n && !c->status; i++) {
        const weir_tensor *t = operand(c, i);
        int64_t bytes = t->data ? cuda_tensor_bytes(t) : 0;
        if (!bytes) continue;
        int error = d->shared->cu.to_device(cuda_address(device[i]), t->data, (size_t)bytes, d->on);
        if (!error) error = d->shared->cu.stream_wait(d->on);
        cuda_note(f, error, "a copy to the GPU", NULL);
    }
}
