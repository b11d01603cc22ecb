/* SPDX-License-Identifier: Apache-2.0 */
/* Models with inputs for any size, and what the system says of this process. */
#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    fprintf(stderr, "FAIL ");
    vfprintf(stderr, fmt, list);
    fprintf(stderr, "\n");
    va_end(list);
    _exit(1);
}

/* ---- models ---------------------------------------------------------------------------------- */

void model_open(Model *m) {
    m->so = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (!m->so) die("%s: %s", m->path, dlerror());
    m->m = ((weir_model_fn *)(uintptr_t)dlsym(m->so, WEIR_MODEL_SYMBOL))();
    if (m->m->ninputs > PORTS || m->m->noutputs > PORTS) die("%s: too many ports", m->path);
}

void model_close(Model *m) {
    if (m->so && dlclose(m->so) != 0) die("%s: %s", m->path, dlerror());
    m->so = NULL;
    m->m = NULL;
}

weir_instance *instance_new(const Model *m, const weir_pool *pool) {
    char error[256] = "";
    weir_instance *instance;
    if (weir_create(m->m, pool, &instance, error)) die("%s: %s", m->path, error);
    return instance;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t dim_size(const Model *m, const char *dim, uint64_t seed) {
    char *end;
    int64_t n = strtoll(dim, &end, 10);
    uint64_t hash = seed;
    if (*dim && !*end) return n;
    for (const char *c = dim; *c; c++) hash = mix(hash * 31 + (unsigned char)*c);
    return seed ? 1 + (int64_t)(hash % (uint64_t)m->limit) : m->limit;
}

static int64_t count_of(const weir_tensor *t) {
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dims[k];
    return n;
}

/* Of such an output each run makes a block that is ours to free. */
static bool is_block(const weir_port *p) {
    return p->dtype == WEIR_STRING || p->dtype == WEIR_OBJECT;
}

static int64_t bytes_of(const weir_tensor *t) {
    static const uint8_t size[32] = {[WEIR_F32] = 4,  [WEIR_U8] = 1,
                                     [WEIR_I8] = 1,   [WEIR_U16] = 2,
                                     [WEIR_I16] = 2,  [WEIR_I32] = 4,
                                     [WEIR_I64] = 8,  [WEIR_BOOL] = 1,
                                     [WEIR_F16] = 2,  [WEIR_F64] = 8,
                                     [WEIR_U32] = 4,  [WEIR_U64] = 8,
                                     [WEIR_BF16] = 2, [WEIR_STRING] = sizeof(weir_string)};
    if (t->dtype < 0 || t->dtype > 31 || !size[t->dtype]) die("a dtype that is not known here");
    return count_of(t) * size[t->dtype];
}

/* Floats in -1 .. 1; integers and bools 0 or 1, which every index accepts; words. */
static void fill(weir_tensor *t, uint64_t seed) {
    static const char text[] = "in any order of words";
    int64_t bytes = bytes_of(t), n = count_of(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t z = mix(seed + (uint64_t)i * 0x9e3779b97f4a7c15u);
        if (t->dtype == WEIR_F32)
            ((float *)t->data)[i] = (float)(z >> 40) * 0x1p-23f - 1;
        else if (t->dtype == WEIR_STRING)
            ((weir_string *)t->data)[i] = (weir_string){text + z % 8, (int64_t)(z >> 32) % 12};
        else
            ((char *)t->data)[i * (bytes / n)] = (char)(z & 1);
    }
}

void call_fill(const Model *m, Call *c, uint64_t seed) {
    for (int i = 0; i < m->m->ninputs; i++) fill(&c->in[i], mix(seed) + (uint64_t)i + 1);
}

void call_size(const Model *m, Call *c, uint64_t seed) {
    for (int i = 0; i < m->m->ninputs; i++)
        for (int k = 0; k < c->in[i].rank; k++)
            c->in[i].dims[k] = dim_size(m, m->m->inputs[i].dims[k], seed);
}

Call *call_new(const Model *m, weir_instance *instance) {
    Call *c = calloc(1, sizeof *c);
    for (int i = 0; i < m->m->ninputs; i++) {
        c->in[i].dtype = m->m->inputs[i].dtype;
        c->in[i].rank = m->m->inputs[i].rank;
    }
    call_size(m, c, 0);
    for (int i = 0; i < m->m->ninputs; i++)
        c->in[i].data = calloc(1, (size_t)bytes_of(&c->in[i]) + 64);
    call_fill(m, c, 0);
    if (m->m->shapes(instance, c->in, c->out)) die("%s: %s", m->path, m->m->error(instance));
    for (int i = 0; i < m->m->noutputs; i++) {
        if (is_block(&m->m->outputs[i])) continue;
        for (int k = 0; k < c->out[i].rank; k++)
            if (c->out[i].dims[k] < 0) c->out[i].dims[k] = m->limit * m->limit;
        c->out[i].capacity = count_of(&c->out[i]);
        c->out[i].data = calloc(1, (size_t)bytes_of(&c->out[i]) + 64);
    }
    return c;
}

void call_free(const Model *m, Call *c) {
    for (int i = 0; i < m->m->ninputs; i++) free(c->in[i].data);
    for (int i = 0; i < m->m->noutputs; i++) free(c->out[i].data);
    free(c);
}

weir_status call_try(const Model *m, weir_instance *instance, Call *c) {
    return weir_run(m->m, instance, c->in, c->out);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        hash = (hash ^ ((const unsigned char *)data)[k]) * 0x100000001b3u;
    return mix(hash + (uint64_t)n);
}

static uint64_t hash_tensor(uint64_t hash, const weir_tensor *t) {
    if (t->dtype != WEIR_STRING) return hash_bytes(hash, t->data, bytes_of(t));
    const weir_string *word = t->data;
    for (int64_t i = 0; i < count_of(t); i++) hash = hash_bytes(hash, word[i].at, word[i].bytes);
    return hash;
}

static uint64_t hash_value(uint64_t hash, const weir_value *v) {
    if (v->kind == WEIR_VALUE_TENSOR) return hash_tensor(hash, &v->tensor);
    for (int64_t i = 0; i < v->count; i++) hash = hash_value(hash, &v->items[i]);
    return mix(hash + (uint64_t)v->count);
}

uint64_t call_run(const Model *m, weir_instance *instance, Call *c) {
    uint64_t hash = 1;
    if (call_try(m, instance, c)) die("%s: %s", m->path, m->m->error(instance));
    for (int i = 0; i < m->m->noutputs; i++) {
        weir_tensor *out = &c->out[i];
        hash = out->dtype == WEIR_OBJECT ? hash_value(hash, out->data) : hash_tensor(hash, out);
        if (!is_block(&m->m->outputs[i])) continue;
        free(out->data);
        out->data = NULL;
    }
    return hash;
}

/* ---- this process ---------------------------------------------------------------------------- */

int64_t resident_bytes(void) {
    long long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lld %lld", &total, &resident) != 2)
        die("/proc/self/statm cannot be read");
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

int64_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

int64_t growth(const int64_t *resident, int n) {
    int64_t least = INT64_MAX;
    for (int i = 1; i < n; i++)
        if (resident[i] - resident[i - 1] < least) least = resident[i] - resident[i - 1];
    return least;
}

static int entries(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) die("%s cannot be read", folder);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

int open_files(void) {
    return entries("/proc/self/fd");
}

int thread_count(void) {
    return entries("/proc/self/task") - 2;
}

bool is_mapped(const char *path) {
    char line[4096];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) found = found || strstr(line, path);
    if (f) fclose(f);
    return found;
}

static double clock_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double now_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

double cpu_ms(void) {
    return clock_ms(CLOCK_THREAD_CPUTIME_ID);
}
