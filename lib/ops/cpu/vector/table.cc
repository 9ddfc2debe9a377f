#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

const Vector kVector = {
    .bf16_to_f32 = bf16_to_f32,
    .f16_to_f32 = f16_to_f32,
    .f32_to_bf16 = f32_to_bf16,
    .f32_to_f16 = f32_to_f16,
    .add = add,
    .scale = scale,
    .max = max,
    .rms_forward = rms_forward,
    .rms_backward = rms_backward,
    .rms_columns = rms_columns,
    .layer_forward = layer_forward,
    .layer_backward = layer_backward,
    .layer_columns = layer_columns,
    .activation = {activation<ActGeluTanh>, activation<ActGeluErf>, activation<ActSilu>, activation<ActRelu>,
                   activation<ActSquaredRelu>},
    .activation_backward = {activation_backward<ActGeluTanh>, activation_backward<ActGeluErf>,
                            activation_backward<ActSilu>, activation_backward<ActRelu>,
                            activation_backward<ActSquaredRelu>},
    .gated = {gated<ActGeluTanh>, gated<ActGeluErf>, gated<ActSilu>, gated<ActRelu>, gated<ActSquaredRelu>},
    .gated_backward = {gated_backward<ActGeluTanh>, gated_backward<ActGeluErf>, gated_backward<ActSilu>,
                       gated_backward<ActRelu>, gated_backward<ActSquaredRelu>},
    .bias_add = bias_add,
    .bias_dropout_add = bias_dropout_add,
    .rotate_half = rotate_half,
    .rotate_interleaved = rotate_interleaved,
    .exp_sums = exp_sums,
    .softmax_gradient = softmax_gradient,
    .adamw = adamw,
    .add_squares = add_squares,
    .block_product = block_product,
    .exp_row = exp_row,
    .softmax_backward = softmax_backward,
    .dropout = dropout,
    .transpose = transpose,
    .dot = dot,
};

}  // namespace mt::ops::cpu::MT_ISA
