#pragma once
// Fill-in-middle: a sample's documents cut in prefix, middle and suffix and put in another order, so that a model
// learns to write what is missing.
//
//   PSM  PRE prefix SUF suffix MID middle
//   SPM  PRE SUF suffix MID prefix middle
// Every stretch between end tokens is changed with probability `rate`: its text (special tokens left out) is cut at two
// characters and the three texts are encoded anew. The sample keeps its length: what is too long is cut off at the end,
// what is too short is padded.
// Megatron draws from one stream in the order samples happen to be read. Here sample k is changed by
// RandomState((seed + k) mod 2^32), so it is the same in every layout and after every resume; the draws of a sample are
// Megatron's, in Megatron's order.
// Source: facts of Megatron-LM core 0.20 (GPTFIMDataset); Bavarian et al., "Efficient Training of Language Models to
// Fill in the Middle", 2022.
// Code: data/fim.cc. Tests: tests/data/fim_test.cc (vectors from Megatron's code).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sample_options.h"
#include "tokenizer/tokenizer.h"

namespace mt::data {

using tokenizer::Id;

class FimTransform {
 public:
  //   needs  `tokenizer` outlives this and leaves special strings in text alone (made without parse_special)
  //   fails  Error{config}: a rate outside 0 to 1, a fragment rate without a token to split at or the other way round;
  //          Error{data}: a token the tokenizer does not have, naming its flag
  FimTransform(const FimOptions& options, const tokenizer::Tokenizer& tokenizer, std::uint32_t seed);

  // Change sample `ordinal` in place.
  //   needs  0 <= num_real <= tokens.size(), the number of true tokens in front
  //   gives  the number of true tokens now; behind them stands padding
  //   cost   decodes and encodes the stretches that are changed
  std::int64_t apply(std::int64_t ordinal, std::span<Id> tokens, std::int64_t num_real) const;

 private:
  struct Work;
  void change_stretch(Work& work, std::span<const Id> stretch) const;
  void change(Work& work, std::span<const Id> ids, double rate) const;

  FimOptions options_;
  const tokenizer::Tokenizer* tokenizer_;
  std::uint32_t seed_;
  Id prefix_, middle_, suffix_, pad_, eod_;
  std::optional<Id> split_;
  std::vector<Id> special_;
};

// Text in which every part that is no valid UTF-8 is U+FFFD, as Rust's and Python's lossy readers have it.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace mt::data
