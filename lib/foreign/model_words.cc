#include "foreign/model_words.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace mt {

namespace {

// The number of "WORD[n]" at the start, which is cut off; nothing without.
bool take_index(std::string_view& text, std::string_view word, std::size_t& index) {
  if (!text.starts_with(word)) return false;
  const auto* begin = text.data() + word.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), index);
  if (error != std::errc() || end == text.data() + text.size() || *end != ']') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  if (text.starts_with(".")) text.remove_prefix(1);
  return true;
}

}  // namespace

std::string difference_in_words(const std::string& difference, const ModelSpec& model) {
  std::string_view rest = difference;
  std::size_t tower = 0, row = 0;
  if (!take_index(rest, "towers[", tower) || !take_index(rest, "rows[", row)) return difference;
  constexpr std::string_view kAlone = ": only in one";
  if (rest.ends_with(kAlone)) rest.remove_suffix(kAlone.size());
  const bool known = tower < model.towers.size() && row < model.towers[tower].rows.size();
  const std::string of = known ? fmt::format("layer {}'s", model.towers[tower].rows[row].layer) : "a layer's";
  return fmt::format("{}{} {}", model.towers.size() > 1 ? fmt::format("tower {}, ", tower) : "", of, rest);
}

}  // namespace mt
