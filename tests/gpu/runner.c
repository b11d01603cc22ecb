/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compiled models on the GPU of this machine, and compares and times them.
 *
 *     runner FOLDER...
 *
 * A folder holds model.so, and in0.npy .. and out0.npy .. in the order of the model's ports. Needs
 * libc and NVIDIA's driver. A line each: ok or not, the worst relative error, the median time of a
 * run from host memory to host memory, with what is wrong. Exit code 1 when some are. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/weir_model.h"

enum { RUNS = 30, WARM = 5, MOST = 64 };

/* ---- .npy ------------------------------------------------------------------------------------ */

static const struct {
    const char *descr;
    int dtype, bytes;
} types[] = {{"<f4", WEIR_F32, 4}, {"<f8", WEIR_F64, 8}, {"<f2", WEIR_F16, 2},
             {"<i8", WEIR_I64, 8}, {"<i4", WEIR_I32, 4}, {"<i2", WEIR_I16, 2},
             {"|i1", WEIR_I8, 1},  {"<u8", WEIR_U64, 8}, {"<u4", WEIR_U32, 4},
             {"<u2", WEIR_U16, 2}, {"|u1", WEIR_U8, 1},  {"|b1", WEIR_BOOL, 1}};

static int element_bytes(int dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return types[i].bytes;
    return 0;
}

static int64_t count(const weir_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dims[d];
    return n;
}

static int parse_head(const char *head, weir_tensor *t) {
    const char *shape = strstr(head, "'shape': (");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strstr(head, types[i].descr)) t->dtype = types[i].dtype;
    if (!t->dtype || !shape || strstr(head, "'fortran_order': True")) return 0;
    for (const char *at = shape + 10; *at && *at != ')';) {
        char *end;
        long long n = strtoll(at, &end, 10);
        if (end == at) break;
        t->dims[t->rank++] = n;
        at = end + strspn(end, ", ");
    }
    return 1;
}

/* 1: read; 0: there is none; -1: not one of ours. */
static int read_npy(const char *folder, const char *name, int i, weir_tensor *t) {
    char path[4096], head[65536];
    unsigned char start[10];
    snprintf(path, sizeof path, "%s/%s%d.npy", folder, name, i);
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    *t = (weir_tensor){0};
    int fine = fread(start, 1, sizeof start, file) == sizeof start && start[6] == 1;
    size_t n = fine ? (size_t)(start[8] | start[9] << 8) : 0;
    fine = fine && n < sizeof head && fread(head, 1, n, file) == n;
    head[n] = 0;
    fine = fine && parse_head(head, t);
    size_t bytes = fine ? (size_t)count(t) * (size_t)element_bytes(t->dtype) : 0;
    t->data = calloc(bytes + 1, 1);
    t->capacity = count(t);
    fine = fine && t->data && fread(t->data, 1, bytes, file) == bytes;
    fclose(file);
    return fine ? 1 : -1;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double half(uint16_t x) {
    int e = x >> 10 & 31, m = x & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
    return x & 0x8000 ? -v : v;
}

static double value(const weir_tensor *t, int64_t i) {
    switch (t->dtype) {
    case WEIR_F32: return ((const float *)t->data)[i];
    case WEIR_F64: return ((const double *)t->data)[i];
    case WEIR_F16: return half(((const uint16_t *)t->data)[i]);
    default: return 0;
    }
}

/* How far apart, relative to 1e-3 |want| + 1e-5; at most 1 is good. */
static double distance(const weir_tensor *got, const weir_tensor *want) {
    int64_t n = count(want);
    if (got->dtype != want->dtype || count(got) != n) return INFINITY;
    if (got->dtype != WEIR_F32 && got->dtype != WEIR_F64 && got->dtype != WEIR_F16)
        return memcmp(got->data, want->data, (size_t)n * (size_t)element_bytes(got->dtype))
                   ? INFINITY
                   : 0;
    double worst = 0, tolerance = got->dtype == WEIR_F16 ? 1e-2 : 1e-3;
    for (int64_t i = 0; i < n; i++) {
        double a = value(got, i), b = value(want, i);
        if (a == b || (a != a && b != b)) continue;
        double d = fabs(a - b) / (tolerance * fabs(b) + 1e-5);
        if (!(d <= worst)) worst = d == d ? d : INFINITY;
    }
    return worst;
}

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct Case {
    const char *folder, *why;
    const weir_model *m;
    weir_instance *in;
    weir_tensor x[MOST], y[MOST], want[MOST];
    double worst, ms;
    char error[512];
} Case;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *load(Case *c, void **so) {
    char path[4096];
    snprintf(path, sizeof path, "%s/model.so", c->folder);
    *so = dlopen(path, RTLD_NOW);
    if (!*so) return dlerror();
    c->m = ((weir_model_fn *)(uintptr_t)dlsym(*so, WEIR_MODEL_SYMBOL))();
    if (weir_create(c->m, NULL, &c->in, c->error)) return c->error;
    if (c->m->ninputs > MOST || c->m->noutputs > MOST) return "too many ports";
    for (int i = 0; i < c->m->ninputs; i++)
        if (read_npy(c->folder, "in", i, &c->x[i]) != 1) return "an input is missing";
    for (int i = 0; i < c->m->noutputs; i++) {
        if (read_npy(c->folder, "out", i, &c->want[i]) != 1) return "an expected output is missing";
        c->y[i].capacity = c->want[i].capacity + 16;
        c->y[i].data = calloc((size_t)c->y[i].capacity, 16);
    }
    return NULL;
}

static const char *compare(Case *c) {
    for (int i = 0; i < c->m->noutputs; i++) {
        double d = distance(&c->y[i], &c->want[i]);
        if (d > c->worst) c->worst = d;
    }
    return c->worst <= 1 ? NULL : "another result";
}

/* The first runs walk, record and launch what was recorded: all are compared. */
static const char *measure(Case *c) {
    double ms[RUNS];
    for (int i = 0; i < WARM + RUNS; i++) {
        for (int k = 0; k < c->m->noutputs; k++) c->y[k].strides = NULL;
        double start = now_ms();
        if (weir_run(c->m, c->in, c->x, c->y)) return c->m->error(c->in);
        if (i >= WARM) ms[i - WARM] = now_ms() - start;
        const char *wrong = i < WARM || i == WARM + RUNS - 1 ? compare(c) : NULL;
        if (wrong) return wrong;
    }
    qsort(ms, RUNS, sizeof *ms, by_time);
    c->ms = ms[RUNS / 2];
    return NULL;
}

static int run_case(const char *folder) {
    Case *c = calloc(1, sizeof *c);
    void *so = NULL;
    if (!c) return 1;
    c->folder = folder;
    const char *wrong = load(c, &so);
    if (!wrong) wrong = measure(c);
    const char *slash = strrchr(folder, '/');
    printf("%-6s %-60s %10.3g of tolerance %10.4f ms  %s\n", wrong ? "FAIL" : "ok",
           slash ? slash + 1 : folder, c->worst, c->ms, wrong ? wrong : "");
    fflush(stdout);
    if (c->in) weir_destroy(c->m, c->in);
    for (int i = 0; i < MOST; i++) free(c->x[i].data), free(c->y[i].data), free(c->want[i].data);
    free(c);
    return wrong != NULL;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) failed += run_case(argv[i]);
    printf("%d passed, %d failed\n", argc - 1 - failed, failed);
    return failed > 0;
}
