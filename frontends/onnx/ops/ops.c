/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of operator families. */
#include "ops.h"
#include "frontends/onnx/schema.h"

/* clang-format off */
static const OpRow *const families[] = {
    onnx_elementwise_rows,
    onnx_cast_rows,
    onnx_shape_rows,
    onnx_constant_rows,
    onnx_slice_rows,
    onnx_movement_rows,
    onnx_gather_rows,
    onnx_arrange_rows,
    onnx_scatter_rows,
    onnx_resize_rows,
    onnx_reduce_rows,
    onnx_softmax_rows,
    onnx_matmul_rows,
    onnx_einsum_rows,
    onnx_conv_rows,
    onnx_conv_transpose_rows,
    onnx_pool_rows,
    onnx_norm_rows,
    onnx_quantize_rows,
    onnx_recurrent_rows,
    onnx_recurrent_attention_rows,
    onnx_attention_rows,
    onnx_control_rows,
    onnx_loop_rows,
    onnx_sequence_rows,
    onnx_text_rows,
    onnx_ml_rows,
    onnx_linear_rows,
    onnx_trees_rows,
    onnx_maps_rows,
    onnx_image_rows,
    onnx_irregular_rows,
    onnx_loss_rows,
    onnx_sample_rows,
    onnx_deform_rows,
    onnx_roi_rows,
    onnx_signal_rows,
    onnx_optimizer_rows,
    onnx_random_rows,
    onnx_linalg_rows,
    onnx_state_rows,
    onnx_scan_rows,
    onnx_early_rows,
    onnx_contrib_rows,
    onnx_contrib_quant_rows,
    onnx_contrib_attention_rows,
    onnx_contrib_moe_rows,
    onnx_contrib_position_rows,
    onnx_contrib_gated_rows,
    onnx_contrib_tensor_rows,
    onnx_contrib_sparse_rows,
    onnx_contrib_decoder_rows,
    onnx_contrib_packed_rows,
    onnx_contrib_words_rows,
    onnx_contrib_blocked_rows,
};
/* clang-format on */

const OpTable *onnx_ops(void) {
    static const OpTable table = {families, sizeof families / sizeof *families, schema_check};
    return &table;
}
