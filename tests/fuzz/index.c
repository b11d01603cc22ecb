/* SPDX-License-Identifier: Apache-2.0 */
/* Values of inputs, given to code that was compiled with bounds checks: models in
 * $WEIR_FUZZ_MODELS, whose integers index, count and shape. The first two bytes choose the model,
 * then come sizes of its symbols and the elements of its inputs. Whatever they are, a run succeeds
 * or says why, and no access strays. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/weir.h"
#include "tests/fuzz/victim.h"

enum { MODELS = 512, PORTS = 16, SYMBOLS = 16, MOST = 1 << 16, BYTES = 16 };

typedef struct Entry {
    const weir_model *m;
    weir_instance *instance;
} Entry;

typedef struct Stream {
    const uint8_t *at;
    size_t n;
} Stream;

static Entry entry[MODELS];
static int entries;

/* ---- models ---------------------------------------------------------------------------------- */

static void note(void *user, const weir_diagnostic *d) {
    (void)user;
    if (d->severity == 0) fprintf(stderr, "%s\n", d->text);
}

static bool takes_numbers(const weir_model *m) {
    bool numbers = m->ninputs <= PORTS && m->noutputs <= PORTS;
    for (int i = 0; i < m->ninputs; i++)
        numbers &= m->inputs[i].dtype != WEIR_STRING && m->inputs[i].dtype != WEIR_OBJECT;
    for (int i = 0; i < m->noutputs; i++)
        numbers &= m->outputs[i].dtype != WEIR_STRING && m->outputs[i].dtype != WEIR_OBJECT;
    return numbers;
}

static void load(const char *path) {
    weir_context *c = weir_context_new(note, NULL);
    if (!c || weir_option(c, "checked", "yes") || weir_option(c, "j", "1")) abort();
    weir_loaded *l = weir_load_file(c, path);
    weir_context_free(c);
    if (!l || !takes_numbers(weir_loaded_model(l)) || entries == MODELS) return;
    Entry *e = &entry[entries];
    e->m = weir_loaded_model(l);
    if (e->m->create(NULL, &e->instance, NULL) == WEIR_OK) entries++;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *folder = getenv("WEIR_FUZZ_MODELS");
    struct dirent **file;
    char path[4096];
    (void)argc, (void)argv;
    int n = folder ? scandir(folder, &file, NULL, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, file[i]->d_name);
        if (file[i]->d_name[0] != '.') load(path);
        free(file[i]);
    }
    if (n >= 0) free(file);
    if (!entries) fprintf(stderr, "there are no models in WEIR_FUZZ_MODELS\n"), exit(2);
    return 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static int next(Stream *s) {
    if (!s->n) return 0;
    s->n--;
    return *s->at++;
}

/* Mostly small ones of both signs; 128: the next eight bytes as they are. */
static int64_t next_integer(Stream *s) {
    int64_t v = (int8_t)next(s);
    if (v != -128) return v;
    v = 0;
    for (int i = 0; i < 8; i++) v = (int64_t)((uint64_t)v << 8 | (uint64_t)next(s));
    return v;
}

static void fill(Stream *s, weir_tensor *t, int64_t count) {
    DType type = dtype_from_host(t->dtype);
    for (int64_t i = 0; i < count; i++) {
        Bits bits = dtype_is_float(type) ? bits_of_double(type, (int8_t)next(s) / 16.0)
                    : type == BOOL       ? (Bits)(next(s) & 1)
                                         : (Bits)next_integer(s);
        mem_set(type, t->data, i, bits);
    }
}

/* The size of a dim: a number, or that of its symbol (one for each first letter). */
static int64_t size_of(const char *dim, const int64_t *symbol) {
    int64_t size = strtoll(dim, NULL, 10);
    return size > 0 || dim[0] == '0' ? size : symbol[(unsigned char)dim[0] % SYMBOLS];
}

static bool make_input(Stream *s, const weir_port *p, const int64_t *symbol, weir_tensor *t) {
    int64_t count = 1;
    *t = (weir_tensor){.dtype = p->dtype, .rank = p->rank};
    for (int k = 0; k < p->rank; k++) {
        t->dims[k] = size_of(p->dims[k], symbol);
        if (__builtin_mul_overflow(count, t->dims[k], &count) || count > MOST) return false;
    }
    t->data = calloc((size_t)count * BYTES + 1, 1);
    fill(s, t, count);
    return true;
}

static void make_output(weir_tensor *t) {
    int64_t count = 1;
    for (int k = 0; k < t->rank; k++) {
        int64_t size = t->dims[k] < 0 ? 64 : t->dims[k];
        if (__builtin_mul_overflow(count, size, &count) || count > MOST) count = MOST;
    }
    t->capacity = count ? count : 1;
    t->data = malloc((size_t)t->capacity * BYTES);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void run(const Entry *e, Stream *s) {
    weir_tensor in[PORTS] = {{0}}, out[PORTS] = {{0}};
    int64_t symbol[SYMBOLS];
    bool made = true;
    for (int i = 0; i < SYMBOLS; i++) symbol[i] = e->m->ninputs ? 1 + (i + next(s)) % 9 : 1;
    for (int i = 0; made && i < e->m->ninputs; i++)
        made = make_input(s, &e->m->inputs[i], symbol, &in[i]);
    if (made && e->m->shapes(e->instance, in, out) == WEIR_OK) {
        for (int i = 0; i < e->m->noutputs; i++) make_output(&out[i]);
        weir_status status = weir_run(e->m, e->instance, in, out);
        const char *error = status ? e->m->error(e->instance) : "";
        if (strstr(error, "the compiler is at fault")) {
            fprintf(stderr, "FAULT in %s: %s\n", e->m->name, error);
            abort();
        }
    }
    for (int i = 0; i < e->m->ninputs; i++) free(in[i].data);
    for (int i = 0; i < e->m->noutputs; i++) free(out[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    Stream s = {bytes, n};
    int which = next(&s) << 8;
    run(&entry[(which | next(&s)) % entries], &s);
    return 0;
}
