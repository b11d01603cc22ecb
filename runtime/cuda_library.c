/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were given to a vendor's library: products (cuda_products.c) and convolutions
 * (cuda_convolutions.c).
 *
 * A library is opened with the model's code, and only if the image has rows for it. Which of its
 * algorithms makes a row is asked once, then: so all runs of all instances add up in the same
 * order. Algorithms may ask for memory to work in; as much as the largest needs is a part of each
 * instance's block. A call launches kernels on the run's stream, so that recorded runs hold them.
 */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *cuda_library_load(const char *const *names, int n, char why[128]) {
    void *at = NULL;
    snprintf(why, 128, "no reason given");
    for (int i = 0; i < n && !at; i++) {
        at = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *reason = at || i ? NULL : dlerror();
        if (reason) snprintf(why, 128, "%s", reason);
    }
    return at;
}

const char *cuda_library_find(void *library, const CudaSymbol *symbol, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, symbol[i].name);
        if (!at) return symbol[i].name;
        memcpy(symbol[i].to, &at, sizeof at);
    }
    return NULL;
}

weir_status cuda_library_open(weir_instance *in, CudaShared *s) {
    weir_status status = cuda_products_open(in, s);
    return status ? status : cuda_convolutions_open(in, s);
}

void cuda_library_close(CudaShared *s) {
    cuda_products_close(s);
    cuda_convolutions_close(s);
}

int64_t cuda_library_bytes(const CudaShared *s) {
    int64_t products = cuda_products_bytes(s), convolutions = cuda_convolutions_bytes(s);
    return products > convolutions ? products : convolutions;
}

void cuda_library_done(weir_frame *f, int error, const char *library, const char *why,
                       const char *from) {
    CudaState *state = f->instance->device;
    if (error) {
        snprintf(state->reason, sizeof state->reason, "%s by %s failed: %s", from, library, why);
        weir_rt_fail(f, WEIR_E_DEVICE, state->reason);
    } else if (state->blocking) {
        cuda_note(f, state->shared->cu.stream_wait(state->on), library, from);
    }
}
