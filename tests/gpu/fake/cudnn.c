/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN without a GPU: libcudnn.so.9 for tests, on the driver beside it (cuda.c). Convolutions are
 * plain loops in f32.
 *
 * What it looks after: handles are made in a context, before they are used, and nothing of them is
 * left; sizes fit each other, and results are as many as windows there are; filters whose channels
 * are last go with images whose channels are; operands lie in the device's memory, on multiples of
 * 16 bytes; the algorithm was measured for these operands, adds up in one order, and has the memory
 * to work in that it wanted; that with a bias and no function is the only one that has these; what
 * is added lies as the results do; a ReLU keeps NaNs, in place, and so none of a convolution's
 * call. The memory is overwritten. WEIR_FAKE_CONVOLUTIONS names a file that gets a line for each
 * call, WEIR_FAKE_NO_ALGORITHM leaves none to choose. */
#define _GNU_SOURCE
#include "library.h"
#include "numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000 };
enum { F32 = 0, F16 = 2, BF16 = 9 };
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, CONVERSION_MATH = 2, FMA_MATH = 3 };
enum { RELU = 1, IDENTITY = 5 };
enum { IMPLICIT_GEMM = 0, IMPLICIT_PRECOMP_GEMM = 1, GEMM = 2, FFT = 4 };

static void *stream_of; /* the handle's */

/* ---- handles ----------------------------------------------------------------------------------
 */

typedef enum { TENSOR = 0x1c, FILTER = 0x2d, WINDOW = 0x3e, END = 0x4f } Kind;

/* A tensor; or a filter, by o, c, h and w however it lies. */
typedef struct Tensor {
    Kind kind;
    int type, last, size[4], step[4]; /* last: channels are (a filter's) */
} Tensor;

typedef struct Window {
    Kind kind;
    int padding[2], stride[2], dilation[2], groups, math;
} Window;

typedef struct End {
    Kind kind;
    int mode, nans;
} End;

int cudnnCreate(void **library) {
    return handle_new(library, "cudnnCreate") ? OK : NOT_INITIALIZED;
}
int cudnnDestroy(void *library) {
    handle_free(library);
    return OK;
}
int cudnnSetStream(void *library, void *stream) {
    stream_of = stream;
    return library == &handles ? OK : BAD_PARAM;
}
const char *cudnnGetErrorString(int error) {
    return error == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

int cudnnCreateTensorDescriptor(void **tensor) {
    *tensor = object_new(TENSOR, sizeof(Tensor));
    return OK;
}
int cudnnDestroyTensorDescriptor(void *tensor) {
    object_free(tensor, TENSOR);
    return OK;
}
int cudnnSetTensorNdDescriptor(void *tensor, int type, int n, const int *size, const int *step) {
    Tensor *t = tensor;
    if (t->kind != TENSOR || n != 4) return BAD_PARAM;
    t->type = type;
    for (int i = 0; i < 4; i++) {
        t->size[i] = size[i], t->step[i] = step[i];
        if (size[i] < 1 || step[i] < 1) return BAD_PARAM;
    }
    return OK;
}

int cudnnCreateFilterDescriptor(void **filter) {
    *filter = object_new(FILTER, sizeof(Tensor));
    return OK;
}
int cudnnDestroyFilterDescriptor(void *filter) {
    object_free(filter, FILTER);
    return OK;
}
int cudnnSetFilterNdDescriptor(void *filter, int type, int format, int n, const int *size) {
    static const int first[] = {3, 2, 1, 0}, last[] = {1, 3, 2, 0};
    Tensor *t = filter;
    if (t->kind != FILTER || n != 4 || format < 0 || format > 1) return BAD_PARAM;
    t->type = type, t->last = format;
    for (int i = 0, step = 1; i < 4; i++) {
        int d = (format ? last : first)[i];
        if (size[d] < 1) return BAD_PARAM;
        t->size[d] = size[d], t->step[d] = step;
        step *= size[d];
    }
    return OK;
}

int cudnnCreateConvolutionDescriptor(void **window) {
    *window = object_new(WINDOW, sizeof(Window));
    return OK;
}
int cudnnDestroyConvolutionDescriptor(void *window) {
    object_free(window, WINDOW);
    return OK;
}
int cudnnSetConvolutionNdDescriptor(void *window, int n, const int *padding, const int *stride,
                                    const int *dilation, int mode, int compute) {
    Window *w = window;
    if (w->kind != WINDOW || n != 2 || mode != 1 || compute != F32) return BAD_PARAM;
    for (int i = 0; i < 2; i++) {
        w->padding[i] = padding[i], w->stride[i] = stride[i], w->dilation[i] = dilation[i];
        if (padding[i] < 0 || stride[i] < 1 || dilation[i] < 1) return BAD_PARAM;
    }
    w->groups = 1;
    return OK;
}
int cudnnSetConvolutionGroupCount(void *window, int groups) {
    Window *w = window;
    w->groups = groups;
    return w->kind == WINDOW && groups > 0 ? OK : BAD_PARAM;
}
int cudnnSetConvolutionMathType(void *window, int math) {
    Window *w = window;
    w->math = math;
    return w->kind == WINDOW && math >= 0 && math <= 3 ? OK : BAD_PARAM;
}

int cudnnCreateActivationDescriptor(void **end) {
    *end = object_new(END, sizeof(End));
    return OK;
}
int cudnnDestroyActivationDescriptor(void *end) {
    object_free(end, END);
    return OK;
}
int cudnnSetActivationDescriptor(void *end, int mode, int nans, double most) {
    End *e = end;
    e->mode = mode, e->nans = nans;
    return e->kind == END && most == 0 ? OK : BAD_PARAM;
}

/* ---- algorithms -------------------------------------------------------------------------------
 */

/* What an algorithm was measured for. */
typedef struct Problem {
    Tensor x, w, y;
    Window window;
    int algorithm;
    size_t workspace;
} Problem;

typedef struct Answer {
    int algorithm, state;
    float time;
    size_t workspace;
    int determinism, math;
    int reserved[3];
} Answer;

enum { PROBLEMS = 256 };
static Problem problems[PROBLEMS];
static int nproblems;

static Problem problem_of(const Tensor *x, const Tensor *w, const Window *window, const Tensor *y) {
    if (x->kind != TENSOR || w->kind != FILTER || window->kind != WINDOW || y->kind != TENSOR)
        breach("a convolution of handles of another kind");
    return (Problem){.x = *x, .w = *w, .y = *y, .window = *window};
}

static bool sizes_fit(const Problem *p) {
    const Window *w = &p->window;
    bool fit = p->x.size[0] == p->y.size[0] && p->y.size[1] == p->w.size[0] &&
               p->x.size[1] == p->w.size[1] * w->groups && p->w.size[0] % w->groups == 0;
    for (int i = 0; i < 2; i++) {
        int wide = (p->w.size[2 + i] - 1) * w->dilation[i] + 1;
        int span = p->x.size[2 + i] + 2 * w->padding[i] - wide;
        fit = fit && span >= 0 && p->y.size[2 + i] == span / w->stride[i] + 1;
    }
    return fit;
}

static bool is_last(const Tensor *t) {
    int row = t->size[3] * t->size[1];
    return t->step[1] == 1 && t->step[3] == t->size[1] && t->step[2] == row &&
           (t->size[0] == 1 || t->step[0] == row * t->size[2]);
}

static bool is_supported(const Problem *p) {
    bool halves = (p->x.type == F16 || p->x.type == BF16) && p->window.math == TENSOR_OP_MATH;
    bool words = p->x.type == F32 && (p->window.math == DEFAULT_MATH || p->window.math == FMA_MATH);
    return (halves || words) && p->w.type == p->x.type && p->y.type == p->x.type &&
           (!p->w.last || (is_last(&p->x) && is_last(&p->y)));
}

/* Those that go by transforms, or add up in another order each time, or convert downward, or need
 * much memory, first. */
static const Answer answers[] = {
    {.algorithm = FFT, .workspace = 1 << 10, .determinism = 1},
    {.algorithm = IMPLICIT_PRECOMP_GEMM, .workspace = 1 << 10, .determinism = 0},
    {.algorithm = IMPLICIT_PRECOMP_GEMM, .determinism = 1, .math = CONVERSION_MATH},
    {.algorithm = IMPLICIT_GEMM, .state = NOT_SUPPORTED, .determinism = 1},
    {.algorithm = GEMM, .workspace = 64 << 20, .determinism = 1},
    {.algorithm = IMPLICIT_GEMM, .workspace = 0, .determinism = 1},
    {.algorithm = IMPLICIT_PRECOMP_GEMM, .workspace = 3 << 10, .determinism = 1},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

int cudnnGetConvolutionForwardAlgorithm_v7(void *library, const void *x, const void *w,
                                           const void *window, const void *y, int most, int *n,
                                           Answer *answer) {
    Problem p = problem_of(x, w, window, y);
    if (library != &handles || !sizes_fit(&p)) return BAD_PARAM;
    if (!is_supported(&p)) return NOT_SUPPORTED;
    *n = getenv("WEIR_FAKE_NO_ALGORITHM") ? 0 : most < ANSWERS ? most : ANSWERS;
    memcpy(answer, answers, (size_t)*n * sizeof *answer);
    return OK;
}

int cudnnGetConvolutionForwardWorkspaceSize(void *library, const void *x, const void *w,
                                            const void *window, const void *y, int algorithm,
                                            size_t *bytes) {
    Problem p = problem_of(x, w, window, y);
    if (library != &handles || nproblems == PROBLEMS || algorithm == FFT) return BAD_PARAM;
    p.algorithm = algorithm;
    p.workspace = algorithm == GEMM ? 64 << 20 : algorithm == IMPLICIT_GEMM ? 0 : 3 << 10;
    problems[nproblems++] = p;
    *bytes = p.workspace;
    return OK;
}

/* ---- convolutions -----------------------------------------------------------------------------
 */

static FakeNumber number_of(const Tensor *t) {
    return t->type == F32 ? FAKE_F32 : t->type == F16 ? FAKE_F16 : FAKE_BF16;
}

/* An element as it enters products. */
static float load(const Problem *p, const Tensor *t, const char *at, int64_t i) {
    float v = fake_load(number_of(t), at, i);
    return t->type == F32 && p->window.math == DEFAULT_MATH ? fake_rounded(v) : v;
}

/* A call, as words: what a stream keeps of it. */
enum { THE_PROBLEM, THE_X, THE_W, THE_BIAS, THE_Z, THE_Y, THE_WORK, WORDS };

static const char *at_word(const uint64_t *words, int which) {
    return (const char *)(uintptr_t)words[which];
}

/* The sum of a window of one channel, whose results are at (h, w). */
static float window_sum(const Problem *p, const char *x, const char *filter, int h, int w) {
    const Window *o = &p->window;
    float sum = 0;
    for (int r = 0; r < p->w.size[2]; r++)
        for (int s = 0; s < p->w.size[3]; s++) {
            int row = h * o->stride[0] + r * o->dilation[0] - o->padding[0];
            int column = w * o->stride[1] + s * o->dilation[1] - o->padding[1];
            if (row < 0 || row >= p->x.size[2] || column < 0 || column >= p->x.size[3]) continue;
            sum += load(p, &p->x, x, (int64_t)row * p->x.step[2] + (int64_t)column * p->x.step[3]) *
                   load(p, &p->w, filter, (int64_t)r * p->w.step[2] + (int64_t)s * p->w.step[3]);
        }
    return sum;
}

static int64_t bytes_of(const Tensor *t) {
    return t->type == F32 ? 4 : 2;
}

static const char *along(const Tensor *t, const char *at, int64_t i, int64_t j) {
    return at + bytes_of(t) * (i * t->step[0] + j * t->step[1]);
}

/* All results of one channel of an image. */
static void convolve_channel(const uint64_t *words, int n, int o) {
    const Problem *p = (const Problem *)(uintptr_t)words[THE_PROBLEM];
    int each = p->w.size[1], group = o / (p->w.size[0] / p->window.groups);
    char *y = (char *)(uintptr_t)along(&p->y, at_word(words, THE_Y), n, o);
    const char *bias = at_word(words, THE_BIAS), *z = at_word(words, THE_Z);
    if (z) z = along(&p->y, z, n, o);
    for (int h = 0; h < p->y.size[2]; h++)
        for (int w = 0; w < p->y.size[3]; w++) {
            float sum = bias ? fake_load(number_of(&p->y), bias, o) : 0;
            for (int c = 0; c < each; c++)
                sum += window_sum(p, along(&p->x, at_word(words, THE_X), n, group * each + c),
                                  along(&p->w, at_word(words, THE_W), o, c), h, w);
            int64_t at = (int64_t)h * p->y.step[2] + (int64_t)w * p->y.step[3];
            if (z) sum += fake_load(number_of(&p->y), z, at);
            fake_store(number_of(&p->y), y, at, sum);
        }
}

static void convolve(const uint64_t *words) {
    const Problem *p = (const Problem *)(uintptr_t)words[THE_PROBLEM];
    memset((char *)(uintptr_t)words[THE_WORK], 0x5a, p->workspace);
    for (int n = 0; n < p->y.size[0]; n++)
        for (int o = 0; o < p->y.size[1]; o++) convolve_channel(words, n, o);
}

/* ---- ReLUs ------------------------------------------------------------------------------------
 */

/* A call, as words: the tensor, then where it is. */
enum { TENSOR_WORDS = (sizeof(Tensor) + 7) / 8, RELU_WORDS = TENSOR_WORDS + 1 };

static void rectify(const uint64_t *words) {
    Tensor t;
    memcpy(&t, words, sizeof t);
    char *y = (char *)(uintptr_t)words[TENSOR_WORDS];
    for (int n = 0; n < t.size[0]; n++)
        for (int c = 0; c < t.size[1]; c++)
            for (int i = 0; i < t.size[2] * t.size[3]; i++) {
                int64_t at = (int64_t)n * t.step[0] + (int64_t)c * t.step[1] +
                             (int64_t)(i / t.size[3]) * t.step[2] +
                             (int64_t)(i % t.size[3]) * t.step[3];
                if (fake_load(number_of(&t), y, at) <= 0) fake_store(number_of(&t), y, at, 0);
            }
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static void log_tensor(FILE *file, const char *name, const Tensor *t) {
    fprintf(file, ", %s", name);
    for (int i = 0; i < 4; i++) fprintf(file, " %d/%d", t->size[i], t->step[i]);
}

static FILE *log_open(void) {
    const char *path = getenv("WEIR_FAKE_CONVOLUTIONS");
    return path ? fopen(path, "a") : NULL;
}

static void log_convolution(const Problem *p, bool bias, bool z) {
    FILE *file = log_open();
    const Window *w = &p->window;
    if (!file) return;
    fprintf(file, "%s by %s, algorithm %d, groups %d, stride %d %d dilation %d %d padding %d %d",
            p->x.type == F32   ? "f32"
            : p->x.type == F16 ? "f16"
                               : "bf16",
            w->math == TENSOR_OP_MATH ? "halves"
            : w->math == DEFAULT_MATH ? "tf32"
                                      : "f32 alone",
            p->algorithm, w->groups, w->stride[0], w->stride[1], w->dilation[0], w->dilation[1],
            w->padding[0], w->padding[1]);
    log_tensor(file, "x", &p->x);
    log_tensor(file, "w", &p->w);
    log_tensor(file, "y", &p->y);
    fprintf(file, "%s%s\n", bias ? ", bias" : "", z ? ", residual" : "");
    fclose(file);
}

static void log_relu(const Tensor *t) {
    FILE *file = log_open();
    if (!file) return;
    fprintf(file, "relu");
    log_tensor(file, "y", t);
    fprintf(file, "\n");
    fclose(file);
}

static void look_at(const Tensor *t, uint64_t at, const char *what) {
    int64_t last = 1;
    for (int i = 0; i < 4; i++) last += (int64_t)(t->size[i] - 1) * t->step[i];
    within(at, (size_t)(last * bytes_of(t)), what);
    if (at % 16) breach("%s: 0x%llx is no multiple of 16", what, (unsigned long long)at);
}

static const Problem *measured(Problem *p) {
    for (int i = 0; i < nproblems; i++) {
        p->workspace = problems[i].workspace;
        if (!memcmp(p, &problems[i], sizeof *p)) return &problems[i];
    }
    breach("an algorithm that was not measured for such a convolution");
    return NULL;
}

static int start(Problem p, uint64_t words[WORDS], size_t bytes) {
    const Problem *of = measured(&p);
    if (!in_context()) return NOT_INITIALIZED;
    if (bytes < p.workspace || words[THE_WORK] % 256)
        breach("%zu bytes to work in at 0x%llx", bytes, (unsigned long long)words[THE_WORK]);
    if (p.workspace) within(words[THE_WORK], p.workspace, "what a convolution works in");
    look_at(&p.x, words[THE_X], "a convolution's x");
    look_at(&p.w, words[THE_W], "a convolution's w");
    look_at(&p.y, words[THE_Y], "a convolution's y");
    if (words[THE_Z]) look_at(&p.y, words[THE_Z], "a convolution's residual");
    log_convolution(of, words[THE_BIAS] != 0, words[THE_Z] != 0);
    words[THE_PROBLEM] = (uintptr_t)of;
    return put(stream_of, convolve, words, WORDS);
}

int cudnnConvolutionForward(void *library, const float *alpha, const void *dx, uint64_t x,
                            const void *dw, uint64_t w, const void *window, int algorithm,
                            uint64_t work, size_t bytes, const float *beta, const void *dy,
                            uint64_t y) {
    Problem p = problem_of(dx, dw, window, dy);
    p.algorithm = algorithm;
    if (library != &handles || *alpha != 1 || *beta != 0) return BAD_PARAM;
    return start(p, (uint64_t[WORDS]){0, x, w, 0, 0, y, work}, bytes);
}

int cudnnConvolutionBiasActivationForward(void *library, const float *alpha, const void *dx,
                                          uint64_t x, const void *dw, uint64_t w,
                                          const void *window, int algorithm, uint64_t work,
                                          size_t bytes, const float *beta, const Tensor *dz,
                                          uint64_t z, const Tensor *dbias, uint64_t bias,
                                          const End *end, const void *dy, uint64_t y) {
    Problem p = problem_of(dx, dw, window, dy);
    const int *size = dbias->size;
    p.algorithm = algorithm;
    if (library != &handles || *alpha != 1 || memcmp(dz, dy, sizeof *dz)) return BAD_PARAM;
    if (end->kind != END || (*beta != 0 && *beta != 1) || (*beta == 0 && z != y)) return BAD_PARAM;
    if (algorithm != IMPLICIT_PRECOMP_GEMM || end->mode != IDENTITY || end->nans)
        return NOT_SUPPORTED;
    if (dbias->kind != TENSOR || dbias->type != p.y.type || size[0] != 1 ||
        size[1] != p.y.size[1] || size[2] != 1 || size[3] != 1)
        return BAD_PARAM;
    look_at(dbias, bias, "a convolution's bias");
    return start(p, (uint64_t[WORDS]){0, x, w, bias, *beta != 0 ? z : 0, y, work}, bytes);
}

int cudnnActivationForward(void *library, const End *end, const float *alpha, const Tensor *dx,
                           uint64_t x, const float *beta, const Tensor *dy, uint64_t y) {
    uint64_t words[RELU_WORDS] = {0};
    if (library != &handles || *alpha != 1 || *beta != 0 || dx != dy || x != y) return BAD_PARAM;
    if (end->kind != END || end->mode != RELU || !end->nans || dy->kind != TENSOR) return BAD_PARAM;
    if (!in_context()) return NOT_INITIALIZED;
    look_at(dy, y, "a ReLU's y");
    log_relu(dy);
    memcpy(words, dy, sizeof *dy);
    words[TENSOR_WORDS] = y;
    return put(stream_of, rectify, words, RELU_WORDS);
}

__attribute__((destructor)) static void look_back(void) {
    expect_nothing_left("cuDNN");
}
