#include "data/mend_text.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tokenizer/unicode.h"

namespace mt::data {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD", kByteOrderMark = "\xEF\xBB\xBF";

// Bytes at the front of `text`, which is no valid character there, that one U+FFFD stands for.
std::size_t broken_run(std::string_view text) {
  const auto b = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = b(0);
  const std::size_t wanted = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
  // The second byte is bounded further: no overlong forms, no surrogates, nothing above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t n = 1;
  while (n < wanted && n < text.size() && b(n) >= (n == 1 ? low : 0x80u) && b(n) <= (n == 1 ? high : 0xBFu)) ++n;
  return n;
}

// The value of an escape \uXXXX at the front of `text`.
std::optional<unsigned> escape_at(std::string_view text) {
  unsigned value = 0;
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data() + 2, text.data() + 6, value, 16);
  if (error != std::errc() || stop != text.data() + 6) return std::nullopt;
  return value;
}

std::int64_t replace_lone_surrogates(std::string& record, std::size_t from) {
  std::int64_t replaced = 0;
  for (std::size_t at = from; (at = record.find('\\', at)) != std::string::npos;) {
    const std::string_view rest = std::string_view(record).substr(at);
    const std::optional<unsigned> value = escape_at(rest);
    if (!value || *value < 0xD800 || *value > 0xDFFF) {
      at += value ? 6 : 2;
      continue;
    }
    const std::optional<unsigned> next = *value < 0xDC00 ? escape_at(rest.substr(6)) : std::nullopt;
    if (next && *next >= 0xDC00 && *next <= 0xDFFF) {
      at += 12;
      continue;
    }
    record.replace(at, 6, "\\uFFFD");
    at += 6;
    ++replaced;
  }
  return replaced;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The length of the number at the front of `text`, 0 where there is none, and whether a parser of fixed width has it.
struct Number {
  std::size_t size = 0;
  bool plain = true;
};
Number number_at(std::string_view text) {
  for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
    if (text.starts_with(name)) return {name.size(), false};
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - from;
  };
  const std::size_t whole = digits();
  if (whole == 0) return {};
  bool fraction = false;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) ++at, fraction = digits() > 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::size_t mark = at++;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) at = mark;
    else fraction = true;
  }
  constexpr std::size_t kMostDigits = 18;
  if (!fraction) return {at, whole <= kMostDigits};
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + at, value);
  return {at, error == std::errc()};
}

}  // namespace

std::int64_t replace_invalid_utf8(std::string_view text, std::string& out) {
  std::int64_t replaced = 0;
  for (;;) {
    const std::size_t valid = tokenizer::find_invalid_utf8(text);
    out.append(text.substr(0, valid));
    if (valid == std::string_view::npos) return replaced;
    text.remove_prefix(valid);
    out.append(kReplacement);
    ++replaced;
    text.remove_prefix(broken_run(text));
  }
}

std::int64_t mend_json(std::string_view record, std::string& out) {
  std::int64_t dropped = 0;
  for (; record.starts_with(kByteOrderMark); ++dropped) record.remove_prefix(kByteOrderMark.size());
  const std::size_t from = out.size();
  const std::int64_t replaced = replace_invalid_utf8(record, out);
  return dropped + replaced + replace_lone_surrogates(out, from);
}

std::int64_t take_python_numbers(std::string_view record, std::string& out) {
  std::int64_t taken = 0;
  for (std::size_t at = 0; at < record.size();) {
    if (record[at] == '"') {  // a string, whole
      std::size_t end = at + 1;
      while (end < record.size() && record[end] != '"') end += record[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, record.size());
      out.append(record.substr(at, end - at));
      at = end;
      continue;
    }
    const Number number = number_at(record.substr(at));
    if (number.size == 0) {
      out += record[at++];
      continue;
    }
    if (number.plain) out.append(record.substr(at, number.size));
    else out += '0';
    taken += number.plain ? 0 : 1;
    at += number.size;
  }
  return taken;
}

}  // namespace mt::data
