#pragma once
// Where no merge of a byte-level BPE ever crosses: between two characters that no token holds side by side.
//
// A stretch of Chinese or a long run of signs is one piece of the split pattern, seldom seen again, and long. Merged part
// by part, cut at such borders, it gives the same ids, and the parts are short and known.
// Tokens may begin or end inside a character; what they do is kept apart and answered with "may join".
// Code: tokenizer/character_borders.cc. Tests: tests/tokenizer/character_borders_test.cc.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class CharacterBorders {
 public:
  // cost  128 KiB and 8 KiB
  CharacterBorders();

  // Take in what a merge makes, any bytes.
  void add(std::string_view token);

  // The end of the first part of `piece`: a part is what ends before the first border that nothing crosses.
  //   needs  valid UTF-8, but for a character cut off at either end
  //   gives  1 to piece.size()
  std::size_t part(std::string_view piece) const;

 private:
  static constexpr int kPairBits = 20;
  // A character as a number: its bytes. One that is cut off at its end is its first byte.
  static std::uint32_t place_of(std::uint32_t left, std::uint32_t right) {
    return (left * 0x9E3779B1u ^ right * 0x85EBCA77u) >> (32 - kPairBits);
  }
  void set(std::uint32_t left, std::uint32_t right);
  bool has(std::uint32_t left, std::uint32_t right) const {
    const std::uint32_t bit = place_of(left, right);
    return (pairs_[bit >> 6] >> (bit & 63) & 1) != 0;
  }
  std::vector<std::uint64_t> pairs_;    // a bit for the hash of two characters; the right one may be its first byte
  std::vector<std::uint64_t> cut_off_;  // of the last byte of a character without its first, and the byte behind it
};

}  // namespace mt::tokenizer
