/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped files: the model, and external data inside the model's folder.
 *
 * A location is a relative path without "..", and what it leads to, symbolic links followed, must
 * be a regular file below the folder: a model from elsewhere must not read other files of this
 * machine. */
#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void unmap(void *object) {
    Span *s = object;
    munmap((void *)s->at, s->n);
}

Span import_map(Arena *arena, const char *path, Code code) {
    Ctx *ctx = arena_ctx(arena);
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) fail(ctx, code, "cannot open \"%s\": %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        fail(ctx, code, "\"%s\" is not a regular file: give the path of a file", path);
    }
    Span *s = NEW(arena, Span);
    if (st.st_size == 0) {
        close(fd);
        return *s;
    }
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (at == MAP_FAILED) fail(ctx, code, "cannot map \"%s\": %s", path, strerror(error));
    *s = (Span){at, (size_t)st.st_size};
    arena_defer(arena, unmap, s);
    return *s;
}

/* ---- external data -------------------------------------------------------------------------- */

static bool stays_inside(const char *location) {
    if (!location[0] || location[0] == '/') return false;
    for (const char *at = location; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') return false;
        at += n + strspn(at + n, "/");
    }
    return true;
}

static const char *resolve(Import *im, const char *location) {
    Ctx *ctx = im->ctx;
    char folder[PATH_MAX], file[PATH_MAX];
    if (!im->folder)
        fail(ctx, E_EXTERNAL,
             "external data \"%s\" is used, but the model comes from memory: give a folder",
             location);
    bool anywhere = im->options && im->options->data_anywhere;
    if (!anywhere && !stays_inside(location))
        fail(ctx, E_EXTERNAL,
             "external data \"%s\" lies outside the model's folder: only relative paths without "
             "\"..\" are followed, unless option \"external-data\" says \"anywhere\"",
             location);
    if (!realpath(im->folder, folder))
        fail(ctx, E_EXTERNAL, "folder \"%s\" of the model cannot be read: %s", im->folder,
             strerror(errno));
    bool whole = anywhere && location[0] == '/';
    const char *path = whole ? location : arena_printf(im->arena, "%s/%s", folder, location);
    if (!realpath(path, file))
        fail(ctx, E_EXTERNAL,
             "external data file \"%s\" cannot be read: %s: put it beside the model", path,
             strerror(errno));
    size_t n = strcmp(folder, "/") ? strlen(folder) : 0;
    if (!anywhere && (strncmp(file, folder, n) || file[n] != '/'))
        fail(ctx, E_EXTERNAL,
             "external data \"%s\" leads outside the model's folder through a link: copy "
             "the file there, or give option \"external-data\" the value \"anywhere\"",
             location);
    return intern(ctx, file);
}

static int64_t entry_number(Import *im, const OnnxEntry *e) {
    const char *text = text_or(e->value, "");
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 0)
        fail(im->ctx, E_EXTERNAL, "external data has \"%s\" = \"%s\": it must be a number of bytes",
             e->key, text);
    return v;
}

const void *import_external(Import *im, const OnnxTensor *t, int64_t need) {
    const char *location = NULL;
    int64_t offset = 0, length = -1;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const OnnxEntry *e = t->external_data[i];
        const char *key = text_or(e->key, "");
        if (!strcmp(key, "location")) location = e->value;
        if (!strcmp(key, "offset")) offset = entry_number(im, e);
        if (!strcmp(key, "length")) length = entry_number(im, e);
    }
    if (!location)
        fail(im->ctx, E_EXTERNAL, "external data has no location: export the model again");
    const char *path = resolve(im, location);
    Span *file = table_get(im->files, path);
    if (!file) {
        file = NEW(im->arena, Span);
        *file = import_map(im->arena, path, E_EXTERNAL);
        table_put(im->files, path, file);
    }
    if (length >= 0 && length != need)
        fail(im->ctx, E_EXTERNAL,
             "external data is %lld bytes long, the tensor's shape and type need %lld",
             (long long)length, (long long)need);
    if ((uint64_t)offset > file->n || (uint64_t)need > file->n - (uint64_t)offset)
        fail(im->ctx, E_EXTERNAL,
             "external data file \"%s\" has %zu bytes, the tensor needs %lld from %lld on: the "
             "file is cut "
             "off or belongs to another model",
             path, file->n, (long long)need, (long long)offset);
    return file->at ? file->at + offset : (const void *)"";
}
