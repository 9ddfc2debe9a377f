#pragma once
// What a corpus looks like as tokens, for `mt-preprocess --stats`: lengths, the longest documents, the commonest tokens.
//
// All of it is of the first key. Code: data/encode_stats.cc. Tests: tests/data/encode_stats_test.cc.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/indexed_dataset.h"

namespace mt::data {

constexpr std::size_t kLongestListed = 10, kTokensListed = 20;

struct LongDocument {
  std::int64_t tokens = 0, line = 0;
  std::string file;
};

// Of some documents in a row.
struct LengthStats {
  std::array<std::int64_t, 64> documents{};  // [0] empty ones, [k] those of 2^(k-1) to 2^k - 1 tokens
  std::vector<LongDocument> longest;         // the first kLongestListed by tokens, of equals the earlier
  std::int64_t text_bytes = 0;

  void add(std::int64_t tokens, std::int64_t line);
  // Documents that come behind these.
  void add(const LengthStats& later);
};

class EncodeStats {
 public:
  EncodeStats(std::int32_t vocab_size, std::optional<std::int32_t> unknown);

  // Ids as they are written.   needs  ids inside the vocabulary   cost  about 1 ns an id
  void count(std::span<const std::byte> ids, TokenType type);
  LengthStats& lengths() { return lengths_; }

  // {"text_bytes", "bytes_per_token", "unknown_tokens", "distinct_tokens", "lengths": [{"from", "to", "documents"}],
  // "longest": [{"tokens", "file", "line"}], "top_tokens": [{"id", "count"}]}; unknown_tokens is null where the tokenizer
  // has no such token.
  Json to_json() const;
  // The part that journals keep: all but what count() counts.
  Json lengths_json() const;
  void restore_lengths(const Json& j);

 private:
  LengthStats lengths_;
  std::vector<std::int64_t> counts_;
  std::optional<std::int32_t> unknown_;
};

}  // namespace mt::data
