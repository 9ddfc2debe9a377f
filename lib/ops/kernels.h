#pragma once
// One table of kernels a backend: what the public functions of ops/*.h call after checking their arguments.
//
// A kernel that a backend does not define is an error of the linker. Adding an op is a row of MT_EACH_KERNEL.
// Code: ops/kernels.cc; tables: ops/cpu/kernels.cc, ops/cuda/kernels.cu. Tests: tests/ops/kernels_test.cc.

#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/bias_dropout_add.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/fp8.h"
#include "ops/gemm.h"
#include "ops/gemm_gelu.h"
#include "ops/layer_norm.h"
#include "ops/momentum.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/sum_squares.h"

namespace mt::ops {

template <class Args>
using Kernel = void (*)(const Stream&, const Args&);

struct FillArgs {
  View out;
  double value;
};

// Every kernel by name and arguments: fields, declarations and rows of the tables are made of this.
#define MT_EACH_KERNEL(X)                                                                                       \
  X(gemm, GemmArgs) X(embedding_forward, EmbeddingForwardArgs) X(embedding_backward, EmbeddingBackwardArgs)     \
  X(rms_norm_forward, RmsNormForwardArgs) X(rms_norm_backward, RmsNormBackwardArgs)                             \
  X(layer_norm_forward, LayerNormForwardArgs) X(layer_norm_backward, LayerNormBackwardArgs)                     \
  X(rotary, RotaryArgs) X(attention_forward, AttentionForwardArgs) X(attention_backward, AttentionBackwardArgs) \
  X(attention_merge, AttentionMergeArgs) X(activation_forward, ActivationForwardArgs)                           \
  X(activation_backward, ActivationBackwardArgs) X(bias_dropout_add_forward, BiasDropoutAddForwardArgs)         \
  X(bias_dropout_add_backward, BiasDropoutAddBackwardArgs) X(add, AddArgs) X(scale, ScaleArgs)                  \
  X(fill, FillArgs) X(cast, CastArgs) X(column_sum, ColumnSumArgs) X(cross_entropy_max, CrossEntropyMaxArgs)    \
  X(cross_entropy_sum, CrossEntropySumArgs) X(cross_entropy_loss, CrossEntropyLossArgs) X(adamw, AdamwArgs)     \
  X(adamw_largest, AdamwLargestArgs) X(sgd, SgdArgs) X(lion, LionArgs) X(muon_momentum, MuonMomentumArgs)       \
  X(sum_squares, SumSquaresArgs) X(inverse_norm, InverseNormArgs) X(moment_scales, MomentScalesArgs)            \
  X(abs_max, AbsMaxArgs) X(fp8_round, Fp8RoundArgs) X(fp8_quantize, Fp8QuantizeArgs) X(fp8_form, Fp8FormArgs)   \
  X(fp8_gemm, Fp8GemmArgs) X(amax_history, AmaxHistoryArgs) X(gemm_gelu, GemmGeluArgs)

struct Kernels {
#define MT_FIELD(name, Args) Kernel<Args> name;
  MT_EACH_KERNEL(MT_FIELD)
#undef MT_FIELD
};

// In the namespace of a backend: its kernels, to be defined there; and its table.
#define MT_DECLARE_KERNEL(name, Args) void name(const Stream& stream, const Args& args);
#define MT_KERNEL_ROW(name, Args) .name = name,

const Kernels& kernels(DeviceKind kind);

// ops/cuda/kernels.cu, or ops/absent/.   fails  Error{device} in a build without CUDA
const Kernels& cuda_kernels();

// Run or queue `kernel` on the stream with a copy of its arguments.
template <class Args>
void dispatch(Stream& stream, Kernel<Args> Kernels::*slot, const Args& args) {
  const Kernel<Args> kernel = kernels(stream.device().kind).*slot;
  stream.launch([kernel, &stream, args] { kernel(stream, args); });
}

}  // namespace mt::ops
