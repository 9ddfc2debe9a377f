#pragma once
// One training set out of one or several token files: --data-path, --split, and the order a weighted blend draws in.
//
// This is what a training loop opens: build_splits gives train, validation and test sets, each with size() and fetch().
// Source: facts of Megatron-LM core 0.20 (BlendedMegatronDatasetBuilder, build_blending_indices).
// Code: data/blend.cc. Tests: tests/data/blend_test.cc.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/gpt_dataset.h"

namespace mt::data {

// --data-path as given: prefixes, and weights if every second word was a number.
struct DataPath {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // empty: no weights
};

// `p`, `p1 p2 p3`, or `w1 p1 w2 p2`. An odd count is all prefixes; an even count is weights and prefixes if the words
// at even places are all numbers, prefixes if none is.
//   fails  Error{usage}: nothing given, a mixture, weights that are negative, infinite or sum to 0
DataPath parse_data_path(const std::vector<std::string>& words);

// --split "969,30,1": three shares that sum to 1 (missing ones are 0), with commas or white space between them.
//   fails  Error{usage} naming the value: no number, a negative or infinite one, more than three, all zero
std::array<double, 3> parse_split(const std::string& text);

// The sequences of each split: [round(lo N), round(hi N)), halves to even, as Megatron cuts.
std::array<SequenceRange, 3> split_ranges(const std::array<double, 3>& shares, std::int64_t num_sequences);

// Which member each sample of a blend comes from, and its ordinal there: the member furthest behind its share is next,
// ties to the first.
struct BlendOrder {
  std::vector<std::int16_t> member;
  std::vector<std::int64_t> ordinal;
};
BlendOrder blend_order(std::span<const double> weights, std::int64_t size);

// Samples of one split over all token files. With one file it is that file's GptDataset.
class BlendedDataset {
 public:
  std::int64_t size() const;
  std::int64_t seq_length() const { return members_.front().seq_length(); }

  // As GptDataset::fetch; k is the ordinal of the sample in the run.
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out) const;
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>& document_starts) const;

  // Member file and ordinal in it, for messages and tests.
  std::pair<std::size_t, std::int64_t> place(std::int64_t k) const;

  BlendedDataset(std::vector<GptDataset> members, BlendOrder order);

 private:
  std::vector<GptDataset> members_;
  BlendOrder order_;  // empty for one member
};

struct SplitsRequest {
  DataPath path;
  std::string split = "969,30,1";
  // Samples wanted of train, validation, test: train_iters x global batch; (train_iters / eval_interval + 1) x
  // eval_iters x global batch; eval_iters x global batch. 0: the set is not needed and not built.
  std::array<std::int64_t, 3> num_samples{};
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
};

struct Splits {
  std::vector<std::unique_ptr<IndexedDataset>> files;  // the sets borrow from these
  std::optional<BlendedDataset> train, valid, test;
};

// Open the files and build the sets that are needed.
//   fails  Error{config} when a needed split has no sequence or no token: names the split, its 0 documents of how many,
//          and a --split that works; Error{io}, Error{corrupt} from the files
//   cost   as GptDataset, a set; no loop over more epochs than asked
Splits build_splits(const SplitsRequest& request);

}  // namespace mt::data
