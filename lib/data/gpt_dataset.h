#pragma once
// Samples of seq_length + 1 tokens from a token file, in exactly the order Megatron's GPTDataset gives.
//
// Documents (each sequence of the file is one here) are repeated for E epochs and shuffled, laid end to end, cut every
// seq_length tokens, and the cuts are shuffled again. Neighbours share one token: the last target of one is the first
// input of the next. How the order comes about is data/sample_order.h; where it is kept is data/index_cache.h.
// Legend: T tokens of the range, E epochs, M samples, L = seq_length.
// Code: data/gpt_dataset.cc. Tests: tests/data/gpt_dataset_test.cc (vectors computed with numpy).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/sample_order.h"

namespace mt::data {

class IndexCache;

class GptDataset {
 public:
  // Make the three indices in memory.
  //   needs  `tokens` outlives this
  //   fails  as count_samples
  //   cost   4 E (documents) + 12 M bytes, a fraction of a second a million samples
  GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options);

  // The same, through a cache: mapped where it has them.
  //   needs  `content` is tokens.content_text(), or anything where the cache is off
  GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options, IndexCache& cache,
             const std::string& content);

  // Samples there are: M >= num_samples.
  std::int64_t size() const { return counts_.samples; }
  std::int64_t seq_length() const { return options_.seq_length; }
  std::int64_t num_epochs() const { return counts_.epochs; }
  const SampleCounts& counts() const { return counts_; }

  // Tokens of sample k of the run (k = ordinal, before the shuffle): inputs are out[0..L), targets out[1..L].
  //   needs  0 <= k < size(), out.size() == seq_length + 1
  //   gives  the number of real tokens; below L + 1 only in a kept partial sample, the rest is pad_id
  //   cost   one copy out of the map; any number of threads at once
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out) const;

  // The same, and where documents start inside the sample: ascending places > 0 in `out` at which another document
  // begins (place 0 always starts one part).
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>& document_starts) const;

  // The indices themselves, named as Megatron names its cache files.
  std::span<const std::uint32_t> document_index() const { return document_index_; }
  std::span<const SampleStart> sample_index() const { return sample_index_; }  // M + 1 rows
  std::span<const std::uint32_t> shuffle_index() const { return shuffle_index_; }

 private:
  void use(IndexArrays arrays);
  std::int64_t copy_sample(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>* starts) const;
  const IndexedDataset* tokens_;
  GptDatasetOptions options_;
  SampleCounts counts_;
  IndexArrays arrays_;
  std::span<const std::uint32_t> document_index_, shuffle_index_;
  std::span<const SampleStart> sample_index_;
};

}  // namespace mt::data
