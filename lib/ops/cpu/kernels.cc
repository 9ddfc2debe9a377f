#include "ops/cpu/kernels.h"

#include "ops/cpu/vector/vector.h"

namespace mt::ops::cpu {

const Kernels kKernels = {
    .gemm = gemm,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
    .layer_norm_forward = layer_norm_forward,
    .layer_norm_backward = layer_norm_backward,
    .rotary = rotary,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_merge = attention_merge,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .bias_dropout_add_forward = bias_dropout_add_forward,
    .bias_dropout_add_backward = bias_dropout_add_backward,
    .add = add,
    .scale = scale,
    .fill = fill,
    .cast = cast,
    .column_sum = column_sum,
    .cross_entropy_max = cross_entropy_max,
    .cross_entropy_sum = cross_entropy_sum,
    .cross_entropy_loss = cross_entropy_loss,
    .adamw = adamw,
    .adamw_largest = adamw_largest,
    .sgd = sgd,
    .lion = lion,
    .muon_momentum = muon_momentum,
    .sum_squares = sum_squares,
    .abs_max = abs_max,
    .fp8_round = fp8_round,
};

const Vector& vector() {
#if defined(__x86_64__)
  static const Vector& table = cpu_isa() >= CpuIsa::avx512 ? avx512::kVector
                               : cpu_isa() == CpuIsa::avx2 ? avx2::kVector
                                                           : generic::kVector;
  return table;
#else
  return generic::kVector;
#endif
}

}  // namespace mt::ops::cpu
