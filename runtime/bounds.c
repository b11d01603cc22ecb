/* SPDX-License-Identifier: Apache-2.0 */
/* What code compiled with bounds checks asks of the runtime: is it the run's own memory that a
 * container lies in, and what to say of an access that would have left its buffer. */
#include "runtime/instance.h"

#include <stdio.h>

static void fail_with(weir_frame *f, const char *text) {
    int32_t none = WEIR_OK;
    if (!__atomic_compare_exchange_n(&f->status, &none, WEIR_E_INDEX, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    weir_instance *in = f->instance;
    snprintf(in->stray, sizeof in->stray, "%s; the compiler is at fault: please report it", text);
    f->reason = in->stray;
}

void weir_rt_stray(weir_frame *f, const char *kernel, const char *what, int64_t index,
                   int64_t size) {
    char text[400];
    snprintf(text, sizeof text, "an access is out of bounds in \"%.100s\": %.180s at %lld of %lld",
             kernel, what, (long long)index, (long long)size);
    fail_with(f, text);
}

static int among(const char *at, int64_t bytes, const char *from, int64_t all) {
    return from && at >= from && bytes <= all && at - from <= all - bytes;
}

/* The arena, each thread's scratch, weights as stored or as made, the heap. */
static int is_inside(const weir_frame *f, const char *at, int64_t bytes) {
    const weir_instance *in = f->instance;
    const weir_program *p = f->program;
    if (among(at, bytes, f->arena, in->value[WEIR_V_ARENA])) return 1;
    if (p->blob && among(at, bytes, f->weights, (int64_t)p->blob->bytes)) return 1;
    if (among(at, bytes, f->made, p->made_bytes)) return 1;
    for (int t = 0; t < in->threads; t++)
        if (among(at, bytes, f->thread + t * f->thread_bytes, f->thread_bytes)) return 1;
    for (int i = 0; i < p->nheap; i++)
        if (among(at, bytes, in->heap[i], in->heap_bytes[i])) return 1;
    return 0;
}

int weir_rt_inside(weir_frame *f, const char *who, const char *name, const char *at,
                   int64_t bytes) {
    char text[400];
    if (bytes <= 0 || is_inside(f, at, bytes)) return 1;
    snprintf(text, sizeof text,
             "\"%.100s\" has no room for \"%.100s\": its %lld bytes are not all memory of the run",
             who, name, (long long)bytes);
    fail_with(f, text);
    return 0;
}
