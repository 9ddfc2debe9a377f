#pragma once
// Samples of seq_length + 1 tokens from a token file, in exactly the order Megatron's GPTDataset gives.
//
// Documents (each sequence of the file is one here) are repeated for E epochs and shuffled, laid end to end, cut every
// seq_length tokens, and the cuts are shuffled again. Neighbours share one token: the last target of one is the first
// input of the next.
// Legend: T tokens of the range, E epochs, M samples, L = seq_length.
// Source: facts of Megatron-LM core 0.20 (GPTDataset, build_sample_idx); numpy's RandomState (numpy_random.h).
// Code: data/gpt_dataset.cc. Tests: tests/data/gpt_dataset_test.cc (vectors computed with numpy).

#include <cstdint>
#include <span>
#include <vector>

#include "data/indexed_dataset.h"

namespace mt::data {

// Sequences [begin, end) of a token file; see split.h.
struct SequenceRange {
  std::int64_t begin = 0, end = 0;
};

struct GptDatasetOptions {
  std::int64_t num_samples = 0;  // at least this many; 0: one epoch, whatever it gives
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  bool shuffle = true;            // false: file order, for evaluation and for counting by hand
  bool drop_last_partial = true;  // false: a shorter last sample is kept and padded
  std::int32_t pad_id = 0;
};

// Where a sample starts: position in the epoch-repeated document order, token offset in that document.
struct SampleStart {
  std::uint32_t position = 0, offset = 0;
  friend bool operator==(const SampleStart&, const SampleStart&) = default;
};

class GptDataset {
 public:
  // Build the three indices in memory.
  //   needs  `tokens` outlives this
  //   fails  Error{data}: a range that is empty or outside the file, no tokens in it, one epoch without a whole sample
  //          and num_samples 0, over 2^32-2 documents or samples
  //   cost   4 E (documents) + 12 M bytes, a fraction of a second a million samples
  GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options);

  // Samples there are: M >= num_samples.
  std::int64_t size() const { return static_cast<std::int64_t>(shuffle_index_.size()); }
  std::int64_t seq_length() const { return options_.seq_length; }
  std::int64_t num_epochs() const { return num_epochs_; }

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
  std::int64_t copy_sample(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>* starts) const;
  const IndexedDataset* tokens_;
  GptDatasetOptions options_;
  std::int64_t num_epochs_ = 1;
  std::vector<std::uint32_t> document_index_, shuffle_index_;
  std::vector<SampleStart> sample_index_;
};

// The pieces, for tests and for other datasets. `lengths[i]` is the length of sequence i of the range.

// Smallest E >= 1 with E T >= N L + 1.   needs  T > 0
std::int64_t epochs_for(std::int64_t tokens_per_epoch, std::int64_t num_samples, std::int64_t seq_length);

// Whether the last epoch is shuffled apart: it would give less than 80 % of an epoch's samples.
bool separate_last_epoch(std::int64_t epochs, std::int64_t tokens_per_epoch, std::int64_t num_samples,
                         std::int64_t seq_length);

// Starts of M samples and one row more; `order` holds indices into `lengths`.
std::vector<SampleStart> build_sample_index(std::span<const std::int32_t> lengths, std::span<const std::uint32_t> order,
                                            std::int64_t seq_length, bool drop_last_partial);

}  // namespace mt::data
