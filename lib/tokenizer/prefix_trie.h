#pragma once
// Strings to numbers, found by walking the text: which keys does the text at this place start with?
//
// A double array: a step is one addition, one look. Built once from all keys.
// Code: tokenizer/prefix_trie.cc. Tests: tests/tokenizer/prefix_trie_test.cc (against a map).

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace mt::tokenizer {

class PrefixTrie {
 public:
  using Key = std::pair<std::string_view, std::int32_t>;
  static constexpr std::uint32_t kRoot = 0;

  PrefixTrie() : cells_(256) {}
  // Of equal keys the first counts; empty keys are ignored.
  //   needs  values of 0 or more
  //   cost   about 0.1 s for 250,000 keys, 12 bytes a distinct prefix and some holes
  explicit PrefixTrie(std::vector<Key> keys);

  // From `node` by one byte.   gives  false where no key goes on so; node is unchanged then
  bool step(std::uint32_t& node, char byte) const {
    const std::uint32_t next = cells_[node].base ^ static_cast<unsigned char>(byte);
    if (next == kRoot || cells_[next].parent != node) return false;
    node = next;
    return true;
  }
  // The value of the key that ends at this node, or -1.
  std::int32_t value(std::uint32_t node) const { return cells_[node].value; }

  // The longest key that `text` starts with.
  struct Match {
    std::int32_t value = -1;
    std::size_t size = 0;  // of the key, in bytes; 0: none
  };
  Match longest(std::string_view text) const;
  // The value of exactly this key, or -1.
  std::int32_t find(std::string_view key) const;

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  struct Cell {
    std::uint32_t base = 0, parent = kFree;
    std::int32_t value = -1;
  };
  struct Builder;
  std::vector<Cell> cells_;  // a multiple of 256, so that every base ^ byte is inside
};

}  // namespace mt::tokenizer
