#pragma once
// What Megatron's Adam keeps of each parameter, as moments and master weights of ours, in every form that says where it lies.
//
//   torch       in model_optim_rng.pt: by group and number, numbers going by the order of parameters
//               in distrib_optim.pt: the distributed optimizer's, in flat buffers (foreign/megatron_buffers.h)
//   torch_dist  optimizer.state.KIND.PARAMETER: as the parameter lies (also --dist-ckpt-optim-fully-reshardable)
//               optimizer.distributed...bucket_idx_N: flat buckets (dp_reshardable, the default)
//               optimizer.distributed...param_state: flat buffers in an object (dp_zero_gather_scatter)
// Master weights must round to the weights, every one, or nothing is taken: in most of these only an order says whose a value is,
// and Megatron Core 0.16.1 with --dist-ckpt-optim-fully-reshardable saves others for a table tied over stages. Random states are
// not carried. Another form, another optimizer than Adam, and experts in flat buffers are refused by name.
// Source: Megatron Core 0.16. Code: foreign/megatron_optimizer.cc (torch), foreign/megatron_dist_optimizer.cc. Tests:
// tests/foreign/megatron_optimizer_test.cc, on files that the package wrote.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foreign/megatron_buffers.h"
#include "foreign/megatron_files.h"
#include "foreign/source_tensors.h"
#include "foreign/torch_dist.h"

namespace mt {

// Into `out`, which has the weights, their map and their copies: tensors, maps of states, training state and notices.
//   files  opened beside the ranks' are kept here, and must outlive the tensors
//   fails  Error{config} naming what is not read, with how to do without; Error{corrupt}
void add_megatron_state(const MegatronFiles& ranks, std::deque<TorchFile>& files, ForeignModel& out);

//   common        the file of what all ranks share
//   padded_vocab  rows of its tables
struct MegatronDistState {
  const TorchDist& dist;
  const TorchFile& common;
  const Json& args;
  std::int64_t padded_vocab = 0;
};
void add_megatron_state(const MegatronDistState& from, std::deque<TorchFile>& files, ForeignModel& out);

// True for a name of a torch_dist checkpoint that is the optimizer's.
bool is_megatron_state(const std::string& name);

// ---- shared by the two ----
// "exp_avg", "exp_avg_sq" and "master" for our map and copies of parameters under names with KIND/ before.
void add_state_maps(const std::vector<MappedTensor>& map, const std::vector<TensorCopy>& copies, ForeignModel& out);
// Parameters of a chunk in their order, from flat buffers laid end to end: the root of distrib_optim.pt or of a param_state.
struct FlatBuffers {
  const TorchFile& file;
  PickleValue root;
  std::string prefix;  // of names: "mp_rank_00/"
};
void add_flat_buffer(const FlatBuffers& from, int chunk, std::span<const FlatParam> params, std::optional<std::int64_t> bucket_size, ForeignModel& out);
// Elements after which a bucket of a chunk ends, by the args.
std::optional<std::int64_t> bucket_size_of(const Json& args, int pp_rank, int chunk);
// Whether a table has a bucket of its own.
bool is_alone(const ModelSpec& model, int pp, const std::string& name);
// fails  Error{config}: no Adam, or an optimizer that is made otherwise than is read
void require_adam(const Json& args, const std::string& where);

}  // namespace mt
