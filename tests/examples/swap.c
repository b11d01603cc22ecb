/* SPDX-License-Identifier: Apache-2.0 */
/* Weights swapped while the model runs on another thread. Each run uses one set of weights from its
 * beginning to its end, so that every result is that of the old set or of the new one. Prints
 * "digit 1, then digit 7; no other result in between". */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "compiler/weir.h"

typedef struct Runner {
    const weir_model *m;
    weir_instance *instance;
    float image[28 * 28], old[10], new[10];
    atomic_int runs, others;
    atomic_bool stop;
} Runner;

static void say(void *user, const weir_diagnostic *d) {
    (void)user;
    if (d->severity == 0) fprintf(stderr, "%s\n", d->text);
}

static int classify(Runner *r, float score[10]) {
    weir_tensor in = {.data = r->image, .dtype = WEIR_F32, .rank = 4, .dims = {1, 1, 28, 28}};
    weir_tensor out = {.data = score, .capacity = 10};
    if (weir_run(r->m, r->instance, &in, &out)) return -1;
    int best = 0;
    for (int i = 1; i < 10; i++)
        if (score[i] > score[best]) best = i;
    return best;
}

/* Runs until told to stop; a result of neither set is counted. */
static void *keep_running(void *arg) {
    Runner *r = arg;
    float score[10];
    while (!r->stop) {
        if (classify(r, score) < 0) break;
        if (memcmp(score, r->old, sizeof score) != 0 && memcmp(score, r->new, sizeof score) != 0)
            r->others++;
        r->runs++;
    }
    return NULL;
}

/* Another bias of the last layer. */
static weir_status swap(const Runner *r, const float bias[10], char error[256]) {
    const char *name = "Parameter194";
    weir_tensor value = {
        .data = (void *)(uintptr_t)bias, .dtype = WEIR_F32, .rank = 2, .dims = {1, 10}};
    return weir_swap(r->m, r->instance, 1, &name, &value, error);
}

int main(int argc, char **argv) {
    static Runner r;
    const float plain[10] = {0}, sevens[10] = {[7] = 1e5f};
    char error[256] = "";
    weir_context *c = weir_context_new(say, NULL);
    if (argc < 2 || weir_option(c, "packing", "swap")) return 1;
    weir_loaded *loaded = weir_load_file(c, argv[1]);
    if (!loaded) return 1;
    r.m = weir_loaded_model(loaded);
    for (int y = 4; y < 24; y++) r.image[28 * y + 13] = r.image[28 * y + 14] = 255;
    if (weir_create(r.m, NULL, &r.instance, error) || swap(&r, sevens, error) ||
        classify(&r, r.new) != 7 || swap(&r, plain, error))
        return fprintf(stderr, "%s\n", error), 1;
    int before = classify(&r, r.old);

    pthread_t thread;
    pthread_create(&thread, NULL, keep_running, &r);
    for (int i = 0; i < 200 || r.runs < 200; i++)
        if (swap(&r, i % 2 ? plain : sevens, error)) return fprintf(stderr, "%s\n", error), 1;
    if (swap(&r, sevens, error)) return fprintf(stderr, "%s\n", error), 1;
    r.stop = 1;
    pthread_join(thread, NULL);
    float score[10];
    printf("digit %d, then digit %d; %s other result in between\n", before, classify(&r, score),
           r.others ? "some" : "no");
    weir_destroy(r.m, r.instance);
    weir_unload(loaded);
    weir_context_free(c);
    return 0;
}
