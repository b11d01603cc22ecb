/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, errors, arenas, names, texts and tables. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base.h"

typedef struct Seen {
    int n;
    Code code;
    char text[512];
    char *long_copy;
} Seen;

static void see(void *user, const Diag *diag) {
    Seen *seen = user;
    seen->n++;
    seen->code = diag->code;
    Ctx *ctx = ctx_new(NULL, NULL);
    Arena *arena = arena_new(ctx);
    snprintf(seen->text, sizeof seen->text, "%s", diag_format(arena, diag));
    if (strlen(diag->message) > 2000) seen->long_copy = strdup(diag->message);
    ctx_free(ctx);
}

typedef struct Job {
    Ctx *ctx;
    int released, step;
} Job;

static void release(void *object) {
    Job *job = object;
    job->released++;
}

static void body(void *arg) {
    Job *job = arg;
    Arena *arena = arena_new(job->ctx);
    arena_defer(arena, release, job);
    arena_defer(arena, release, job);
    job->ctx->where.node = "fc/MatMul";
    job->ctx->where.op = "MatMul";
    job->ctx->where.opset = 13;
    job->ctx->where.tensor = "x";
    job->step = 1;
    fail(job->ctx, E_SHAPE, "inner dims %d and %d differ; make them equal", 3, 4);
}

Test(base, fail_reports_releases_and_restores) {
    Seen seen = {0};
    Job job = {.ctx = ctx_new(see, &seen)};
    job.ctx->where.file = "model.onnx";
    cr_assert(!ctx_try(job.ctx, body, &job));
    cr_assert_eq(job.step, 1);
    cr_assert_eq(job.released, 2);
    cr_assert_eq(seen.n, 1);
    cr_assert_eq(job.ctx->last_error, E_SHAPE);
    cr_assert_null(job.ctx->where.node);
    cr_assert_str_eq(
        seen.text, "error W014 at model.onnx, node \"fc/MatMul\" (MatMul, opset 13), tensor \"x\": "
                   "inner dims 3 and 4 differ; make them equal");
    ctx_free(job.ctx);
}

static void nested(void *arg) {
    Job *job = arg;
    cr_assert(!ctx_try(job->ctx, body, job));
    job->step = 2;
}

Test(base, tries_nest) {
    Job job = {.ctx = ctx_new(NULL, NULL)};
    cr_assert(ctx_try(job.ctx, nested, &job));
    cr_assert_eq(job.step, 2);
    cr_assert_eq(job.released, 2);
    ctx_free(job.ctx);
}

static void fail_long(void *arg) {
    Ctx *ctx = arg;
    char *text = arena_alloc(ctx_arena(ctx), 5000);
    memset(text, 'a', 4999);
    fail(ctx, E_VERIFY, "%s", text);
}

static void exhaust(void *arg) {
    Arena *arena = arena_new(arg);
    arena_alloc(arena, SIZE_MAX / 4);
}

static void overflow(void *arg) {
    Arena *arena = arena_new(arg);
    arena_array(arena, SIZE_MAX / 8, 16);
}

Test(base, long_messages_and_memory) {
    Seen seen = {0};
    Ctx *ctx = ctx_new(see, &seen);
    cr_assert(!ctx_try(ctx, fail_long, ctx));
    cr_assert_eq(strlen(seen.long_copy), 4999);
    free(seen.long_copy);
    cr_assert(!ctx_try(ctx, exhaust, ctx));
    cr_assert_eq(ctx->last_error, E_MEMORY);
    ctx->last_error = E_FILE;
    cr_assert(!ctx_try(ctx, overflow, ctx));
    cr_assert_eq(ctx->last_error, E_MEMORY);
    cr_assert_eq(seen.n, 3);
    ctx_free(ctx);
}

Test(base, where_formats) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Arena *arena = ctx_arena(ctx);
    Diag diag = {DIAG_WARNING, E_SYNTAX, "W003", "m", {.file = "a.ir", .line = 7}};
    cr_assert_str_eq(diag_format(arena, &diag), "warning W003 at a.ir:7: m");
    diag.where = (Where){.op = "ai.onnx.ml.Scaler"};
    cr_assert_str_eq(diag_format(arena, &diag), "warning W003 at ai.onnx.ml.Scaler: m");
    diag.where = (Where){.line = 3, .tensor = "t"};
    cr_assert_str_eq(diag_format(arena, &diag), "warning W003 at line 3, tensor \"t\": m");
    diag.where = (Where){0};
    cr_assert_str_eq(diag_format(arena, &diag), "warning W003: m");
    Code code;
    cr_assert(code_parse("w012", &code) && code == E_UNSUPPORTED);
    cr_assert(!code_parse("W999", &code));
    for (int i = 0; i < CODE_COUNT; i++)
        cr_assert(code_parse(code_id((Code)i), &code) && (int)code == i);
    ctx_free(ctx);
}

Test(base, arenas_zeroed_aligned_apart) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Arena *arena = arena_new(ctx);
    char *at[2000];
    size_t size[2000];
    for (int i = 0; i < 2000; i++) {
        size[i] = (size_t)(i * 7919 % (i % 97 == 0 ? 300000 : 300));
        at[i] = arena_alloc(arena, size[i]);
        cr_assert_eq((uintptr_t)at[i] % 16, 0);
        for (size_t j = 0; j < size[i]; j++) cr_assert_eq(at[i][j], 0);
        memset(at[i], i % 100 + 1, size[i]);
    }
    for (int i = 0; i < 2000; i++)
        for (size_t j = 0; j < size[i]; j++) cr_assert_eq(at[i][j], i % 100 + 1);
    cr_assert(arena_bytes(arena) > 1000000);
    cr_assert(arena_ctx(arena) == ctx);
    arena_free(arena);
    ctx_free(ctx);
}

Test(base, vectors_grow) {
    Ctx *ctx = ctx_new(NULL, NULL);
    VEC(int) a = {0};
    VEC(Where) b = {0};
    for (int i = 0; i < 10000; i++) {
        vec_push(ctx_arena(ctx), &a, i);
        if (i % 3 == 0) vec_push(ctx_arena(ctx), &b, (Where){.line = i % 7});
    }
    for (int i = 0; i < a.n; i++) cr_assert_eq(a.at[i], i);
    for (int i = 0; i < b.n; i++) cr_assert_eq(b.at[i].line, 3 * i % 7);
    ctx_free(ctx);
}

static long resident_bytes(void) {
    long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static long sum_bytes(const unsigned char *at, size_t n) {
    long sum = 0;
    for (size_t i = 0; i < n; i++) sum += at[i];
    return sum;
}

/* Kept bytes stay what they were, whatever becomes of their source; large ones take no memory
 * while they rest, small ones and foreign ones are not touched. */
Test(base, large_copies_rest) {
    enum { BYTES = 24 << 20, FEW = 100 };
    Ctx *ctx = ctx_new(NULL, NULL);
    unsigned char *from = malloc(BYTES), few[FEW] = {1, 2, 3};
    for (size_t i = 0; i < BYTES; i++) from[i] = (unsigned char)(i * 7 / 5);
    long sum = sum_bytes(from, BYTES);
    const unsigned char *small = ctx_keep(ctx, few, FEW), *large = ctx_keep(ctx, from, BYTES);
    ctx_rest(ctx, from, BYTES);
    cr_assert_eq(sum_bytes(from, BYTES), sum);
    memset(from, 0, BYTES);
    memset(few, 0, FEW);
    cr_assert_eq(sum_bytes(large, BYTES), sum);
    long read = resident_bytes();
    ctx_rest(ctx, large, BYTES);
    ctx_rest(ctx, small, FEW);
    cr_assert_geq(read - resident_bytes(), BYTES / 2);
    cr_assert_eq(sum_bytes(small, FEW), 6);
    cr_assert_eq(sum_bytes(large, BYTES), sum);
    free(from);
    ctx_free(ctx);
}

Test(base, names_are_unique) {
    Ctx *ctx = ctx_new(NULL, NULL);
    const char *first[3000];
    for (int i = 0; i < 3000; i++) first[i] = internf(ctx, "name%d", i);
    for (int i = 0; i < 3000; i++) {
        char text[32];
        int n = sprintf(text, "name%dtail", i) - 4;
        cr_assert(intern_n(ctx, text, (size_t)n) == first[i]);
        text[n] = 0;
        cr_assert_str_eq(first[i], text);
    }
    char big[600];
    memset(big, 'x', 599);
    big[599] = 0;
    cr_assert(internf(ctx, "%s", big) == intern(ctx, big));
    cr_assert(intern_n(ctx, "a\0b", 3) != intern_n(ctx, "a", 1));
    ctx_free(ctx);
}

Test(base, texts_grow) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Text text = {.arena = ctx_arena(ctx)};
    cr_assert_str_eq(text_str(&text), "");
    for (int i = 0; i < 1000; i++) {
        text_printf(&text, "%d", i % 10);
        text_put(&text, ",");
    }
    cr_assert_eq(text.n, 2000);
    cr_assert_eq(strlen(text_str(&text)), 2000);
    for (int i = 0; i < 2000; i++) cr_assert_eq(text_str(&text)[i], i % 2 ? ',' : '0' + i / 2 % 10);
    ctx_free(ctx);
}

Test(base, tables_find) {
    Ctx *ctx = ctx_new(NULL, NULL);
    Table *table = table_new(ctx_arena(ctx));
    static char keys[5000];
    cr_assert_null(table_get(table, keys));
    for (int i = 0; i < 5000; i += 2) table_put(table, &keys[i], &keys[i + 1]);
    table_put(table, &keys[0], &keys[0]);
    cr_assert(table_get(table, &keys[0]) == &keys[0]);
    for (int i = 2; i < 5000; i += 2) cr_assert(table_get(table, &keys[i]) == &keys[i + 1]);
    for (int i = 1; i < 5000; i += 2) cr_assert_null(table_get(table, &keys[i]));
    ctx_free(ctx);
}

Test(base, hash_spreads) {
    enum { N = 4096 };
    static int bucket[N];
    for (int i = 0; i < N; i++) bucket[hash_bytes(0, &i, sizeof i) % N]++;
    int empty = 0;
    for (int i = 0; i < N; i++) empty += bucket[i] == 0;
    cr_assert(empty < N / 2, "%d of %d buckets empty", empty, N);
    cr_assert_neq(hash_bytes(0, "abcdefgh1", 9), hash_bytes(0, "abcdefgh2", 9));
    cr_assert_neq(hash_bytes(0, "", 0), hash_bytes(1, "", 0));
}
