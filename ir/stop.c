/* SPDX-License-Identifier: Apache-2.0 */
/* Ending early. */
#include "stop.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double stop_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes that a process (0: this one) has in memory and shares with no file; 0 when it is gone. */
static size_t resident(int process) {
    char path[64];
    unsigned long long all = 0, shared = 0;
    snprintf(path, sizeof path, process ? "/proc/%d/statm" : "/proc/self/statm", process);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    bool known = fscanf(file, "%*u %llu %llu", &all, &shared) == 2 && shared <= all;
    fclose(file);
    return known ? (size_t)(all - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

size_t stop_look(Stop *stop, int program, size_t had) {
    if (!stop || !stop->memory) return 0;
    size_t has = program > 0 ? resident(program) : 0, now = resident(0);
    size_t tools = atomic_fetch_add(&stop->tools, has - had) + has - had;
    if ((now > stop->before ? now - stop->before : 0) + tools > stop->memory) stop->over = 1;
    return has;
}

void stop_begin(Stop *stop, double seconds, size_t memory) {
    stop->seconds = seconds;
    stop->deadline = seconds > 0 ? stop_clock() + seconds : 0;
    stop->memory = memory;
    stop->in_use = stop->tools = 0;
    stop->over = 0;
    stop->before = memory ? resident(0) : 0;
}

static bool late(const Stop *stop) {
    return stop->deadline > 0 && stop_clock() > stop->deadline;
}

bool stop_now(const Stop *stop) {
    return stop && (stop->wished || stop->over || late(stop));
}

static _Noreturn void refuse_memory(Ctx *ctx) {
    fail(ctx, E_LIMIT,
         "compiling takes more than the %zu bytes of \"max-memory\"; allow more, make the model's "
         "dims smaller, or compile on fewer threads (\"j\")",
         ctx->stop->memory);
}

void stop_check(Ctx *ctx) {
    Stop *stop = ctx->stop;
    if (!stop) return;
    stop_look(stop, 0, 0);
    if (stop->over) refuse_memory(ctx);
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
        refuse_memory(ctx);
    stop_note(ctx, bytes);
}

void stop_shrink(Ctx *ctx, size_t bytes) {
    if (ctx->stop) atomic_fetch_sub(&ctx->stop->in_use, bytes);
}
