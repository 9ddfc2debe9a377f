#pragma once
// Megatron's legacy checkpoints (--ckpt-format torch): mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, one file a model rank.
//
// Of any tensor, pipeline, virtual pipeline and expert size. What optimizers keep is foreign/megatron_optimizer.h.
// Code: foreign/megatron_files.cc. Tests: tests/foreign/megatron_test.cc.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "foreign/megatron_map.h"
#include "foreign/source_tensors.h"
#include "foreign/torch_file.h"

namespace mt {

// The directory that an argument means: itself when it holds ranks or a torch_dist checkpoint, else the one its tracker or
// `iteration` names (iter_0000000, release).
//   fails  Error{io} not there; Error{config}, Error{corrupt}: nothing there, a tracker that names what is not there
std::filesystem::path megatron_directory(const std::filesystem::path& path, std::optional<std::int64_t> iteration);

class MegatronFiles {
 public:
  // Open every rank's file.
  //   fails  Error{config}: ranks that are missing (named), no args, ranks that do not fit each other; as TorchFile
  //   cost   the pickles; tensors stay in their files
  explicit MegatronFiles(const std::filesystem::path& dir);

  const std::filesystem::path& dir() const { return dir_; }
  const Json& args() const { return args_; }
  const MegatronCut& cut() const { return cut_; }
  std::int64_t iteration() const { return iteration_; }
  double version() const { return version_; }
  bool has_optimizer() const { return optimizer_; }
  int chunks() const { return chunks_; }
  // Experts lie in two tensors a layer.
  bool is_grouped() const { return grouped_; }
  std::size_t num_files() const { return files_.size(); }

  // Tensors as "mp_rank_00_001/decoder.layers.5.mlp.linear_fc2.weight", layers and experts with their global numbers.
  const SourceTensors& tensors() const { return sources_; }

  // A rank, its folder and file, and of each chunk its tensors under our spelling in the order they lie there.
  struct Rank {
    int tp = 0, pp = 0, ep = 0;
    std::string name;
    const TorchFile* file = nullptr;
    std::vector<std::vector<std::string>> order = {};
  };
  const std::vector<Rank>& ranks() const { return ranks_; }

  // What of `what` is in the files: map and copies of this model.
  void fill(const ModelSpec& model, NativeImport& what) const;

 private:
  void open_first(const std::string& name);
  void require_all_ranks() const;
  void open_ranks();
  void add_rank(Rank& rank, std::vector<TorchTensors>& chunks);

  std::filesystem::path dir_;
  Json args_;
  MegatronCut cut_;
  std::int64_t iteration_ = 0;
  double version_ = 0;
  bool optimizer_ = false, grouped_ = false;
  int chunks_ = 1;
  std::vector<Rank> ranks_;
  std::deque<TorchFile> files_;
  SourceTensors sources_;
};

}  // namespace mt
