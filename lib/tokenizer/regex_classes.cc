#include "tokenizer/regex_classes.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/older_unicode.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

constexpr std::string_view kNames[] = {"Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu",
                                       "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
                                       "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

// Inside brackets, without them. \s leaves out U+180E, which PCRE2 takes for a space.
constexpr std::string_view kSpaceClass =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
constexpr std::string_view kHexClass = "0-9A-Fa-f";
constexpr std::string_view kCircledLetters =
    "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";
// Numbers of Latin-1 that are word characters there when \w stands alone, and are not inside brackets.
constexpr std::string_view kLatinNumbers = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

bool is_category(std::string_view name) {
  for (const std::string_view known : kNames) {
    if (name == known || (name.size() == 1 && known.starts_with(name) && name != "C")) return true;
  }
  return false;
}

// The young code points of a category, "L" or "Lu", as ranges of a class.
std::string young_of(std::string_view name) {
  std::string ranges;
  std::uint32_t begin = 0, end = 0;  // a run [begin, end), empty at first
  const auto put = [&] {
    if (end > begin) ranges += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", begin, end - 1);
  };
  for (const CodePointRange& range : kYoung) {
    for (std::uint32_t c = range.first; c <= range.last; ++c) {
      if (!kNames[static_cast<std::size_t>(category_of(c))].starts_with(name)) continue;
      if (c != end) {
        put();
        begin = c;
      }
      end = c + 1;
    }
  }
  put();
  return ranges;
}

std::string category_class(std::string_view name) { return fmt::format("\\p{{{}}}{}", name, young_of(name)); }

std::string word_class(bool alone) {
  std::string all(kCircledLetters);
  if (alone) all += kLatinNumbers;
  for (const char* name : {"L", "M", "Nd", "Nl", "Pc"}) all += category_class(name);
  return all;
}

// One escape of the regex at `at` (a backslash): what it becomes, and where it ends. Empty: it stays as it is.
struct Rewritten {
  std::string text;
  std::size_t end;
};
Rewritten rewrite_escape(std::string_view regex, std::size_t at, bool in_class) {
  const char kind = at + 1 < regex.size() ? regex[at + 1] : '\0';
  const auto put = [&](std::string_view inside, std::size_t end, bool negated) -> Rewritten {
    if (in_class && negated) return {"", end};
    if (in_class) return {std::string(inside), end};
    return {fmt::format("[{}{}]", negated ? "^" : "", inside), end};
  };
  switch (kind) {
    case 's': case 'S': return put(kSpaceClass, at + 2, kind == 'S');
    case 'd': case 'D': return put(category_class("Nd"), at + 2, kind == 'D');
    case 'w': case 'W': return put(word_class(!in_class), at + 2, kind == 'W');
    case 'h': case 'H': return put(kHexClass, at + 2, kind == 'H');
    case 'p': case 'P': break;
    default: return {"", at + 2};
  }
  const bool braces = at + 2 < regex.size() && regex[at + 2] == '{';
  const std::size_t close = braces ? regex.find('}', at) : at + 2;
  if (close == std::string_view::npos || close >= regex.size()) return {"", at + 2};
  std::string_view name = braces ? regex.substr(at + 3, close - at - 3) : regex.substr(at + 2, 1);
  const bool caret = name.starts_with('^');
  if (caret) name.remove_prefix(1);
  if (!is_category(name)) return {"", close + 1};
  return put(category_class(name), close + 1, (kind == 'P') != caret);
}

[[noreturn]] void refuse_set(std::string_view regex) {
  throw Error(Code::data, "split pattern: intersections and negated sets inside a set are not supported",
              std::string(regex));
}

}  // namespace

std::string pin_character_classes(std::string_view regex) {
  std::string out;
  int depth = 0;  // of brackets
  for (std::size_t i = 0; i < regex.size();) {
    const std::string_view rest = regex.substr(i);
    if (rest.starts_with("\\Q")) {
      const std::size_t end = std::min(regex.find("\\E", i), regex.size() - 2) + 2;
      out += regex.substr(i, end - i);
      i = end;
    } else if (regex[i] == '\\') {
      const Rewritten made = rewrite_escape(regex, i, depth > 0);
      out += made.text.empty() ? regex.substr(i, made.end - i) : std::string_view(made.text);
      i = made.end;
    } else if (depth > 0 && rest.starts_with("[:")) {
      const std::size_t end = std::min(regex.find(":]", i), regex.size() - 2) + 2;
      out += regex.substr(i, end - i);
      i = end;
    } else if (regex[i] == '[') {
      // A set inside a set is part of it there; here it loses its brackets.
      if (depth > 0 && rest.starts_with("[^")) refuse_set(regex);
      if (depth++ == 0) out += '[';
      ++i;
      if (depth == 1 && i < regex.size() && regex[i] == '^') out += regex[i++];
      if (i < regex.size() && regex[i] == ']') {  // right at the start it is a member
        out += "\\]";
        ++i;
      }
    } else if (depth > 0 && regex[i] == ']') {
      if (--depth == 0) out += ']';
      ++i;
    } else {
      if (depth > 0 && rest.starts_with("&&")) refuse_set(regex);
      out += regex[i++];
    }
  }
  return out;
}

}  // namespace mt::tokenizer
