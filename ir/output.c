/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear whole or not at all. Where the file system can, the file has no name until it
 * is finished, so that nothing is left even of a process that is killed; elsewhere it has one that
 * starts with a dot. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void output_drop(void *user) {
    Output *o = user;
    if (o->fd >= 0) close(o->fd);
    if (o->temporary) unlink(o->temporary);
}

static _Noreturn void cannot_write(Ctx *ctx, const char *path, int error) {
    fail(ctx, E_FILE, "cannot write \"%s\": %s", path, strerror(error));
}

static int folder_bytes(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

static int open_unnamed(Arena *arena, const char *path) {
    int n = folder_bytes(path);
    return open(n ? arena_printf(arena, "%.*s", n, path) : ".", O_TMPFILE | O_RDWR | O_CLOEXEC,
                0777);
}

static int create_named(const Output *o, const char *name) {
    (void)o;
    return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0777);
}

static int name_unnamed(const Output *o, const char *name) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", o->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* Calls fn with one name after another until none is taken; what it returned last. */
static int try_names(Arena *arena, Output *o, int (*fn)(const Output *o, const char *name)) {
    int n = folder_bytes(o->path), result = -1;
    for (int i = 0; result < 0 && i < 100; i++) {
        char *name =
            arena_printf(arena, "%.*s.%s.%ld-%d", n, o->path, o->path + n, (long)getpid(), i);
        result = fn(o, name);
        if (result >= 0)
            o->temporary = name;
        else if (errno != EEXIST)
            break;
    }
    return result;
}

static bool is_special(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

Output *output_open(Arena *arena, const char *path) {
    Ctx *ctx = arena_ctx(arena);
    if (is_special(path))
        fail(ctx, E_FILE,
             "cannot write \"%s\": it is there and is no regular file; give another name", path);
    Output *o = NEW(arena, Output);
    *o = (Output){.fd = -1, .path = arena_printf(arena, "%s", path)};
    arena_defer(arena, output_drop, o);
    o->fd = open_unnamed(arena, path);
    if (o->fd < 0) {
        o->fd = try_names(arena, o, create_named);
        if (o->fd < 0) cannot_write(ctx, path, errno);
    }
    return o;
}

void output_write(Ctx *ctx, Output *o, const void *at, size_t n, int64_t offset) {
    const char *from = at;
    while (n > 0) {
        ssize_t done = pwrite(o->fd, from, n, offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) cannot_write(ctx, o->path, done < 0 ? errno : ENOSPC);
        from += done;
        offset += done;
        n -= (size_t)done;
    }
}

void output_finish(Ctx *ctx, Output *o) {
    if (!o->temporary && try_names(ctx_arena(ctx), o, name_unnamed) < 0)
        cannot_write(ctx, o->path, errno);
    int fd = o->fd;
    o->fd = -1;
    if (close(fd) != 0 || rename(o->temporary, o->path) != 0) cannot_write(ctx, o->path, errno);
    o->temporary = NULL;
}

void output_text(Arena *arena, const char *folder, const char *name, const char *text) {
    output_file(arena, arena_printf(arena, "%s/%s", folder, name), text, strlen(text));
}

bool write_bytes(int fd, const void *at, size_t n) {
    const char *from = at;
    while (n > 0) {
        ssize_t done = write(fd, from, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        from += done;
        n -= (size_t)done;
    }
    return true;
}

static void write_special(Ctx *ctx, const char *path, const void *at, size_t n) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write_bytes(fd, at, n);
    int error = errno;
    if (fd >= 0) close(fd);
    if (!done) cannot_write(ctx, path, error);
}

void output_file(Arena *arena, const char *path, const void *at, size_t n) {
    Ctx *ctx = arena_ctx(arena);
    if (is_special(path)) {
        write_special(ctx, path, at, n);
        return;
    }
    Output *o = output_open(arena, path);
    struct stat st; /* no program: what the umask leaves of 0666 */
    if (fstat(o->fd, &st) != 0 || fchmod(o->fd, st.st_mode & 0666) != 0)
        cannot_write(ctx, o->path, errno);
    output_write(ctx, o, at, n, 0);
    output_finish(ctx, o);
}
