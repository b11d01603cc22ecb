/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads, many models, shapes at random: every result is what a thread alone computed before,
 * memory stays where it is, and what is done in a second does not fall when there are more threads
 * than CPUs.
 *
 *     load SECONDS THREADS[xPOOL] MODEL[:LIMIT]...
 *
 * With POOL each thread runs all of its models on a pool of so many threads. First as many threads
 * as CPUs, then THREADS, each for half of the time. WEIR_TIMED=1 demands the speed too: with more
 * threads nine tenths of the work a second; with as many as CPUs, 99 of 100 runs within three times
 * the median (each as a multiple of what that run took alone). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

enum { MODELS = 16, SEEDS = 12, THREADS = 64, SAMPLES = 1 << 16 };

typedef struct Load {
    Model model[MODELS];
    int n, pool;
    uint64_t wanted[MODELS][SEEDS];
    double alone[MODELS][SEEDS]; /* ms */
    atomic_bool stop;
} Load;

typedef struct Client {
    Load *load;
    pthread_t thread;
    uint64_t random;
    double work; /* ms that its runs would have taken alone */
    int64_t runs, wrong;
    float *ratio; /* of the first SAMPLES runs */
} Client;

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void run_once(Client *c, weir_instance **instance, Call **call) {
    Load *load = c->load;
    int i = (int)(next_random(&c->random) % (uint64_t)load->n);
    int seed = (int)(next_random(&c->random) % SEEDS);
    call_size(&load->model[i], call[i], (uint64_t)seed + 1);
    double start = now_ms();
    c->wrong += call_run(&load->model[i], instance[i], call[i]) != load->wanted[i][seed];
    double took = now_ms() - start;
    if (c->runs < SAMPLES) c->ratio[c->runs] = (float)(took / load->alone[i][seed]);
    c->work += load->alone[i][seed];
    c->runs++;
}

static void *client(void *arg) {
    Client *c = arg;
    Load *load = c->load;
    weir_instance *instance[MODELS];
    Call *call[MODELS];
    weir_pool *pool = load->pool > 1 ? load->model[0].m->pool_new(load->pool) : NULL;
    for (int i = 0; i < load->n; i++) {
        instance[i] = instance_new(&load->model[i], pool);
        call[i] = call_new(&load->model[i], instance[i]);
        if (load->model[i].m->reserve(instance[i], call[i]->in)) die("cannot reserve");
    }
    while (!load->stop) run_once(c, instance, call);
    for (int i = 0; i < load->n; i++) {
        call_free(&load->model[i], call[i]);
        weir_destroy(load->model[i].m, instance[i]);
    }
    if (pool) load->model[0].m->pool_free(pool);
    return NULL;
}

/* What every run should give, and takes when nothing else runs (the least of three). */
static void measure_alone(Load *load) {
    for (int i = 0; i < load->n; i++) {
        weir_instance *instance = instance_new(&load->model[i], NULL);
        Call *call = call_new(&load->model[i], instance);
        for (int seed = 0; seed < SEEDS; seed++)
            for (int round = 0; round < 3; round++) {
                call_size(&load->model[i], call, (uint64_t)seed + 1);
                double start = now_ms();
                load->wanted[i][seed] = call_run(&load->model[i], instance, call);
                double took = now_ms() - start;
                if (!round || took < load->alone[i][seed]) load->alone[i][seed] = took;
            }
        call_free(&load->model[i], call);
        weir_destroy(load->model[i].m, instance);
    }
}

/* ---- all threads ----------------------------------------------------------------------------- */

typedef struct Outcome {
    double rate; /* work done in a ms: 1 is one thread alone */
    double median, p99;
    int64_t runs, wrong, growth;
} Outcome;

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void take_samples(Outcome *o, const Client *c, int n) {
    static float all[THREADS * SAMPLES];
    size_t count = 0;
    for (int t = 0; t < n; t++) {
        size_t some = (size_t)(c[t].runs < SAMPLES ? c[t].runs : SAMPLES);
        memcpy(all + count, c[t].ratio, some * sizeof *all);
        count += some;
    }
    if (!count) die("nothing ran");
    qsort(all, count, sizeof *all, by_size);
    o->median = all[count / 2];
    o->p99 = all[count * 99 / 100];
}

static Outcome run_threads(Load *load, int n, double seconds) {
    static Client c[THREADS];
    Outcome o = {0};
    load->stop = false;
    for (int t = 0; t < n; t++) {
        c[t] = (Client){.load = load, .random = (uint64_t)t + 1};
        c[t].ratio = malloc(SAMPLES * sizeof *c[t].ratio);
        if (pthread_create(&c[t].thread, NULL, client, &c[t])) die("no thread");
    }
    double start = now_ms();
    usleep((useconds_t)(seconds * 0.4e6));
    int64_t before = resident_bytes();
    usleep((useconds_t)(seconds * 0.6e6));
    o.growth = resident_bytes() - before;
    load->stop = true;
    double took = now_ms() - start;
    for (int t = 0; t < n; t++) {
        pthread_join(c[t].thread, NULL);
        o.rate += c[t].work / took;
        o.runs += c[t].runs;
        o.wrong += c[t].wrong;
    }
    take_samples(&o, c, n);
    for (int t = 0; t < n; t++) free(c[t].ratio);
    printf("%2d threads: %lld runs, %lld wrong, %.2f times one alone; a run takes %.2f times as "
           "long (median), %.2f (99 of 100); memory grew by %lld bytes\n",
           n, (long long)o.runs, (long long)o.wrong, o.rate, o.median, o.p99, (long long)o.growth);
    return o;
}

int main(int argc, char **argv) {
    static Load load;
    enum { SLACK = 1 << 18 }; /* pages of stacks and heaps that a thread touches late */
    double seconds = argc > 3 ? strtod(argv[1], NULL) : 0;
    int most = argc > 3 ? atoi(argv[2]) : 0, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const char *wide = argc > 3 ? strchr(argv[2], 'x') : NULL;
    load.pool = wide ? atoi(wide + 1) : 1;
    if (!(seconds > 0) || most < 1 || most > THREADS || argc - 3 > MODELS)
        die("usage: load SECONDS THREADS[xPOOL] MODEL[:LIMIT]...");
    for (int i = 3; i < argc; i++) {
        char *colon = strrchr(argv[i], ':');
        Model *m = &load.model[load.n++];
        *m = (Model){.path = argv[i], .limit = colon ? strtoll(colon + 1, NULL, 10) : 1};
        if (colon) *colon = '\0';
        model_open(m);
    }
    setlinebuf(stdout);
    measure_alone(&load);
    Outcome few = run_threads(&load, cpus < most ? cpus : most, seconds / 2);
    Outcome many = run_threads(&load, most, seconds / 2);
    const char *timed = getenv("WEIR_TIMED");
    if (few.wrong || many.wrong) die("results differ from those of a thread alone");
    if (few.growth > SLACK * cpus || many.growth > SLACK * most) die("memory grows");
    if (timed && *timed && many.rate < 0.9 * few.rate) die("more threads do less");
    if (timed && *timed && few.p99 > 3 * few.median) die("some runs take far longer than others");
    for (int i = 0; i < load.n; i++) model_close(&load.model[i]);
    return 0;
}
