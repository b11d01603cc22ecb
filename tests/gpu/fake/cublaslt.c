/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt without a GPU: libcublasLt.so.13 for tests, on the driver beside it (cuda.c). Products
 * are plain loops in f32.
 *
 * What it looks after: handles are made in a context, before they are used, and nothing of them is
 * left; types, sizes and distances fit each other; operands lie in the device's memory, on
 * multiples of what their algorithm was asked for; the algorithm is that of these operands, and has
 * the memory to work in that it wanted. That memory is overwritten. WEIR_FAKE_PRODUCTS names a file
 * that gets a line for each call, WEIR_FAKE_NO_ALGORITHM leaves none to choose. */
#define _GNU_SOURCE
#include "library.h"
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_INITIALIZED = 1, INVALID = 7, NOT_SUPPORTED = 15 };
enum { F32 = 0, F16 = 2, BF16 = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_F32_PEDANTIC = 69, COMPUTE_TF32 = 77 };

/* ---- handles ----------------------------------------------------------------------------------
 */

typedef enum { OPERATION = 0x0b, LAYOUT = 0x1a, PREFERENCE = 0x9e } Kind;

typedef struct Operation {
    Kind kind;
    int compute;
    int32_t across_a, across_b;
    uint32_t end, unused;
    uint64_t bias;
} Operation;

typedef struct Layout {
    Kind kind;
    int type;
    uint64_t rows, columns;
    int64_t apart, step;
    int32_t batch, unused; /* layouts are compared byte by byte */
} Layout;

typedef struct Preference {
    Kind kind;
    uint64_t workspace;
    uint32_t reduction, align[4];
} Preference;

/* What is multiplied and how, by which an algorithm is chosen. */
typedef struct Problem {
    Operation operation;
    Layout a, b, c, d;
    uint32_t align[4];
    uint64_t workspace;
} Problem;

typedef struct Algorithm {
    const Problem *of;
    uint64_t more[7];
} Algorithm;

typedef struct Answer {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} Answer;

/* Problems that algorithms were chosen for; as long as the library is there. */
enum { PROBLEMS = 256 };
static Problem problems[PROBLEMS];
static int nproblems;

int cublasLtCreate(void **library) {
    return handle_new(library, "cublasLtCreate") ? OK : NOT_INITIALIZED;
}
int cublasLtDestroy(void *library) {
    handle_free(library);
    return OK;
}
const char *cublasLtGetStatusString(int error) {
    return error == NOT_SUPPORTED ? "not supported" : error == INVALID ? "invalid value" : "error";
}

int cublasLtMatmulDescCreate(void **operation, int compute, int scale) {
    Operation *o = *operation = object_new(OPERATION, sizeof *o);
    o->compute = compute;
    o->end = 1;
    return scale == F32 ? OK : INVALID;
}
int cublasLtMatmulDescDestroy(void *operation) {
    object_free(operation, OPERATION);
    return OK;
}
int cublasLtMatmulDescSetAttribute(void *operation, int what, const void *value, size_t bytes) {
    Operation *o = operation;
    if (o->kind != OPERATION) return INVALID;
    if ((what == 3 || what == 4) && bytes == 4)
        memcpy(what == 3 ? &o->across_a : &o->across_b, value, bytes);
    else if (what == 7 && bytes == 4)
        memcpy(&o->end, value, bytes);
    else if (what == 8 && bytes == 8)
        memcpy(&o->bias, value, bytes);
    else
        return INVALID;
    return o->end == 1 || o->end == 4 ? OK : INVALID;
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t apart) {
    Layout *l = *layout = object_new(LAYOUT, sizeof *l);
    *l = (Layout){LAYOUT, type, rows, columns, apart, 0, 1, 0};
    return rows && columns && apart >= (int64_t)rows ? OK : INVALID;
}
int cublasLtMatrixLayoutDestroy(void *layout) {
    object_free(layout, LAYOUT);
    return OK;
}
int cublasLtMatrixLayoutSetAttribute(void *layout, int what, const void *value, size_t bytes) {
    Layout *l = layout;
    if (l->kind != LAYOUT) return INVALID;
    if (what == 5 && bytes == 4)
        memcpy(&l->batch, value, bytes);
    else if (what == 6 && bytes == 8)
        memcpy(&l->step, value, bytes);
    else
        return INVALID;
    return l->batch > 0 && l->step >= 0 ? OK : INVALID;
}

int cublasLtMatmulPreferenceCreate(void **preference) {
    Preference *p = *preference = object_new(PREFERENCE, sizeof *p);
    *p = (Preference){PREFERENCE, 0, 7, {256, 256, 256, 256}};
    return OK;
}
int cublasLtMatmulPreferenceDestroy(void *preference) {
    object_free(preference, PREFERENCE);
    return OK;
}
int cublasLtMatmulPreferenceSetAttribute(void *preference, int what, const void *value,
                                         size_t bytes) {
    Preference *p = preference;
    if (p->kind != PREFERENCE) return INVALID;
    if (what == 1 && bytes == 8)
        memcpy(&p->workspace, value, bytes);
    else if (what == 3 && bytes == 4)
        memcpy(&p->reduction, value, bytes);
    else if (what >= 5 && what <= 8 && bytes == 4)
        memcpy(&p->align[what - 5], value, bytes);
    else
        return INVALID;
    return OK;
}

/* ---- algorithms -------------------------------------------------------------------------------
 */

static uint64_t rows_of(const Layout *l, int32_t across) {
    return across ? l->columns : l->rows;
}

static uint64_t columns_of(const Layout *l, int32_t across) {
    return across ? l->rows : l->columns;
}

static bool types_fit(const Problem *p) {
    bool words =
        p->a.type == F32 && p->d.type == F32 &&
        (p->operation.compute == COMPUTE_F32_PEDANTIC || p->operation.compute == COMPUTE_TF32);
    bool halves = (p->a.type == F16 || p->a.type == BF16) &&
                  (p->d.type == p->a.type || p->d.type == F32) &&
                  p->operation.compute == COMPUTE_F32;
    return p->a.type == p->b.type && (words || halves);
}

static bool sizes_fit(const Problem *p) {
    int32_t a = p->operation.across_a, b = p->operation.across_b;
    return rows_of(&p->a, a) == p->d.rows && columns_of(&p->b, b) == p->d.columns &&
           columns_of(&p->a, a) == rows_of(&p->b, b) && p->a.batch == p->d.batch &&
           p->b.batch == p->d.batch && p->c.batch == p->d.batch && p->c.rows == p->d.rows &&
           p->c.columns == p->d.columns && p->c.type == p->d.type &&
           (p->d.batch == 1 || p->d.step > 0);
}

static Problem problem_of(const Operation *o, const Layout *a, const Layout *b, const Layout *c,
                          const Layout *d) {
    if (o->kind != OPERATION || a->kind != LAYOUT || b->kind != LAYOUT || c->kind != LAYOUT ||
        d->kind != LAYOUT)
        breach("a product of handles of another kind");
    return (Problem){.operation = *o, .a = *a, .b = *b, .c = *c, .d = *d};
}

int cublasLtMatmulAlgoGetHeuristic(void *library, const void *operation, const void *a,
                                   const void *b, const void *c, const void *d,
                                   const void *preference, int most, Answer *answer, int *n) {
    const Preference *want = preference;
    Problem p = problem_of(operation, a, b, c, d);
    *n = 0;
    if (library != &handles || most < 1 || want->kind != PREFERENCE || !sizes_fit(&p))
        return INVALID;
    if (!types_fit(&p) || getenv("WEIR_FAKE_NO_ALGORITHM")) return NOT_SUPPORTED;
    if (want->reduction != 2) breach("sums in parts may be rounded between");
    if ((p.operation.end == 4) != (p.operation.bias != 0) || nproblems == PROBLEMS) return INVALID;
    memcpy(p.align, want->align, sizeof p.align);
    p.workspace = (4 << 10) + 256 * (uint64_t)nproblems;
    if (p.workspace > want->workspace) p.workspace = 0;
    problems[nproblems] = p;
    *answer = (Answer){.algorithm = {.of = &problems[nproblems++]}, .workspace = p.workspace};
    *n = 1;
    return OK;
}

/* ---- products ---------------------------------------------------------------------------------
 */

static FakeNumber number_of(const Layout *l) {
    return l->type == F32 ? FAKE_F32 : l->type == F16 ? FAKE_F16 : FAKE_BF16;
}

static float load(const Layout *l, const char *at, int64_t i) {
    return fake_load(number_of(l), at, i);
}

static void store(const Layout *l, char *at, int64_t i, float value) {
    fake_store(number_of(l), at, i, value);
}

/* A matrix as numbers, row by row. */
static float *take(const Layout *l, const char *at, bool across, bool rounds) {
    uint64_t rows = rows_of(l, across), columns = columns_of(l, across);
    float *to = malloc(rows * columns * sizeof *to);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++) {
            uint64_t r = across ? j : i, c = across ? i : j;
            float x = load(l, at, (int64_t)r + (int64_t)c * l->apart);
            to[i * columns + j] = rounds ? fake_rounded(x) : x;
        }
    return to;
}

static int64_t bytes_of(const Layout *l) {
    return l->type == F32 ? 4 : 2;
}

/* A call, as words: what a stream keeps of it. */
enum { THE_PROBLEM, THE_A, THE_B, THE_C, THE_D, THE_BIAS, THE_SCALES, THE_WORK, WORDS };

static const char *matrix_at(const uint64_t *words, int which, const Layout *l, int64_t i) {
    return (const char *)(uintptr_t)words[which] + i * l->step * bytes_of(l);
}

static void multiply_one(const uint64_t *words, int64_t batch) {
    const Problem *p = (const Problem *)(uintptr_t)words[THE_PROBLEM];
    bool rounds = p->operation.compute == COMPUTE_TF32;
    float *x = take(&p->a, matrix_at(words, THE_A, &p->a, batch), p->operation.across_a, rounds);
    float *y = take(&p->b, matrix_at(words, THE_B, &p->b, batch), p->operation.across_b, rounds);
    const char *c = matrix_at(words, THE_C, &p->c, batch);
    char *d = (char *)(uintptr_t)matrix_at(words, THE_D, &p->d, batch);
    const char *bias = (const char *)(uintptr_t)words[THE_BIAS];
    uint64_t m = p->d.rows, n = p->d.columns, depth = columns_of(&p->a, p->operation.across_a);
    float *row = malloc(n * sizeof *row), scale[2];
    memcpy(scale, &words[THE_SCALES], sizeof scale);
    for (uint64_t i = 0; i < m; i++) {
        memset(row, 0, n * sizeof *row);
        for (uint64_t k = 0; k < depth; k++)
            for (uint64_t j = 0; j < n; j++) row[j] += x[i * depth + k] * y[k * n + j];
        for (uint64_t j = 0; j < n; j++) {
            float v = scale[0] * row[j];
            if (scale[1] != 0) v += scale[1] * load(&p->c, c, (int64_t)i + (int64_t)j * p->c.apart);
            if (bias) v += load(&p->d, bias, (int64_t)i);
            store(&p->d, d, (int64_t)i + (int64_t)j * p->d.apart, v);
        }
    }
    free(x);
    free(y);
    free(row);
}

static void multiply(const uint64_t *words) {
    const Problem *p = (const Problem *)(uintptr_t)words[THE_PROBLEM];
    memset((char *)(uintptr_t)words[THE_WORK], 0x5a, p->workspace);
    for (int64_t i = 0; i < p->d.batch; i++) multiply_one(words, i);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static const char *type_name(int type) {
    return type == F32 ? "f32" : type == F16 ? "f16" : "bf16";
}

static void log_matrix(FILE *file, const char *name, const Layout *l, int32_t across,
                       uint32_t align) {
    fprintf(file, ", %s %s %lld step %lld align %u", name, across ? "T" : "N", (long long)l->apart,
            (long long)l->step, align);
}

static void log_product(const Problem *p, float alpha, float beta) {
    const char *path = getenv("WEIR_FAKE_PRODUCTS");
    FILE *file = path ? fopen(path, "a") : NULL;
    const Operation *o = &p->operation;
    const char *by = o->compute == COMPUTE_F32    ? "f32"
                     : o->compute == COMPUTE_TF32 ? "tf32"
                                                  : "f32 alone";
    if (!file) return;
    fprintf(file, "%s to %s by %s, m %llu n %llu k %llu batch %d, alpha %g beta %g",
            type_name(p->a.type), type_name(p->d.type), by, (unsigned long long)p->d.rows,
            (unsigned long long)p->d.columns, (unsigned long long)columns_of(&p->a, o->across_a),
            p->d.batch, alpha, beta);
    log_matrix(file, "a", &p->a, o->across_a, p->align[0]);
    log_matrix(file, "b", &p->b, o->across_b, p->align[1]);
    if (beta != 0) log_matrix(file, "c", &p->c, 0, p->align[2]);
    log_matrix(file, "d", &p->d, 0, p->align[3]);
    fprintf(file, "%s\n", o->bias ? ", bias" : "");
    fclose(file);
}

static void look_at(const Layout *l, uint64_t at, uint32_t align, const char *what) {
    int64_t last =
        (l->batch - 1) * l->step + ((int64_t)l->columns - 1) * l->apart + (int64_t)l->rows;
    within(at, (size_t)(last * bytes_of(l)), what);
    if (at % align) breach("%s: 0x%llx is no multiple of %u", what, (unsigned long long)at, align);
}

/* Is it what the algorithm was chosen for? A bias may have moved to another place as good. */
static void look_at_problem(Problem *p, const Problem *of) {
    uint64_t bias = p->operation.bias;
    if (bias) {
        look_at(&(Layout){LAYOUT, p->d.type, p->d.rows, 1, 0, 0, 1, 0}, bias,
                (uint32_t)of->operation.bias, "a product's bias");
        p->operation.bias = of->operation.bias;
    }
    memcpy(p->align, of->align, sizeof p->align);
    p->workspace = of->workspace;
    if (memcmp(p, of, sizeof *p)) breach("an algorithm for another product");
}

int cublasLtMatmul(void *library, const void *operation, const float *alpha, uint64_t a,
                   const void *la, uint64_t b, const void *lb, const float *beta, uint64_t c,
                   const void *lc, uint64_t d, const void *ld, const Algorithm *algorithm,
                   uint64_t work, size_t bytes, void *stream) {
    Problem p = problem_of(operation, la, lb, lc, ld);
    uint64_t words[WORDS] = {(uintptr_t)algorithm->of, a, b, c, d, p.operation.bias, 0, work};
    if (library != &handles || !in_context() || (c == d && lc != ld)) return INVALID;
    look_at_problem(&p, algorithm->of);
    if (bytes < p.workspace || work % 256)
        breach("%zu bytes to work in at 0x%llx", bytes, (unsigned long long)work);
    within(work, p.workspace, "what a product works in");
    look_at(&p.a, a, p.align[0], "a product's a");
    look_at(&p.b, b, p.align[1], "a product's b");
    if (*beta != 0) look_at(&p.c, c, p.align[2], "a product's c");
    look_at(&p.d, d, p.align[3], "a product's d");
    log_product(&p, *alpha, *beta);
    memcpy(&words[THE_SCALES], (float[]){*alpha, *beta}, 2 * sizeof *alpha);
    return put(stream, multiply, words, WORDS);
}

__attribute__((destructor)) static void look_back(void) {
    expect_nothing_left("cuBLASLt");
}
