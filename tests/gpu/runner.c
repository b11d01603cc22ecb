/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compiled models on the GPU of this machine and compares what they give.
 *
 *     runner [-j N] [-v] [-t] FOLDER...
 *
 * A folder holds model.so and test_data_set_0, test_data_set_1 ..: input_0.pb .. and output_0.pb ..
 * in the order of the model's ports (or .npy), of all types that `weir test` reads, and is compared
 * as it compares, within the absolute tolerance of a file `within`. Of a set with a file `random`
 * the inputs are those of `weir run --random 1`, and floats may differ by what agree_bound allows
 * of the largest magnitude, and by what the library was compiled with (--math=fast). Each set runs
 * four times: walked, walked and recorded, launched as recorded. N processes take every Nth folder;
 * a case that fails, or ends its process, is the last of it and another goes on. A line for each
 * case that fails (-v: for each), then the sums. -t: 30 more runs, and their median from host
 * memory to host memory. Exit code 1 when some fail.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/weir/tensors.h"

enum { TIMES = 4, RUNS = 30, SECONDS = 60, SEED = 1, PROCESSES = 64, PATH = 4096 };
enum { FINE = 0, BROKEN = 3 }; /* how a process ends: all done; another must go on */

typedef struct Options {
    int jobs, n;
    bool verbose, timed;
    char **folder;
} Options;

/* Shared by the processes. */
typedef struct Progress {
    int next[PROCESSES]; /* by process: the folder at hand */
    int passed[PROCESSES], failed[PROCESSES];
} Progress;

typedef struct Case {
    const char *folder;
    const weir_model *m;
    weir_instance *in;
    HostTensor *x, *y, *want;
    Distance distance;
    double ms;
    bool broken; /* the device is of no more use to this process */
    bool random; /* of the set at hand inputs are made */
    char why[600];
} Case;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool failed(Case *c, const char *why) {
    snprintf(c->why, sizeof c->why, "%.590s", why);
    return false;
}

/* ---- a set ----------------------------------------------------------------------------------- */

/* Sets from before bfloat16 had a type of its own in numpy keep its bits as uint16. */
static bool read_one(Case *c, const char *stem, const weir_port *port, HostTensor *t) {
    char path[PATH + 8], error[256] = "";
    snprintf(path, sizeof path, "%s.pb", stem);
    if (access(path, R_OK)) snprintf(path, sizeof path, "%s.npy", stem);
    if (access(path, R_OK)) return failed(c, "a file of the set is missing");
    if (!host_read(t, path, port->object, error)) return failed(c, error);
    if (t->t.dtype == WEIR_U16 && port->dtype == WEIR_BF16) t->t.dtype = WEIR_BF16;
    return true;
}

static bool read_all(Case *c, int set, const char *word, const weir_port *port, HostTensor *t,
                     int n) {
    char stem[PATH];
    for (int i = 0; i < n; i++) {
        snprintf(stem, sizeof stem, "%s/test_data_set_%d/%s_%d", c->folder, set, word, i);
        if (!read_one(c, stem, &port[i], &t[i])) return false;
    }
    return true;
}

static void make_inputs(Case *c) {
    for (int i = 0; i < c->m->ninputs; i++) {
        const weir_port *p = &c->m->inputs[i];
        c->x[i].t = (weir_tensor){.dtype = p->dtype, .rank = p->rank};
        for (int k = 0; k < p->rank; k++) {
            char *end;
            long long v = strtoll(p->dims[k], &end, 10);
            c->x[i].t.dims[k] = *end ? 1 : v;
        }
        host_random(&c->x[i], SEED * 1000003u + (uint64_t)i);
    }
}

static bool take_inputs(Case *c, int set) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/test_data_set_%d/random", c->folder, set);
    c->random = access(path, R_OK) == 0;
    if (!c->random) return read_all(c, set, "input", c->m->inputs, c->x, c->m->ninputs);
    make_inputs(c);
    return true;
}

/* What fast mathematics may add, as to TF32's factors of ten bits. */
static double share_of(const weir_model *m) {
    return strstr(m->build, "\"math\": \"fast\"") ? AGREE_FAST : 0;
}

/* The absolute part of the tolerance, as the folder's file `within` says. */
static double absolute(const Case *c) {
    char path[PATH], text[32] = "";
    snprintf(path, sizeof path, "%s/within", c->folder);
    FILE *file = fopen(path, "r");
    if (!file) return 1e-7;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return n ? strtod(text, NULL) : 1e-7;
}

static bool compare(Case *c) {
    Tolerance within = {1e-3, absolute(c), 0};
    for (int i = 0; i < c->m->noutputs; i++) {
        within.share = c->random ? agree_bound(c->want[i].t.dtype) + share_of(c->m) : 0;
        Difference d = host_compare(&c->y[i].t, &c->want[i].t, &within);
        distance_worsen(&c->distance, d.distance);
        if (d.same) continue;
        snprintf(c->why, sizeof c->why, "output \"%s\": %s", c->m->outputs[i].name, d.text);
        return false;
    }
    return true;
}

static bool run_once(Case *c) {
    char error[512] = "";
    if (host_run(c->m, c->in, c->x, c->y, error)) return true;
    c->broken = strstr(error, "the GPU failed") || strstr(error, "failed: ");
    return failed(c, error);
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(Case *c) {
    double ms[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double start = now_ms();
        if (!run_once(c)) return false;
        ms[i] = now_ms() - start;
        tensors_free(c->y, c->m->noutputs);
    }
    qsort(ms, RUNS, sizeof *ms, by_time);
    c->ms = ms[RUNS / 2];
    return true;
}

static bool run_set(Case *c, int set, bool timed) {
    const weir_model *m = c->m;
    bool fine = take_inputs(c, set) && read_all(c, set, "output", m->outputs, c->want, m->noutputs);
    for (int i = 0; fine && i < TIMES; i++) {
        fine = run_once(c);
        fine = fine && compare(c);
        tensors_free(c->y, m->noutputs);
    }
    if (fine && timed) fine = measure(c);
    tensors_free(c->x, m->ninputs);
    tensors_free(c->want, m->noutputs);
    return fine;
}

static bool run_sets(Case *c, bool timed) {
    char path[PATH];
    size_t nin = (size_t)c->m->ninputs + 1, nout = (size_t)c->m->noutputs + 1;
    c->x = calloc(nin, sizeof *c->x);
    c->y = calloc(nout, sizeof *c->y);
    c->want = calloc(nout, sizeof *c->want);
    bool fine = c->x && c->y && c->want;
    for (int set = 0; fine; set++) {
        snprintf(path, sizeof path, "%s/test_data_set_%d", c->folder, set);
        if (access(path, R_OK)) {
            fine = set > 0 || failed(c, "the case has no test_data_set_0");
            break;
        }
        fine = run_set(c, set, timed);
    }
    free(c->x);
    free(c->y);
    free(c->want);
    return fine;
}

/* ---- a case ---------------------------------------------------------------------------------- */

static bool run_case(Case *c, bool timed) {
    char path[PATH], error[512] = "";
    snprintf(path, sizeof path, "%s/model.so", c->folder);
    void *so = dlopen(path, RTLD_NOW);
    if (!so) return failed(c, dlerror());
    c->m = ((weir_model_fn *)(uintptr_t)dlsym(so, WEIR_MODEL_SYMBOL))();
    bool fine = weir_create(c->m, NULL, &c->in, error) == WEIR_OK;
    if (!fine) failed(c, error);
    if (fine) fine = run_sets(c, timed);
    if (c->in && !c->broken) weir_destroy(c->m, c->in);
    if (!c->broken) dlclose(so);
    return fine;
}

static bool do_case(const Options *o, const char *folder) {
    Case c = {.folder = folder, .distance = NO_FLOATS};
    const char *slash = strrchr(folder, '/');
    alarm(SECONDS);
    bool fine = run_case(&c, o->timed);
    if (!fine || o->verbose || o->timed)
        printf("%-6s %-60s %s", fine ? "ok" : "FAIL", slash ? slash + 1 : folder, c.why);
    if (fine && o->verbose && c.distance.ulp >= 0) printf("%.3g ulp", c.distance.ulp);
    if (fine && o->timed) printf("  %.4f ms", c.ms);
    if (!fine || o->verbose || o->timed) printf("\n");
    fflush(stdout);
    return fine;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* The device's context outlives each case: making one takes longer than most of them. The driver's
 * library, or NULL. */
static void *keep_context(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned), (*retain)(void **, int);
    if (!driver) return NULL;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    if (init(0) == 0 && retain(&context, 0) == 0) return driver;
    dlclose(driver);
    return NULL;
}

static void leave_context(void *driver) {
    int (*release)(int);
    if (!driver) return;
    *(void **)&release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
    release(0);
    dlclose(driver);
}

/* Takes this process's folders in turn; how it ends. */
static int work(const Options *o, Progress *p, int w) {
    void *driver = keep_context();
    bool fine = true;
    while (fine && p->next[w] < o->n) {
        fine = do_case(o, o->folder[p->next[w]]);
        (fine ? p->passed : p->failed)[w]++;
        p->next[w] += o->jobs;
    }
    leave_context(driver);
    return fine ? FINE : BROKEN;
}

static pid_t start(const Options *o, Progress *p, int w) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(work(o, p, w));
    return child;
}

/* A process ended in the midst of a case: that one fails. */
static void note_end(const Options *o, Progress *p, int w, int status) {
    const char *folder = o->folder[p->next[w]], *slash = strrchr(folder, '/');
    printf("FAIL   %-60s ", slash ? slash + 1 : folder);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("no result after %d s\n", SECONDS);
    else if (WIFSIGNALED(status))
        printf("%s\n", strsignal(WTERMSIG(status)));
    else
        printf("the process ended with code %d\n", WEXITSTATUS(status));
    p->failed[w]++;
    p->next[w] += o->jobs;
}

static void run_all(const Options *o, Progress *p) {
    pid_t pid[PROCESSES];
    int running = o->jobs, status;
    for (int w = 0; w < o->jobs; w++) p->next[w] = w, pid[w] = start(o, p, w);
    while (running) {
        pid_t child = wait(&status);
        for (int w = 0; w < o->jobs; w++) {
            if (pid[w] != child) continue;
            bool fine = WIFEXITED(status) && WEXITSTATUS(status) == FINE;
            bool broken = WIFEXITED(status) && WEXITSTATUS(status) == BROKEN;
            if (!fine && !broken && p->next[w] < o->n) note_end(o, p, w, status);
            if (!fine && p->next[w] < o->n)
                pid[w] = start(o, p, w);
            else
                running--;
        }
    }
}

static bool parse(Options *o, int argc, char **argv) {
    for (int k; (k = getopt(argc, argv, "j:vt")) != -1;) {
        if (k == 'j') o->jobs = atoi(optarg);
        if (k == 'v') o->verbose = true;
        if (k == 't') o->timed = true;
        if (k == '?') return false;
    }
    o->folder = argv + optind;
    o->n = argc - optind;
    return o->jobs > 0 && o->jobs <= PROCESSES;
}

int main(int argc, char **argv) {
    Options o = {.jobs = 1};
    int passed = 0, bad = 0;
    Progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || !parse(&o, argc, argv))
        return fprintf(stderr, "usage: runner [-j N] [-v] [-t] FOLDER...\n"), 2;
    run_all(&o, p);
    for (int w = 0; w < o.jobs; w++) passed += p->passed[w], bad += p->failed[w];
    printf("%d passed, %d failed\n", passed, bad);
    return bad > 0;
}
