#include "tokenizer/text_forms.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/older_unicode.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

// Capital letters that came with Unicode 16, after Debian's utf8proc.
std::uint32_t newer_lower(std::uint32_t c) {
  if (c >= 0x10D50 && c <= 0x10D65) return c + 0x20;
  switch (c) {
    case 0x1C89: return 0x1C8A;
    case 0xA7CB: return 0x0264;
    case 0xA7CC: return 0xA7CD;
    case 0xA7DA: return 0xA7DB;
    case 0xA7DC: return 0x019B;
    default: return c;
  }
}

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

bool is_outside_forms(std::uint32_t c) {
  return c >= kOutsideForms[0].first && (is_in(kOutsideForms, c) || is_in(kYoung, c));
}

void append_known(std::string_view text, NormalForm form, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, options_of(form));
  if (size < 0) throw Error(Code::data, fmt::format("cannot normalise text: {}", utf8proc_errmsg(size)));
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(size));
  std::free(result);
}

constexpr std::uint32_t kCodePoints = 0x110000, kNoFormsFrom = 0x30000;

bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }

// Every code point that stands second or later in a canonical decomposition, so that it may compose with what precedes.
std::vector<bool> second_characters() {
  std::vector<bool> second(kCodePoints, false);
  std::fill(second.begin() + 0x1160, second.begin() + 0x1200, true);  // vowels and finals of Hangul
  utf8proc_int32_t parts[32];
  for (std::uint32_t c = 0x80; c < kNoFormsFrom; ++c) {
    int last = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options_of(NormalForm::nfd), &last);
    for (utf8proc_ssize_t i = 1; i < n && n <= 32; ++i) second[static_cast<std::size_t>(parts[i])] = true;
  }
  return second;
}

std::string alone(std::uint32_t c, NormalForm form) {
  std::string text, out;
  append_utf8(c, text);
  append_known(text, form, out);
  return out == text ? "" : out;
}

// A bit a code point: it is its own normal form, and text may be cut before it and each part be normalised for itself.
std::vector<std::uint64_t> build_inert(NormalForm form) {
  std::vector<std::uint64_t> bits(kCodePoints / 64, ~std::uint64_t{0});
  const std::vector<bool> second = composes(form) ? second_characters() : std::vector<bool>(kCodePoints, false);
  const utf8proc_option_t apart = options_of(form == NormalForm::nfkc || form == NormalForm::nfkd ? NormalForm::nfkd
                                                                                                 : NormalForm::nfd);
  utf8proc_int32_t parts[32];
  for (std::uint32_t c = 0x80; c < kCodePoints; ++c) {
    bool inert = !is_outside_forms(c) && !second[c];
    const auto code = static_cast<utf8proc_int32_t>(c);
    if (inert && (c < kNoFormsFrom || c >= 0xE0000) && !(c >= 0xD800 && c < 0xE000)) {
      int last = 0;
      const bool whole = utf8proc_decompose_char(code, parts, 32, apart, &last) == 1 && parts[0] == code;
      inert = utf8proc_get_property(code)->combining_class == 0 && (whole || (composes(form) && alone(c, form).empty()));
    }
    if (!inert) bits[c >> 6] &= ~(std::uint64_t{1} << (c & 63));
  }
  return bits;
}

const std::uint64_t* inert_bits(NormalForm form) {
  switch (form) {  // constant after the first call
    case NormalForm::nfc: {
      static const std::vector<std::uint64_t> bits = build_inert(NormalForm::nfc);
      return bits.data();
    }
    case NormalForm::nfd: {
      static const std::vector<std::uint64_t> bits = build_inert(NormalForm::nfd);
      return bits.data();
    }
    case NormalForm::nfkc: {
      static const std::vector<std::uint64_t> bits = build_inert(NormalForm::nfkc);
      return bits.data();
    }
    case NormalForm::nfkd: break;
  }
  static const std::vector<std::uint64_t> bits = build_inert(NormalForm::nfkd);
  return bits.data();
}

// The place of the first code point at or after `i` that is not inert, or the end; `previous` is the one before it.
std::size_t skip_inert(const std::uint64_t* inert, std::string_view text, std::size_t i, std::size_t& previous) {
  const char* s = text.data();
  while (i < text.size()) {
    if (text.size() - i >= 16) {
      std::uint64_t a = 0, b = 0;
      std::memcpy(&a, s + i, 8);
      std::memcpy(&b, s + i + 8, 8);
      if (((a | b) & 0x8080808080808080ull) == 0) {
        previous = i + 15;
        i += 16;
        continue;
      }
    }
    const Decoded d = decode_utf8(s + i);
    if ((inert[d.code_point >> 6] >> (d.code_point & 63) & 1) == 0) return i;
    previous = i;
    i += d.size;
  }
  return i;
}

// utf8proc takes this for a final consonant of Hangul and loses it; it is none, and goes with nothing.
constexpr std::uint32_t kBeforeFinals = 0x11A7;

// Text between two places that it may be cut at.
void append_span(std::string_view text, NormalForm form, std::string& out) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text.data() + i);
    if (is_outside_forms(d.code_point) || d.code_point == kBeforeFinals) {
      append_known(text.substr(done, i - done), form, out);
      out.append(text, i, d.size);
      done = i + d.size;
    }
    i += d.size;
  }
  append_known(text.substr(done), form, out);
}

}  // namespace

void append_lower(std::uint32_t c, std::string& out) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c));
    return;
  }
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  const auto lower = static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  append_utf8(lower == c ? newer_lower(c) : lower, out);
}

bool is_plainly(std::string_view text, NormalForm form) {
  std::size_t previous = 0;
  return skip_inert(inert_bits(form), text, 0, previous) == text.size();
}

void append_normal_form(std::string_view text, NormalForm form, std::string& out) {
  const std::uint64_t* inert = inert_bits(form);
  std::size_t done = 0, previous = 0;
  for (std::size_t i = 0; (i = skip_inert(inert, text, i, previous)) < text.size();) {
    const std::size_t begin = composes(form) && i > done ? previous : i;  // what is here may compose with the one before
    std::size_t end = i;
    do {
      end += decode_utf8(text.data() + end).size;
      if (end >= text.size()) break;
      const std::uint32_t c = decode_utf8(text.data() + end).code_point;
      if ((inert[c >> 6] >> (c & 63) & 1) != 0) break;
    } while (true);
    out.append(text, done, begin - done);
    append_span(text.substr(begin, end - begin), form, out);
    done = i = end;
  }
  out.append(text, done, std::string_view::npos);
}

}  // namespace mt::tokenizer
