#include "base/shell_words.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"

namespace mt {

namespace {

// What a script of flags never needs: beyond it names hold themselves and grow without end.
constexpr std::size_t kMaxExpandedBytes = std::size_t{4} << 20;
constexpr int kMaxDepth = 100;  // brackets in $(( … ))

// The word behind ":-", which may stand in quotes of its own.
std::string unquoted(const std::string& text) {
  const bool both = text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return both ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

std::optional<std::int64_t> ShellWords::integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value) : std::nullopt;
}

std::string ShellWords::one_line(std::string text) {
  constexpr std::size_t kShown = 160;
  if (text.size() > kShown) text.replace(kShown, std::string::npos, " ...");
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

void ShellWords::fail(const std::string& what, const std::string& hint) const {
  throw Error(Code::usage, what, fmt::format("{}:{}", path_, line()), hint);
}

std::size_t ShellWords::line() const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
  return 1 + static_cast<std::size_t>(std::count(text_.begin(), end, '\n'));
}

void ShellWords::skip_blanks() {
  while (at_ < text_.size()) {
    if (is_blank(text_[at_])) ++at_;
    else if (is("\\\n")) at_ += 2;
    else if (is("\\\r\n")) at_ += 3;
    else if (text_[at_] == '#') skip_line();
    else return;
  }
}

Variable* ShellWords::find(const std::string& name) {
  const auto it = std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) { return v.name == name; });
  return it == variables_.end() ? nullptr : &*it;
}

Word ShellWords::unknown(const std::string& what) const { return {"", fmt::format("line {}: {}", line(), what), false}; }

void ShellWords::assign(const std::string& name, Words value, bool array, bool append) {
  Variable* v = find(name);
  if (v == nullptr) variables_.push_back({name, std::move(value), array});
  else if (!append) v->words = std::move(value), v->array = array;
  else if (v->array) v->words.insert(v->words.end(), value.begin(), value.end());
  else v->words[0].text += value.empty() ? "" : value[0].text;
}

Words ShellWords::counted(Words value) {
  for (const Word& w : value) expanded_ += w.text.size() + 1;
  if (expanded_ > kMaxExpandedBytes)
    fail(fmt::format("the values of names come to more than {} bytes", kMaxExpandedBytes), "a name may hold itself");
  return value;
}

Words ShellWords::value_of(const std::string& name) {
  const Variable* v = find(name);
  const bool known = v != nullptr && std::none_of(v->words.begin(), v->words.end(),
                                                  [](const Word& w) { return !w.unknown.empty() || w.fallback; });
  if (known) return counted(v->words);
  if (const char* text = std::getenv(name.c_str())) return counted({Word{text, "", false}});
  if (v != nullptr) return counted(v->words);
  return {unknown(fmt::format("${} has no value", one_line(name)))};
}

void ShellWords::add(Words& out, const Words& value, bool quoted, bool all) const {
  bool fresh = out.empty();
  bool fallback = false;
  const auto append = [&](const std::string& text, const std::string& why) {
    if (fresh) out.push_back({});
    fresh = false;
    out.back().text += text;
    out.back().fallback |= fallback;
    if (out.back().unknown.empty()) out.back().unknown = why;
  };
  for (std::size_t i = 0; i < value.size() && (all || i == 0); ++i) {
    if (i > 0) fresh = true;
    const Word& w = value[i];
    fallback = w.fallback;
    if (quoted || w.quoted || !w.unknown.empty()) {
      append(w.text, w.unknown);
      if (quoted) out.back().quoted = true;
      continue;
    }
    for (std::size_t from = 0; from < w.text.size();) {
      const std::size_t start = w.text.find_first_not_of(" \t\n\r\\", from);
      if (start == std::string::npos) break;
      std::size_t end = std::min(w.text.find_first_of(" \t\n\r", start), w.text.size());
      if (start > from) fresh = true;
      append(w.text.substr(start, end - start), "");
      from = end;
    }
  }
}

Words ShellWords::word() {
  Words out;
  const auto append = [&](std::string_view text) {
    if (out.empty()) out.push_back({});
    out.back().text += text;
  };
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (is_blank(c) || std::string_view("\n;&|<>()").find(c) != std::string_view::npos) {
      if (c == '>' && out.size() == 1 && integer(out[0].text)) out.clear();  // 2>&1
      return out;
    }
    if (is("\\\n") || is("\\\r\n")) return out;
    if (c == '\'') {
      const auto end = text_.find('\'', at_ + 1);
      if (end == std::string::npos) fail("a quote ' is not closed");
      append(std::string_view(text_).substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (is("\"$@\"")) {  // the script's parameters: none, and no word
      at_ += 4;
    } else if (c == '"') {
      append("");
      for (++at_; peek() != '"';) {
        if (peek() == '\0') fail("a quote \" is not closed");
        if (is("\\\n")) at_ += 2, append(" ");
        else if (peek() == '\\' && at_ + 1 < text_.size() &&
                 std::string_view("\"\\$`").find(text_[at_ + 1]) != std::string_view::npos)
          append(text_.substr(at_ + 1, 1)), at_ += 2;
        else if (peek() == '$' || peek() == '`') dollar(out, true);
        else append(text_.substr(at_++, 1));
      }
      ++at_;
    } else if (c == '\\') {
      append(text_.substr(at_ + 1, 1));
      at_ = std::min(at_ + 2, text_.size());
    } else if (c == '$' || c == '`') {
      dollar(out, false);
    } else {
      append(text_.substr(at_++, 1));
    }
  }
  return out;
}

void ShellWords::dollar(Words& out, bool quoted) {
  if (is("$((")) return arithmetic(out);
  if (is("${")) return braces(out, quoted);
  if (is("$(") || peek() == '`') {
    const bool tick = peek() == '`';
    std::size_t end = at_ + (tick ? 1 : 2);
    for (int depth = 1; end < text_.size() && depth > 0; ++end)
      depth += tick ? -int{text_[end] == '`'} : int{text_[end] == '('} - int{text_[end] == ')'};
    const Word what = unknown(fmt::format("'{}' would have to be run, and no shell is", one_line(text_.substr(at_, end - at_))));
    at_ = end;
    return add(out, {what}, quoted, false);
  }
  std::size_t end = at_ + 1;
  if (end < text_.size() && starts_name(text_[end])) {
    while (end < text_.size() && in_name(text_[end])) ++end;
    const std::string name = text_.substr(at_ + 1, end - at_ - 1);
    const Words value = value_of(name);
    at_ = end;
    return add(out, value, quoted, false);
  }
  if (end < text_.size() && (text_[end] == '@' || text_[end] == '*')) {  // parameters of the script: none
    at_ = end + 1;
    return;
  }
  if (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) {
    const Word what = unknown(fmt::format("${} is a parameter of the script, and it has none", text_[end]));
    at_ = end + 1;
    return add(out, {what}, quoted, false);
  }
  add(out, {Word{"$", "", false}}, true, false);
  ++at_;
}

// ${NAME}, ${NAME[@]}, ${NAME:-default}
void ShellWords::braces(Words& out, bool quoted) {
  const auto end = text_.find('}', at_);
  if (end == std::string::npos) fail("'${' is not closed");
  const std::string inside = text_.substr(at_ + 2, end - at_ - 2);
  std::size_t length = 0;
  while (length < inside.size() && in_name(inside[length])) ++length;
  const std::string name = inside.substr(0, length), rest = inside.substr(length);
  Words value;
  bool all = false;
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) {
    value = {unknown(fmt::format("'${{{}}}' has no value", one_line(inside)))};
    const auto fallback = rest.find(":-") == 0 ? rest.substr(2) : "";
    if (!fallback.empty()) value = {Word{unquoted(fallback), "", false, true}};
  } else if (rest.empty() || rest == "[@]" || rest == "[*]") {
    value = value_of(name);
    all = !rest.empty();
  } else if (rest.compare(0, 1, ":") == 0 || rest.compare(0, 1, "-") == 0 || rest.compare(0, 1, "=") == 0) {
    value = value_of(name);
    const std::size_t skip = rest[0] == ':' ? 2 : 1;
    if (rest.size() >= skip && (rest[skip - 1] == '-' || rest[skip - 1] == '=') &&
        (value.empty() || !value[0].unknown.empty() || value[0].text.empty()))
      value = {Word{unquoted(rest.substr(skip)), "", false}};
  } else {
    value = {unknown(fmt::format("'${{{}}}' is not understood", one_line(inside)))};
  }
  at_ = end + 1;
  add(out, value, quoted, all);
}

void ShellWords::arithmetic(Words& out) {
  std::size_t end = at_ + 3;
  for (int depth = 0; end < text_.size() && (depth > 0 || text_.compare(end, 2, "))") != 0); ++end)
    depth += int{text_[end] == '('} - int{text_[end] == ')'};
  if (end >= text_.size()) fail("'$((' is not closed");
  const std::string inside = text_.substr(at_ + 3, end - at_ - 3);
  std::size_t at = 0;
  const std::int64_t value = sum(inside, at);
  if (inside.find_first_not_of(' ', at) != std::string::npos) fail(fmt::format("'$(({}))' is not understood", one_line(inside)));
  at_ = end + 2;
  add(out, {Word{std::to_string(value), "", false}}, true, false);
}

std::int64_t ShellWords::sum(const std::string& s, std::size_t& at) {
  const auto fits = [&](bool overflow) {
    if (overflow) fail(fmt::format("'$(({}))' leaves the range of 64 bits", one_line(s)));
  };
  std::int64_t total = 0, term = factor(s, at);
  bool minus = false;
  for (;; ++at) {
    at = std::min(s.find_first_not_of(' ', at), s.size());
    const char op = at < s.size() ? s[at] : ')';
    if (op == '*' || op == '/' || op == '%') {
      ++at;
      const std::int64_t other = factor(s, at);
      if (op != '*' && other == 0) fail("division by 0");
      if (op == '*') fits(__builtin_mul_overflow(term, other, &term));
      else if (other == -1) fits(op == '/' && __builtin_sub_overflow(0, term, &term)), term = op == '/' ? term : 0;
      else term = op == '/' ? term / other : term % other;
      --at;
      continue;
    }
    fits(minus ? __builtin_sub_overflow(total, term, &total) : __builtin_add_overflow(total, term, &total));
    if (op != '+' && op != '-') return total;
    minus = op == '-';
    ++at;
    term = factor(s, at);
    --at;
  }
}

std::int64_t ShellWords::factor(const std::string& s, std::size_t& at) {
  at = std::min(s.find_first_not_of(" $", at), s.size());
  if (at < s.size() && s[at] == '(') {
    ++at;
    if (++depth_ > kMaxDepth) fail(fmt::format("more than {} brackets in one another", kMaxDepth));
    const std::int64_t value = sum(s, at);
    --depth_;
    ++at;
    return value;
  }
  const bool brace = at < s.size() && s[at] == '{';
  if (brace) ++at;
  std::size_t end = at;
  while (end < s.size() && in_name(s[end])) ++end;
  std::string word = s.substr(at, end - at);
  at = end + (brace ? 1 : 0);
  if (!word.empty() && starts_name(word[0])) {
    const Words value = value_of(word);
    word = value.empty() ? "" : value[0].text;
  }
  auto n = integer(word);
  if (n && word.size() > 1 && word[0] == '0') {  // in eights, as a shell takes it
    char* last = nullptr;
    n = std::strtoll(word.c_str(), &last, 8);
    if (*last != '\0') n.reset();
  }
  if (!n) fail(fmt::format("'$(({}))' is no sum of integers", one_line(s)));
  return *n;
}

}  // namespace mt
