/* SPDX-License-Identifier: Apache-2.0 */
/* A verb runs in a child process, so that a fault of ours is told as one: what was going on, and
 * what to do about it, whatever state the child was left in. The child says what it does in its
 * name. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/weir/guard.h"

enum { NAME = 16 }; /* of a thread, with its end */

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
    pid_t pid = fork();
    if (pid < 0) return run(args);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = run(args);
        fflush(NULL);
        exit(code);
    }
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0) last_step(pid, name);
    if (waitpid(pid, &status, 0) != pid) return EXIT_OURS;
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
