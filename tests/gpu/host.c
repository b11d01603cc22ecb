/* SPDX-License-Identifier: Apache-2.0 */
/* A host of a model for the GPU: y = max(x, 0) of f32[N].
 *
 *     host MODEL.so
 *
 * Runs it three times alike (the second is recorded, the third launched as recorded), with other
 * data, with another size, on memory of the device, and asynchronously; makes instances that share,
 * on both devices, and one on a device that is not there. Prints what fails; exit code 1. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/weir_model.h"

enum { N = 1000 };
static int failed;

static void check(int ok, const char *what, const char *why) {
    if (ok) return;
    printf("%s: %s\n", what, why ? why : "wrong");
    failed = 1;
}

static int is_relu(const float *x, const float *y, int n) {
    for (int i = 0; i < n; i++)
        if (y[i] != (x[i] > 0 ? x[i] : 0)) return 0;
    return 1;
}

static weir_tensor tensor(float *data, int n) {
    return (weir_tensor){.data = data, .dtype = WEIR_F32, .rank = 1, .dims = {n}, .capacity = n};
}

static void run(const weir_model *m, weir_instance *in, const char *what, int n, int seed) {
    static float x[N], y[N];
    for (int i = 0; i < n; i++) x[i] = (float)((i * 7919 + seed) % 101 - 50);
    memset(y, 0x7f, sizeof y);
    weir_tensor a = tensor(x, n), b = tensor(y, n);
    int status = weir_run(m, in, &a, &b);
    check(status == WEIR_OK, what, m->error(in));
    check(status != WEIR_OK || is_relu(x, y, n), what, "wrong values");
}

/* Data on the device, by the driver that the model has loaded. */
static void on_device(const weir_model *m, weir_instance *in, int later) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*alloc)(uint64_t *, size_t), (*drop)(uint64_t), (*sync)(void);
    int (*put)(uint64_t, const void *, size_t, void *), (*get)(void *, uint64_t, size_t, void *);
    float x[N], y[N];
    uint64_t a = 0, b = 0;
    if (!driver) return check(0, "driver", dlerror());
    *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&drop = dlsym(driver, "cuMemFree_v2");
    *(void **)&put = dlsym(driver, "cuMemcpyHtoDAsync_v2");
    *(void **)&get = dlsym(driver, "cuMemcpyDtoHAsync_v2");
    *(void **)&sync = dlsym(driver, "cuCtxSynchronize");
    for (int i = 0; i < N; i++) x[i] = (float)(i % 17 - 8);
    check(!alloc(&a, sizeof x) && !alloc(&b, sizeof y) && !put(a, x, sizeof x, NULL), "memory",
          NULL);
    if (sync) sync();
    weir_tensor in_ = tensor((float *)(uintptr_t)a, N), out = tensor((float *)(uintptr_t)b, N);
    int status = later ? m->submit(in, &in_, &out, NULL) : weir_run(m, in, &in_, &out);
    if (later && status == WEIR_OK) {
        weir_tensor here = tensor(x, N);
        check(weir_run(m, in, &in_, &out) == WEIR_E_ARGUMENT, "a run beside a submitted one", NULL);
        check(m->submit(in, &in_, &out, NULL) == WEIR_OK, "a second behind it", m->error(in));
        check(m->submit(in, &here, &out, NULL) == WEIR_E_ARGUMENT, "one from memory of the host",
              NULL);
        status = m->wait(in);
        check(m->wait(in) == WEIR_E_ARGUMENT, "nothing to wait for", NULL);
    }
    check(status == WEIR_OK, later ? "submit" : "device memory", m->error(in));
    check(!get(y, b, sizeof y, NULL) && (!sync || !sync()) && is_relu(x, y, N), "device memory",
          NULL);
    drop(a);
    drop(b);
    dlclose(driver);
}

int main(int argc, char **argv) {
    void *so = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
    if (!so) return printf("%s\n", dlerror()), 1;
    const weir_model *m = ((weir_model_fn *)(uintptr_t)dlsym(so, WEIR_MODEL_SYMBOL))();
    weir_instance *one = NULL, *two = NULL, *none = NULL;
    char why[256] = "";
    if (weir_create(m, NULL, &one, why)) return printf("create: %s\n", why), 1;
    check(m->create_on(1, NULL, &two, why) == WEIR_OK || strstr(why, "only 1"), "device 1", why);
    check(m->create_on(7, NULL, &none, why) == WEIR_E_DEVICE && strstr(why, "GPU 7"), "device 7",
          why);
    for (int i = 0; i < 4; i++) run(m, one, "the same sizes", N, i);
    run(m, one, "another size", 10, 3);
    run(m, one, "the first size again", N, 5);
    if (two) run(m, two, "another device", N, 1);
    on_device(m, one, 0);
    on_device(m, one, 1);
    weir_destroy(m, one);
    if (two) weir_destroy(m, two);
    dlclose(so);
    if (!failed) printf("fine\n");
    return failed;
}
