/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: memory that is given back all at once.
 *
 * An arena is a list of zeroed chunks; allocation bumps a pointer in the newest one. Chunks double
 * up to 1 MiB; a large request gets a chunk of its own, put behind the newest so that the rest of
 * that one stays in use. The context links its arenas, newest first, so that a failed `ctx_try` can
 * drop exactly those made inside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "stop.h"

enum { ALIGN = 16, FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 20 };

typedef struct Chunk {
    struct Chunk *older;
    size_t used, size; /* of `at` */
    _Alignas(ALIGN) char at[];
} Chunk;

typedef struct Defer {
    struct Defer *older;
    void (*fn)(void *object);
    void *object;
} Defer;

struct Arena {
    Ctx *ctx;
    Arena *older, *newer; /* in the context's list */
    uint64_t serial;
    Chunk *chunk;
    Defer *defer;
    size_t next_chunk, bytes;
};

Arena *arena_try_new(Ctx *ctx) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena) return NULL;
    arena->ctx = ctx;
    arena->serial = ++ctx->priv->serial;
    arena->next_chunk = FIRST_CHUNK;
    arena->older = ctx->priv->newest;
    if (arena->older) arena->older->newer = arena;
    ctx->priv->newest = arena;
    return arena;
}

Arena *arena_new(Ctx *ctx) {
    Arena *arena = arena_try_new(ctx);
    if (!arena) fail(ctx, E_MEMORY, "no memory for an arena; give the process more memory");
    return arena;
}

void arena_free(Arena *arena) {
    if (!arena) return;
    for (; arena->defer; arena->defer = arena->defer->older) arena->defer->fn(arena->defer->object);
    while (arena->chunk) {
        Chunk *older = arena->chunk->older;
        free(arena->chunk);
        arena->chunk = older;
    }
    stop_shrink(arena->ctx, arena->bytes);
    if (arena->older) arena->older->newer = arena->newer;
    if (arena->newer)
        arena->newer->older = arena->older;
    else
        arena->ctx->priv->newest = arena->older;
    free(arena);
}

void arenas_drop(Ctx *ctx, uint64_t serial) {
    while (ctx->priv->newest && ctx->priv->newest->serial > serial) arena_free(ctx->priv->newest);
}

Ctx *arena_ctx(Arena *arena) {
    return arena->ctx;
}

size_t arena_bytes(const Arena *arena) {
    return arena->bytes;
}

static _Noreturn void out_of_memory(Arena *arena, size_t bytes) {
    fail(arena->ctx, E_MEMORY, "no memory for %zu bytes; give the process more memory", bytes);
}

static void chunk_add(Arena *arena, size_t bytes) {
    bool large = bytes > arena->next_chunk / 4;
    size_t size = large ? bytes : arena->next_chunk;
    stop_grow(arena->ctx, sizeof(Chunk) + size);
    Chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) {
        stop_shrink(arena->ctx, sizeof *chunk + size);
        out_of_memory(arena, bytes);
    }
    chunk->size = size;
    arena->bytes += sizeof *chunk + size;
    if (!large && arena->next_chunk < LAST_CHUNK) arena->next_chunk *= 2;
    chunk->older = arena->chunk;
    arena->chunk = chunk;
}

void *arena_alloc(Arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2) out_of_memory(arena, bytes);
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    Chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < bytes) {
        Chunk *before = chunk;
        chunk_add(arena, bytes);
        chunk = arena->chunk;
        if (before && chunk->size == bytes && before->size - before->used >= ALIGN) {
            chunk->older = before->older;
            before->older = chunk;
            arena->chunk = before;
        }
    }
    void *at = chunk->at + chunk->used;
    chunk->used += bytes;
    return at;
}

void *arena_array(Arena *arena, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) out_of_memory(arena, SIZE_MAX);
    return arena_alloc(arena, bytes);
}

void *arena_copy(Arena *arena, const void *from, size_t bytes) {
    void *at = arena_alloc(arena, bytes);
    if (bytes) memcpy(at, from, bytes);
    return at;
}

char *arena_vprintf(Arena *arena, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) BUG("bad format \"%s\"", fmt);
    char *text = arena_alloc(arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    return text;
}

char *arena_printf(Arena *arena, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = arena_vprintf(arena, fmt, args);
    va_end(args);
    return text;
}

/* The object is released even when there is no memory to remember it. */
void arena_defer(Arena *arena, void (*fn)(void *object), void *object) {
    Defer *defer = NULL;
    Chunk *chunk = arena->chunk;
    bool fits = chunk && chunk->size - chunk->used >= sizeof *defer + ALIGN;
    if (!fits) {
        chunk = calloc(1, sizeof *chunk + FIRST_CHUNK);
        if (!chunk) {
            fn(object);
            out_of_memory(arena, sizeof *defer);
        }
        chunk->size = FIRST_CHUNK;
        chunk->older = arena->chunk;
        arena->chunk = chunk;
        arena->bytes += sizeof *chunk + FIRST_CHUNK;
    }
    defer = arena_alloc(arena, sizeof *defer);
    *defer = (Defer){arena->defer, fn, object};
    arena->defer = defer;
    if (!fits) stop_note(arena->ctx, sizeof *chunk + FIRST_CHUNK);
}

/* Grows in place when the array is the newest allocation of its chunk. */
void *vec_grow(Arena *arena, void *at, int *cap, int n, size_t size) {
    int64_t want = *cap < 4 ? 8 : 2 * (int64_t)*cap;
    if (want < n) want = n;
    if (want > INT32_MAX) out_of_memory(arena, SIZE_MAX);
    size_t old = ((size_t)*cap * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    size_t bytes = ((size_t)want * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    Chunk *chunk = arena->chunk;
    *cap = (int)want;
    if (at && (char *)at + old == chunk->at + chunk->used &&
        chunk->size - chunk->used >= bytes - old) {
        chunk->used += bytes - old;
        return at;
    }
    void *grown = arena_array(arena, (size_t)want, size);
    if (at) memcpy(grown, at, old < bytes ? old : bytes);
    return grown;
}
