/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is wanted for this process only: compiled into a folder of its own, which goes
 * when it has been opened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/weir/engine.h"
#include "tools/weir/guard.h"

static int in_child(weir_context *c, const char *model, const char *library) {
    int status = 0;
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        guard_child(parent);
        _exit(weir_compile_file(c, model, library));
    }
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid;
    if (ended && WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "error: compiling ended early: %s\n",
            ended ? strsignal(WTERMSIG(status)) : strerror(errno));
    return EXIT_OURS;
}

int aside_compile(Aside *a, weir_context *c, const char *model, bool child) {
    a->library[0] = '\0';
    if (!guard_folder(a->folder, sizeof a->folder)) {
        fprintf(stderr,
                "error: cannot make folder \"%s\": %s; set TMPDIR to one for short-lived files\n",
                a->folder, strerror(errno));
        a->folder[0] = '\0';
        return EXIT_MODEL;
    }
    snprintf(a->library, sizeof a->library, "%s/%s", a->folder, a->name ? a->name : "model.so");
    return child ? in_child(c, model, a->library) : weir_compile_file(c, model, a->library);
}

void aside_remove(Aside *a) {
    char weights[sizeof a->library + 16];
    if (!a->folder[0]) return;
    snprintf(weights, sizeof weights, "%s.weights", a->library);
    unlink(a->library);
    unlink(weights);
    rmdir(a->folder);
    a->folder[0] = '\0';
}
