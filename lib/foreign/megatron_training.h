#pragma once
// Where a run of Megatron's stood, as the training state of a checkpoint of ours: its step, its schedule of learning rates and
// weight decay, its seed, its loss scale.
//
// Code: foreign/megatron_training.cc. Tests: tests/foreign/megatron_optimizer_test.cc, tests/cli/foreign_models.sh.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "foreign/torch_file.h"

namespace mt {

// A number, or a tensor of one.   fails  Error{corrupt}: something else
double scalar_of(const TorchFile& file, const PickleValue& value);

// The step that all parameters have, of an optimizer's state dict: of its groups, of its state, or said once.
//   gives  nothing when it is nowhere
std::optional<double> optimizer_step(const TorchFile& file, const PickleValue& optimizer);

//   root  what a rank saved, or what all share: with opt_param_scheduler
//   step  of the optimizer
//   fails  Error{config}: no schedule, or one that is not ours; Error{corrupt}
Json megatron_training(const TorchFile& file, const PickleValue& root, const Json& args, double step, std::int64_t iteration);

// A loss scale that moves, of an optimizer's state dict; null where there is none.
Json megatron_loss_scaler(const TorchFile& file, const PickleValue& optimizer);

}  // namespace mt
