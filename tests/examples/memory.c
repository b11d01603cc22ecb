/* SPDX-License-Identifier: Apache-2.0 */
/* A model from memory, compiled into this process and run: no file is written. ./memory MODEL.onnx
 * prints "digit 1" for a model of handwritten digits. */
#include <stdio.h>
#include <stdlib.h>

#include "compiler/weir.h"

static void say(void *user, const weir_diagnostic *d) {
    (void)user;
    if (d->severity == 0) fprintf(stderr, "%s\n", d->text);
}

/* The whole file; NULL when it cannot be read. */
static void *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    void *at = NULL;
    if (!f) return NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        *n = (size_t)ftell(f);
        at = malloc(*n);
        rewind(f);
    }
    if (at && fread(at, 1, *n, f) != *n) *n = 0;
    fclose(f);
    return at;
}

int main(int argc, char **argv) {
    size_t n = 0;
    void *bytes = argc > 1 ? read_file(argv[1], &n) : NULL;
    weir_context *c = weir_context_new(say, NULL);
    weir_loaded *loaded = bytes && c ? weir_load_memory(c, bytes, n, NULL) : NULL;
    free(bytes); /* the loaded model has a copy of what it needs */
    weir_context_free(c);
    if (!loaded) return 1;

    static float image[28 * 28], score[10];
    for (int y = 4; y < 24; y++) image[28 * y + 13] = image[28 * y + 14] = 255;
    weir_tensor in = {.data = image, .dtype = WEIR_F32, .rank = 4, .dims = {1, 1, 28, 28}};
    weir_tensor out = {.data = score, .capacity = 10};
    const weir_model *m = weir_loaded_model(loaded);
    weir_instance *instance;
    char error[256];
    if (weir_create(m, NULL, &instance, error)) return fprintf(stderr, "%s\n", error), 1;
    if (weir_run(m, instance, &in, &out)) return fprintf(stderr, "%s\n", m->error(instance)), 1;
    int best = 0;
    for (int i = 1; i < out.dims[1]; i++)
        if (score[i] > score[best]) best = i;
    printf("digit %d\n", best);
    weir_destroy(m, instance);
    weir_unload(loaded);
    return 0;
}
