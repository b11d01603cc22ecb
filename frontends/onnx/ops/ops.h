/* SPDX-License-Identifier: Apache-2.0 */
/* The families of operators. A family is one file: the functions of its operators, each with its
 * row beside it, and at the end the array of rows, ended by an empty row. See frontends/README.md.
 */
#ifndef WEIR_FRONTENDS_ONNX_OPS_H
#define WEIR_FRONTENDS_ONNX_OPS_H

#include "frontends/onnx/onnx.h"

/* dtypes, as rows name them */
#define T_FLOATS "f16 f32 f64 bf16"
#define T_INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define T_BYTES "i8 u8"
#define T_NUMS T_FLOATS " " T_INTS
#define T_ALL T_NUMS " bool string complex"

extern const OpRow onnx_elementwise_rows[]; /* arithmetic, comparison, logic, activations */
extern const OpRow onnx_cast_rows[];
extern const OpRow onnx_shape_rows[]; /* Shape .. Reshape, Transpose, Expand: views and constants */
extern const OpRow onnx_constant_rows[]; /* Constant, ConstantOfShape, Range, EyeLike */
extern const OpRow onnx_slice_rows[];
extern const OpRow onnx_movement_rows[]; /* Concat, Split, Pad, CenterCropPad */
extern const OpRow onnx_gather_rows[];   /* Gather*, Compress, OneHot, ReverseSequence */
extern const OpRow onnx_arrange_rows[];  /* triangles, blocks, running sums */
extern const OpRow onnx_scatter_rows[];
extern const OpRow onnx_resize_rows[];
extern const OpRow onnx_reduce_rows[];
extern const OpRow onnx_softmax_rows[];
extern const OpRow onnx_matmul_rows[];
extern const OpRow onnx_einsum_rows[];
extern const OpRow onnx_conv_rows[];
extern const OpRow onnx_conv_transpose_rows[];
extern const OpRow onnx_pool_rows[];
extern const OpRow onnx_norm_rows[];
extern const OpRow onnx_quantize_rows[];
extern const OpRow onnx_recurrent_rows[];
extern const OpRow onnx_attention_rows[];
extern const OpRow onnx_control_rows[];
extern const OpRow onnx_loop_rows[];
extern const OpRow onnx_sequence_rows[]; /* and optionals */
extern const OpRow onnx_text_rows[];
extern const OpRow onnx_ml_rows[];     /* ai.onnx.ml */
extern const OpRow onnx_linear_rows[]; /* and support vectors */
extern const OpRow onnx_trees_rows[];
extern const OpRow onnx_maps_rows[];
extern const OpRow onnx_image_rows[];
extern const OpRow onnx_irregular_rows[];
extern const OpRow onnx_early_rows[];
extern const OpRow onnx_loss_rows[];
extern const OpRow onnx_sample_rows[];
extern const OpRow onnx_deform_rows[];
extern const OpRow onnx_roi_rows[];
extern const OpRow onnx_signal_rows[];
extern const OpRow onnx_optimizer_rows[];
extern const OpRow onnx_random_rows[];
extern const OpRow onnx_linalg_rows[];
extern const OpRow onnx_state_rows[];
extern const OpRow onnx_scan_rows[];
extern const OpRow onnx_contrib_rows[]; /* com.microsoft: compositions of standard operators */
extern const OpRow onnx_contrib_quant_rows[];
extern const OpRow onnx_contrib_attention_rows[];
extern const OpRow onnx_contrib_moe_rows[];
extern const OpRow onnx_contrib_position_rows[];
extern const OpRow onnx_contrib_gated_rows[];
extern const OpRow onnx_contrib_tensor_rows[];
extern const OpRow onnx_contrib_sparse_rows[];
extern const OpRow onnx_contrib_decoder_rows[];
extern const OpRow onnx_contrib_packed_rows[];
extern const OpRow onnx_recurrent_attention_rows[];
extern const OpRow onnx_contrib_words_rows[];
extern const OpRow onnx_contrib_blocked_rows[]; /* com.microsoft.nchwc */

#endif
