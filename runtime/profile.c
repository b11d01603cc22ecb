/* SPDX-License-Identifier: Apache-2.0 */
/* Times of kernels, for models compiled with the option `profile`: each thread notes its spans in a
 * list of its own, made when the instance is. */
#include "runtime/instance.h"

#include <stdlib.h>
#include <time.h>

enum { SPANS_MOST = 1 << 16 };

int64_t weir_rt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void weir_rt_span(weir_frame *f, int t, int32_t kernel, int64_t from) {
    weir_instance *in = f->instance;
    if (in->nspan[t] == SPANS_MOST) return;
    in->span[t][in->nspan[t]++] =
        (weir_span){from - in->run_began, weir_rt_now() - in->run_began, kernel};
}

int weir_profile_open(weir_instance *in) {
    if (!in->program->nprofiled) return 0;
    in->span = calloc((size_t)in->threads, sizeof *in->span);
    in->nspan = calloc((size_t)in->threads, sizeof *in->nspan);
    int bad = !in->span || !in->nspan;
    for (int t = 0; !bad && t < in->threads; t++)
        bad = !(in->span[t] = malloc(SPANS_MOST * sizeof **in->span));
    return bad;
}

void weir_profile_close(weir_instance *in) {
    for (int t = 0; in->span && t < in->threads; t++) free(in->span[t]);
    free(in->span);
    free(in->nspan);
}

void weir_profile_begin(weir_instance *in) {
    for (int t = 0; in->nspan && t < in->threads; t++) in->nspan[t] = 0;
    if (in->span) in->run_began = weir_rt_now();
}

weir_status weir_rt_profile(const weir_instance *in, weir_profile *out) {
    *out = (weir_profile){in->program->nprofiled, in->threads, in->program->profiled,
                          (const weir_span *const *)in->span, in->nspan};
    return WEIR_OK;
}
