/* SPDX-License-Identifier: Apache-2.0 */
/* weir test: folders in the ONNX backend test form (model.onnx, test_data_set_N/{input,output}_K.pb).
 *
 * Each case runs in a child forked from this initialised process; it writes one line "STATUS reason"
 * into a pipe. A child that dies is one failed case. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/weir/engine.h"
#include "tools/weir/verbs.h"

enum { JOBS_MAX = 64, REASON = 1024 };

typedef enum { CASE_PASS, CASE_FAIL, CASE_UNSUPPORTED, CASE_CRASH, CASE_TIMEOUT, CASE_STATES } CaseState;
static const char *const state_names[] = {"PASS", "FAIL", "UNSUPPORTED", "CRASH", "TIMEOUT"};

typedef struct Case {
    char *path, *name;
    CaseState state;
    char *reason;
    double ms;
} Case;

typedef struct Suite {
    Case *at;
    int n, cap;
    EngineKind engine[2];
    int engines, jobs, timeout;
    double rtol, atol;
    bool verbose;
    const char *json;
    int count[CASE_STATES];
} Suite;

/* ---- finding cases ------------------------------------------------------------------------------------------- */

static char *join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

static bool exists(const char *dir, const char *name) {
    struct stat st;
    char *path = join(dir, name);
    bool there = stat(path, &st) == 0;
    free(path);
    return there;
}

static void add_case(Suite *s, const char *dir) {
    if (s->n == s->cap) s->at = realloc(s->at, (size_t)(s->cap = s->cap ? 2 * s->cap : 256) * sizeof *s->at);
    const char *base = strrchr(dir, '/');
    s->at[s->n++] = (Case){.path = strdup(dir), .name = strdup(base ? base + 1 : dir)};
}

static int visible(const struct dirent *d) { return d->d_name[0] != '.'; }

static void find_cases(Suite *s, const char *dir, int depth) {
    if (exists(dir, "model.onnx")) {
        add_case(s, dir);
        return;
    }
    struct dirent **names;
    int n = depth > 8 ? -1 : scandir(dir, &names, visible, alphasort);
    for (int i = 0; i < n; i++) {
        char *path = join(dir, names[i]->d_name);
        struct stat st;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) find_cases(s, path, depth + 1);
        free(path);
        free(names[i]);
    }
    if (n >= 0) free(names);
}

/* ---- one case, in the child ----------------------------------------------------------------------------------- */

typedef struct Child {
    const Suite *suite;
    int pipe;
    bool unsupported;
    char first[REASON]; /* first error diagnostic */
} Child;

_Noreturn static void finish(const Child *c, CaseState state, const char *reason) {
    dprintf(c->pipe, "%d %s", (int)state, reason);
    _exit(0);
}

static void note_diagnostic(void *user, const weir_diagnostic *d) {
    Child *c = user;
    if (d->severity || c->first[0]) return;
    snprintf(c->first, sizeof c->first, "%s", d->text);
    c->unsupported = d->id && !strcmp(d->id, "W012");
}

static int load_set(Child *c, const char *dir, const char *kind, HostTensor *t, int n) {
    char path[4096], error[256];
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s_%d.pb", dir, kind, i);
        if (access(path, R_OK)) return i;
        if (!pb_read(&t[i], path, error)) finish(c, CASE_UNSUPPORTED, error);
    }
    return n;
}

/* Tensors of a set stand in the order of the model's ports; those that carry a name go to its port. */
static void match_inputs(const Engine *e, HostTensor *t, int n) {
    HostTensor *sorted = calloc((size_t)e->ninputs + 1, sizeof *sorted);
    bool named = true;
    for (int i = 0; i < n; i++) {
        int at = -1;
        for (int k = 0; t[i].name && k < e->ninputs; k++)
            if (!strcmp(e->inputs[k].name, t[i].name) && !sorted[k].t.data) at = k;
        if (at < 0) named = false;
        if (at >= 0) sorted[at] = t[i];
    }
    if (named) memcpy(t, sorted, (size_t)e->ninputs * sizeof *t);
    free(sorted);
}

static void run_set(Child *c, Engine *e, const char *dir) {
    char error[REASON];
    HostTensor *in = calloc((size_t)e->ninputs + 1, sizeof *in), *out = calloc((size_t)e->noutputs + 1, sizeof *out);
    HostTensor *want = calloc((size_t)e->noutputs + 1, sizeof *want);
    int n = load_set(c, dir, "input", in, e->ninputs);
    if (n < e->ninputs) {
        snprintf(error, sizeof error, "the set has %d inputs, the model %d", n, e->ninputs);
        finish(c, CASE_FAIL, error);
    }
    match_inputs(e, in, n);
    int nwant = load_set(c, dir, "output", want, e->noutputs);
    char why[512];
    if (!engine_run(e, in, out, why)) {
        snprintf(error, sizeof error, "run: %.900s", why[0] ? why : c->first);
        finish(c, CASE_FAIL, error);
    }
    for (int i = 0; i < nwant; i++) {
        Difference d = host_compare(&out[i].t, &want[i].t, c->suite->rtol, c->suite->atol);
        if (d.same) continue;
        snprintf(error, sizeof error, "output %d \"%s\": %s", i, e->outputs[i].name, d.text);
        finish(c, CASE_FAIL, error);
    }
    tensors_free(in, n);
    tensors_free(out, e->noutputs);
    tensors_free(want, nwant);
}

_Noreturn static void run_case(Suite *s, const Case *one, int pipe) {
    Child c = {.suite = s, .pipe = pipe};
    char path[4096];
    for (int k = 0; k < s->engines; k++) {
        weir_context *context = weir_context_new(note_diagnostic, &c);
        Engine e;
        snprintf(path, sizeof path, "%s/model.onnx", one->path);
        if (!engine_open(&e, s->engine[k], context, path, 1)) finish(&c, c.unsupported ? CASE_UNSUPPORTED : CASE_FAIL, c.first);
        for (int set = 0; set < 1000; set++) {
            snprintf(path, sizeof path, "%s/test_data_set_%d", one->path, set);
            if (access(path, R_OK)) break;
            run_set(&c, &e, path);
        }
        engine_close(&e);
        weir_context_free(context);
    }
    finish(&c, CASE_PASS, "");
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

typedef struct Job {
    int index; /* of the case; -1: free */
    pid_t pid;
    int pipe;
    double start;
    char text[REASON + 8];
    size_t n;
} Job;

static void start_job(Suite *s, Job *job, int index) {
    int fd[2];
    if (pipe(fd)) {
        perror("weir test: pipe");
        exit(EXIT_OURS);
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        run_case(s, &s->at[index], fd[1]);
    }
    close(fd[1]);
    *job = (Job){.index = index, .pid = pid, .pipe = fd[0], .start = now_ms()};
}

static void end_job(Suite *s, Job *job, bool timeout) {
    Case *c = &s->at[job->index];
    int status = 0;
    if (timeout) kill(job->pid, SIGKILL);
    waitpid(job->pid, &status, 0);
    close(job->pipe);
    job->text[job->n] = '\0';
    c->ms = now_ms() - job->start;
    char reason[REASON];
    if (timeout) {
        c->state = CASE_TIMEOUT;
        snprintf(reason, sizeof reason, "no result after %d s", s->timeout);
    } else if (!job->n) {
        c->state = CASE_CRASH;
        if (WIFSIGNALED(status)) snprintf(reason, sizeof reason, "%s", strsignal(WTERMSIG(status)));
        else snprintf(reason, sizeof reason, "exit code %d", WEXITSTATUS(status));
    } else {
        c->state = (CaseState)(job->text[0] - '0');
        snprintf(reason, sizeof reason, "%s", job->n > 2 ? job->text + 2 : "");
    }
    c->reason = strdup(reason);
    s->count[c->state]++;
    for (char *p = c->reason; *p; p++)
        if (*p == '\n') *p = ' ';
    if (c->state != CASE_PASS) printf("%s %s: %s\n", state_names[c->state], c->name, c->reason);
    else if (s->verbose) printf("PASS %s (%.0f ms)\n", c->name, c->ms);
    fflush(stdout);
    job->index = -1;
}

/* Reads what children wrote; a closed pipe or a passed deadline ends a job. */
static void wait_jobs(Suite *s, Job *job) {
    struct pollfd fds[JOBS_MAX];
    int at[JOBS_MAX], n = 0;
    for (int i = 0; i < s->jobs; i++)
        if (job[i].index >= 0) fds[n] = (struct pollfd){job[i].pipe, POLLIN, 0}, at[n++] = i;
    if (poll(fds, (nfds_t)n, 200) < 0 && errno != EINTR) return;
    for (int i = 0; i < n; i++) {
        Job *j = &job[at[i]];
        if (fds[i].revents) {
            ssize_t got = read(j->pipe, j->text + j->n, sizeof j->text - 1 - j->n);
            if (got > 0) j->n += (size_t)got;
            else end_job(s, j, false);
        } else if (now_ms() - j->start > s->timeout * 1e3) {
            end_job(s, j, true);
        }
    }
}

static void run_suite(Suite *s) {
    Job job[JOBS_MAX];
    int next = 0, running = 1;
    for (int i = 0; i < JOBS_MAX; i++) job[i].index = -1;
    while (next < s->n || running) {
        running = 0;
        for (int i = 0; i < s->jobs; i++) {
            if (job[i].index < 0 && next < s->n) start_job(s, &job[i], next++);
            running += job[i].index >= 0;
        }
        if (running) wait_jobs(s, job);
    }
}

static void put_escaped(FILE *f, const char *s) {
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', f);
        if ((unsigned char)*s >= 32) fputc(*s, f);
    }
}

static void write_json(const Suite *s) {
    FILE *f = fopen(s->json, "w");
    if (!f) {
        fprintf(stderr, "error: cannot write \"%s\": %s\n", s->json, strerror(errno));
        return;
    }
    fprintf(f, "[\n");
    for (int i = 0; i < s->n; i++) {
        fprintf(f, "  {\"name\": \"%s\", \"state\": \"%s\", \"ms\": %.1f, \"reason\": \"", s->at[i].name,
                state_names[s->at[i].state], s->at[i].ms);
        put_escaped(f, s->at[i].reason);
        fprintf(f, "\"}%s\n", i + 1 < s->n ? "," : "");
    }
    fprintf(f, "]\n");
    fclose(f);
}

static bool choose_engine(Suite *s, Args *a) {
    const char *v = args_value(a);
    if (!v) return false;
    s->engines = 1;
    if (!strcmp(v, "compiled")) return s->engine[0] = ENGINE_COMPILED, true;
    if (!strcmp(v, "eval")) return s->engine[0] = ENGINE_EVAL, true;
    if (strcmp(v, "both")) return usage_error(a, "\"--engine %s\" is none of compiled, eval, both", v), false;
    s->engine[0] = ENGINE_COMPILED, s->engine[1] = ENGINE_EVAL;
    return s->engines = 2, true;
}

int verb_test(Args *a) {
    Suite s = {.engines = 1, .jobs = 2, .timeout = 60, .rtol = 1e-3, .atol = 1e-7};
    long jobs = 2, timeout = 60;
    bool ok = true;
    while (ok && args_next(a)) {
        if (!a->name[0]) find_cases(&s, args_operand(a), 0);
        else if (args_is(a, "engine")) ok = choose_engine(&s, a);
        else if (args_is(a, "j")) ok = args_int(a, 1, JOBS_MAX, &jobs);
        else if (args_is(a, "timeout")) ok = args_int(a, 1, 86400, &timeout);
        else if (args_is(a, "rtol")) ok = args_double(a, &s.rtol);
        else if (args_is(a, "atol")) ok = args_double(a, &s.atol);
        else if (args_is(a, "json")) ok = (s.json = args_value(a)) != NULL;
        else if (args_is(a, "verbose")) s.verbose = true;
        else ok = !usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (ok && !s.n) ok = !usage_error(a, "needs folders that hold cases (model.onnx beside test_data_set_0)");
    if (!ok) return EXIT_USAGE;
    s.jobs = (int)jobs, s.timeout = (int)timeout;
    run_suite(&s);
    if (s.json) write_json(&s);
    int failed = s.n - s.count[CASE_PASS];
    printf("%d passed, %d failed, 0 skipped\n", s.count[CASE_PASS], failed);
    for (int i = 0; i < s.n; i++) free(s.at[i].path), free(s.at[i].name), free(s.at[i].reason);
    free(s.at);
    return failed ? EXIT_MODEL : EXIT_DONE;
}
