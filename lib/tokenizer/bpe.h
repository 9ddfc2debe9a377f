#pragma once
// Byte-pair merging: a sequence of symbols becomes tokens by taking the pair of lowest rank again and again, leftmost
// first.
//
// Works on ids alone; what the first symbols are (bytes, characters) is the tokenizer's business.
// Code: tokenizer/bpe.cc. Tests: tests/tokenizer/bpe_test.cc (against the definition, by brute force).

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

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
  //   cost  up to 512 symbols a look at n/16 places for each merge; from there a heap: n log n, so a megabyte without a
  //         break is no trap
  void merge(std::vector<std::int32_t>& symbols) const;

  // For models over bytes: the id of every byte, -1 where there is none. Pairs of bytes then have a table of their own.
  void set_bytes(std::span<const std::int32_t, 256> ids);
  // Symbols become the merged bytes of `piece`.   needs  set_bytes, an id for each byte
  void merge_bytes(std::string_view piece, std::vector<std::int32_t>& symbols) const;

 private:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const;
  // Bring the slot of a pair near.
  void prefetch(std::int32_t left, std::int32_t right) const;
  // What the place of a merge is compared by.
  template <bool ordered>
  std::uint32_t rank_at(std::uint32_t place) const {
    if constexpr (!ordered) return place;
    return place == kNoRank ? kNoRank : order_[place];
  }
  // A piece being merged: for each place the merge with the place behind it.
  struct Row {
    static constexpr std::size_t kBlock = 16, kMost = 512;
    std::uint32_t merge[kMost];  // its place in the list
    std::int32_t rank[kMost], least[kMost / kBlock];
    std::uint16_t next[kMost], previous[kMost];
  };
  template <bool ordered>
  void merge_row(Row& row, std::vector<std::int32_t>& symbols) const;
  template <bool ordered>
  void merge_long(std::vector<std::int32_t>& symbols) const;
  std::vector<std::uint64_t>
      table_;  // left (21 bits), right (21), rank (22): a slot is one word, so tables stay in cache
  std::vector<std::int32_t> results_;  // by place
  std::vector<std::uint32_t> order_;   // by place; empty: a merge's rank is its place
  std::uint64_t mask_ = 0;
  std::vector<std::uint64_t> filter_;  // a bit set for the hash of every pair: most pairs merge not, and end here
  int filter_shift_ = 0;
  std::int32_t byte_ids_[256] = {};
  std::vector<std::uint32_t> byte_pairs_;  // of set_bytes
};

}  // namespace mt::tokenizer
