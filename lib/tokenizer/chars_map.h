#pragma once
// The character map of SentencePiece models ("precompiled_charsmap"): which byte strings become which others.
//
// A blob: the size of a trie in bytes (32 bits, little endian), the trie as 32-bit units in the layout of the Darts
// double array, then the replacements, each ended by a NUL. Everything in it is checked while it is read: a damaged
// map finds nothing, it never reads outside.
// Code: tokenizer/chars_map.cc. Tests: tests/tokenizer/peer_vectors_test.cc, sentencepiece_test.cc.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class CharsMap {
 public:
  CharsMap() = default;
  //   fails  Error{corrupt}: shorter than it says, replacements that are no valid UTF-8
  explicit CharsMap(std::string_view blob);

  bool empty() const { return units_.empty(); }
  // Whether any string of the map may start with this byte.
  bool starts_with(char byte) const { return starts_with({&byte, 1}); }
  bool starts_with(std::string_view prefix) const;
  // Whether a character of ASCII is itself a string of the map.
  bool maps_alone(char ascii) const { return alone_[ascii & 0x7F]; }

  struct Match {
    std::size_t size = 0;  // bytes of text it stands for; 0: none
    std::string_view replacement;
  };
  // The longest, or the shortest, string of the map that `text` starts with.
  Match longest(std::string_view text) const { return find(text, true); }
  Match shortest(std::string_view text) const { return find(text, false); }

 private:
  Match find(std::string_view text, bool longest) const;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
  bool alone_[128] = {};
};

}  // namespace mt::tokenizer
