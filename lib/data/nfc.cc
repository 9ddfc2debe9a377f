#include "data/nfc.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "data/text_forms.h"
#include "data/unicode.h"

namespace mt::data {

namespace {

// Blocks whose code points are starters, have NFC_QC = Yes and never compose with what precedes them.
struct Block {
  std::uint32_t first, last;
};
constexpr Block kInert[] = {{0x0000, 0x02FF},   {0x0400, 0x0482},  {0x048A, 0x0590}, {0x2010, 0x2027}, {0x2030, 0x20CF},
                            {0x2190, 0x2260},   {0x2300, 0x2328},  {0x2460, 0x2AD0}, {0x3000, 0x3029}, {0x3041, 0x3096},
                            {0x309B, 0x30FF},   {0x3400, 0x9FFF},  {0xAC00, 0xD7A3}, {0xE000, 0xF8FF}, {0xFF00, 0xFFEF},
                            {0x1F000, 0x1FAFF}, {0x20000, 0x2A6DF}};

bool inert(std::uint32_t c) {
  const auto* after = std::upper_bound(std::begin(kInert), std::end(kInert), c,
                                       [](std::uint32_t x, const Block& b) { return x < b.first; });
  return after != std::begin(kInert) && c <= (after - 1)->last;
}

}  // namespace

bool plainly_nfc(std::string_view text) {
  const char* s = text.data();
  const char* end = s + text.size();
  while (s < end) {
    if (end - s >= 16) {
      std::uint64_t a = 0, b = 0;
      std::memcpy(&a, s, 8);
      std::memcpy(&b, s + 8, 8);
      if (((a | b) & 0x8080808080808080ull) == 0) {
        s += 16;
        continue;
      }
    }
    const Decoded d = decode_utf8(s);
    if (d.code_point >= 0x300 && !inert(d.code_point)) return false;
    s += d.size;
  }
  return true;
}

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  if (plainly_nfc(text)) return text;
  buffer.clear();
  append_normal_form(text, NormalForm::nfc, buffer);
  return buffer;
}

}  // namespace mt::data
