#include "ops/cuda/kernels.h"

namespace mt::ops {

const Kernels& cuda_kernels() {
  static constexpr Kernels table = {
      .gemm = cuda::gemm,
      .embedding_forward = cuda::embedding_forward,
      .embedding_backward = cuda::embedding_backward,
      .rms_norm_forward = cuda::rms_norm_forward,
      .rms_norm_backward = cuda::rms_norm_backward,
      .layer_norm_forward = cuda::layer_norm_forward,
      .layer_norm_backward = cuda::layer_norm_backward,
      .rotary = cuda::rotary,
      .attention_forward = cuda::attention_forward,
      .attention_backward = cuda::attention_backward,
      .attention_merge = cuda::attention_merge,
      .activation_forward = cuda::activation_forward,
      .activation_backward = cuda::activation_backward,
      .bias_dropout_add_forward = cuda::bias_dropout_add_forward,
      .bias_dropout_add_backward = cuda::bias_dropout_add_backward,
      .add = cuda::add,
      .scale = cuda::scale,
      .fill = cuda::fill,
      .cast = cuda::cast,
      .column_sum = cuda::column_sum,
      .cross_entropy_max = cuda::cross_entropy_max,
      .cross_entropy_sum = cuda::cross_entropy_sum,
      .cross_entropy_loss = cuda::cross_entropy_loss,
      .adamw = cuda::adamw,
      .adamw_largest = cuda::adamw_largest,
      .sgd = cuda::sgd,
      .lion = cuda::lion,
      .muon_momentum = cuda::muon_momentum,
      .sum_squares = cuda::sum_squares,
      .abs_max = cuda::abs_max,
      .fp8_round = cuda::fp8_round,
  };
  return table;
}

}  // namespace mt::ops
