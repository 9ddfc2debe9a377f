#pragma once
// Parameters and optimizer of one rank, with values that are a function of their place, and how to save them.

#include <filesystem>

#include "base/hash.h"
#include "engine/checkpoint.h"
#include "params/rank_params.h"

namespace mt::test {

struct RankState : RankParams {
  Optimizer optimizer;
  RankState(Communicator& world, const ModelSpec& m, const ParallelSpec& parallel, DType compute = DType::f32,
            Stream::Mode mode = Stream::Mode::immediate)
      : RankParams(world, m, parallel, compute, mode), optimizer(store, {}, {}) {}
  View state(int param, const std::string& kind) const {
    return kind == "master" ? optimizer.master(param)
                            : kind == "exp_avg" ? optimizer.exp_avg(param) : optimizer.exp_avg_sq(param);
  }
};

// What every element of a run holds, as a function of its place.
inline float value_of(const std::string& name, const std::string& kind, std::int64_t element) {
  const std::uint64_t h = (xxh3(name + kind) + static_cast<std::uint64_t>(element)) * 0x9E3779B97F4A7C15ull;
  return static_cast<float>(h >> 40) * 0x1p-24f - 0.5f;
}

inline const char* const kKinds[] = {"master", "exp_avg", "exp_avg_sq"};

inline void fill(RankState& r) {
  for (int p = 0; p < r.store.num_params(); ++p)
    for (const auto& piece : r.store.spec(p).pieces)
      for (const char* kind : kKinds)
        for_each_element(r.state(p, kind), piece, [&](std::int64_t e, std::byte* at) {
          *reinterpret_cast<float*>(at) = value_of(piece.name, kind, e);
        });
  r.optimizer.publish(r.stream, r.groups);
}

inline std::int64_t wrong_elements(const RankState& r, const char* kind) {
  std::int64_t wrong = 0;
  for (int p = 0; p < r.store.num_params(); ++p)
    for (const auto& piece : r.store.spec(p).pieces)
      for_each_element(r.state(p, kind), piece, [&](std::int64_t e, std::byte* at) {
        wrong += *reinterpret_cast<float*>(at) != value_of(piece.name, kind, e);
      });
  return wrong;
}

inline CheckpointMeta meta_of(const RankState& r, const Communicator& world, std::int64_t iteration) {
  CheckpointMeta meta;
  meta.iteration = iteration;
  meta.world_size = world.size();
  meta.version = "test";
  meta.specs = {{"model", to_json(r.model)}, {"compute_dtype", dtype_name(r.store.compute_dtype())}};
  return meta;
}

inline void save(const std::filesystem::path& root, Communicator& world, RankState& r, std::int64_t iteration) {
  (void)save_training({root}, meta_of(r, world, iteration), {r.stream, r.groups, r.store, r.optimizer});
}

}  // namespace mt::test
