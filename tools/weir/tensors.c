/* SPDX-License-Identifier: Apache-2.0 */
/* Host tensors: sizes, files, random values, comparison. */
#include "tools/weir/tensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/output.h"
#include "tools/weir/args.h"

/* ---- memory --------------------------------------------------------------------------------- */

void out_of_memory(void) {
    fprintf(stderr,
            "error: out of memory: the model or its inputs are too large for this machine\n");
    exit(EXIT_MODEL);
}

void *host_alloc(size_t n, size_t size) {
    void *at = calloc(n ? n : 1, size);
    if (!at) out_of_memory();
    return at;
}

void *host_more(void *at, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || !(at = realloc(at, bytes ? bytes : 1)))
        out_of_memory();
    return at;
}

char *host_text(const char *text) {
    size_t n = strlen(text) + 1;
    return memcpy(host_alloc(n, 1), text, n);
}

/* ---- tensors -------------------------------------------------------------------------------- */

void host_free(HostTensor *h) {
    free(h->name);
    free(h->t.data);
    memset(h, 0, sizeof *h);
}

int64_t host_count(const weir_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

int dtype_bits_of(int32_t dtype) {
    DType t = dtype_from_host(dtype);
    return t == DT_NONE ? 0 : t == STRING ? 8 * (int)sizeof(weir_string) : dtype_bits(t);
}

const char *dtype_text(int32_t dtype) {
    DType t = dtype_from_host(dtype);
    return t == DT_NONE ? "?" : dtype_name(t);
}

int64_t host_bytes(const weir_tensor *t) {
    return (host_count(t) * dtype_bits_of(t->dtype) + 7) / 8;
}

bool host_has_size(const weir_tensor *t) {
    int64_t bits = dtype_bits_of(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] < 0) return false;
        if (t->dims[i] == 0) bits = 0;
    }
    for (int i = 0; bits && i < t->rank; i++)
        if (__builtin_mul_overflow(bits, t->dims[i], &bits)) return false;
    return bits < INT64_MAX - 8;
}

/* ---- files ---------------------------------------------------------------------------------- */

char *read_whole(const char *path, size_t *n, char *error) {
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    if (!f || fseek(f, 0, SEEK_END) || (*n = (size_t)ftell(f), fseek(f, 0, SEEK_SET))) {
        snprintf(error, 256, "cannot read \"%.180s\": %s", path, strerror(errno));
    } else if (!(data = malloc(*n + 1)) || fread(data, 1, *n, f) != *n) {
        snprintf(error, 256, "cannot read \"%.180s\": %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    if (f) fclose(f);
    return data;
}

/* One file of one context's making. */
typedef struct Writing {
    Ctx *ctx;
    const char *path;
    const void *data;
    size_t n;
    char *error;
} Writing;

static void note_error(void *user, const Diag *diag) {
    snprintf(((Writing *)user)->error, 256, "%s", diag->message);
}

static void write_one(void *arg) {
    Writing *w = arg;
    output_file(arena_new(w->ctx), w->path, w->data, w->n);
}

bool write_whole(const char *path, const void *data, size_t n, char *error) {
    Writing w = {.path = path, .data = data, .n = n, .error = error};
    snprintf(error, 256, "out of memory");
    w.ctx = ctx_new(note_error, &w);
    bool ok = w.ctx && ctx_try(w.ctx, write_one, &w);
    if (w.ctx) ctx_free(w.ctx);
    return ok;
}

void json_string(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else if ((unsigned char)*text < 32)
            fprintf(f, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, f);
    }
    fputc('"', f);
}

bool host_read(HostTensor *h, const char *path, const char *object, char *error) {
    size_t n = strlen(path);
    if (n > 3 && strcmp(path + n - 3, ".pb") == 0) return pb_read(h, path, object, error);
    return npy_read(h, path, error);
}

/* ---- values --------------------------------------------------------------------------------- */

/* splitmix64 of a counter: any element can be made alone. */
static uint64_t random_word(uint64_t seed, uint64_t i) {
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void random_words(HostTensor *h, uint64_t seed, int64_t n) {
    static const char words[10][6] = {"zero", "one", "two",   "three", "four",
                                      "five", "six", "seven", "eight", "nine"};
    weir_string *s = host_alloc((size_t)n, sizeof *s);
    for (int64_t i = 0; i < n; i++) {
        const char *word = words[random_word(seed, (uint64_t)i) % 10];
        s[i] = (weir_string){word, (int64_t)strlen(word)};
    }
    if (!host_flatten(h, s)) out_of_memory();
    free(s);
}

void host_random(HostTensor *h, uint64_t seed) {
    int64_t n = host_count(&h->t);
    if (h->t.dtype == WEIR_STRING) {
        random_words(h, seed, n);
        return;
    }
    DType t = dtype_from_host(h->t.dtype);
    size_t bytes = (size_t)host_bytes(&h->t);
    h->t.data = host_alloc(bytes, 1);
    if (t == C64 || t == C128) n *= 2, t = t == C64 ? F32 : F64;
    for (int64_t i = 0; i < n; i++) {
        uint64_t w = random_word(seed, (uint64_t)i);
        double v = dtype_is_float(t) ? (double)(w >> 11) * 0x1p-52 - 1
                                     : (double)(w % (t == BOOL || t == I32 || t == I64 ? 2 : 10));
        mem_set(t, h->t.data, i, bits_of_double(t, v));
    }
}

double host_get(const weir_tensor *t, int64_t i) {
    DType d = dtype_from_host(t->dtype);
    return bits_to_double(d, mem_get(d, t->data, i));
}
