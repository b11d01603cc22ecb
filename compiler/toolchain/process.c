/* SPDX-License-Identifier: Apache-2.0 */
/* Running a tool: its input, output and messages are memory files, so nothing blocks and nothing is left
 * behind. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/toolchain/toolchain.h"

extern char **environ;

static int memory_file(const char *name, const void *data, size_t n) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < n;) {
        ssize_t w = write(fd, (const char *)data + done, n - done);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)w;
    }
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

static void *whole_file(int fd, size_t *n) {
    struct stat st;
    *n = fstat(fd, &st) ? 0 : (size_t)st.st_size;
    char *data = malloc(*n + 1);
    size_t done = 0;
    while (data && done < *n) {
        ssize_t r = pread(fd, data + done, *n - done, (off_t)done);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) break;
        done += (size_t)r;
    }
    if (data) data[done] = '\0';
    *n = done;
    return data;
}

/* In a host that ignores SIGCHLD the status is lost: success is then judged by what was written. */
static int wait_for(pid_t pid) {
    int status;
    pid_t got;
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
    if (got < 0) return errno == ECHILD ? 0 : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int process_run(char *const *argv, const void *input, size_t n, Object *out, char **error) {
    int fd[3] = {memory_file("in", input, n), memory_file("out", NULL, 0), memory_file("err", NULL, 0)};
    int rc = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++) posix_spawn_file_actions_adddup2(&actions, fd[i], i);
    *out = (Object){NULL, 0};
    *error = NULL;
    if (fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0 && posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0)
        rc = wait_for(pid);
    size_t messages;
    out->at = whole_file(fd[1], &out->n);
    *error = whole_file(fd[2], &messages);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0) close(fd[i]);
    return rc;
}
