#pragma once
// Byte-pair merging: a sequence of symbols becomes tokens by taking the pair of lowest rank again and again, leftmost
// first.
//
// Works on ids alone; what the first symbols are (bytes, characters) is the tokenizer's business.
// Code: data/bpe.cc. Tests: tests/data/bpe_test.cc (against the definition, by brute force).

#include <cstdint>
#include <span>
#include <vector>

namespace mt::data {

// Rank of a merge is its place in the list.
struct Merge {
  std::int32_t left, right, result;
};

class MergeTable {
 public:
  MergeTable() = default;
  // Of two merges of one pair the last wins, as in tokenizer.json readers.
  //   fails  Error{data}: an id of 2^21 or more, 2^22 merges or more
  //   cost   16 to 32 bytes a merge
  // `order`, where it is not empty, ranks the merges in place of their places: least first, and of equal ones the
  // leftmost pair (tiktoken and SentencePiece rank what a merge makes, not the pair).
  //   needs  an order a merge, or none
  explicit MergeTable(std::span<const Merge> merges, std::span<const std::uint32_t> order = {});

  // Merge `symbols` in place to the end.
  //   cost  below 64 symbols a scan of the row of ranks for each merge; from there a heap: n log n, so a megabyte
  //   without
  //         a break is no trap
  void merge(std::vector<std::int32_t>& symbols) const;

 private:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const;
  // What the place of a merge is compared by.
  template <bool ordered>
  std::uint32_t rank_at(std::uint32_t place) const {
    if constexpr (!ordered) return place;
    return place == kNoRank ? kNoRank : order_[place];
  }
  template <bool ordered>
  void merge_short(std::vector<std::int32_t>& symbols) const;
  template <bool ordered>
  void merge_long(std::vector<std::int32_t>& symbols) const;
  std::vector<std::uint64_t>
      table_;  // left (21 bits), right (21), rank (22): a slot is one word, so tables stay in cache
  std::vector<std::int32_t> results_;  // by place
  std::vector<std::uint32_t> order_;   // by place; empty: a merge's rank is its place
  std::uint64_t mask_ = 0;
};

}  // namespace mt::data
