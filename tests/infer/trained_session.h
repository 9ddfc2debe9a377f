#pragma once
// A small model with weights far from uniform predictions, saved, and opened for scoring.

#include "base/temporary_directory.h"
#include "device/test_device.h"
#include "engine/rank_state.h"
#include "infer/session.h"

namespace mt::test {

inline void save_model(const std::filesystem::path& root, const ModelSpec& model) {
  on_ranks(1, [&](Communicator& world) {
    RankState r(world, model, {});
    for (int p = 0; p < r.store.num_params(); ++p)
      for (const auto& piece : r.store.spec(p).pieces)
        for_each_element(r.store.weight(p), piece, [&](std::int64_t e, std::byte* at) {
          const float v = value_of(piece.name, "weight", e);
          *reinterpret_cast<float*>(at) = piece.init.kind == Init::Kind::one ? 1 + v / 2 : v;
        });
    save(root, world, r, 1);
  });
}

// `body` on each rank of a world of tp·dp, with the model under `root` open.
inline void with_session(const std::filesystem::path& root, int tp, int dp, const std::function<void(Session&)>& body) {
  on_ranks(tp * dp, [&](Communicator& world) {
    SessionOptions o;
    o.load = root.string();
    o.tp = tp;
    o.threads = 1;
    o.device = device_name();
    Session session(world, o);
    body(session);
  });
}

// Tokens of a made-up document.
inline std::vector<std::int32_t> document(int n, int seed, int vocab = 61) {
  std::vector<std::int32_t> out;
  for (int i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>((i * i * 7 + i * 3 + seed * 13) % vocab));
  return out;
}

// Inputs of one sequence from position 0, labels unknown.
inline HostBatch plain_batch(const std::vector<std::int32_t>& ids) {
  HostBatch b;
  b.ids = ids;
  b.ordinals.assign(ids.size(), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) b.positions.push_back(static_cast<std::int32_t>(i));
  b.cu_seqlens = {0, static_cast<std::int32_t>(ids.size())};
  return b;
}

}  // namespace mt::test
