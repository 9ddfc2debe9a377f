#include "data/text_forms.h"

#include <cstdlib>

#include <utf8proc.h>

#include "base/error.h"
#include "data/older_unicode.h"
#include "data/unicode.h"

namespace mt::data {

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

void append_normal_form(std::string_view text, NormalForm form, std::string& out) {
  std::size_t ascii = 0;
  while (ascii < text.size() && static_cast<unsigned char>(text[ascii]) < 0x80) ++ascii;
  if (ascii < text.size() && ascii > 0) --ascii;  // what follows may combine with the last one
  out.append(text.substr(0, ascii));
  text.remove_prefix(ascii);
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text.data() + i);
    if (is_outside_forms(d.code_point)) {
      append_known(text.substr(done, i - done), form, out);
      out.append(text, i, d.size);
      done = i + d.size;
    }
    i += d.size;
  }
  append_known(text.substr(done), form, out);
}

}  // namespace mt::data
