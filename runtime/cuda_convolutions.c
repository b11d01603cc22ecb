/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that NVIDIA's cuDNN makes, for kernels that were given to it (cuda_library.c).
 *
 * Sums stay in f32, and only algorithms are taken that add up products of the elements as they are,
 * in an order that is the same in every run: none that go by transforms, none that convert
 * downward.
 *
 * A bias and a residual are added by the same call. It could take a ReLU too, but not one that
 * keeps NaNs, which its documentation excludes: a ReLU is a call of its own, in place. A residual
 * without a bias gets one of zeros, which all instances share. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- the library ------------------------------------------------------------------------------
 */

/* An algorithm as the library proposes it. */
typedef struct Answer {
    int algorithm, state;
    float time;
    size_t workspace;
    int determinism, math;
    int reserved[3];
} Answer;

/* Its handles, and numbers of its enumerations: which, tests/gpu/convolution_numbers.c holds to its
 * header. */
typedef cu_handle Library, Stream, Tensor, Filter, Window, End;
typedef int Number;

/* CALL(member, symbol, parameters): what we use of it; all return 0 or an error. */
#define LIBRARY_CALLS                                                                              \
    CALL(create, cudnnCreate, (Library * library))                                                 \
    CALL(destroy, cudnnDestroy, (Library library))                                                 \
    CALL(go_on, cudnnSetStream, (Library library, Stream stream))                                  \
    CALL(tensor_new, cudnnCreateTensorDescriptor, (Tensor * tensor))                               \
    CALL(tensor_free, cudnnDestroyTensorDescriptor, (Tensor tensor))                               \
    CALL(tensor_set, cudnnSetTensorNdDescriptor,                                                   \
         (Tensor tensor, Number type, int n, const int *size, const int *step))                    \
    CALL(filter_new, cudnnCreateFilterDescriptor, (Filter * filter))                               \
    CALL(filter_free, cudnnDestroyFilterDescriptor, (Filter filter))                               \
    CALL(filter_set, cudnnSetFilterNdDescriptor,                                                   \
         (Filter filter, Number type, Number format, int n, const int *size))                      \
    CALL(window_new, cudnnCreateConvolutionDescriptor, (Window * window))                          \
    CALL(window_free, cudnnDestroyConvolutionDescriptor, (Window window))                          \
    CALL(window_set, cudnnSetConvolutionNdDescriptor,                                              \
         (Window window, int n, const int *padding, const int *stride, const int *dilation,        \
          Number mode, Number compute))                                                            \
    CALL(window_groups, cudnnSetConvolutionGroupCount, (Window window, int groups))                \
    CALL(window_math, cudnnSetConvolutionMathType, (Window window, Number math))                   \
    CALL(end_new, cudnnCreateActivationDescriptor, (End * end))                                    \
    CALL(end_free, cudnnDestroyActivationDescriptor, (End end))                                    \
    CALL(end_set, cudnnSetActivationDescriptor, (End end, Number mode, Number nans, double most))  \
    CALL(choose, cudnnGetConvolutionForwardAlgorithm_v7,                                           \
         (Library library, Tensor x, Filter w, Window window, Tensor y, int most, int *n,          \
          Answer *answer))                                                                         \
    CALL(measure, cudnnGetConvolutionForwardWorkspaceSize,                                         \
         (Library library, Tensor x, Filter w, Window window, Tensor y, Number algorithm,          \
          size_t * bytes))                                                                         \
    CALL(convolve, cudnnConvolutionForward,                                                        \
         (Library library, const void *alpha, Tensor x, const void *x_at, Filter w,                \
          const void *w_at, Window window, Number algorithm, void *workspace, size_t bytes,        \
          const void *beta, Tensor y, void *y_at))                                                 \
    CALL(convolve_add, cudnnConvolutionBiasActivationForward,                                      \
         (Library library, const void *alpha, Tensor x, const void *x_at, Filter w,                \
          const void *w_at, Window window, Number algorithm, void *workspace, size_t bytes,        \
          const void *beta, Tensor z, const void *z_at, Tensor bias, const void *bias_at, End end, \
          Tensor y, void *y_at))                                                                   \
    CALL(apply, cudnnActivationForward,                                                            \
         (Library library, End end, const void *alpha, Tensor x, const void *x_at,                 \
          const void *beta, Tensor y, void *y_at))

/* Its numbers. */
enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 9 };
enum { CHANNELS_FIRST = 0, CHANNELS_LAST = 1 };
enum { AS_IT_LIES = 1 }; /* filters are not turned around */
/* What may be used; no more than that, which an algorithm's answer may do for all that. */
enum { MATH_TF32 = 0, MATH_HALVES = 1, MATH_CONVERTS = 2, MATH_F32 = 3 };
enum { IMPLICIT = 0, IMPLICIT_PLANNED = 1, EXPLICIT = 2, ALGORITHMS = 8 };
enum { DETERMINISTIC = 1 };
/* Behind the sum: nothing, of IMPLICIT_PLANNED alone where something is added; or as a call. */
enum { RELU = 1, NO_FUNCTION = 5, PLAIN_NANS = 0, KEPT_NANS = 1 };
enum { NOT_SUPPORTED = 3000 };

enum { WORKSPACE_MOST = 32 << 20, DIMS = WEIR_IMAGE_DIMS };

/* A row's convolution as the library knows it. */
typedef struct Convolution {
    Tensor x, bias, y;
    Filter w;
    Window window;
    int algorithm;
    size_t workspace;
} Convolution;

typedef struct CudaConvolutions {
    void *at;
    const char *(*text)(int error);
#define CALL(member, symbol, parameters) int(*member) parameters;
    LIBRARY_CALLS
#undef CALL
    Library handle;
    End no_end, relu;
    cu_address zeros; /* a bias for residuals; 0: none needs it */
    int n;
    int32_t lock;             /* of the handle, whose stream is set for a call */
    Convolution *convolution; /* by row of the image */
    size_t workspace;
} CudaConvolutions;

/* ---- opening ----------------------------------------------------------------------------------
 */

static weir_status open_library(weir_instance *in, CudaConvolutions *l) {
    static const char *const name = "libcudnn.so.9";
    char why[128];
    CudaSymbol symbols[] = {
#define CALL(member, symbol, parameters) {#symbol, &l->member},
        LIBRARY_CALLS
#undef CALL
        {"cudnnGetErrorString", &l->text}};
    l->at = cuda_library_load(&name, 1, why);
    if (!l->at)
        return weir_instance_fail(in, WEIR_E_DEVICE,
                                  "no cuDNN: %s cannot be opened (%s); install cuDNN 9, or compile "
                                  "the model without --gpu-libraries",
                                  name, why);
    const char *missing = cuda_library_find(l->at, symbols, sizeof symbols / sizeof *symbols);
    if (!missing) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE, "cuDNN is no version 9: it has no \"%s\"",
                              missing);
}

/* ---- planning ---------------------------------------------------------------------------------
 */

static int type_of(int32_t dtype) {
    return dtype == WEIR_F16 ? TYPE_F16 : dtype == WEIR_BF16 ? TYPE_BF16 : TYPE_F32;
}

static int make_tensor(const CudaConvolutions *l, Tensor *out, int32_t dtype,
                       const weir_device_images *m) {
    int error = l->tensor_new(out);
    return error ? error : l->tensor_set(*out, type_of(dtype), DIMS, m->size, m->step);
}

static int make_bias(const CudaConvolutions *l, Convolution *c,
                     const weir_device_convolution *row) {
    int32_t n = row->y.size[1];
    if (!row->biased && !row->added) return 0;
    return make_tensor(l, &c->bias, row->type, &(weir_device_images){{1, n, 1, 1}, {n, 1, 1, 1}});
}

static int make_filter(const CudaConvolutions *l, Convolution *c,
                       const weir_device_convolution *row) {
    const int size[DIMS] = {row->y.size[1], row->x.size[1] / row->groups, row->taps[0],
                            row->taps[1]};
    int error = l->filter_new(&c->w);
    return error ? error
                 : l->filter_set(c->w, type_of(row->type),
                                 row->channels_last ? CHANNELS_LAST : CHANNELS_FIRST, DIMS, size);
}

static int make_window(const CudaConvolutions *l, Convolution *c,
                       const weir_device_convolution *row) {
    int math = row->type != WEIR_F32 ? MATH_HALVES : row->rounded ? MATH_TF32 : MATH_F32;
    int error = l->window_new(&c->window);
    if (!error)
        error = l->window_set(c->window, 2, row->padding, row->stride, row->dilation, AS_IT_LIES,
                              TYPE_F32);
    if (!error) error = l->window_groups(c->window, row->groups);
    return error ? error : l->window_math(c->window, math);
}

static bool may_use(const Answer *a, const weir_device_convolution *row) {
    bool alone = !row->biased && !row->added;
    bool sums = a->algorithm == IMPLICIT_PLANNED ||
                (alone && (a->algorithm == IMPLICIT || a->algorithm == EXPLICIT));
    return sums && !a->state && a->determinism == DETERMINISTIC && a->math != MATH_CONVERTS;
}

/* The first of those proposed, the quickest in front, that we may use and that has room. */
static int choose_algorithm(const CudaConvolutions *l, Convolution *c,
                            const weir_device_convolution *row) {
    Answer answer[ALGORITHMS];
    int n = 0;
    int error = l->choose(l->handle, c->x, c->w, c->window, c->y, ALGORITHMS, &n, answer);
    for (int i = 0; i < n && !error; i++) {
        if (!may_use(&answer[i], row)) continue;
        c->algorithm = answer[i].algorithm;
        int no = l->measure(l->handle, c->x, c->w, c->window, c->y, c->algorithm, &c->workspace);
        if (!no && c->workspace <= WORKSPACE_MOST) return 0;
    }
    return error ? error : NOT_SUPPORTED;
}

static int make_convolution(const CudaConvolutions *l, Convolution *c,
                            const weir_device_convolution *row) {
    int error = make_tensor(l, &c->x, row->type, &row->x);
    if (!error) error = make_tensor(l, &c->y, row->type, &row->y);
    if (!error) error = make_bias(l, c, row);
    if (!error) error = make_filter(l, c, row);
    return error ? error : make_window(l, c, row);
}

static weir_status plan(weir_instance *in, CudaConvolutions *l, int k) {
    const weir_device_convolution *row = &in->program->image->convolution[k];
    Convolution *c = &l->convolution[k];
    int error = make_convolution(l, c, row);
    if (!error) error = choose_algorithm(l, c, row);
    if (!error && c->workspace > l->workspace) l->workspace = c->workspace;
    if (!error) return WEIR_OK;
    return weir_instance_fail(in, WEIR_E_DEVICE,
                              "cuDNN has no way to make %s (%s); compile the model without "
                              "--gpu-libraries",
                              row->from, l->text(error));
}

static void free_convolution(const CudaConvolutions *l, const Convolution *c) {
    const Tensor tensor[] = {c->x, c->y, c->bias};
    for (int i = 0; i < 3; i++)
        if (tensor[i]) l->tensor_free(tensor[i]);
    if (c->w) l->filter_free(c->w);
    if (c->window) l->window_free(c->window);
}

static int make_ends(CudaConvolutions *l) {
    int error = l->end_new(&l->no_end);
    if (!error) error = l->end_set(l->no_end, NO_FUNCTION, PLAIN_NANS, 0);
    if (!error) error = l->end_new(&l->relu);
    return error ? error : l->end_set(l->relu, RELU, KEPT_NANS, 0);
}

/* As many as the most channels to which a residual but no bias is added. */
static weir_status make_zeros(weir_instance *in, CudaShared *s) {
    const weir_image *image = in->program->image;
    size_t bytes = 0;
    for (int k = 0; k < image->nconvolutions; k++) {
        const weir_device_convolution *row = &image->convolution[k];
        size_t need = sizeof(float) * (size_t)row->y.size[1];
        if (row->added && !row->biased && need > bytes) bytes = need;
    }
    if (!bytes) return WEIR_OK;
    if (s->cu.alloc(&s->convolutions->zeros, bytes))
        return weir_instance_fail(in, WEIR_E_MEMORY,
                                  "cannot allocate %zu bytes of the GPU's memory", bytes);
    int error = s->cu.fill(s->convolutions->zeros, 0, bytes, NULL);
    if (!error) error = s->cu.stream_wait(NULL);
    return cuda_check(in, error, "filling a bias with zeros");
}

weir_status cuda_convolutions_open(weir_instance *in, CudaShared *s) {
    int n = in->program->image->nconvolutions;
    if (!n) return WEIR_OK;
    CudaConvolutions *l = s->convolutions = calloc(1, sizeof *l);
    if (l) l->convolution = calloc((size_t)n, sizeof *l->convolution);
    if (!l || !l->convolution)
        return weir_instance_fail(in, WEIR_E_MEMORY, "cannot allocate an instance");
    l->n = n;
    weir_status status = open_library(in, l);
    if (status) return status;
    int error = l->create(&l->handle);
    if (!error) error = make_ends(l);
    if (error)
        return weir_instance_fail(in, WEIR_E_DEVICE, "cuDNN cannot be used: %s", l->text(error));
    for (int k = 0; k < n && !status; k++) status = plan(in, l, k);
    return status ? status : make_zeros(in, s);
}

void cuda_convolutions_close(CudaShared *s) {
    CudaConvolutions *l = s->convolutions;
    s->convolutions = NULL;
    if (!l) return;
    for (int k = 0; k < l->n && l->convolution; k++) free_convolution(l, &l->convolution[k]);
    if (l->no_end) l->end_free(l->no_end);
    if (l->relu) l->end_free(l->relu);
    if (l->zeros) s->cu.free(l->zeros);
    if (l->handle) l->destroy(l->handle);
    if (l->at) dlclose(l->at);
    free(l->convolution);
    free(l);
}

int64_t cuda_convolutions_bytes(const CudaShared *s) {
    return s->convolutions ? (int64_t)s->convolutions->workspace : 0;
}

/* ---- runs -------------------------------------------------------------------------------------
 */

/* What a call gets, by a row of the image. */
typedef struct Operands {
    const char *x, *w, *bias, *residual;
    char *y;
} Operands;

static int call_sums(const CudaConvolutions *l, const Convolution *c, const CudaState *state,
                     const Operands *at) {
    const float one = 1, none = 0;
    const char *z = at->residual, *bias = at->bias ? at->bias : (char *)(uintptr_t)l->zeros;
    if (!at->bias && !z)
        return l->convolve(l->handle, &one, c->x, at->x, c->w, at->w, c->window, c->algorithm,
                           state->work, c->workspace, &none, c->y, at->y);
    return l->convolve_add(l->handle, &one, c->x, at->x, c->w, at->w, c->window, c->algorithm,
                           state->work, c->workspace, z ? &one : &none, c->y, z ? z : at->y,
                           c->bias, bias, l->no_end, c->y, at->y);
}

static int call_relu(const CudaConvolutions *l, const Convolution *c, char *y) {
    const float one = 1, none = 0;
    return l->apply(l->handle, l->relu, &one, c->y, y, &none, c->y, y);
}

/* Instances share the handle: one at a time gives it its stream and uses it. */
void weir_device_convolve(weir_frame *f, int32_t convolution, const char *x, const char *w,
                          const char *bias, const char *residual, char *y) {
    CudaState *state = f->instance->device;
    CudaConvolutions *l = state->shared->convolutions;
    const Convolution *c = &l->convolution[convolution];
    const weir_device_convolution *row = &f->program->image->convolution[convolution];
    const Operands at = {x, w, bias, residual, y};
    if (f->status) return;
    weir_lock(&l->lock);
    int error = l->go_on(l->handle, state->on);
    if (!error) error = call_sums(l, c, state, &at);
    if (!error && row->relu) error = call_relu(l, c, y);
    weir_unlock(&l->lock);
    cuda_library_done(f, error, "cuDNN", error ? l->text(error) : NULL, row->from);
}
