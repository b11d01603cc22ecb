/* SPDX-License-Identifier: Apache-2.0 */
/* weir test: many cases, each in a child forked from this process after it has initialised what
 * they all need. A child writes its state, distance and reason into a pipe, behind a zero byte;
 * what stands before came from its standard error. A child that dies without is one failed case. A
 * model that Weir says it does not support counts as skipped. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/driver.h"
#include "tools/weir/cases.h"
#include "tools/weir/guard.h"
#include "tools/weir/verbs.h"

enum { JOBS_MAX = 256, TEXT = 8192 };

static const char *const state_names[] = {"PASS", "FAIL", "UNSUPPORTED", "CRASH", "TIMEOUT"};

typedef struct Suite {
    Cases cases;
    CaseOptions options;
    int jobs, timeout;
    bool verbose;
    const char *json;
    int count[CASE_STATES], by_property;
} Suite;

typedef struct Job {
    int index; /* of the case; -1: free */
    pid_t pid;
    int pipe;
    double start;
    char text[TEXT];
    size_t n;
} Job;

/* ---- children ------------------------------------------------------------------------------- */

_Noreturn static void run_child(const Suite *s, pid_t parent, int index, int out) {
    char reason[1000];
    Distance distance;
    setpgid(0, 0);
    guard_child(parent);
    dup2(out, STDERR_FILENO);
    CaseState state = case_run(&s->options, &s->cases.at[index], &distance, reason);
    fflush(NULL);
    dprintf(out, "%c%d %.9g %.9g %s", 0, (int)state, distance.ulp, distance.of_largest, reason);
    _exit(0);
}

static void start_job(Suite *s, Job *job, int index) {
    int fd[2];
    fflush(NULL);
    if (pipe(fd)) {
        perror("weir test: pipe");
        exit(EXIT_OURS);
    }
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        perror("weir test: fork");
        exit(EXIT_OURS);
    }
    if (pid == 0) {
        close(fd[0]);
        run_child(s, parent, index, fd[1]);
    }
    close(fd[1]);
    *job = (Job){.index = index, .pid = pid, .pipe = fd[0], .start = now_ms()};
}

/* The last line of what a dead child said. */
static const char *last_words(Job *job) {
    while (job->n && job->text[job->n - 1] == '\n') job->n--;
    job->text[job->n] = '\0';
    char *line = strrchr(job->text, '\n');
    return line ? line + 1 : job->text;
}

/* What a child found, as run_child writes it. The reason; NULL: it did not get that far. */
static const char *read_result(const char *text, Case *c) {
    int state, end = 0;
    if (sscanf(text, "%d %lf %lf%n", &state, &c->distance.ulp, &c->distance.of_largest, &end) < 3)
        return NULL;
    c->state = (CaseState)state;
    return text + end + (text[end] == ' ');
}

static void judge(const Suite *s, Job *job, bool timeout, int status, Case *c) {
    char reason[2 * TEXT];
    char *result = memchr(job->text, '\0', job->n);
    const char *found = NULL;
    job->text[job->n] = '\0';
    if (!timeout && result && result + 1 < job->text + job->n) found = read_result(result + 1, c);
    if (!found) c->state = CASE_CRASH, c->distance = NO_FLOATS;
    if (timeout) {
        c->state = CASE_TIMEOUT;
        snprintf(reason, sizeof reason, "no result after %d s", s->timeout);
    } else if (found) {
        job->n = (size_t)(result - job->text);
        snprintf(reason, sizeof reason, "%s", *found ? found : last_words(job));
    } else if (WIFSIGNALED(status)) {
        snprintf(reason, sizeof reason, "%s: %s", strsignal(WTERMSIG(status)), last_words(job));
    } else {
        snprintf(reason, sizeof reason, "exit code %d: %s", WEXITSTATUS(status), last_words(job));
    }
    c->reason = host_text(reason);
    for (char *p = c->reason; *p; p++)
        if (*p == '\n') *p = ' ';
}

static void end_job(Suite *s, Job *job, bool timeout) {
    Case *c = &s->cases.at[job->index];
    int status = 0;
    if (timeout && kill(-job->pid, SIGKILL)) kill(job->pid, SIGKILL);
    waitpid(job->pid, &status, 0);
    close(job->pipe);
    c->ms = now_ms() - job->start;
    judge(s, job, timeout, status, c);
    s->count[c->state]++;
    s->by_property += c->state == CASE_PASS && !strcmp(c->reason, case_by_property);
    if (c->state != CASE_PASS)
        printf("%s %s: %s\n", state_names[c->state], c->name, c->reason);
    else if (s->verbose)
        printf("PASS %s (%.0f ms)\n", c->name, c->ms);
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
            char spill[TEXT];
            bool full = j->n >= sizeof j->text / 2; /* keep room for the result */
            ssize_t got = read(j->pipe, full ? spill : j->text + j->n, sizeof j->text / 2 - 1);
            if (got > 0 && full && memchr(spill, '\0', (size_t)got))
                memcpy(j->text + sizeof j->text / 2, spill, (size_t)got),
                    j->n = sizeof j->text / 2 + (size_t)got;
            else if (got > 0 && !full)
                j->n += (size_t)got;
            else if (got <= 0)
                end_job(s, j, false);
        } else if (now_ms() - j->start > s->timeout * 1e3) {
            end_job(s, j, true);
        }
    }
}

static void run_suite(Suite *s) {
    Job *job = host_alloc(JOBS_MAX, sizeof *job);
    int next = 0, running = 1;
    for (int i = 0; i < JOBS_MAX; i++) job[i].index = -1;
    while (next < s->cases.n || running) {
        running = 0;
        for (int i = 0; i < s->jobs; i++) {
            if (job[i].index < 0 && next < s->cases.n) start_job(s, &job[i], next++);
            running += job[i].index >= 0;
        }
        if (running) wait_jobs(s, job);
    }
    free(job);
}

/* ---- the verb ------------------------------------------------------------------------------- */

static void put_results(FILE *f, const Suite *s) {
    fprintf(f, "[\n");
    for (int i = 0; i < s->cases.n; i++) {
        const Case *c = &s->cases.at[i];
        fprintf(f, "  {\"name\": ");
        json_string(f, c->name);
        fprintf(f, ", \"state\": \"%s\", \"ms\": %.1f, ", state_names[c->state], c->ms);
        if (isfinite(c->distance.ulp) && c->distance.ulp >= 0)
            fprintf(f, "\"ulp\": %.9g, \"ulp_of_largest\": %.9g, ", c->distance.ulp,
                    c->distance.of_largest);
        fprintf(f, "\"reason\": ");
        json_string(f, c->reason);
        fprintf(f, "}%s\n", i + 1 < s->cases.n ? "," : "");
    }
    fprintf(f, "]\n");
}

static bool write_results(const Suite *s) {
    char *text = NULL, error[256] = "no memory for the results";
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) put_results(f, s);
    bool ok = f && fclose(f) == 0 && write_whole(s->json, text, n, error);
    if (!ok) fprintf(stderr, "error: %s\n", error);
    free(text);
    return ok;
}

static bool choose_engines(CaseOptions *o, Args *a) {
    Args at = *a;
    const char *v = args_value(a);
    o->engines = 1;
    if (!v || strcmp(v, "both")) return *a = at, engine_kind(a, &o->engine[0]);
    o->engine[0] = ENGINE_COMPILED, o->engine[1] = ENGINE_EVAL;
    return o->engines = 2, true;
}

static bool choose_form(CaseOptions *o, Args *a) {
    const char *v = args_value(a);
    if (!v || form_named(v, &o->form)) return v != NULL;
    return usage_error(a, "\"--form %s\" is none of given, symbolic, constant", v), false;
}

/* A compile option: tried on a context here, kept for the children. */
static bool keep_option(CaseOptions *o, Args *a, weir_context *c) {
    bool bad = false;
    int next = a->next;
    if (!compile_option(a, c, &bad))
        return !usage_error(a, "does not know \"%s\"", args_operand(a));
    if (bad || o->noption == 64) return false;
    o->option[o->noption][0] = host_text(a->name);
    o->option[o->noption++][1] = a->inlined ? a->inlined : a->next > next ? a->value : "1";
    return true;
}

static bool parse(Suite *s, Args *a, weir_context *c) {
    long jobs = sysconf(_SC_NPROCESSORS_ONLN), timeout = 60, threads = 1;
    if (jobs < 1) jobs = 1;
    bool ok = true;
    while (ok && args_next(a)) {
        if (!a->name[0]) {
            int before = s->cases.n;
            cases_find(&s->cases, args_operand(a));
            ok = s->cases.n > before ||
                 !usage_error(a, "finds no case in \"%s\" (model.onnx beside test_data_set_0)",
                              args_operand(a));
        } else if (args_is(a, "engine"))
            ok = choose_engines(&s->options, a);
        else if (args_is(a, "form"))
            ok = choose_form(&s->options, a);
        else if (args_is(a, "j"))
            ok = args_int(a, 1, JOBS_MAX, &jobs);
        else if (args_is(a, "threads"))
            ok = args_int(a, 0, 1024, &threads);
        else if (args_is(a, "timeout"))
            ok = args_int(a, 1, 86400, &timeout);
        else if (args_is(a, "rtol"))
            ok = args_double(a, &s->options.within.rtol);
        else if (args_is(a, "atol"))
            ok = args_double(a, &s->options.within.atol);
        else if (args_is(a, "json"))
            ok = (s->json = args_value(a)) != NULL;
        else if (args_is(a, "verbose"))
            s->verbose = true;
        else
            ok = keep_option(&s->options, a, c);
    }
    s->options.within.share = agree_share(context_options(c), NULL);
    s->jobs = (int)jobs, s->timeout = (int)timeout, s->options.threads = (int)threads;
    return ok && (s->cases.n > 0 || !usage_error(a, "needs folders that hold cases"));
}

int verb_test(Args *a) {
    Suite s = {.options = {.engines = 1, .within = {1e-3, 1e-7, 0}}};
    weir_context *c = context_new(false);
    int rc = EXIT_USAGE;
    if (parse(&s, a, c)) {
        run_suite(&s);
        int failed = s.cases.n - s.count[CASE_PASS] - s.count[CASE_UNSUPPORTED];
        rc = failed ? EXIT_MODEL : EXIT_DONE;
        if (s.json && !write_results(&s)) rc = EXIT_MODEL;
        if (s.by_property) printf("%d passed by property\n", s.by_property);
        printf("%d passed, %d failed, %d skipped\n", s.count[CASE_PASS], failed,
               s.count[CASE_UNSUPPORTED]);
    }
    weir_context_free(c);
    for (int i = 0; i < s.cases.n; i++)
        free(s.cases.at[i].model), free(s.cases.at[i].name), free(s.cases.at[i].reason);
    for (int i = 0; i < s.options.noption; i++) free((char *)(uintptr_t)s.options.option[i][0]);
    free(s.cases.at);
    return rc;
}
