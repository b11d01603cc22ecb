/* SPDX-License-Identifier: Apache-2.0 */
/* Results too large to be held.
 *
 * What a compilation makes of weights is read once more, when the library is written. Until then it
 * lies in a temporary file without a name, which is mapped: its pages take memory while they are
 * read, and can be given back at any time. A limit of memory counts them all the same. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "output.h"
#include "stop.h"

enum { LARGE = 1 << 20 };

struct Mapping {
    struct Mapping *older;
    Ctx *ctx;
    char *at;
    size_t bytes;
};

static void unmap(void *object) {
    struct Mapping *m = object;
    if (m->at) munmap(m->at, m->bytes);
    stop_shrink(m->ctx, m->bytes);
}

/* The bytes in a file that nobody else sees, mapped; MAP_FAILED where there is no room for one. */
static void *in_file(const void *from, size_t bytes) {
    FILE *file = tmpfile();
    if (!file) return MAP_FAILED;
    void *at = MAP_FAILED;
    if (write_bytes(fileno(file), from, bytes))
        at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return at;
}

const void *ctx_keep(Ctx *ctx, const void *from, size_t bytes) {
    Arena *own = ctx->priv->own;
    if (bytes < LARGE) return arena_copy(own, from, bytes);
    struct Mapping *m = NEW(own, struct Mapping);
    m->ctx = ctx;
    arena_defer(own, unmap, m);
    stop_grow(ctx, bytes);
    m->bytes = bytes;
    void *at = in_file(from, bytes);
    if (at == MAP_FAILED) {
        m->bytes = 0;
        stop_shrink(ctx, bytes);
        return arena_copy(own, from, bytes);
    }
    m->at = at;
    m->older = ctx->priv->mapping;
    ctx->priv->mapping = m;
    return at;
}

void ctx_rest(const Ctx *ctx, const void *from, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)from;
    for (const struct Mapping *m = ctx->priv->mapping; m; m = m->older) {
        uintptr_t at = (uintptr_t)m->at;
        if (start < at || start >= at + m->bytes) continue;
        start = (start + page - 1) / page * page;
        uintptr_t end = ((uintptr_t)from + bytes) / page * page;
        if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
        return;
    }
}
