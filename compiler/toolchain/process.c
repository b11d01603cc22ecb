/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program on a text and takes its answer, through memory files: the program may read and
 * write in any order, nothing blocks, no file lands on disk. It is waited for by its own pid. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char *message(const char *fmt, ...) {
    static const char no_memory[] = "no memory for a message";
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return n < 0 ? strdup(no_memory) : text;
}

double tool_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int memory_file(const void *at, size_t n) {
    int fd = memfd_create("weir", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < n;) {
        ssize_t put = pwrite(fd, (const char *)at + done, n - done, (off_t)done);
        if (put > 0) {
            done += (size_t)put;
        } else if (errno != EINTR) {
            close(fd);
            return -1;
        }
    }
    return fd;
}

static char *read_all(int fd, Span *out) {
    struct stat st;
    if (fstat(fd, &st) != 0) return message("cannot read the answer: %s", strerror(errno));
    out->at = malloc((size_t)st.st_size + 1);
    if (!out->at) return message("no memory for %lld bytes", (long long)st.st_size);
    out->n = 0;
    while (out->n < (size_t)st.st_size) {
        ssize_t got =
            pread(fd, (char *)out->at + out->n, (size_t)st.st_size - out->n, (off_t)out->n);
        if (got <= 0 && errno != EINTR) break;
        if (got > 0) out->n += (size_t)got;
    }
    ((char *)out->at)[out->n] = 0;
    return NULL;
}

char *tool_path(const char *env, const char *configured, const char *name) {
    const char *set = getenv(env);
    if (set && strchr(set, '/')) return strdup(set);
    if (set && *set)
        name = set;
    else if (configured && access(configured, X_OK) == 0)
        return strdup(configured);
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; at;) {
        size_t n = strcspn(at, ":");
        char *full = message("%.*s/%s", (int)n, at, name);
        if (full && n && access(full, X_OK) == 0) return full;
        free(full);
        at = at[n] ? at + n + 1 : NULL;
    }
    return NULL;
}

/* The host may ignore or block signals; the program starts with all of them as usual. */
static int spawn(const ToolRun *run, const int fd[3], pid_t *pid) {
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);
    int error = 0;
    for (int i = 0; i < 3 && !error; i++)
        error = posix_spawn_file_actions_adddup2(&files, fd[i], i);
    for (int i = 0; i < run->nkeep && !error; i++)
        error = posix_spawn_file_actions_adddup2(&files, run->keep[i], run->keep[i]);
    if (!error)
        error = posix_spawn(pid, run->path, &files, &attr, (char *const *)(uintptr_t)run->argv,
                            environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* What the program said, without the trailing line end, cut to a readable length. */
static char *complain(const ToolRun *run, int status, int errors) {
    Span said = {0};
    free(read_all(errors, &said));
    while (said.n && ((char *)said.at)[said.n - 1] == '\n') said.n--;
    if (said.n > 4000) said.n = 4000;
    char *text = WIFSIGNALED(status)
                     ? message("\"%s\" was ended by signal %d%s%.*s", run->path, WTERMSIG(status),
                               said.n ? ": " : "", (int)said.n, (char *)said.at)
                     : message("\"%s\" failed with status %d: %.*s", run->path, WEXITSTATUS(status),
                               (int)said.n, said.at ? (char *)said.at : "");
    free(said.at);
    return text;
}

static char *run_with(ToolRun *run, const int fd[3]) {
    pid_t pid;
    int error = spawn(run, fd, &pid);
    if (error)
        return message("cannot run \"%s\": %s; \"weir doctor\" says what is needed", run->path,
                       strerror(error));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return message(
                "cannot wait for \"%s\": %s; does this process ignore SIGCHLD or wait for all "
                "children?",
                run->path, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return complain(run, status, fd[2]);
    return read_all(fd[1], &run->out);
}

/* Descriptors above 2, so that a host without standard files does not get ours mixed up with them.
 */
static int above_standard(int fd) {
    if (fd < 0 || fd > 2) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

char *tool_run(ToolRun *run) {
    run->out = (Span){0};
    int fd[3];
    fd[0] = above_standard(memory_file(run->in.at, run->in.n));
    fd[1] = above_standard(memory_file(NULL, 0));
    fd[2] = above_standard(memory_file(NULL, 0));
    char *error = fd[0] < 0 || fd[1] < 0 || fd[2] < 0
                      ? message("cannot make a memory file: %s", strerror(errno))
                      : run_with(run, fd);
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0) close(fd[i]);
    return error;
}
