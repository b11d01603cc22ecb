/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program on a text and takes its answer, through memory files: the program may read and
 * write in any order, nothing blocks, no file lands on disk. What children the host has, waits for
 * or ignores is left alone. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* ---- the program and its supervisor ---------------------------------------------------------- */

/* A host may ignore SIGCHLD or wait for all of its children: then the status of an ordinary child
 * is lost. So the program is the child of a process of ours between, which ends without a signal,
 * is waited for by nobody else (__WALL), and says in shared memory how the program ended. */
typedef struct Start {
    const ToolRun *run;
    const int *fd; /* to become 0, 1, 2 */
    char *stack;   /* of STACK bytes for each of both */
    volatile pid_t program;
    volatile int status; /* as of waitpid */
    volatile int error;  /* why there is no program; 0: it was waited for */
} Start;
enum { STACK = 64 << 10 };

#define NO_CHECKS __attribute__((no_sanitize("address", "thread", "undefined")))

/* The supervisor's child: it has the process's memory until it becomes the program. */
NO_CHECKS static int become(void *user) {
    extern char **environ;
    Start *start = user;
    const ToolRun *run = start->run;
    bool fine = true;
    for (int i = 0; i < 3 && fine; i++) fine = dup2(start->fd[i], i) >= 0;
    for (int i = 0; i < run->nkeep && fine; i++) fine = fcntl(run->keep[i], F_SETFD, 0) >= 0;
    if (fine) execve(run->path, (char *const *)(uintptr_t)run->argv, environ);
    start->error = errno;
    _exit(127);
}

/* Shares memory with the host's thread, thread-local too: only plain system calls. The host's
 * handlers must not run here, and the program starts with all signals as usual. */
NO_CHECKS static int supervise(void *user) {
    Start *start = user;
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    int status = 0;
    for (int i = 1; i < NSIG; i++) sigaction(i, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    start->error = ECHILD;
    int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    pid_t pid = clone(become, start->stack + 2 * STACK, flags, start);
    start->program = pid;
    if (pid > 0 && syscall(SYS_wait4, pid, &status, 0, NULL) == pid && start->error == ECHILD)
        start->error = 0;
    start->status = status;
    _exit(0);
}

/* Until the supervisor ends; ends the program when the compilation is to end. */
static void watch(const Start *start, pid_t supervisor) {
    enum { WAIT_MS = 50 };
    Stop *stop = start->run->stop;
    size_t has = 0;
    int fd = stop ? (int)syscall(SYS_pidfd_open, supervisor, 0) : -1;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    while (fd >= 0 && poll(&ended, 1, WAIT_MS) <= 0) {
        has = stop_look(stop, start->program, has);
        if (stop_now(stop) && start->program > 0) kill(start->program, SIGKILL);
    }
    stop_look(stop, 0, has);
    if (fd >= 0) close(fd);
    while (waitpid(supervisor, NULL, __WALL) < 0 && errno == EINTR) continue;
}

/* Runs the program to its end: 0 with its status, or why it did not run. */
static int run_program(const ToolRun *run, const int fd[3], int *status) {
    char *stack = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return errno;
    Start start = {.run = run, .fd = fd, .stack = stack};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t supervisor = clone(supervise, stack + STACK, CLONE_VM, &start);
    int error = supervisor < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) {
        watch(&start, supervisor);
        error = start.error;
    }
    munmap(stack, 2 * STACK);
    *status = start.status;
    return error;
}

/* ---- what came of it ------------------------------------------------------------------------- */

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
    int status = 0, error = run_program(run, fd, &status);
    if (error)
        return message("cannot run \"%s\": %s; \"weir doctor\" says what is needed", run->path,
                       strerror(error));
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
