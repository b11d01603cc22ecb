/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that NVIDIA's cuDNN makes, for kernels that were given to it (cuda_library.c).
 *
 * Sums stay in f32, and only algorithms are taken that add up products of the elements as they are,
 * in an order that is the same in every run: none that go by transforms. */
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

/* CALL(member, symbol, parameters): what we use of it; all return 0 or an error. Of tensors,
 * filters, convolutions and activations each is a handle. */
#define LIBRARY_CALLS                                                                              \
    CALL(create, cudnnCreate, (cu_handle * library))                                               \
    CALL(destroy, cudnnDestroy, (cu_handle library))                                               \
    CALL(go_on, cudnnSetStream, (cu_handle library, cu_handle stream))                             \
    CALL(tensor_new, cudnnCreateTensorDescriptor, (cu_handle * tensor))                            \
    CALL(tensor_free, cudnnDestroyTensorDescriptor, (cu_handle tensor))                            \
    CALL(tensor_set, cudnnSetTensorNdDescriptor,                                                   \
         (cu_handle tensor, int type, int n, const int *size, const int *step))                    \
    CALL(filter_new, cudnnCreateFilterDescriptor, (cu_handle * filter))                            \
    CALL(filter_free, cudnnDestroyFilterDescriptor, (cu_handle filter))                            \
    CALL(filter_set, cudnnSetFilterNdDescriptor,                                                   \
         (cu_handle filter, int type, int format, int n, const int *size))                         \
    CALL(window_new, cudnnCreateConvolutionDescriptor, (cu_handle * window))                       \
    CALL(window_free, cudnnDestroyConvolutionDescriptor, (cu_handle window))                       \
    CALL(window_set, cudnnSetConvolutionNdDescriptor,                                              \
         (cu_handle window, int n, const int *padding, const int *stride, const int *dilation,     \
          int mode, int compute))                                                                  \
    CALL(window_groups, cudnnSetConvolutionGroupCount, (cu_handle window, int groups))             \
    CALL(window_math, cudnnSetConvolutionMathType, (cu_handle window, int math))                   \
    CALL(end_new, cudnnCreateActivationDescriptor, (cu_handle * end))                              \
    CALL(end_free, cudnnDestroyActivationDescriptor, (cu_handle end))                              \
    CALL(end_set, cudnnSetActivationDescriptor, (cu_handle end, int mode, int nans, double most))  \
    CALL(choose, cudnnGetConvolutionForwardAlgorithm_v7,                                           \
         (cu_handle library, cu_handle x, cu_handle w, cu_handle window, cu_handle y, int most,    \
          int *n, Answer *answer))                                                                 \
    CALL(measure, cudnnGetConvolutionForwardWorkspaceSize,                                         \
         (cu_handle library, cu_handle x, cu_handle w, cu_handle window, cu_handle y,              \
          int algorithm, size_t *bytes))                                                           \
    CALL(convolve, cudnnConvolutionForward,                                                        \
         (cu_handle library, const void *alpha, cu_handle x, const void *x_at, cu_handle w,        \
          const void *w_at, cu_handle window, int algorithm, void *workspace, size_t bytes,        \
          const void *beta, cu_handle y, void *y_at))                                              \
    CALL(convolve_add, cudnnConvolutionBiasActivationForward,                                      \
         (cu_handle library, const void *alpha, cu_handle x, const void *x_at, cu_handle w,        \
          const void *w_at, cu_handle window, int algorithm, void *workspace, size_t bytes,        \
          const void *beta, cu_handle z, const void *z_at, cu_handle bias, const void *bias_at,    \
          cu_handle end, cu_handle y, void *y_at))

/* Its numbers. */
enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 9 };
enum { CHANNELS_FIRST = 0, CHANNELS_LAST = 1 };
enum { AS_IT_LIES = 1 };                               /* filters are not turned around */
enum { MATH_TF32 = 0, MATH_HALVES = 1, MATH_F32 = 3 }; /* what may be used; no more than that */
enum { IMPLICIT = 0, IMPLICIT_PLANNED = 1, EXPLICIT = 2, ALGORITHMS = 8 };
enum { DETERMINISTIC = 1 };
/* Behind the sum, of NaNs nothing asked; with a bias, of IMPLICIT_PLANNED alone. */
enum { NO_FUNCTION = 5, PLAIN_NANS = 0 };
enum { NOT_SUPPORTED = 3000 };

enum { WORKSPACE_MOST = 32 << 20, DIMS = WEIR_IMAGE_DIMS };

/* A row's convolution as the library knows it. */
typedef struct Convolution {
    cu_handle x, w, bias, y, window;
    int algorithm;
    size_t workspace;
} Convolution;

typedef struct CudaConvolutions {
    void *at;
    const char *(*text)(int error);
#define CALL(member, symbol, parameters) int(*member) parameters;
    LIBRARY_CALLS
#undef CALL
    cu_handle handle, end; /* end: no function */
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

static int make_tensor(const CudaConvolutions *l, cu_handle *out, int32_t dtype,
                       const weir_device_images *m) {
    int error = l->tensor_new(out);
    return error ? error : l->tensor_set(*out, type_of(dtype), DIMS, m->size, m->step);
}

static int make_bias(const CudaConvolutions *l, Convolution *c,
                     const weir_device_convolution *row) {
    int32_t n = row->y.size[1];
    if (!row->biased) return 0;
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
    bool adds = a->algorithm == IMPLICIT_PLANNED ||
                (!row->biased && (a->algorithm == IMPLICIT || a->algorithm == EXPLICIT));
    return adds && !a->state && a->determinism == DETERMINISTIC;
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
    const cu_handle tensor[] = {c->x, c->y, c->bias};
    for (int i = 0; i < 3; i++)
        if (tensor[i]) l->tensor_free(tensor[i]);
    if (c->w) l->filter_free(c->w);
    if (c->window) l->window_free(c->window);
}

static int make_handles(CudaConvolutions *l) {
    int error = l->create(&l->handle);
    if (!error) error = l->end_new(&l->end);
    return error ? error : l->end_set(l->end, NO_FUNCTION, PLAIN_NANS, 0);
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
    int error = make_handles(l);
    if (error)
        return weir_instance_fail(in, WEIR_E_DEVICE, "cuDNN cannot be used: %s", l->text(error));
    for (int k = 0; k < n && !status; k++) status = plan(in, l, k);
    return status;
}

void cuda_convolutions_close(CudaShared *s) {
    CudaConvolutions *l = s->convolutions;
    s->convolutions = NULL;
    if (!l) return;
    for (int k = 0; k < l->n && l->convolution; k++) free_convolution(l, &l->convolution[k]);
    if (l->end) l->end_free(l->end);
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

static int call(const CudaConvolutions *l, const Convolution *c, const CudaState *state,
                const char *x, const char *w, const char *bias, char *y) {
    const float one = 1, none = 0;
    if (!bias)
        return l->convolve(l->handle, &one, c->x, x, c->w, w, c->window, c->algorithm, state->work,
                           c->workspace, &none, c->y, y);
    return l->convolve_add(l->handle, &one, c->x, x, c->w, w, c->window, c->algorithm, state->work,
                           c->workspace, &none, c->y, y, c->bias, bias, l->end, c->y, y);
}

/* Instances share the handle: one at a time gives it its stream and uses it. */
void weir_device_convolve(weir_frame *f, int32_t convolution, const char *x, const char *w,
                          const char *bias, char *y) {
    CudaState *state = f->instance->device;
    CudaConvolutions *l = state->shared->convolutions;
    const char *from = f->program->image->convolution[convolution].from;
    if (f->status) return;
    weir_lock(&l->lock);
    int error = l->go_on(l->handle, state->on);
    if (!error) error = call(l, &l->convolution[convolution], state, x, w, bias, y);
    weir_unlock(&l->lock);
    cuda_library_done(f, error, "cuDNN", error ? l->text(error) : NULL, from);
}
