/* SPDX-License-Identifier: Apache-2.0 */
/* One pool of threads for several models, by libweir_rt: no model is needed to make it. ./threads
 * A.so ... prints "N models share a pool of 2 threads". */
#include <dlfcn.h>
#include <stdio.h>

#include "runtime/weir_pool.h"

int main(int argc, char **argv) {
    weir_pool *pool = weir_pool_new(2);
    if (!pool) return 1;
    for (int i = 1; i < argc; i++) {
        char error[256];
        weir_instance *instance;
        void *so = dlopen(argv[i], RTLD_NOW);
        if (!so) return fprintf(stderr, "%s\n", dlerror()), 1;
        const weir_model *m = ((weir_model_fn *)dlsym(so, WEIR_MODEL_SYMBOL))();
        if (weir_create(m, pool, &instance, error)) return fprintf(stderr, "%s\n", error), 1;
        weir_destroy(m, instance);
        dlclose(so);
    }
    printf("%d models share a pool of %d threads\n", argc - 1, pool->threads);
    weir_pool_free(pool);
    return 0;
}
