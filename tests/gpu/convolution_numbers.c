/* SPDX-License-Identifier: Apache-2.0 */
/* Are the runtime's own declarations of cuDNN those of its header? Compiled where there is one, and
 * linked with the library: it takes what is set without a GPU. */
#include "runtime/cuda_convolutions.c"

#include <cudnn.h>
#include <stddef.h>
#include <stdio.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TYPE_F32, CUDNN_DATA_FLOAT);
SAME(TYPE_F16, CUDNN_DATA_HALF);
SAME(TYPE_BF16, CUDNN_DATA_BFLOAT16);
SAME(CHANNELS_FIRST, CUDNN_TENSOR_NCHW);
SAME(CHANNELS_LAST, CUDNN_TENSOR_NHWC);
SAME(AS_IT_LIES, CUDNN_CROSS_CORRELATION);
SAME(MATH_TF32, CUDNN_DEFAULT_MATH);
SAME(MATH_HALVES, CUDNN_TENSOR_OP_MATH);
SAME(MATH_CONVERTS, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
SAME(MATH_F32, CUDNN_FMA_MATH);
SAME(IMPLICIT, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
SAME(IMPLICIT_PLANNED, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME(EXPLICIT, CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
SAME(ALGORITHMS, CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
SAME(DETERMINISTIC, CUDNN_DETERMINISTIC);
SAME(RELU, CUDNN_ACTIVATION_RELU);
SAME(NO_FUNCTION, CUDNN_ACTIVATION_IDENTITY);
SAME(PLAIN_NANS, CUDNN_NOT_PROPAGATE_NAN);
SAME(KEPT_NANS, CUDNN_PROPAGATE_NAN);
SAME(NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(sizeof(Answer), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(Answer, algorithm), offsetof(cudnnConvolutionFwdAlgoPerf_t, algo));
SAME(offsetof(Answer, state), offsetof(cudnnConvolutionFwdAlgoPerf_t, status));
SAME(offsetof(Answer, workspace), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(Answer, determinism), offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
SAME(offsetof(Answer, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));

#define Library cudnnHandle_t
#define Stream cudaStream_t
#define Tensor cudnnTensorDescriptor_t
#define Filter cudnnFilterDescriptor_t
#define Window cudnnConvolutionDescriptor_t
#define End cudnnActivationDescriptor_t
#define Answer cudnnConvolutionFwdAlgoPerf_t
#define LIBRARY_TEXT cudnnGetErrorString
#include "tests/gpu/prototypes.h"
#undef Library
#undef Stream
#undef Tensor
#undef Filter
#undef Window
#undef End
#undef Answer

int main(void) {
    const weir_device_convolution row = {.type = WEIR_F32,
                                         .groups = 4,
                                         .biased = 1,
                                         .relu = 1,
                                         .taps = {3, 5},
                                         .stride = {2, 2},
                                         .dilation = {1, 1},
                                         .padding = {1, 2},
                                         .x = {{2, 32, 20, 24}, {15360, 480, 24, 1}},
                                         .y = {{2, 48, 10, 12}, {5760, 120, 12, 1}}};
    CudaConvolutions library = {0};
    Convolution c = {0};
    if (open_library(NULL, &library)) return puts("it cannot be opened"), 1;
    int error = make_convolution(&library, &c, &row);
    if (!error) error = make_ends(&library);
    if (error) return printf("it refuses: %s\n", library.text(error)), 1;
    int size[4] = {0}, groups = 0;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
    cudnnGetConvolutionNdForwardOutputDim(c.window, c.x, c.w, 4, size);
    cudnnGetConvolutionGroupCount(c.window, &groups);
    cudnnGetConvolutionMathType(c.window, &math);
    cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
    cudnnNanPropagation_t nans = CUDNN_NOT_PROPAGATE_NAN;
    double most = 1;
    cudnnGetActivationDescriptor(library.relu, &mode, &nans, &most);
    printf("y %d %d %d %d groups %d math %d", size[0], size[1], size[2], size[3], groups, math);
    printf(" end %d nans %d\n", mode, nans);
    library.end_free(library.no_end);
    library.end_free(library.relu);
    free_convolution(&library, &c);
    return 0;
}
