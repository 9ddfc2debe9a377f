#include "train/batch_source.h"

#include "base/error.h"
#include "data/sampler.h"

namespace mt {

namespace {

bool restarts(const std::vector<std::int32_t>& positions, std::size_t length) {
  for (std::size_t t = 0; t < positions.size(); ++t)
    if (positions[t] != static_cast<std::int32_t>(t % length)) return true;
  return false;
}

}  // namespace

BatchSource::BatchSource(data::MakeSample make, const BatchSpec& batch) : make_(std::move(make)), batch_(batch) {}

std::vector<HostBatch> BatchSource::step(std::int64_t consumed, int global_batch, int dp, int dp_rank) const {
  const data::StepSamples s{consumed, global_batch, batch_.micro_batch, dp};
  const auto length = static_cast<std::size_t>(batch_.seq_length);
  const auto append = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  std::vector<HostBatch> out;
  data::TrainingSample sample;
  for (std::int64_t m = 0; m < s.num_micro_batches(); ++m) {
    HostBatch b;
    b.cu_seqlens.push_back(0);
    for (std::int64_t i = 0; i < batch_.micro_batch; ++i) {
      const std::int64_t ordinal = s.ordinal(dp_rank, m, i);
      make_(ordinal, sample);
      MT_CHECK(sample.ids.size() == length && sample.bounds.size() > 1, "{} tokens for {}", sample.ids.size(), length);
      const auto at = static_cast<std::int32_t>(b.ids.size());
      append(b.ids, sample.ids);
      append(b.labels, sample.labels);
      append(b.mask, sample.loss_mask);
      append(b.positions, sample.positions);
      b.ordinals.resize(b.ids.size(), ordinal);
      for (std::size_t p = 1; p < sample.bounds.size(); ++p) b.cu_seqlens.push_back(at + sample.bounds[p]);
    }
    // Where positions restart, dropout must still tell the parts of a sample from each other.
    if (restarts(b.positions, length)) {
      b.places.resize(b.ids.size());
      for (std::size_t t = 0; t < b.places.size(); ++t) b.places[t] = static_cast<std::int32_t>(t % length);
    }
    out.push_back(std::move(b));
  }
  return out;
}

}  // namespace mt
