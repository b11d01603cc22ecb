/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model's library once, in a process of another system than the tests' (aarch64.py).
 *
 *   elsewhere LIBRARY THREADS FILE...
 *
 * A file for each input, then one to be written for each output: a line "DTYPE DIM DIM ...", then
 * the elements. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/weir_model.h"

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static size_t bytes_of(const weir_tensor *t) {
    static const size_t size[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
    size_t n = t->dtype < 17 ? size[t->dtype] : 0;
    if (!n) die("tensor", "an element type that this program does not know");
    for (int k = 0; k < t->rank; k++) n *= (size_t)t->dims[k];
    return n;
}

static weir_tensor read_tensor(const char *path) {
    FILE *in = fopen(path, "rb");
    char line[256], *at = line;
    if (!in || !fgets(line, sizeof line, in)) die(path, "cannot be read");
    weir_tensor t = {.dtype = (int32_t)strtol(line, &at, 10)};
    for (char *end; strtol(at, &end, 10), end != at; at = end)
        t.dims[t.rank++] = strtol(at, NULL, 10);
    size_t n = bytes_of(&t);
    t.data = calloc(n + 64, 1);
    if (!t.data || fread(t.data, 1, n, in) != n) die(path, "is cut short");
    fclose(in);
    return t;
}

static void write_tensor(const char *path, const weir_tensor *t) {
    FILE *out = fopen(path, "wb");
    if (!out) die(path, "cannot be written");
    fprintf(out, "%d", t->dtype);
    for (int k = 0; k < t->rank; k++) fprintf(out, " %lld", (long long)t->dims[k]);
    fprintf(out, "\n");
    fwrite(t->data, 1, bytes_of(t), out);
    if (fclose(out)) die(path, "cannot be written");
}

int main(int argc, char **argv) {
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) die("dlopen", argc > 2 ? dlerror() : "no library given");
    const weir_model *m = ((weir_model_fn *)dlsym(library, WEIR_MODEL_SYMBOL))();
    weir_instance *instance;
    char error[256];
    weir_pool *pool = m->pool_new(atoi(argv[2]));
    if (argc != 3 + m->ninputs + m->noutputs) die("usage", "not a file for each port");
    if (weir_create(m, pool, &instance, error)) die("create", error);
    weir_tensor in[64], out[64] = {{0}};
    for (int i = 0; i < m->ninputs; i++) in[i] = read_tensor(argv[3 + i]);
    if (m->shapes(instance, in, out)) die("shapes", m->error(instance));
    for (int i = 0; i < m->noutputs; i++) {
        size_t n = bytes_of(&out[i]);
        out[i].data = calloc(n + 64, 1);
        out[i].capacity = 1;
        for (int k = 0; k < out[i].rank; k++) out[i].capacity *= out[i].dims[k];
    }
    if (weir_run(m, instance, in, out)) die("run", m->error(instance));
    for (int i = 0; i < m->noutputs; i++) write_tensor(argv[3 + m->ninputs + i], &out[i]);
    weir_destroy(m, instance);
    m->pool_free(pool);
    return 0;
}
