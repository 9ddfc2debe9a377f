#include "train/source_loss.h"

#include "train/training_run.h"

namespace mt {

SourceLosses::SourceLosses(std::size_t members, std::function<std::size_t(std::int64_t)> member_of, std::int64_t seq_length)
    : member_of_(std::move(member_of)), seq_length_(seq_length), sums_(members) {}

void SourceLosses::add(const std::vector<HostBatch>& batches, const std::vector<std::vector<float>>& losses) {
  const auto l = static_cast<std::size_t>(seq_length_);
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const HostBatch& b = batches[m];
    for (std::size_t first = 0; first + l <= losses[m].size(); first += l) {
      double loss = 0, tokens = 0;
      for (std::size_t t = first; t < first + l; ++t)
        if (b.mask[t] != 0) {
          loss += static_cast<double>(b.mask[t]) * static_cast<double>(losses[m][t]);
          tokens += static_cast<double>(b.mask[t]);
        }
      Sum& sum = sums_[member_of_(b.ordinals[first])];
      sum.loss += loss;
      sum.tokens += tokens;
      sum.samples += 1;
    }
  }
}

std::vector<SourceLoss> SourceLosses::take(TrainingRun& run) {
  static_assert(sizeof(Sum) == 3 * sizeof(double));
  const View all(reinterpret_cast<double*>(sums_.data()), DType::f64, {static_cast<std::int64_t>(3 * sums_.size())});
  run.groups.dp_cp->all_reduce(run.stream, all, Reduce::sum).wait_host();
  run.groups.pp->all_reduce(run.stream, all, Reduce::sum).wait_host();
  std::vector<SourceLoss> losses;
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (sums_[i].samples > 0)
      losses.push_back({static_cast<std::int64_t>(i), static_cast<std::int64_t>(sums_[i].samples),
                        static_cast<std::int64_t>(sums_[i].tokens),
                        sums_[i].tokens > 0 ? sums_[i].loss / sums_[i].tokens : 0});
  sums_.assign(sums_.size(), Sum());
  return losses;
}

}  // namespace mt
