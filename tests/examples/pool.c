/* SPDX-License-Identifier: Apache-2.0 */
/* Several models on the host's own threads. A weir_pool is a struct of two things: how many threads
 * there are, and a function that calls another on n of them at once. This host has two threads that
 * wait for work; every model that is given this pool runs on them. ./pool A.so B.so ... runs each
 * on zeros three times and prints "3 runs of N models on 2 threads". */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/weir_model.h"

/* ---- the host's threads ---------------------------------------------------------------------- */

typedef void Work(void *arg, int t, int n);
typedef struct Host {
    pthread_mutex_t turn; /* one parallel piece at a time */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Work *fn;
    void *arg;
    int n, waiting_for; /* threads at work, besides the caller */
    long piece;
    int stop;
    pthread_t thread;
} Host;

static void *worker(void *context) {
    Host *h = context;
    pthread_mutex_lock(&h->lock);
    for (long seen = 0;;) {
        while (!h->stop && h->piece == seen) pthread_cond_wait(&h->changed, &h->lock);
        if (h->stop) break;
        seen = h->piece;
        if (h->n < 2) continue;
        pthread_mutex_unlock(&h->lock);
        h->fn(h->arg, 1, 2);
        pthread_mutex_lock(&h->lock);
        h->waiting_for--;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void parallel(void *context, int n, Work *fn, void *arg) {
    Host *h = context;
    pthread_mutex_lock(&h->turn);
    pthread_mutex_lock(&h->lock);
    h->fn = fn;
    h->arg = arg;
    h->n = n;
    h->waiting_for = n - 1;
    h->piece++;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    fn(arg, 0, n);
    pthread_mutex_lock(&h->lock);
    while (h->waiting_for > 0) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    pthread_mutex_unlock(&h->turn);
}

static void host_start(Host *h) {
    pthread_mutex_init(&h->turn, NULL);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    pthread_create(&h->thread, NULL, worker, h);
}

static void host_stop(Host *h) {
    pthread_mutex_lock(&h->lock);
    h->stop = 1;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
}

/* ---- the models ------------------------------------------------------------------------------ */

enum { MOST = 8 };
typedef struct Served {
    const weir_model *m;
    weir_instance *instance;
    weir_tensor in[MOST], out[MOST];
} Served;

/* Room for the elements, all 0. */
static void make_room(weir_tensor *t) {
    t->capacity = 1;
    for (int k = 0; k < t->rank; k++) t->capacity *= t->dims[k];
    t->data = calloc((size_t)t->capacity + 1, 8);
}

static int serve(Served *s, const char *path, const weir_pool *pool) {
    char error[256];
    void *so = dlopen(path, RTLD_NOW);
    if (!so) return fprintf(stderr, "%s\n", dlerror()), 1;
    s->m = ((weir_model_fn *)(uintptr_t)dlsym(so, WEIR_MODEL_SYMBOL))();
    if (weir_create(s->m, pool, &s->instance, error)) return fprintf(stderr, "%s\n", error), 1;
    for (int i = 0; i < s->m->ninputs; i++) {
        const weir_port *port = &s->m->inputs[i];
        s->in[i].dtype = port->dtype;
        s->in[i].rank = port->rank;
        for (int k = 0; k < port->rank; k++) s->in[i].dims[k] = strtoll(port->dims[k], NULL, 10);
        make_room(&s->in[i]);
    }
    if (s->m->shapes(s->instance, s->in, s->out)) return 1;
    for (int i = 0; i < s->m->noutputs; i++) make_room(&s->out[i]);
    return 0;
}

static void leave(Served *s) {
    weir_destroy(s->m, s->instance);
    for (int i = 0; i < s->m->ninputs; i++) free(s->in[i].data);
    for (int i = 0; i < s->m->noutputs; i++) free(s->out[i].data);
}

int main(int argc, char **argv) {
    static Host host;
    static Served served[MOST];
    weir_pool pool = {.size = sizeof pool, .context = &host, .threads = 2, .parallel = parallel};
    int n = argc - 1 < MOST ? argc - 1 : MOST, failed = 0;
    host_start(&host);
    for (int i = 0; i < n; i++)
        if (serve(&served[i], argv[i + 1], &pool)) return 1;
    for (int run = 0; run < 3; run++)
        for (int i = 0; i < n; i++)
            failed += weir_run(served[i].m, served[i].instance, served[i].in, served[i].out) != 0;
    for (int i = 0; i < n; i++) leave(&served[i]);
    host_stop(&host);
    if (!failed) printf("3 runs of %d models on 2 threads\n", n);
    return failed != 0;
}
