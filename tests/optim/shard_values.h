#pragma once
// Gradients of shards as a function of the logical element, and what shards hold gathered into logical tensors.

#include <map>
#include <mutex>

#include "optim/optimizer.h"
#include "params/rank_params.h"

namespace mt::test {

// A gradient as a function of the element's place, so every layout sees the same.
inline float gradient(const std::string& name, std::int64_t element, int step) {
  return static_cast<float>(static_cast<int>((name.size() * 31 + static_cast<std::size_t>(element) * 17 +
                                              static_cast<std::size_t>(element) / 7 * 5 +
                                              static_cast<std::size_t>(step) * 101) % 201) - 100) / 512.0f;
}

// f(element of the logical tensor, element of the shard) for what of a piece lies in a shard.
template <class F>
void for_each_in_shard(const ParameterStore& store, const OwnedRange& shard, const Piece& piece, F&& f) {
  for (const auto& part : boxes_in_range(store.spec(shard.param), piece, shard.begin, shard.end))
    for_each_run(whole(piece.shape), part.box, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) f(global + i, part.at - shard.begin + local + i);
    });
}

inline void set_gradients(RankParams& r, int step) {
  const auto& shards = r.store.plan().shards;
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (const auto& piece : r.store.spec(shards[s].param).pieces)
      for_each_in_shard(r.store, shards[s], piece, [&](std::int64_t global, std::int64_t at) {
        r.store.shard_grad(s).as<float>()[at] = gradient(piece.name, global, step);
      });
}

using Tensors = std::map<std::string, std::vector<float>>;

// Adds what this rank's shards hold of `kind` to `into`, by the logical tensor's name.
inline void gather(const RankParams& r, const Optimizer& optimizer, std::string_view kind, Tensors& into) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto& shards = r.store.plan().shards;
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (const auto& piece : r.store.spec(shards[s].param).pieces) {
      auto& to = into[piece.name];
      to.resize(static_cast<std::size_t>(num_elements(piece.shape)));
      for_each_in_shard(r.store, shards[s], piece, [&](std::int64_t global, std::int64_t at) {
        to[static_cast<std::size_t>(global)] = optimizer.shard_state(s, kind).as<float>()[at];
      });
    }
}

}  // namespace mt::test
