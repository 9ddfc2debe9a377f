#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "tokenizer/unicode_tables.h"

namespace mt::tokenizer {

namespace {

constexpr std::uint32_t kCodePoints = 0x110000;

std::uint8_t class_bits(Category c) {
  if (c == Category::Ll) return kLetter | kLower;
  if (c == Category::Lu || c == Category::Lt) return kLetter | kUpper;
  if (c >= Category::Ll && c <= Category::Lu) return kLetter;
  if (c >= Category::Mc && c <= Category::Mn) return kMark;
  if (c >= Category::Nd && c <= Category::No) return kNumber;
  if (c >= Category::Pc && c <= Category::Ps) return kPunctuation;
  if (c >= Category::Sc && c <= Category::So) return kSymbol;
  return 0;
}

std::vector<std::uint8_t> build_classes() {
  std::vector<std::uint8_t> classes(kCodePoints);
  const std::size_t runs = std::size(kCategoryRuns);
  for (std::size_t i = 0; i < runs; ++i) {
    const std::uint32_t first = kCategoryRuns[i] >> 5;
    const std::uint32_t end = i + 1 < runs ? kCategoryRuns[i + 1] >> 5 : kCodePoints;
    const std::uint8_t bits = class_bits(static_cast<Category>(kCategoryRuns[i] & 31u));
    std::fill(classes.begin() + first, classes.begin() + end, bits);
  }
  for (const std::uint32_t c : kWhiteSpace) classes[c] = static_cast<std::uint8_t>(classes[c] | kSpace);
  return classes;
}

}  // namespace

const std::uint8_t* unicode_classes() {
  static const std::vector<std::uint8_t> classes = build_classes();  // constant after the first call
  return classes.data();
}

Category category_of(std::uint32_t code_point) {
  const auto* after = std::upper_bound(std::begin(kCategoryRuns), std::end(kCategoryRuns), code_point << 5 | 31u);
  return static_cast<Category>(*(after - 1) & 31u);
}

void append_utf8(std::uint32_t c, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto* s = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t size = text.size();
  const auto continues = [s](std::size_t i) { return (s[i] & 0xC0) == 0x80; };
  std::size_t i = 0;
  while (i < size) {
    if (size - i >= 16) {
      std::uint64_t a = 0, b = 0;
      std::memcpy(&a, s + i, 8);
      std::memcpy(&b, s + i + 8, 8);
      if (((a | b) & 0x8080808080808080ull) == 0) {
        i += 16;
        continue;
      }
    }
    const unsigned char c = s[i];
    if (c < 0x80) {
      ++i;
    } else if (c >= 0xC2 && c < 0xE0) {
      if (size - i < 2 || !continues(i + 1)) return i;
      i += 2;
    } else if (c >= 0xE0 && c < 0xF0) {
      if (size - i < 3 || !continues(i + 1) || !continues(i + 2)) return i;
      if ((c == 0xE0 && s[i + 1] < 0xA0) || (c == 0xED && s[i + 1] >= 0xA0)) return i;
      i += 3;
    } else if (c >= 0xF0 && c < 0xF5) {
      if (size - i < 4 || !continues(i + 1) || !continues(i + 2) || !continues(i + 3)) return i;
      if ((c == 0xF0 && s[i + 1] < 0x90) || (c == 0xF4 && s[i + 1] >= 0x90)) return i;
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace mt::tokenizer
