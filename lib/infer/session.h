#pragma once
// A trained model opened for scoring or generation: a checkpoint of any layout, on the ranks of this world.
//
// Ranks of one tensor-parallel group work on the same tokens; data-parallel ranks share the work.
// Code: infer/session.cc. Tests: tests/infer/.

#include <filesystem>
#include <memory>
#include <optional>

#include "ckpt/manifest.h"
#include "engine/executor.h"

namespace mt {

struct SessionOptions {
  std::string load;
  std::optional<std::int64_t> ckpt_step;
  int tp = 1;
  std::optional<DType> compute;  // else the checkpoint's
  int threads = 0;               // 0: as threads_per_rank()
  std::string device = "cpu";    // or cuda: one GPU a rank
};

class Session {
 public:
  // Collective over `world`.
  //   fails  as resolve(), Reader and device_of_rank(); Error{config} when world is no multiple of tp or the model does not divide
  Session(Communicator& world, const SessionOptions& options);

  const ModelSpec& model() const { return model_; }
  const CheckpointMeta& meta() const { return meta_; }
  const std::filesystem::path& dir() const { return dir_; }
  const Groups& groups() const { return groups_; }
  Stream& stream() { return stream_; }
  DType compute() const { return store_->compute_dtype(); }

  // Sub-layers and executor for micro-batches of this shape; weights are shared by all of them.
  struct Runner {
    std::unique_ptr<Model> model;
    std::unique_ptr<Executor> executor;
  };
  Runner runner(const BatchSpec& batch);

 private:
  Device device_;
  Stream stream_;
  std::unique_ptr<Communicator> there_;  // the world, on an accelerator
  ModelSpec model_;
  CheckpointMeta meta_;
  std::filesystem::path dir_;
  Groups groups_;
  std::unique_ptr<ParameterStore> store_;
};

}  // namespace mt
