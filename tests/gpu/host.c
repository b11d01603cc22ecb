/* SPDX-License-Identifier: Apache-2.0 */
/* A host of three models for the GPU: y = max(x, 0) of f32[N], y = x[ids], and y = x w, whose w is
 * swapped (relu.ir, take.ir, scale.ir).
 *
 *     host RELU.so TAKE.so SCALE.so [device]
 *
 * Runs the first three times alike (the second is recorded, the third launched as recorded), with
 * other data, with another size, on memory of the device, asynchronously on the caller's stream;
 * makes instances that share, on both devices, and one on a device that is not there; gives one
 * data of another device. The second gets an index that is out of range, whose kernel must be
 * named. The third's recorded runs must see each new weight from then on, those submitted before
 * it the old one. With a real device it also asks for more memory than there is, runs instances on
 * threads at once, and has a kernel write where it may not. Prints what fails; exit code 1. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- on the device ----------------------------------------------------------------------------
 */

/* The driver that the models have loaded. */
static struct {
    void *library;
    int (*init)(unsigned);
    int (*alloc)(uint64_t *, size_t), (*drop)(uint64_t);
    int (*put)(uint64_t, const void *, size_t), (*get)(void *, uint64_t, size_t);
    int (*retain)(void **, int), (*release)(int), (*push)(void *), (*pop)(void **);
    int (*stream)(void **, unsigned), (*stream_free)(void *), (*stream_wait)(void *);
} cu;

static int open_driver(void) {
    cu.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cu.library) return 0;
    *(void **)&cu.init = dlsym(cu.library, "cuInit");
    *(void **)&cu.alloc = dlsym(cu.library, "cuMemAlloc_v2");
    *(void **)&cu.drop = dlsym(cu.library, "cuMemFree_v2");
    *(void **)&cu.put = dlsym(cu.library, "cuMemcpyHtoD_v2");
    *(void **)&cu.get = dlsym(cu.library, "cuMemcpyDtoH_v2");
    *(void **)&cu.retain = dlsym(cu.library, "cuDevicePrimaryCtxRetain");
    *(void **)&cu.release = dlsym(cu.library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&cu.push = dlsym(cu.library, "cuCtxPushCurrent_v2");
    *(void **)&cu.pop = dlsym(cu.library, "cuCtxPopCurrent_v2");
    *(void **)&cu.stream = dlsym(cu.library, "cuStreamCreate");
    *(void **)&cu.stream_free = dlsym(cu.library, "cuStreamDestroy_v2");
    *(void **)&cu.stream_wait = dlsym(cu.library, "cuStreamSynchronize");
    void *context;
    return cu.init(0) == 0 && cu.retain(&context, 0) == 0 && cu.push(context) == 0;
}

static void close_driver(void) {
    void *context;
    cu.pop(&context);
    cu.release(0);
    dlclose(cu.library);
}

static float *on_device(const void *data, size_t bytes) {
    uint64_t at = 0;
    check(!cu.alloc(&at, bytes) && !cu.put(at, data, bytes), "memory of the device", NULL);
    return (float *)(uintptr_t)at;
}

static void device_data(const weir_model *m, weir_instance *in) {
    float x[N], y[N] = {0};
    for (int i = 0; i < N; i++) x[i] = (float)(i % 17 - 8);
    float *a = on_device(x, sizeof x), *b = on_device(y, sizeof y);
    weir_tensor given = tensor(a, N), room = tensor(b, N);
    check(weir_run(m, in, &given, &room) == WEIR_OK, "device memory", m->error(in));
    check(!cu.get(y, (uintptr_t)b, sizeof y) && is_relu(x, y, N), "device memory", NULL);
    cu.drop((uintptr_t)a);
    cu.drop((uintptr_t)b);
}

/* Data on device 1 for an instance on the first, which the current context is of. */
static void other_device(const weir_model *m, weir_instance *in) {
    void *context = NULL;
    float x[N] = {0};
    if (cu.retain(&context, 1)) return;
    cu.push(context);
    float *there = on_device(x, sizeof x);
    weir_tensor given = tensor(there, N), room = tensor(x, N);
    check(weir_run(m, in, &given, &room) == WEIR_E_ARGUMENT && strstr(m->error(in), "another GPU"),
          "data on another device", m->error(in));
    cu.drop((uintptr_t)there);
    cu.pop(&context);
    cu.release(1);
}

/* y = max(max(x, 0), 0), the second run on what the first gave, with no wait between. */
static void submitted(const weir_model *m, weir_instance *in, void *stream) {
    float x[N], y[N] = {0};
    for (int i = 0; i < N; i++) x[i] = (float)(i % 23 - 11);
    float *a = on_device(x, sizeof x), *b = on_device(y, sizeof y), *c = on_device(y, sizeof y);
    weir_tensor one = tensor(a, N), two = tensor(b, N), three = tensor(c, N), here = tensor(x, N);
    check(m->submit(in, &one, &two, stream) == WEIR_OK, "submit", m->error(in));
    check(weir_run(m, in, &one, &two) == WEIR_E_ARGUMENT, "a run beside a submitted one", NULL);
    check(m->submit(in, &two, &three, stream) == WEIR_OK, "a second behind it", m->error(in));
    check(m->submit(in, &here, &two, stream) == WEIR_E_ARGUMENT, "one from memory of the host",
          NULL);
    check(m->wait(in) == WEIR_OK, "wait", m->error(in));
    check(m->wait(in) == WEIR_E_ARGUMENT, "nothing to wait for", NULL);
    check(!cu.get(y, (uintptr_t)c, sizeof y) && is_relu(x, y, N), "submitted", NULL);
    cu.drop((uintptr_t)a);
    cu.drop((uintptr_t)b);
    cu.drop((uintptr_t)c);
}

static void own_stream(const weir_model *m, weir_instance *in) {
    void *stream = NULL;
    check(!cu.stream(&stream, 1), "a stream", NULL);
    for (int i = 0; i < 3; i++) submitted(m, in, stream);
    submitted(m, in, NULL);
    cu.stream_wait(stream);
    cu.stream_free(stream);
}

/* ---- weights ----------------------------------------------------------------------------------
 */

static void swap(const weir_model *m, weir_instance *in, float value) {
    float w[N];
    char why[256] = "";
    const char *name = "w";
    for (int i = 0; i < N; i++) w[i] = value;
    weir_tensor to = tensor(w, N);
    check(weir_swap(m, in, 1, &name, &to, why) == WEIR_OK, "swap", why);
}

static int is_scaled(const float *x, const float *y, float by) {
    for (int i = 0; i < N; i++)
        if (y[i] != x[i] * by) return 0;
    return 1;
}

static void scaled(const weir_model *m, weir_instance *in, const char *what, float by) {
    static float x[N], y[N]; /* the same places, so that the run is the recorded one */
    for (int i = 0; i < N; i++) x[i] = (float)(i % 29 - 14);
    memset(y, 0x7f, sizeof y);
    weir_tensor a = tensor(x, N), b = tensor(y, N);
    weir_status s = weir_run(m, in, &a, &b);
    check(s == WEIR_OK && is_scaled(x, y, by), what, m->error(in));
}

/* Swapped while a run is under way on the caller's stream. */
static void swapped_between(const weir_model *m, weir_instance *in, void *stream) {
    float x[N], y[N] = {0};
    for (int i = 0; i < N; i++) x[i] = (float)(i % 23 - 11);
    float *a = on_device(x, sizeof x), *b = on_device(y, sizeof y), *c = on_device(y, sizeof y);
    weir_tensor given = tensor(a, N), first = tensor(b, N), second = tensor(c, N);
    swap(m, in, 5);
    check(m->submit(in, &given, &first, stream) == WEIR_OK, "submit", m->error(in));
    swap(m, in, 7);
    check(m->submit(in, &given, &second, stream) == WEIR_OK, "submit swapped", m->error(in));
    check(m->wait(in) == WEIR_OK, "wait", m->error(in));
    check(!cu.get(y, (uintptr_t)b, sizeof y) && is_scaled(x, y, 5), "before a swap", NULL);
    check(!cu.get(y, (uintptr_t)c, sizeof y) && is_scaled(x, y, 7), "behind a swap", NULL);
    cu.drop((uintptr_t)a);
    cu.drop((uintptr_t)b);
    cu.drop((uintptr_t)c);
}

static void weights(const weir_model *m) {
    weir_instance *one = NULL, *two = NULL;
    void *stream = NULL;
    char why[256] = "";
    check(weir_create(m, NULL, &one, why) == WEIR_OK, "create", why);
    check(weir_create(m, NULL, &two, why) == WEIR_OK, "create", why);
    if (!one || !two) return;
    for (int k = 1; k < 4; k++) {
        swap(m, one, (float)k);
        for (int i = 0; i < 4; i++) scaled(m, one, "a swapped weight", (float)k);
    }
    swap(m, two, 9);
    scaled(m, two, "an instance's own weight", 9);
    scaled(m, one, "the other's, swapped before", 3);
    check(open_driver() && !cu.stream(&stream, 1), "a stream", NULL);
    for (int i = 0; i < 3; i++) swapped_between(m, one, stream);
    cu.stream_wait(stream);
    cu.stream_free(stream);
    scaled(m, one, "a run after submitted ones", 7);
    close_driver();
    weir_destroy(m, one);
    weir_destroy(m, two);
}

/* ---- faults -----------------------------------------------------------------------------------
 */

static void bad_index(const weir_model *m) {
    weir_instance *in = NULL;
    char why[256] = "";
    float x[16], y[8];
    int64_t ids[8] = {0, 3, 15, 2, 1, 7, 9, 4};
    for (int i = 0; i < 16; i++) x[i] = (float)i;
    weir_tensor given[] = {tensor(x, 16), {.data = ids, .dtype = WEIR_I64, .rank = 1, .dims = {8}}};
    weir_tensor room = tensor(y, 8);
    check(weir_create(m, NULL, &in, why) == WEIR_OK, "create", why);
    for (int i = 0; in && i < 6; i++) {
        ids[5] = i == 3 ? 16 : 7;
        weir_status s = weir_run(m, in, given, &room);
        if (i == 3)
            check(s == WEIR_E_INDEX && strstr(m->error(in), "the taker"), "a bad index",
                  m->error(in));
        else
            check(s == WEIR_OK && y[5] == 7, "a good index", m->error(in));
    }
    if (in) weir_destroy(m, in);
}

static void no_memory(const weir_model *m) {
    weir_instance *in = NULL;
    char why[256] = "";
    weir_tensor most[] = {{.dtype = WEIR_F32, .rank = 1, .dims = {16}},
                          {.dtype = WEIR_I64, .rank = 1, .dims = {(int64_t)1 << 38}}};
    check(weir_create(m, NULL, &in, why) == WEIR_OK, "create", why);
    check(m->reserve(in, most) == WEIR_E_MEMORY, "3 TB", m->error(in));
    weir_destroy(m, in);
    bad_index(m); /* the device is as before */
}

/* A result that says it has more room than it has. */
static void write_wild(const weir_model *m, const char *told) {
    enum { MANY = 1 << 26 };
    weir_instance *in = NULL;
    char why[256] = "";
    check(open_driver(), "driver", NULL);
    check(weir_create(m, NULL, &in, why) == WEIR_OK, "create", why);
    int64_t *ids = calloc(MANY, sizeof *ids);
    if (!in || !ids) return;
    float x[16] = {0}, y[4] = {0};
    weir_tensor given[] = {tensor(x, 16),
                           {.data = ids, .dtype = WEIR_I64, .rank = 1, .dims = {MANY}}};
    weir_tensor room = tensor(on_device(y, sizeof y), MANY);
    weir_status s = weir_run(m, in, given, &room);
    check(s == WEIR_E_DEVICE && strstr(m->error(in), told), "a wild write", m->error(in));
}

/* In a process of its own: afterwards the device is of no use to it. */
static void wild_write(const weir_model *m, const char *blocking) {
    int status;
    fflush(stdout);
    if (fork() == 0) {
        setenv("WEIR_CUDA_BLOCKING", blocking, 1);
        write_wild(m, strcmp(blocking, "1") ? "WEIR_CUDA_BLOCKING=1" : "the taker");
        fflush(stdout);
        _exit(failed);
    }
    check(wait(&status) > 0 && status == 0, "a process of its own", NULL);
}

typedef struct Work {
    const weir_model *m;
    int seed;
} Work;

static void *many_runs(void *arg) {
    const Work *w = arg;
    weir_instance *in = NULL;
    float x[N], y[N];
    check(weir_create(w->m, NULL, &in, NULL) == WEIR_OK, "create on a thread", NULL);
    for (int k = 0; in && k < 300; k++) {
        int n = k % 7 ? N : 10 + k;
        for (int i = 0; i < n; i++) x[i] = (float)((i * 7919 + w->seed + k) % 101 - 50);
        weir_tensor a = tensor(x, n), b = tensor(y, n);
        check(weir_run(w->m, in, &a, &b) == WEIR_OK && is_relu(x, y, n), "threads",
              w->m->error(in));
    }
    if (in) weir_destroy(w->m, in);
    return NULL;
}

static void threads(const weir_model *m) {
    pthread_t thread[4];
    Work work[4];
    for (int t = 0; t < 4; t++) {
        work[t] = (Work){m, 13 * t};
        check(!pthread_create(&thread[t], NULL, many_runs, &work[t]), "a thread", NULL);
    }
    for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
}

/* ---- all --------------------------------------------------------------------------------------
 */

static const weir_model *open_model(const char *path, void **so) {
    *so = dlopen(path, RTLD_NOW);
    if (*so) return ((weir_model_fn *)(uintptr_t)dlsym(*so, WEIR_MODEL_SYMBOL))();
    printf("%s\n", dlerror());
    exit(1);
}

static void relu(const weir_model *m) {
    weir_instance *one = NULL, *two = NULL, *none = NULL;
    char why[256] = "";
    check(weir_create(m, NULL, &one, why) == WEIR_OK, "create", why);
    if (!one) return;
    check(m->create_on(1, NULL, &two, why) == WEIR_OK || strstr(why, "only 1"), "device 1", why);
    check(m->create_on(7, NULL, &none, why) == WEIR_E_DEVICE && strstr(why, "GPU 7"), "device 7",
          why);
    for (int i = 0; i < 4; i++) run(m, one, "the same sizes", N, i);
    run(m, one, "another size", 10, 3);
    run(m, one, "the first size again", N, 5);
    if (two) run(m, two, "another device", N, 1);
    check(open_driver(), "driver", NULL);
    device_data(m, one);
    own_stream(m, one);
    if (two) other_device(m, one);
    run(m, one, "a run after submitted ones", N, 2);
    close_driver();
    weir_destroy(m, one);
    if (two) weir_destroy(m, two);
}

int main(int argc, char **argv) {
    void *so[3];
    const weir_model *m[3];
    if (argc < 4) return printf("usage: host RELU.so TAKE.so SCALE.so [device]\n"), 2;
    for (int i = 0; i < 3; i++) m[i] = open_model(argv[i + 1], &so[i]);
    if (argc > 4) wild_write(m[1], "0"), wild_write(m[1], "1"); /* before a context is made */
    relu(m[0]);
    bad_index(m[1]);
    weights(m[2]);
    if (argc > 4) no_memory(m[1]), threads(m[0]);
    for (int i = 0; i < 3; i++) dlclose(so[i]);
    if (!failed) printf("fine\n");
    return failed;
}
