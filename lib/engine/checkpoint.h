#pragma once
// Places checkpoints into parameters and optimizer state, and back.
//
// Stored kinds: "weight" (compute dtype), "master" (f32) where the model is not f32, and what the optimizer keeps of each
// parameter (layout/state_spec.h), with the scales of moments that have one.
// Every unique byte is written once: ranks that hold the same box write a part each, small tensors go whole to one of
// them; under ZeRO each rank writes its shards. Code: engine/checkpoint.cc. Tests: tests/engine/checkpoint_test.cc.

#include <filesystem>
#include <functional>

#include "ckpt/manifest.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "comm/groups.h"
#include "optim/optimizer.h"

namespace mt {

// What to read: all of a run, or weights alone.
enum class LoadWhat : std::uint8_t { everything, weights };

// Boxes of the whole job that the rank at `coordinate` writes, in table order.
std::vector<TensorBox> boxes_to_write(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate,
                                      const StateSpec& state);

// Their bytes: what a snapshot of the rank takes.
std::uint64_t bytes_to_write(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate,
                             const StateSpec& state);

// Throw unless `reader` can fill a model of this shape: every tensor there with its shape, none left over, and the
// boxes of this rank readable; to load everything, with the state of the same update rule (manifests that do not say have
// adam's). No memory for tensors is touched.
//   fails  Error{config} naming the tensor, or both rules; Error{corrupt}
void check_loadable(const Reader& reader, const ModelSpec& model, const std::vector<ParamSpec>& specs,
                    LoadWhat what, const StateSpec& state = {});

// Fill weights (and master, moments) of this rank. A checkpoint of another dtype is converted; master weights come
// from "master" where stored, else from "weight".
//   fails  as check_loadable, Error{io}; memory is then partly written
void load_training(const Reader& reader, Stream& stream, const Groups& groups, ParameterStore& store,
                   Optimizer& optimizer, LoadWhat what);
// Weights alone into the store, for scoring.
void load_weights(const Reader& reader, Stream& stream, ParameterStore& store);

// Where saves go, and which stay: retain_interval as drop_superseded() in ckpt/iterations.h.
struct SaveTarget {
  std::filesystem::path root;
  std::int64_t retain_interval = 0;
  Codec codec = Codec::none;
};

// What a rank saves, borrowed.
struct TrainingState {
  Stream& stream;
  const Groups& groups;
  const ParameterStore& store;
  const Optimizer& optimizer;
};

// The shards this rank writes, pointing into parameters and optimizer state. The stream must be synchronized.
std::vector<TensorShard> shards_to_write(const TrainingState& state);

// Save the whole job's state as `meta.iteration`. Collective over the world.
//   gives  bytes of this rank's data file
//   fails  on every rank: with its own error where it failed, with the failing rank's elsewhere; nothing is left over
//          and the previous checkpoint stays
WriteResult save_training(const SaveTarget& target, const CheckpointMeta& meta, const TrainingState& state);

// The last act of a save, on one rank, once every rank's files are durable: `publish` (commit() of ckpt/store.h, or another
// that moves the tracker), then what is superseded goes. A removal that fails is a warning: the checkpoint stands.
//   fails  as `publish`
void publish_save(const SaveTarget& target, std::int64_t iteration, const std::function<void()>& publish);

}  // namespace mt
