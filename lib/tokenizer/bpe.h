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

#include "tokenizer/table_memory.h"

namespace mt::tokenizer {

// Rank of a merge is its place in the list.
struct Merge {
  std::int32_t left, right, result;
};

// Words one after the other, word k up to ends[k].
struct WordsOfSymbols {
  static constexpr std::size_t kMostKept = std::size_t{1} << 18;  // of symbols: the room of rare giants is given up
  std::vector<std::int32_t> symbols;
  std::vector<std::uint32_t> ends;
  void clear() {
    symbols.clear();
    ends.clear();
    if (symbols.capacity() > kMostKept) symbols.shrink_to_fit();
  }
  void end_word() { ends.push_back(static_cast<std::uint32_t>(symbols.size())); }
  std::span<const std::int32_t> word(std::size_t k) const {
    const std::size_t begin = k == 0 ? 0 : ends[k - 1];
    return std::span(symbols).subspan(begin, ends[k] - begin);
  }
};

class MergeTable {
 public:
  // Of two merges of one pair the last wins, as in tokenizer.json readers.
  //   fails  Error{data}: an id of 2^21 - 1 or more, 2^22 merges or more
  //   cost   20 to 36 bytes a merge
  // `order`, where it is not empty, ranks the merges in place of their places: least first, and of equal ones the
  // leftmost pair (tiktoken and SentencePiece rank what a merge makes, not the pair).
  //   needs  an order a merge, or none
  explicit MergeTable(std::span<const Merge> merges, std::span<const std::uint32_t> order = {});

  // Merge `symbols` in place to the end.
  //   cost  for each merge a look at all of up to 62 symbols, and at n/16 places of up to 512; from there a heap: n log n,
  //         so a megabyte without a break is no trap
  void merge(std::vector<std::int32_t>& symbols) const;

  // The same of many words side by side: while one waits for the memory of the table, the others go on. Merged ones are
  // appended to `merged`.
  //   cost  as merge(), but the waits of sixteen words are one
  void merge_all(const WordsOfSymbols& words, WordsOfSymbols& merged) const;

  // For models over bytes: the id of every byte, -1 where there is none. Pairs of bytes then have a table of their own.
  void set_bytes(std::span<const std::int32_t, 256> ids);
  // Symbols become the merged bytes of `piece`.   needs  set_bytes, an id for each byte
  void merge_bytes(std::string_view piece, std::vector<std::int32_t>& symbols) const;
  // The same of many, as merge_all.
  void merge_bytes_all(std::span<const std::string_view> pieces, WordsOfSymbols& merged) const;

 private:
  // The number of a merge: what merges of equal order and result share, by rank. Or kNone or more.
  static constexpr std::uint32_t kNone = (1u << 22) - 1;
  std::uint32_t find(std::int32_t left, std::int32_t right) const;
  std::uint32_t number_at(std::uint64_t slot, std::uint64_t pair) const;
  std::uint32_t rank_of(std::uint32_t number) const { return ranks_.empty() ? number : ranks_[number]; }
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 21 | static_cast<std::uint32_t>(right);
  }
  // The first of four slots on one cache line.
  std::uint64_t slot_of(std::uint64_t pair) const {
    return pair * 0x9E3779B97F4A7C15ull >> 32 & mask_ & ~std::uint64_t{3};
  }
  const std::uint64_t* slots() const { return static_cast<const std::uint64_t*>(memory_.data()); }
  std::vector<std::uint32_t> number_merges(std::span<const Merge> merges, std::span<const std::uint32_t> order);

  struct Word;
  struct Row;
  void set(Word& word, std::size_t place, std::uint32_t number) const;
  void set(Row& row, std::size_t place, std::uint32_t number) const;
  void load(std::span<const std::int32_t> symbols, Word& word) const;
  void load(std::string_view piece, Word& word) const;
  static void begin(Word& word, std::size_t size);
  static void end(const Word& word, std::vector<std::int32_t>& symbols);
  bool turn(Word& word) const;
  void look(Word& word) const;
  template <class Pieces>
  void merge_words(std::size_t count, const Pieces& piece_of, WordsOfSymbols& merged) const;
  void merge_row(Row& row, std::vector<std::int32_t>& symbols) const;
  void merge_long(std::vector<std::int32_t>& symbols) const;
  void append_merged(std::span<const std::int32_t> symbols, WordsOfSymbols& merged) const;
  void append_merged(std::string_view piece, WordsOfSymbols& merged) const;

  TableMemory memory_;  // of slots: left (21 bits), right (21), number + 1 (22), so that 0 is empty
  std::uint64_t mask_ = 0;
  std::vector<std::int32_t> results_;   // by number
  std::vector<std::uint32_t> ranks_;    // by number; empty: a merge's rank is its number
  std::int32_t byte_ids_[256] = {};
  std::vector<std::uint32_t> byte_pairs_;  // of set_bytes: numbers
};

}  // namespace mt::tokenizer
