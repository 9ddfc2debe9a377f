#pragma once
// Megatron's made-up training data: 100,000 documents 1 2 3 ... END of random lengths, read as GptDataset reads a file.
//
// Lengths are numpy's default_rng(0).integers(1, 4096); a set is a third of the documents. Nothing is on disk.
// Source: facts of Megatron-LM core 0.20 (MockGPTDataset); O'Neill, "PCG", 2014 (PCG64, XSL-RR).
// Code: data/mock_dataset.cc. Tests: tests/data/mock_dataset_test.cc.

#include <cstdint>
#include <span>
#include <vector>

#include "data/gpt_dataset.h"

namespace mt::data {

// Lengths of all its documents, 1 to 4,095 tokens.
std::vector<std::int32_t> mock_lengths();

class MockDataset {
 public:
  struct Options {
    std::size_t set = 0;           // training, validation, test
    std::int64_t num_samples = 1;  // at least this many
    std::int64_t seq_length = 0;
    std::int64_t vocab_size = 0;
    std::int32_t eod = 0;
    std::uint32_t seed = 1234;
  };
  //   needs  set < 3, num_samples and seq_length >= 1, vocab_size >= 2 (MT_CHECK)
  //   fails  Error{data}: over 2^32-2 documents or samples
  //   cost   as GptDataset over 33,333 documents
  explicit MockDataset(const Options& options);

  std::int64_t size() const { return static_cast<std::int64_t>(shuffle_.size()); }
  // As GptDataset::fetch.
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>& document_starts) const;

 private:
  Options options_;
  std::vector<std::int32_t> lengths_;  // of the set
  std::vector<std::uint32_t> order_, shuffle_;
  std::vector<SampleStart> starts_;
};

}  // namespace mt::data
