/* SPDX-License-Identifier: Apache-2.0 */
/* Products that NVIDIA's cuBLASLt makes, for kernels that were given to it (cuda_library.c). Sums
 * stay in f32, those of parts too. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- the library ------------------------------------------------------------------------------
 */

typedef struct Algorithm {
    uint64_t data[8];
} Algorithm;

/* What the library answers when it is asked for an algorithm, as it lays it out. */
typedef struct Answer {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} Answer;

/* Its handles, and numbers of its enumerations: which, tests/gpu/library_numbers.c holds to its
 * header. */
typedef cu_handle Library, Stream, Operation, Layout, Preference;
typedef int Number;

/* CALL(member, symbol, parameters): what we use of it; all return 0 or an error. */
#define LIBRARY_CALLS                                                                              \
    CALL(create, cublasLtCreate, (Library * library))                                              \
    CALL(destroy, cublasLtDestroy, (Library library))                                              \
    CALL(operation_new, cublasLtMatmulDescCreate,                                                  \
         (Operation * operation, Number compute, Number scale))                                    \
    CALL(operation_free, cublasLtMatmulDescDestroy, (Operation operation))                         \
    CALL(operation_set, cublasLtMatmulDescSetAttribute,                                            \
         (Operation operation, Number what, const void *value, size_t bytes))                      \
    CALL(layout_new, cublasLtMatrixLayoutCreate,                                                   \
         (Layout * layout, Number type, uint64_t rows, uint64_t columns, int64_t apart))           \
    CALL(layout_free, cublasLtMatrixLayoutDestroy, (Layout layout))                                \
    CALL(layout_set, cublasLtMatrixLayoutSetAttribute,                                             \
         (Layout layout, Number what, const void *value, size_t bytes))                            \
    CALL(preference_new, cublasLtMatmulPreferenceCreate, (Preference * preference))                \
    CALL(preference_free, cublasLtMatmulPreferenceDestroy, (Preference preference))                \
    CALL(preference_set, cublasLtMatmulPreferenceSetAttribute,                                     \
         (Preference preference, Number what, const void *value, size_t bytes))                    \
    CALL(choose, cublasLtMatmulAlgoGetHeuristic,                                                   \
         (Library library, Operation operation, Layout a, Layout b, Layout c, Layout d,            \
          Preference preference, int most, Answer *answer, int *n))                                \
    CALL(multiply, cublasLtMatmul,                                                                 \
         (Library library, Operation operation, const void *alpha, const void *a, Layout a_layout, \
          const void *b, Layout b_layout, const void *beta, const void *c, Layout c_layout,        \
          void *d, Layout d_layout, const Algorithm *algorithm, void *workspace, size_t bytes,     \
          Stream stream))

/* Its numbers. */
enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_F32_ALONE = 69, COMPUTE_TF32 = 77 };
enum { OPERATION_ACROSS_A = 3, OPERATION_ACROSS_B = 4, ACROSS = 1 };
enum { OPERATION_END = 7, ADD_BIAS = 4, OPERATION_BIAS = 8 };
enum { LAYOUT_BATCH = 5, LAYOUT_STEP = 6 };
enum { PREFER_WORKSPACE = 1, PREFER_REDUCTION = 3, PREFER_ALIGN_A = 5 };
enum { NOT_SUPPORTED = 15 };
enum { REDUCE_IN_F32 = 2 }; /* of sums in parts; no other way but by none */

enum { WORKSPACE_MOST = 32 << 20 };

/* A row's product as the library knows it. */
typedef struct Product {
    Operation operation;
    Layout a, b, c, d; /* c: of d where nothing is added */
    Algorithm algorithm;
    size_t workspace;
} Product;

typedef struct CudaProducts {
    void *at;
    const char *(*text)(int error);
#define CALL(member, symbol, parameters) int(*member) parameters;
    LIBRARY_CALLS
#undef CALL
    Library handle;
    int n;
    int32_t lock;     /* of operations whose bias is set for a call */
    Product *product; /* by row of the image */
    size_t workspace;
} CudaProducts;

/* ---- opening ----------------------------------------------------------------------------------
 */

static const char *find_all(CudaProducts *l) {
    CudaSymbol symbols[] = {
#define CALL(member, symbol, parameters) {#symbol, &l->member},
        LIBRARY_CALLS
#undef CALL
        {"cublasLtGetStatusString", &l->text}};
    return cuda_library_find(l->at, symbols, sizeof symbols / sizeof *symbols);
}

static weir_status open_library(weir_instance *in, CudaProducts *l) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    char why[128];
    l->at = cuda_library_load(names, 2, why);
    if (!l->at)
        return weir_instance_fail(in, WEIR_E_DEVICE,
                                  "no cuBLASLt: neither libcublasLt.so.13 nor .12 can be opened "
                                  "(%s); install cuBLAS, or compile the model without "
                                  "--gpu-libraries",
                                  why);
    const char *missing = find_all(l);
    if (!missing) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE, "cuBLASLt is too old: it has no \"%s\"", missing);
}

/* ---- planning ---------------------------------------------------------------------------------
 */

static int type_of(int32_t dtype) {
    return dtype == WEIR_F16 ? TYPE_F16 : dtype == WEIR_BF16 ? TYPE_BF16 : TYPE_F32;
}

/* As it lies in memory: of rows x columns, or across, turned. */
static int make_layout(const CudaProducts *l, Layout *out, int32_t dtype,
                       const weir_device_matrix *m, int64_t rows, int64_t columns, int64_t batch) {
    int32_t count = (int32_t)batch;
    int error = l->layout_new(out, type_of(dtype), (uint64_t)(m->across ? columns : rows),
                              (uint64_t)(m->across ? rows : columns), m->apart);
    if (!error) error = l->layout_set(*out, LAYOUT_BATCH, &count, sizeof count);
    if (!error) error = l->layout_set(*out, LAYOUT_STEP, &m->step, sizeof m->step);
    return error;
}

/* An address is a part of the operation; before there is one, what it begins on. */
static int set_bias(const CudaProducts *l, Operation operation, const void *bias) {
    return l->operation_set(operation, OPERATION_BIAS, &bias, sizeof bias);
}

static int make_operation(const CudaProducts *l, Product *p, const weir_device_product *row) {
    int32_t a = row->a.across ? ACROSS : 0, b = row->b.across ? ACROSS : 0;
    uint32_t end = ADD_BIAS;
    int compute = row->factor != WEIR_F32 ? COMPUTE_F32
                  : row->rounded          ? COMPUTE_TF32
                                          : COMPUTE_F32_ALONE;
    int error = l->operation_new(&p->operation, compute, TYPE_F32);
    if (!error) error = l->operation_set(p->operation, OPERATION_ACROSS_A, &a, sizeof a);
    if (!error) error = l->operation_set(p->operation, OPERATION_ACROSS_B, &b, sizeof b);
    if (error || !row->bias.align) return error;
    error = l->operation_set(p->operation, OPERATION_END, &end, sizeof end);
    return error ? error : set_bias(l, p->operation, (void *)(intptr_t)row->bias.align);
}

/* What the algorithm must keep to; a, b, c and d begin on these multiples. */
static int make_preference(const CudaProducts *l, Preference *out, const weir_device_product *row) {
    uint64_t most = WORKSPACE_MOST;
    uint32_t reduction = REDUCE_IN_F32;
    int32_t c = row->c.align ? row->c.align : row->d.align;
    const uint32_t align[] = {(uint32_t)row->a.align, (uint32_t)row->b.align, (uint32_t)c,
                              (uint32_t)row->d.align};
    int error = l->preference_new(out);
    if (!error) error = l->preference_set(*out, PREFER_WORKSPACE, &most, sizeof most);
    if (!error) error = l->preference_set(*out, PREFER_REDUCTION, &reduction, sizeof reduction);
    for (int i = 0; i < 4 && !error; i++)
        error = l->preference_set(*out, PREFER_ALIGN_A + i, &align[i], sizeof align[i]);
    return error;
}

static int choose_algorithm(const CudaProducts *l, Product *p, const weir_device_product *row) {
    Preference preference = NULL;
    Answer answer = {.state = 0};
    int n = 0, error = make_preference(l, &preference, row);
    if (!error)
        error =
            l->choose(l->handle, p->operation, p->a, p->b, p->c, p->d, preference, 1, &answer, &n);
    if (!error && n > 0) error = answer.state;
    if (preference) l->preference_free(preference);
    p->algorithm = answer.algorithm;
    p->workspace = answer.workspace;
    return error || n > 0 ? error : NOT_SUPPORTED;
}

static int make_layouts(const CudaProducts *l, Product *p, const weir_device_product *row) {
    int64_t m = row->rows, n = row->columns, k = row->depth;
    int error = make_layout(l, &p->a, row->factor, &row->a, m, k, row->batch);
    if (!error) error = make_layout(l, &p->b, row->factor, &row->b, k, n, row->batch);
    if (!error) error = make_layout(l, &p->d, row->result, &row->d, m, n, row->batch);
    bool same = row->c.apart == row->d.apart && row->c.step == row->d.step;
    p->c = p->d;
    if (error || !row->c.align || same) return error;
    return make_layout(l, &p->c, row->result, &row->c, m, n, row->batch);
}

static weir_status plan(weir_instance *in, CudaProducts *l, int k) {
    const weir_device_product *row = &in->program->image->product[k];
    Product *p = &l->product[k];
    int error = make_operation(l, p, row);
    if (!error) error = make_layouts(l, p, row);
    if (!error) error = choose_algorithm(l, p, row);
    if (p->workspace > l->workspace) l->workspace = p->workspace;
    if (!error) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE,
                              "cuBLASLt has no way to make %s (%s); compile the model without "
                              "--gpu-libraries",
                              row->from, l->text(error));
}

static void free_product(const CudaProducts *l, const Product *p) {
    const Layout layout[] = {p->a, p->b, p->d, p->c != p->d ? p->c : NULL};
    for (int i = 0; i < 4; i++)
        if (layout[i]) l->layout_free(layout[i]);
    if (p->operation) l->operation_free(p->operation);
}

weir_status cuda_products_open(weir_instance *in, CudaShared *s) {
    int n = in->program->image->nproducts;
    if (!n) return WEIR_OK;
    CudaProducts *l = s->products = calloc(1, sizeof *l);
    if (l) l->product = calloc((size_t)n, sizeof *l->product);
    if (!l || !l->product)
        return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    l->n = n;
    weir_status status = open_library(in, l);
    if (status) return status;
    int error = l->create(&l->handle);
    if (error)
        return weir_instance_fail(in, WEIR_E_DEVICE, "cuBLASLt cannot be used: %s", l->text(error));
    for (int k = 0; k < n && !status; k++) status = plan(in, l, k);
    return status;
}

void cuda_products_close(CudaShared *s) {
    CudaProducts *l = s->products;
    s->products = NULL;
    if (!l) return;
    for (int k = 0; k < l->n; k++) free_product(l, &l->product[k]);
    if (l->handle) l->destroy(l->handle);
    if (l->at) dlclose(l->at);
    free(l->product);
    free(l);
}

int64_t cuda_products_bytes(const CudaShared *s) {
    return s->products ? (int64_t)s->products->workspace : 0;
}

/* ---- runs -------------------------------------------------------------------------------------
 */

static int call(CudaProducts *l, const Product *p, const CudaState *state, const char *a,
                const char *b, const char *c, char *d) {
    const float alpha = 1, beta = c ? 1 : 0;
    return l->multiply(l->handle, p->operation, &alpha, a, p->a, b, p->b, &beta, c ? c : d, p->c, d,
                       p->d, &p->algorithm, state->work, p->workspace, state->on);
}

/* Instances share operations: one at a time sets a bias and uses it. */
static int call_with_bias(CudaProducts *l, const Product *p, const CudaState *state, const char *a,
                          const char *b, const char *c, const char *bias, char *d) {
    weir_lock(&l->lock);
    int error = set_bias(l, p->operation, bias);
    if (!error) error = call(l, p, state, a, b, c, d);
    weir_unlock(&l->lock);
    return error;
}

void weir_device_multiply(weir_frame *f, int32_t product, const char *a, const char *b,
                          const char *c, const char *bias, char *d) {
    CudaState *state = f->instance->device;
    CudaProducts *l = state->shared->products;
    const Product *p = &l->product[product];
    const char *from = f->program->image->product[product].from;
    if (f->status) return;
    int error =
        bias ? call_with_bias(l, p, state, a, b, c, bias, d) : call(l, p, state, a, b, c, d);
    cuda_library_done(f, error, "cuBLASLt", error ? l->text(error) : NULL, from);
}
