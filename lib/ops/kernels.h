#pragma once
// One table of kernels a backend: what the public functions of ops/*.h call after checking their arguments.
//
// Each backend fills the whole table with designated initialisers; g++ rejects a forgotten row and a test asserts that
// no slot is null. Adding an op is a field here and a line in each table.
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

struct Kernels {
  Kernel<GemmArgs> gemm;
  Kernel<EmbeddingForwardArgs> embedding_forward;
  Kernel<EmbeddingBackwardArgs> embedding_backward;
  Kernel<RmsNormForwardArgs> rms_norm_forward;
  Kernel<RmsNormBackwardArgs> rms_norm_backward;
  Kernel<LayerNormForwardArgs> layer_norm_forward;
  Kernel<LayerNormBackwardArgs> layer_norm_backward;
  Kernel<RotaryArgs> rotary;
  Kernel<AttentionForwardArgs> attention_forward;
  Kernel<AttentionBackwardArgs> attention_backward;
  Kernel<AttentionMergeArgs> attention_merge;
  Kernel<ActivationForwardArgs> activation_forward;
  Kernel<ActivationBackwardArgs> activation_backward;
  Kernel<BiasDropoutAddForwardArgs> bias_dropout_add_forward;
  Kernel<BiasDropoutAddBackwardArgs> bias_dropout_add_backward;
  Kernel<AddArgs> add;
  Kernel<ScaleArgs> scale;
  Kernel<FillArgs> fill;
  Kernel<CastArgs> cast;
  Kernel<ColumnSumArgs> column_sum;
  Kernel<CrossEntropyMaxArgs> cross_entropy_max;
  Kernel<CrossEntropySumArgs> cross_entropy_sum;
  Kernel<CrossEntropyLossArgs> cross_entropy_loss;
  Kernel<AdamwArgs> adamw;
  Kernel<AdamwLargestArgs> adamw_largest;
  Kernel<SgdArgs> sgd;
  Kernel<LionArgs> lion;
  Kernel<MuonMomentumArgs> muon_momentum;
  Kernel<SumSquaresArgs> sum_squares;
  Kernel<AbsMaxArgs> abs_max;
  Kernel<Fp8RoundArgs> fp8_round;
};

const Kernels& kernels(DeviceKind kind);

// ops/cuda/kernels.cu, or ops/absent/.   fails  Error{device} in a build without CUDA
const Kernels& cuda_kernels();

[[noreturn]] void not_there(Device device);

// Run or queue `kernel` on the stream with a copy of its arguments.
//   fails  Error{device} where the backend has no such kernel
template <class Args>
void dispatch(Stream& stream, Kernel<Args> Kernels::*slot, const Args& args) {
  const Kernel<Args> kernel = kernels(stream.device().kind).*slot;
  if (!kernel) not_there(stream.device());
  stream.launch([kernel, &stream, args] { kernel(stream, args); });
}

}  // namespace mt::ops
