#include "tokenizer/chars_map.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

// Fields of a unit of the Darts double array.
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (1u << 31 | 0xFFu); }
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

CharsMap::CharsMap(std::string_view blob) {
  if (blob.empty()) return;
  std::uint32_t size = 0;
  if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
  if (blob.size() < 4 || size > blob.size() - 4 || size % 4 != 0 || size == 0) {
    throw Error(Code::corrupt,
                fmt::format("a character map of {} bytes that says its trie has {}", blob.size(), size));
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), blob.data() + 4, size);
  replacements_ = blob.substr(4 + size);
  if (find_invalid_utf8(replacements_) != std::string_view::npos) {
    throw Error(Code::corrupt, "a character map whose replacements are no valid UTF-8");
  }
  for (int c = 0; c < 128; ++c) {
    const char text = static_cast<char>(c);
    alone_[c] = find({&text, 1}, false).size > 0;
  }
}

bool CharsMap::starts_with(std::string_view prefix) const {
  if (units_.empty()) return false;
  std::size_t node = offset_of(units_[0]);
  for (const char byte : prefix) {
    node ^= static_cast<unsigned char>(byte);
    if (node >= units_.size() || label_of(units_[node]) != static_cast<unsigned char>(byte)) return false;
    node ^= offset_of(units_[node]);
  }
  return true;
}

CharsMap::Match CharsMap::find(std::string_view text, bool longest) const {
  Match best;
  if (units_.empty()) return best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    node ^= static_cast<unsigned char>(text[i]);
    if (node >= units_.size() || label_of(units_[node]) != static_cast<unsigned char>(text[i])) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t place = value_of(units_[node]);
    if (place >= replacements_.size() || (static_cast<unsigned char>(replacements_[place]) & 0xC0) == 0x80) continue;
    best.size = i + 1;
    const std::size_t end = std::min(replacements_.find('\0', place), replacements_.size());
    best.replacement = std::string_view(replacements_).substr(place, end - place);
    if (!longest) break;
  }
  return best;
}

}  // namespace mt::tokenizer
