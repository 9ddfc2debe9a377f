#pragma once
// The parameters of one rank of a small model, without sub-layers.

#include <cmath>

#include "comm/world.h"
#include "layout/models.h"
#include "params/parameter_store.h"

namespace mt::test {

struct RankParams {
  ModelSpec model;
  Stream stream;
  Groups groups;
  ParameterStore store;
  RankParams(Communicator& world, const ModelSpec& m, const ParallelSpec& parallel, DType compute = DType::f32,
             Stream::Mode mode = Stream::Mode::immediate,
             ParameterStore::Gradients gradients = ParameterStore::Gradients::present, Device device = {})
      : model(m),
        stream(device, 1, mode),
        groups(make_groups(world, place(parallel), kv_heads_of(m))),
        store(param_specs(m, parallel, groups.coordinate), compute, device, gradients,
              shard_spec(parallel, groups.coordinate)) {}
};

using RankBody = std::function<void(Communicator& world)>;
inline void on_ranks(int n, const RankBody& body) {
  CommOptions options;
  options.timeout_s = 60;
  comm::run_local_ranks(n, options, [&](std::unique_ptr<Communicator> world) { body(*world); });
}

// Visit every element of a piece that this rank holds: its place in the logical tensor, and its value in the view of
// the whole parameter.
template <class F>
void for_each_element(const View& parameter, const Piece& piece, F&& f) {
  if (piece.box.empty()) return;
  const View v = piece_view(parameter, piece);
  MT_CHECK(v.contiguous(), "{}", piece.name);
  auto* values = static_cast<std::byte*>(v.data);
  for_each_run(whole(piece.shape), piece.box, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) f(global + i, values + bytes_of(v.dtype, local + i));
  });
}

}  // namespace mt::test
