/* SPDX-License-Identifier: Apache-2.0 */
/* Ending early. */
#include "stop.h"

#include <time.h>

double stop_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void stop_begin(Stop *stop, double seconds, size_t memory) {
    stop->seconds = seconds;
    stop->deadline = seconds > 0 ? stop_clock() + seconds : 0;
    stop->memory = memory;
    stop->in_use = 0;
}

static bool late(const Stop *stop) {
    return stop->deadline > 0 && stop_clock() > stop->deadline;
}

bool stop_now(const Stop *stop) {
    return stop && (stop->wished || late(stop));
}

void stop_check(Ctx *ctx) {
    const Stop *stop = ctx->stop;
    if (!stop) return;
    if (stop->wished) fail(ctx, E_CANCELLED, "compilation was cancelled; nothing is left of it");
    if (late(stop))
        fail(
            ctx, E_LIMIT,
            "compiling takes longer than the %g s of \"max-time\"; allow more, or leave passes out "
            "(\"skip\")",
            stop->seconds);
}

void stop_note(Ctx *ctx, size_t bytes) {
    if (ctx->stop) atomic_fetch_add(&ctx->stop->in_use, bytes);
}

void stop_grow(Ctx *ctx, size_t bytes) {
    const Stop *stop = ctx->stop;
    if (!stop) return;
    stop_check(ctx);
    if (stop->memory && (bytes > stop->memory || stop->in_use > stop->memory - bytes))
        fail(ctx, E_LIMIT,
             "compiling takes more than the %zu bytes of \"max-memory\"; allow more, or make the "
             "model's dims smaller",
             stop->memory);
    stop_note(ctx, bytes);
}

void stop_shrink(Ctx *ctx, size_t bytes) {
    if (ctx->stop) atomic_fetch_sub(&ctx->stop->in_use, bytes);
}
