/* SPDX-License-Identifier: Apache-2.0 */
/* What emitted host code and the runtime know of kernels that run on a device. One thread walks the
 * program; the addresses in its frame are the device's; launches and copies follow one another on
 * the instance's stream. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "runtime/weir_rt.h"

/* A function of the image. */
typedef struct weir_device_kernel {
    const char *name, *from; /* in the image; what it comes from, for messages */
    int32_t threads, shared; /* of a block; bytes of shared memory that a launch provides */
} weir_device_kernel;

/* Kernels of calls (compiler/targets/cuda/calls.in, order.in, scatter.in) that a program may have.
 */
enum {
    WEIR_TOOL_SORT,
    WEIR_TOOL_MERGE,
    WEIR_TOOL_SELECT,
    WEIR_TOOL_COUNT,
    WEIR_TOOL_DIGIT,
    WEIR_TOOL_TOPK,
    WEIR_TOOL_SUM_PARTS,
    WEIR_TOOL_SUM_ALL,
    WEIR_TOOL_SUM,
    WEIR_TOOL_NONZERO_COUNT,
    WEIR_TOOL_NONZERO,
    WEIR_TOOL_HEADS,
    WEIR_TOOL_GROUPS,
    WEIR_TOOL_FIRSTS,
    WEIR_TOOL_UNIQUE,
    WEIR_TOOL_UNIQUE_VALUES,
    WEIR_TOOL_NMS_KEYS,
    WEIR_TOOL_NMS,
    WEIR_TOOL_NMS_ROWS,
    WEIR_TOOL_PLACES,
    WEIR_TOOL_REPLACE,
    WEIR_TOOL_LOOKUP,
    WEIR_TOOL_TREES,
    WEIR_TOOL_COMBINE, /* + the type of its elements */
    WEIR_TOOLS = WEIR_TOOL_COMBINE + WEIR_BF16 + 1
};

/* What the instances of a library share: a list by device, under a lock. */
typedef struct weir_device_home {
    int32_t lock;
    struct weir_device_shared *first;
} weir_device_home;

/* A matrix that a library gets: column by column, so many elements apart, or row by row (across);
 * the next one of a batch `step` elements on. It begins on a multiple of `align` bytes. */
typedef struct weir_device_matrix {
    int64_t apart, step;
    int32_t across, align;
} weir_device_matrix;

/* A product that cuBLASLt makes: d = a b + c + bias, `batch` times, d of rows x columns, summed in
 * f32. c and bias have no `align` where there are none. */
typedef struct weir_device_product {
    const char *from;       /* what it comes from, for messages */
    int32_t factor, result; /* elements of a and b, of c, bias and d */
    int32_t rounded;        /* factors of f32 may be rounded to TF32 */
    int64_t rows, columns, depth, batch;
    weir_device_matrix a, b, c, bias, d;
} weir_device_product;

/* Images that a library gets, by n, c, h and w: so many, and elements from one to the next. */
enum { WEIR_IMAGE_DIMS = 4 };
typedef struct weir_device_images {
    int32_t size[WEIR_IMAGE_DIMS], step[WEIR_IMAGE_DIMS];
} weir_device_images;

/* A convolution that cuDNN makes: y = x filtered by w + bias (biased) + residual (added), summed in
 * f32; with a relu the larger of that and 0, NaNs staying NaNs. By h and w: windows of so many
 * taps, `dilation` apart, move by `stride`, the first `padding` in front of x. Filters are packed
 * [o][c][h][w] or, channels_last, [o][h][w][c]; a residual lies as y does. */
typedef struct weir_device_convolution {
    const char *from;      /* what it comes from, for messages */
    int32_t type, rounded; /* of all elements; of x and w, if f32, they may be rounded to TF32 */
    int32_t groups, channels_last, biased, added, relu;
    int32_t taps[2], stride[2], dilation[2], padding[2];
    weir_device_images x, y;
} weir_device_convolution;

/* Code for the device. */
typedef struct weir_image {
    int32_t nkernels, nlaunches;
    const weir_device_kernel *kernel;
    const char *const *launch; /* by number that a launch passes: what it comes from */
    const int32_t *tool;       /* by WEIR_TOOL_...: the kernel; -1 where no call needs it */
    int32_t nproducts;
    const weir_device_product *product;
    int32_t nconvolutions;
    const weir_device_convolution *convolution;
    const unsigned char *code;
    const uint64_t *bytes;
    int32_t fixed;          /* which kernels run does not depend on data: a run can be recorded */
    weir_device_home *home; /* in this library, writable */
} weir_image;

/* What model.c asks of a device. Failures are recorded in the instance. */
typedef struct weir_device {
    weir_status (*open)(weir_instance *instance);
    void (*close)(weir_instance *instance);
    weir_status (*reserve)(weir_instance *instance, const weir_tensor *largest);
    weir_status (*run)(weir_instance *instance, const weir_tensor *in, weir_tensor *out);
    int (*grow)(weir_instance *instance, char **at, int64_t have, int64_t need);
} weir_device;
extern const weir_device weir_device_cuda;

/* Called by emitted code. Arguments of a kernel are words of 8 bytes. `sides` rows of blocks run
 * side by side; each picks its own of the words. */
void weir_device_launch(weir_frame *f, int32_t kernel, int64_t blocks, int32_t sides,
                        const uint64_t *arg, int32_t n);
/* By number of the image's row; c, bias and residual may be NULL. */
void weir_device_multiply(weir_frame *f, int32_t product, const char *a, const char *b,
                          const char *c, const char *bias, char *d);
void weir_device_convolve(weir_frame *f, int32_t convolution, const char *x, const char *w,
                          const char *bias, const char *residual, char *y);
/* A dense tensor as the GPU's engine for boxes takes it, and what it copies of it: `rows` rows down
 * dim `outer`, of `row` elements each, to an array whose rows have 128 bytes and are swizzled.
 * Sizes are elements, the innermost dim first; all but the first dim step by multiples of 16 bytes.
 */
enum { WEIR_BOX_DIMS = 4, WEIR_BOXES = 16 }; /* of a launch */
typedef struct weir_device_box {
    const void *at;
    int32_t bytes;  /* of an element */
    int32_t rounds; /* 1: f32, to TF32 */
    int32_t row, outer, rows;
    int64_t size[WEIR_BOX_DIMS];
    int32_t rank;
} weir_device_box;
/* Of a kernel that takes descriptions of these behind its words. */
void weir_device_launch_boxes(weir_frame *f, int32_t kernel, int64_t blocks, int32_t sides,
                              const uint64_t *arg, int32_t n, const weir_device_box *box,
                              int32_t nbox);
void weir_device_settle(weir_frame *f); /* waits for what was launched */
void weir_device_copy(weir_frame *f, char *to, const char *from, int64_t bytes);
uint8_t weir_device_byte(weir_frame *f, const char *at);
weir_status weir_device_submit(weir_instance *instance, const weir_tensor *in, weir_tensor *out,
                               void *stream);
weir_status weir_device_wait(weir_instance *instance);
/* A call on the host: operands are copied here, results there. */
void weir_device_call(weir_frame *f, weir_call *c, weir_call_fn *function);
/* Calls on the device (cuda_calls.c), as weir_call_NAME otherwise; `self`: the number of the
 * launch, for faults. Scratch is the device's. What defines symbols waits for them. */
#define WEIR_DEVICE_CALLS(CALL)                                                                    \
    CALL(lookup)                                                                                   \
    CALL(nms)                                                                                      \
    CALL(nonzero)                                                                                  \
    CALL(scatter_elements)                                                                         \
    CALL(scatter_nd)                                                                               \
    CALL(topk)                                                                                     \
    CALL(trees)                                                                                    \
    CALL(unique)                                                                                   \
    CALL(value)
#define WEIR_DEVICE_CALL(name)                                                                     \
    void weir_device_##name(weir_frame *f, weir_call *c, int32_t self);                            \
    int64_t weir_device_##name##_scratch(const weir_call *c);
WEIR_DEVICE_CALLS(WEIR_DEVICE_CALL)

#endif
