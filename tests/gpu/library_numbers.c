/* SPDX-License-Identifier: Apache-2.0 */
/* Are the runtime's own declarations of cuBLASLt those of its header? Compiled where there is one,
 * and linked with the library: it takes what is set without a GPU. */
#include "runtime/cuda_products.c"

#include <cublasLt.h>
#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TYPE_F32, CUDA_R_32F);
SAME(TYPE_F16, CUDA_R_16F);
SAME(TYPE_BF16, CUDA_R_16BF);
SAME(COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(COMPUTE_F32_ALONE, CUBLAS_COMPUTE_32F_PEDANTIC);
SAME(COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(OPERATION_ACROSS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(OPERATION_ACROSS_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(ACROSS, CUBLAS_OP_T);
SAME(OPERATION_END, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(ADD_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(OPERATION_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(LAYOUT_STEP, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(PREFER_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(PREFER_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(PREFER_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(PREFER_ALIGN_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(REDUCE_IN_F32, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(Answer), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(Answer, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(Answer, state), offsetof(cublasLtMatmulHeuristicResult_t, state));

#define Library cublasLtHandle_t
#define Stream cudaStream_t
#define Operation cublasLtMatmulDesc_t
#define Layout cublasLtMatrixLayout_t
#define Preference cublasLtMatmulPreference_t
#define Algorithm cublasLtMatmulAlgo_t
#define Answer cublasLtMatmulHeuristicResult_t
#define LIBRARY_TEXT cublasLtGetStatusString
#include "tests/gpu/prototypes.h"
#undef Library
#undef Stream
#undef Operation
#undef Layout
#undef Preference
#undef Algorithm
#undef Answer

int main(void) {
    const weir_device_product row = {.factor = WEIR_F16,
                                     .result = WEIR_F32,
                                     .rows = 48,
                                     .columns = 32,
                                     .depth = 16,
                                     .batch = 4,
                                     .a = {64, 16, 1, 16},
                                     .b = {64, 16, 0, 8},
                                     .d = {48, 1536, 0, 16}};
    CudaProducts library = {0};
    Product p = {0};
    cu_handle preference = NULL;
    if (open_library(NULL, &library)) return puts("it cannot be opened"), 1;
    int error = make_operation(&library, &p, &row);
    if (!error) error = make_layouts(&library, &p, &row);
    if (!error) error = make_preference(&library, &preference, &row);
    if (error) return printf("it refuses: %s\n", library.text(error)), 1;
    int32_t across = 0, batch = 0;
    int64_t step = 0;
    size_t written;
    cublasLtMatmulDescGetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &across, sizeof across,
                                   &written);
    cublasLtMatrixLayoutGetAttribute(p.a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch,
                                     &written);
    cublasLtMatrixLayoutGetAttribute(p.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                     sizeof step, &written);
    printf("across %d batch %d step %lld\n", across, batch, (long long)step);
    library.preference_free(preference);
    free_product(&library, &p);
    return 0;
}
