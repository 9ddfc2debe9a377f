#include "train/batch_source.h"

#include "base/error.h"
#include "data/sampler.h"

namespace mt {

BatchSource::BatchSource(Fetch fetch, const BatchSpec& batch, const data::MaskOptions& masks)
    : fetch_(std::move(fetch)), batch_(batch), masks_(masks) {}

void BatchSource::append(std::int64_t ordinal, HostBatch& b) const {
  const auto l = static_cast<std::size_t>(batch_.seq_length);
  std::vector<std::int32_t> tokens(l + 1);
  const std::int64_t real = fetch_(ordinal, tokens);
  const std::size_t at = b.ids.size();
  b.ids.insert(b.ids.end(), tokens.begin(), tokens.end() - 1);
  b.labels.insert(b.labels.end(), tokens.begin() + 1, tokens.end());
  b.mask.resize(at + l);
  b.positions.resize(at + l);
  data::fill_masks(tokens, real, masks_, std::span(b.mask).subspan(at), std::span(b.positions).subspan(at));
  b.ordinals.resize(at + l, ordinal);
  const auto bounds = data::attention_bounds(tokens, masks_);
  for (std::size_t i = 1; i < bounds.size(); ++i) b.cu_seqlens.push_back(static_cast<std::int32_t>(at) + bounds[i]);
}

std::vector<HostBatch> BatchSource::step(std::int64_t consumed, int global_batch, int dp, int dp_rank) const {
  const data::StepSamples s{consumed, global_batch, batch_.micro_batch, dp};
  std::vector<HostBatch> out;
  for (std::int64_t m = 0; m < s.num_micro_batches(); ++m) {
    HostBatch b;
    b.cu_seqlens.push_back(0);
    for (std::int64_t i = 0; i < batch_.micro_batch; ++i) append(s.ordinal(dp_rank, m, i), b);
    out.push_back(std::move(b));
  }
  return out;
}

}  // namespace mt
