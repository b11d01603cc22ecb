/* SPDX-License-Identifier: Apache-2.0 */
/* Where the weights go: a last read-only segment of the library, a side file, or memory.
 *
 * The segment takes the program header of a note section that the driver puts into each library for this
 * purpose: the note's PT_NOTE entry, which stands behind all PT_LOADs, becomes one whose address lies
 * behind everything mapped. */
#include "compiler/weights.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/weir_rt.h"

enum { ALIGN = 64, PAGE = 65536 };

static void mark_read(const Flow *flow, const Items *items, bool *used) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = flow->map.at[it->map];
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ) used[m->body.val.at[v].read.cont] = true;
        }
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++)
            if (it->call->in[k] >= 0) used[it->call->in[k]] = true;
        for (int k = 0; k < it->carry.n; k++) used[it->carry.at[k].init] = used[it->carry.at[k].next] = true;
        if ((it->kind == ITEM_LOOP || it->kind == ITEM_IF) && it->cond >= 0) used[it->cond] = true;
        mark_read(flow, &it->body, used);
        mark_read(flow, &it->other, used);
    }
}

Weights weights_plan(Arena *arena, const Flow *flow) {
    Weights w = {.n = flow->cont.n, .offset = NEW_ARRAY(arena, int64_t, flow->cont.n + 1)};
    bool *used = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    mark_read(flow, &flow->body, used);
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *c = &flow->cont.at[i];
        w.offset[i] = -1;
        bool weight = (c->kind == CONT_PARAM || c->kind == CONT_LITERAL) && c->type != STRING;
        if (!weight || !used[i]) continue;
        if (!c->data)
            fail(flow->ctx, E_MODEL, "parameter \"%s\" has no data; give the weights with the model", c->name);
        w.offset[i] = w.bytes;
        w.bytes += (weights_bytes(flow, i) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return w;
}

void weights_to_memory(const Flow *flow, const Weights *w, void *to) {
    for (int i = 0; i < w->n; i++)
        if (w->offset[i] >= 0) weights_pack(flow->ctx, flow, i, (char *)to + w->offset[i]);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

static void close_file(void *fd) { close((int)(intptr_t)fd); }

static void write_at(Ctx *ctx, int fd, const void *data, size_t n, int64_t at, const char *path) {
    for (size_t done = 0; done < n;) {
        ssize_t w = pwrite(fd, (const char *)data + done, n - done, at + (int64_t)done);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) fail(ctx, E_FILE, "cannot write \"%s\": %s", path, w ? strerror(errno) : "disk full");
        done += (size_t)w;
    }
}

/* One tensor at a time: the buffer is as large as the largest that needs packing. */
static void write_tensors(Ctx *ctx, const Flow *flow, const Weights *w, int fd, int64_t base, const char *path) {
    for (int i = 0; i < w->n; i++) {
        if (w->offset[i] < 0) continue;
        int64_t bytes = weights_bytes(flow, i);
        if (!flow->cont.at[i].layout) {
            write_at(ctx, fd, flow->cont.at[i].data, (size_t)bytes, base + w->offset[i], path);
            continue;
        }
        Arena *arena = arena_new(ctx);
        void *packed = arena_alloc(arena, (size_t)bytes);
        weights_pack(ctx, flow, i, packed);
        write_at(ctx, fd, packed, (size_t)bytes, base + w->offset[i], path);
        arena_free(arena);
    }
}

static int open_file(Arena *arena, const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0777);
    if (fd < 0) fail(arena_ctx(arena), E_FILE, "cannot write \"%s\": %s", path, strerror(errno));
    arena_defer(arena, close_file, (void *)(intptr_t)fd);
    return fd;
}

/* ---- the library's segment -------------------------------------------------------------------------------------- */

typedef struct Elf {
    char *map;
    size_t n;
} Elf;

static void unmap(void *elf) { munmap(((Elf *)elf)->map, ((Elf *)elf)->n); }

static struct weir_blob *find_blob(const Elf *elf, int64_t *offset) {
    for (size_t i = 0; i + sizeof(struct weir_blob) <= elf->n; i += 8) {
        struct weir_blob *b = (struct weir_blob *)(elf->map + i);
        if (b->magic0 == WEIR_BLOB_MAGIC0 && b->magic1 == WEIR_BLOB_MAGIC1) return *offset = (int64_t)i, b;
    }
    return NULL;
}

static void patch(Ctx *ctx, const Elf *elf, int64_t file_offset, int64_t bytes) {
    Elf64_Ehdr *head = (Elf64_Ehdr *)elf->map;
    Elf64_Phdr *ph = (Elf64_Phdr *)(elf->map + head->e_phoff), *note = NULL;
    int64_t blob_at = 0, blob_address = -1, top = 0;
    struct weir_blob *blob = find_blob(elf, &blob_at);
    for (int i = 0; i < head->e_phnum; i++) {
        if (ph[i].p_type == PT_NOTE) note = &ph[i];
        if (ph[i].p_type != PT_LOAD) continue;
        int64_t end = (int64_t)(ph[i].p_vaddr + ph[i].p_memsz), first = (int64_t)ph[i].p_offset;
        if (end > top) top = end;
        if (blob && blob_at >= first && blob_at < first + (int64_t)ph[i].p_filesz)
            blob_address = blob_at - first + (int64_t)ph[i].p_vaddr;
    }
    if (!blob || blob_address < 0 || !note) fail(ctx, E_INTERNAL, "the linked library has no place for weights");
    int64_t address = (top + PAGE - 1) / PAGE * PAGE;
    *note = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = (Elf64_Off)file_offset,
                         .p_vaddr = (Elf64_Addr)address, .p_paddr = (Elf64_Addr)address,
                         .p_filesz = (Elf64_Xword)bytes, .p_memsz = (Elf64_Xword)bytes, .p_align = PAGE};
    blob->delta = address - blob_address;
    blob->bytes = (uint64_t)bytes;
}

void weights_append(Ctx *ctx, const Flow *flow, const Weights *w, const char *path) {
    if (!w->bytes) return;
    Arena *arena = arena_new(ctx);
    int fd = open_file(arena, path, O_RDWR);
    struct stat st;
    if (fstat(fd, &st)) fail(ctx, E_FILE, "cannot read \"%s\": %s", path, strerror(errno));
    Elf elf = {mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), (size_t)st.st_size};
    if (elf.map == MAP_FAILED) fail(ctx, E_FILE, "cannot map \"%s\": %s", path, strerror(errno));
    Elf *mapped = NEW(arena, Elf);
    *mapped = elf;
    arena_defer(arena, unmap, mapped);
    int64_t offset = (st.st_size + PAGE - 1) / PAGE * PAGE;
    patch(ctx, &elf, offset, w->bytes);
    write_tensors(ctx, flow, w, fd, offset, path);
    if (ftruncate(fd, offset + w->bytes)) fail(ctx, E_FILE, "cannot write \"%s\": %s", path, strerror(errno));
    arena_free(arena);
}

void weights_to_file(Ctx *ctx, const Flow *flow, const Weights *w, uint64_t check, const char *path) {
    Arena *arena = arena_new(ctx);
    int fd = open_file(arena, path, O_RDWR | O_CREAT | O_TRUNC);
    write_tensors(ctx, flow, w, fd, 0, path);
    uint64_t trailer[2] = {check, (uint64_t)w->bytes};
    write_at(ctx, fd, trailer, sizeof trailer, w->bytes, path);
    arena_free(arena);
}
