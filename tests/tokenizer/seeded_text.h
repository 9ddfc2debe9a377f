#pragma once
// Text made by a seed: words, digits, signs and white space of ASCII, runs of Cyrillic, Han, kana and Devanagari, and any
// code point at all. tests/peers/seeded_text.py makes the same; a change here is a change there.

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"

namespace mt::tokenizer {

class SeededText {
 public:
  explicit SeededText(std::uint64_t seed) : state_(seed) {}

  std::string document() {
    std::string text;
    for (std::uint64_t parts = 1 + below(1200); parts > 0; --parts) add_part(text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t n) {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return (z ^ z >> 31) % n;
  }
  void add_run(std::uint32_t first, std::uint64_t span, std::uint64_t most, std::string& text) {
    for (std::uint64_t n = 1 + below(most); n > 0; --n) append_utf8(first + static_cast<std::uint32_t>(below(span)), text);
  }
  void add_word(std::string& text) {
    constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkqjxz";
    std::string word;
    for (std::uint64_t n = 1 + below(9); n > 0; --n) {
      const std::uint64_t a = below(26), b = below(26);
      word += kLetters[a * b / 26];
    }
    const bool capital = below(8) == 0, blank = below(5) != 0;
    if (capital) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    if (blank) text += ' ';
    text += word;
  }
  void add_part(std::string& text) {
    static const std::vector<std::string> spaces = {" ", "  ", "\n", "\n\n", "\t", "\r\n", "    ", " \n "};
    static const std::vector<std::string> tails = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "n't", "'x"};
    constexpr std::string_view kSigns = ".,;:!?-()[]{}<>/\\\"'#*_=+&%$@~^|`";
    const std::uint64_t kind = below(16);
    if (kind < 7) return add_word(text);
    switch (kind) {
      case 7: return add_run(0x30, 10, 6, text);
      case 8: text += spaces[below(spaces.size())]; return;
      case 9:
        for (std::uint64_t n = 1 + below(3); n > 0; --n) text += kSigns[below(kSigns.size())];
        return;
      case 10: text += tails[below(tails.size())]; return;
      case 11: return add_run(0x430, 32, 10, text);
      case 12: return add_run(0x4E00, 3000, 6, text);
      case 13: return add_run(0x3041, 83, 8, text);
      case 14: return add_run(0x905, 0x45, 8, text);
      default: break;
    }
    const auto c = static_cast<std::uint32_t>(below(0x110000));
    append_utf8(c >= 0xD800 && c < 0xE000 ? std::uint32_t{'?'} : c, text);
  }
  std::uint64_t state_;
};

}  // namespace mt::tokenizer
