#pragma once
// The arithmetic of Megatron's GPT orders: how many epochs and samples there are, and the three arrays that fix them.
//
//   document order  E copies of the documents, shuffled
//   sample starts   where each sample begins in them
//   shuffle         which sample comes first
// Legend: T tokens of the range, E epochs, M samples, N samples wanted, L = seq_length.
// Source: facts of Megatron-LM core 0.20 (GPTDataset, build_sample_idx); numpy's RandomState (numpy_random.h). Where a part
// of the last sample is kept, M is exact here; Megatron rounds in 32-bit floating point.
// Code: data/sample_order.cc. Tests: tests/data/sample_order_test.cc, tests/data/gpt_dataset_test.cc.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "data/index_arrays.h"

namespace mt::data {

class IndexedDataset;

// Sequences [begin, end) of a token file.
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

// Lengths of sequences as an .idx holds them: 32 bits each, at any address.
class SequenceLengths {
 public:
  explicit SequenceLengths(const IndexedDataset& tokens);  // of all its sequences
  explicit SequenceLengths(std::span<const std::int32_t> lengths)
      : at_(reinterpret_cast<const std::byte*>(lengths.data())), size_(static_cast<std::int64_t>(lengths.size())) {}
  std::int64_t size() const { return size_; }
  std::int32_t operator[](std::size_t i) const {
    std::int32_t n;
    std::memcpy(&n, at_ + 4 * i, sizeof n);
    return n;
  }
  void prefetch(std::size_t i) const { __builtin_prefetch(at_ + 4 * i); }

 private:
  const std::byte* at_;
  std::int64_t size_;
};

// Smallest E >= 1 with E T >= N L + 1; 1 where N is 0.   needs  T > 0
std::int64_t epochs_for(std::int64_t tokens_per_epoch, std::int64_t num_samples, std::int64_t seq_length);

// Whether the last epoch is shuffled apart: it would give less than 80 % of an epoch's samples.
bool separate_last_epoch(std::int64_t epochs, std::int64_t tokens_per_epoch, std::int64_t num_samples,
                         std::int64_t seq_length);

// What an order will be, before it is made.
struct SampleCounts {
  std::int64_t tokens_per_epoch = 0, epochs = 1, samples = 0;
  std::int64_t whole_epochs = 1;   // shuffled together; epochs − 1 where the last is apart
  std::int64_t whole_samples = 0;  // shuffled together, of these epochs
  std::int64_t documents = 0;      // in the order: of all epochs
  std::uint64_t bytes() const {
    return 4 * static_cast<std::uint64_t>(documents) + 12 * static_cast<std::uint64_t>(samples) + 8;
  }
};

// Count.
//   fails  Error{data}, naming `file`: a range that is empty or outside the file, no tokens in it, one epoch without a
//          sample where num_samples is 0, over 2^32 − 2 documents or samples
//   cost   reads the lengths of the range once
SampleCounts count_samples(const SequenceLengths& lengths, SequenceRange range, const GptDatasetOptions& options,
                           const std::string& file);

// Make the arrays: document order (u32, numbers of sequences in the file), sample starts (M + 1 of SampleStart),
// shuffle (u32).
//   needs  `counts` of the same arguments
//   cost   counts.bytes() of memory and nothing beside; of 10^9 documents about a minute (tests/bench/sample_order)
IndexArrays make_sample_order(const SequenceLengths& lengths, SequenceRange range, const GptDatasetOptions& options,
                              const SampleCounts& counts);

// Fill the starts of samples of one stream; `order` holds indices into `lengths`.
//   needs  a place for each start and one more, whose token is the last one of the last sample
void fill_sample_starts(const SequenceLengths& lengths, std::span<const std::uint32_t> order, std::int64_t seq_length,
                        std::span<SampleStart> starts);

// The same as a vector, with the number of samples counted from the tokens in `order`.
std::vector<SampleStart> build_sample_index(std::span<const std::int32_t> lengths, std::span<const std::uint32_t> order,
                                            std::int64_t seq_length, bool drop_last_partial);

}  // namespace mt::data
