/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled model in a C program. cc embed.c -I WEIR -o embed && ./embed ./mnist.so prints "digit
 * 1". */
#include <dlfcn.h>
#include <stdio.h>

#include "runtime/weir_model.h"

int main(int argc, char **argv) {
    void *so = dlopen(argc > 1 ? argv[1] : "./mnist.so", RTLD_NOW);
    if (!so) return fprintf(stderr, "%s\n", dlerror()), 1;
    const weir_model *m = ((weir_model_fn *)dlsym(so, WEIR_MODEL_SYMBOL))();

    static float image[28 * 28], score[10]; /* a stroke from top to bottom */
    for (int y = 4; y < 24; y++) image[28 * y + 13] = image[28 * y + 14] = 255;
    weir_tensor in = {.data = image, .dtype = WEIR_F32, .rank = 4, .dims = {1, 1, 28, 28}};
    weir_tensor out = {.data = score, .capacity = 10};

    char error[256];
    weir_instance *instance;
    weir_pool *pool = m->pool_new(2); /* two threads; NULL for the calling one */
    if (weir_create(m, pool, &instance, error)) return fprintf(stderr, "%s\n", error), 1;
    if (weir_run(m, instance, &in, &out)) return fprintf(stderr, "%s\n", m->error(instance)), 1;
    int best = 0;
    for (int i = 1; i < out.dims[1]; i++)
        if (score[i] > score[best]) best = i;
    printf("digit %d\n", best);
    weir_destroy(m, instance);
    m->pool_free(pool);
    return 0;
}
