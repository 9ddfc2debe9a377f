#pragma once
// The CUDA backend's kernels; contracts are those of ops/*.h, arguments are already checked. All work is queued on the
// stream, nothing waits.

#include "ops/kernels.h"

namespace mt::ops::cuda {

void gemm(const Stream& stream, const GemmArgs& args);
void embedding_forward(const Stream& stream, const EmbeddingForwardArgs& args);
void embedding_backward(const Stream& stream, const EmbeddingBackwardArgs& args);
void rms_norm_forward(const Stream& stream, const RmsNormForwardArgs& args);
void rms_norm_backward(const Stream& stream, const RmsNormBackwardArgs& args);
void layer_norm_forward(const Stream& stream, const LayerNormForwardArgs& args);
void layer_norm_backward(const Stream& stream, const LayerNormBackwardArgs& args);
void rotary(const Stream& stream, const RotaryArgs& args);
void attention_forward(const Stream& stream, const AttentionForwardArgs& args);
void attention_backward(const Stream& stream, const AttentionBackwardArgs& args);
void attention_merge(const Stream& stream, const AttentionMergeArgs& args);
void activation_forward(const Stream& stream, const ActivationForwardArgs& args);
void activation_backward(const Stream& stream, const ActivationBackwardArgs& args);
void bias_dropout_add_forward(const Stream& stream, const BiasDropoutAddForwardArgs& args);
void bias_dropout_add_backward(const Stream& stream, const BiasDropoutAddBackwardArgs& args);
void add(const Stream& stream, const AddArgs& args);
void scale(const Stream& stream, const ScaleArgs& args);
void fill(const Stream& stream, const FillArgs& args);
void cast(const Stream& stream, const CastArgs& args);
void column_sum(const Stream& stream, const ColumnSumArgs& args);
void cross_entropy_max(const Stream& stream, const CrossEntropyMaxArgs& args);
void cross_entropy_sum(const Stream& stream, const CrossEntropySumArgs& args);
void cross_entropy_loss(const Stream& stream, const CrossEntropyLossArgs& args);
void adamw(const Stream& stream, const AdamwArgs& args);
void adamw_largest(const Stream& stream, const AdamwLargestArgs& args);
void sgd(const Stream& stream, const SgdArgs& args);
void lion(const Stream& stream, const LionArgs& args);
void muon_momentum(const Stream& stream, const MuonMomentumArgs& args);
void sum_squares(const Stream& stream, const SumSquaresArgs& args);
void abs_max(const Stream& stream, const AbsMaxArgs& args);
void fp8_round(const Stream& stream, const Fp8RoundArgs& args);

}  // namespace mt::ops::cuda
