// Which of the executor's layers have their saved tensors in host memory, and where those are made.

#include <algorithm>

#include "base/error.h"
#include "engine/executor.h"

namespace mt {

void Executor::find_host_rows() {
  std::vector<std::vector<std::size_t>> bytes(chunks_.size());
  const std::int64_t rows = batch_.tokens_per_micro_batch() / parts_.groups.placement.spec.sequence_shards();
  const std::int64_t input = saved_bytes({{"input", {rows, chunks_[0]->spec().hidden}, stream_dtype(), Until::backward_input}});
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Model& m = *chunks_[c];
    host_rows_.emplace_back();
    for (std::size_t i = 0; i < m.layers().size(); ++i) {
      const SubLayer& layer = m.layers()[i];
      const bool on_host = saved_on_host(m.spec(), m.content(), layer.unit - 1, parts_.host_layers);
      host_rows_[c].push_back(on_host ? static_cast<int>(bytes[c].size()) : -1);
      if (!on_host) continue;
      MT_CHECK(!layer.again.any(), "{} is made again and in host memory", layer.name);
      bytes[c].push_back(static_cast<std::size_t>(saved_bytes(layer.saved) + (i > 0 ? input : 0)));
    }
  }
  if (std::any_of(bytes.begin(), bytes.end(), [](const auto& b) { return !b.empty(); }))
    on_host_ = std::make_unique<HostActivations>(device_, std::move(bytes), parts_.arenas.host);
}

// A row that begins a chunk has its input in the slot: only what it saves is to go.
Arena& Executor::saved_arena(Slot& slot, int chunk, std::size_t layer) {
  const int row = host_row(chunk, layer);
  if (row < 0) return *slot.arena;
  const auto r = static_cast<std::size_t>(row);
  return layer == 0 ? on_host_->begin(parts_.stream, r) : on_host_->buffer(r);
}

View Executor::next_input(Slot& slot, int chunk, std::size_t layer) {
  const int row = layer + 1 < model(chunk).layers().size() ? host_row(chunk, layer + 1) : -1;
  return stream_view(row < 0 ? *slot.arena : on_host_->begin(parts_.stream, static_cast<std::size_t>(row)),
                     slot.tokens.count());
}

}  // namespace mt
