/* SPDX-License-Identifier: Apache-2.0 */
/* A verb runs in a child process, so that a fault of ours is told as one: what was going on, and
 * what to do about it, whatever state the child was left in. The child says what it does in its
 * name. Signals that ask for an end go on to the child, which cancels what it compiles; they are
 * the process's, and so is the state that their handlers share. Folders of short-lived files that
 * the child left are removed when it has ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/weir/guard.h"

enum { NAME = 16 }; /* of a thread, with its end */

/* ---- signals --------------------------------------------------------------------------------- */

static _Atomic(weir_context *) cancelled_on_signal;
static volatile sig_atomic_t asked; /* the signal that asked for an end */
static volatile pid_t worker;       /* of the parent */

static void pass_on(int signal) {
    kill(worker, signal);
}

static void give_up(int signal) {
    (void)signal;
    _exit(128 + asked);
}

static void cancel(int signal) {
    weir_context *c = cancelled_on_signal;
    if (!c) _exit(128 + signal);
    if (asked) return;
    asked = signal;
    weir_cancel(c);
    alarm(1);
}

static void on_end(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void guard_cancels(weir_context *c) {
    struct sigaction late = {.sa_handler = give_up};
    cancelled_on_signal = c;
    if (!c) return;
    sigaction(SIGALRM, &late, NULL);
    on_end(cancel);
}

/* ---- short-lived files ----------------------------------------------------------------------- */

enum { TRIES = 50, PAUSE = 20000 }; /* of what dying children may still write; microseconds */
static pid_t guardian;              /* whose number the folders' names hold */

static const char *short_lived(void) {
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

bool guard_folder(char *path, size_t room) {
    int n = snprintf(path, room, "%s/weir-%d-XXXXXX", short_lived(), (int)guardian);
    if ((size_t)n < room) return mkdtemp(path) != NULL;
    errno = ENAMETOOLONG;
    return false;
}

static void remove_folder(int at, const char *name) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) unlinkat(fd, entry->d_name, 0);
    closedir(folder);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* Does a folder of ours stand there? It is removed, if that is possible. */
static bool remove_left(void) {
    char ours[32];
    bool any = false;
    int n = snprintf(ours, sizeof ours, "weir-%d-", (int)guardian);
    DIR *all = opendir(short_lived());
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (strncmp(entry->d_name, ours, (size_t)n)) continue;
        any = true;
        remove_folder(dirfd(all), entry->d_name);
    }
    if (all) closedir(all);
    return any;
}

void guard_child(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_OURS);
}

/* ---- the child ------------------------------------------------------------------------------- */

void guard_step(const char *text) {
    char name[NAME];
    snprintf(name, sizeof name, "%s", text);
    prctl(PR_SET_NAME, name);
}

/* What the ended child called itself last. */
static void last_step(pid_t pid, char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(name, NAME + 1, f)) name[0] = '\0';
    if (f) fclose(f);
    name[strcspn(name, "\n")] = '\0';
}

int guarded(int (*run)(Args *args), Args *args) {
    siginfo_t info = {0};
    char name[NAME + 1];
    int status;
    fflush(NULL);
    guardian = getpid();
    on_end(SIG_DFL); /* the child may have been told to ignore them */
    pid_t pid = fork();
    if (pid < 0) return run(args);
    if (pid == 0) {
        guard_child(guardian);
        int code = run(args);
        fflush(NULL);
        exit(asked ? 128 + asked : code);
    }
    worker = pid;
    on_end(pass_on);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0) last_step(pid, name);
    if (waitpid(pid, &status, 0) != pid) return EXIT_OURS;
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
    for (int i = 0; !well && i < TRIES && remove_left(); i++) usleep(PAUSE);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    int signal = WTERMSIG(status);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGPIPE) return 128 + signal;
    fprintf(
        stderr,
        "error W099: internal fault: \"weir %s\" ended by signal %d (%s) in step \"%s\": please "
        "report it with the model and this command%s\n",
        args->verb, signal, strsignal(signal), name,
        signal == SIGKILL ? "; or the memory was short" : "");
    return EXIT_OURS;
}
