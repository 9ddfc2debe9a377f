#include "tokenizer/character_borders.h"

#include <algorithm>

namespace mt::tokenizer {

namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t size_of(char first) {
  const auto b = static_cast<unsigned char>(first);
  return b < 0xC0 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

// The bytes of [begin, end), at most four of them, as a number.
std::uint32_t number_of(std::string_view text, std::size_t begin, std::size_t end) {
  std::uint32_t number = 0;
  for (std::size_t i = begin; i < end; ++i) number = number << 8 | static_cast<unsigned char>(text[i]);
  return number;
}

// The end of the character that begins at `begin`: where the next one does, or the text ends.
std::size_t character_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < text.size() && end < begin + 4 && continues(text[end])) ++end;
  return end;
}

}  // namespace

CharacterBorders::CharacterBorders()
    : pairs_((std::size_t{1} << kPairBits) / 64), cut_off_(std::size_t{256} * 256 / 64) {}

void CharacterBorders::set(std::uint32_t left, std::uint32_t right) {
  const std::uint32_t bit = place_of(left, right);
  pairs_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
}

void CharacterBorders::add(std::string_view token) {
  for (std::size_t begin = 0, border = 0; begin < token.size(); begin = border) {
    border = character_end(token, begin);
    if (border >= token.size()) return;
    const std::size_t end = character_end(token, border);
    const bool left_whole = border - begin == size_of(token[begin]) && !continues(token[begin]);
    if (!left_whole) {
      const std::uint32_t bit = number_of(token, border - 1, border + 1);
      cut_off_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
      continue;
    }
    const bool right_whole = end - border == size_of(token[border]);
    set(number_of(token, begin, border), number_of(token, border, right_whole ? end : border + 1));
  }
}

std::size_t CharacterBorders::part(std::string_view piece) const {
  for (std::size_t begin = 0;;) {
    const std::size_t border = character_end(piece, begin);
    if (border >= piece.size()) return piece.size();
    const std::size_t end = character_end(piece, border);
    const std::uint32_t left = number_of(piece, begin, border), right = number_of(piece, border, end);
    const std::uint32_t right_first = static_cast<unsigned char>(piece[border]);
    const std::uint32_t bit = (left & 0xFF) << 8 | right_first;
    const bool may_join =
        has(left, right) || has(left, right_first) || (cut_off_[bit >> 6] >> (bit & 63) & 1) != 0;
    if (!may_join) return border;
    begin = border;
  }
}

}  // namespace mt::tokenizer
