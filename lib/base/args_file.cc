#include "base/args_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/files.h"

namespace mt {

namespace {

// A word after expansion; `unknown` says why its text is not known.
struct Word {
  std::string text, unknown;
  bool quoted = false;
};
using Words = std::vector<Word>;

struct Variable {
  std::string name;
  Words words;  // one, unless an array
  bool array = false;
};

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }

std::optional<std::int64_t> integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value) : std::nullopt;
}

// What a script of flags never needs; beyond it a file is no script, or names that hold themselves grow without end.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20, kMaxExpandedBytes = std::size_t{4} << 20;
constexpr int kMaxDepth = 100;  // brackets in $(( … ))

// What a message quotes: one line, and the beginning of it where it is long.
std::string one_line(std::string text) {
  constexpr std::size_t kShown = 160;
  if (text.size() > kShown) text.replace(kShown, std::string::npos, " ...");
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string script_text(const std::string& path) {
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (fs::is_character_file(status) || fs::is_block_file(status))
    throw Error(Code::usage, "a device is no file of flags", path);
  std::string text = read_file(path);
  if (text.size() > kMaxFileBytes)
    throw Error(Code::usage, fmt::format("{} bytes are more than a file of flags has", text.size()), path,
                fmt::format("at most {}", kMaxFileBytes));
  if (text.find('\0') != std::string::npos)
    throw Error(Code::usage, "a binary file is no file of flags", path, fmt::format("byte {} is 0", text.find('\0')));
  return text;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class Script {
 public:
  explicit Script(const std::string& path) : path_(path), text_(script_text(path)) {}

  ArgsFile read() {
    while (at_ < text_.size()) statement();
    if (!seen_command_ && flags_.empty()) from_variables();
    if (flags_.empty()) throw Error(Code::usage, "no flag is in the file", path_, "flags start with --");
    ArgsFile out;
    out.ranks = ranks_;
    for (const Word& w : flags_) {
      if (!w.unknown.empty())
        throw Error(Code::usage, w.unknown, path_, "set it in the environment, or write the value out");
      out.flags.push_back(w.text);
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw Error(Code::usage, what, fmt::format("{}:{}", path_, line()), hint);
  }
  std::size_t line() const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    return 1 + static_cast<std::size_t>(std::count(text_.begin(), end, '\n'));
  }
  bool is(const char* s) const { return text_.compare(at_, std::char_traits<char>::length(s), s) == 0; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // Blanks, continued lines and comments; never a line end.
  void skip_blanks(bool comments = true) {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) ++at_;
      else if (is("\\\n")) at_ += 2;
      else if (is("\\\r\n")) at_ += 3;
      else if (comments && text_[at_] == '#') skip_line();
      else return;
    }
  }
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void statement();
  void command(const Words& words);
  void launcher(const Words& words, std::size_t count);
  void from_variables();
  bool assignment();
  void assign(const std::string& name, Words value, bool array, bool append);
  Words word();
  void dollar(Words& out, bool quoted);
  void braces(Words& out, bool quoted);
  void arithmetic(Words& out);
  std::int64_t sum(const std::string& s, std::size_t& at);
  std::int64_t factor(const std::string& s, std::size_t& at);
  void add(Words& out, const Words& value, bool quoted, bool all) const;
  Words value_of(const std::string& name);
  Words counted(Words value);
  Variable* find(const std::string& name) {
    const auto it =
        std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) { return v.name == name; });
    return it == variables_.end() ? nullptr : &*it;
  }
  Word unknown(const std::string& what) const { return {"", fmt::format("line {}: {}", line(), what), false}; }

  std::string path_, text_;
  std::size_t at_ = 0, expanded_ = 0;
  int depth_ = 0;
  std::vector<Variable> variables_;
  Words flags_;
  bool seen_command_ = false;
  std::optional<int> ranks_;
};

// One statement up to its end: assignments, flags or a command.
void Script::statement() {
  Words words;
  for (;;) {
    skip_blanks();
    const char c = peek();
    if (c == '\0') break;
    if (c == '\n' || c == ';' || c == '&') {
      ++at_;
      break;
    }
    if (c == '|' || c == '>' || c == '<') {  // what happens to the output is no flag
      while (at_ < text_.size() && text_[at_] != '\n') at_ += is("\\\n") ? 2 : 1;
      break;
    }
    if (c == '(' || c == ')') fail(fmt::format("'{}' is not understood here", c), "leave the flags alone in a file");
    if (words.empty() && assignment()) continue;
    for (Word& w : word()) words.push_back(std::move(w));
  }
  if (!words.empty()) command(words);
}

void Script::command(const Words& words) {
  const std::string& first = words[0].text;
  if (first.compare(0, 2, "--") == 0) {
    flags_.insert(flags_.end(), words.begin(), words.end());
    return;
  }
  for (const char* keyword :
       {"if", "then", "else", "fi", "for", "while", "do", "done", "case", "esac", "function", "{", "[["})
    if (first == keyword)
      fail(fmt::format("'{}' would have to be run, and no shell is", keyword), "leave the flags alone in a file");
  const auto program = std::find_if(words.begin(), words.end(), [](const Word& w) {
    const auto ends = [&](const std::string& tail) {
      return w.text.size() >= tail.size() && w.text.compare(w.text.size() - tail.size(), tail.size(), tail) == 0;
    };
    return ends(".py") || w.text == "mt-train" || ends("/mt-train");
  });
  if (program == words.end()) return;
  if (seen_command_) fail("a second command that trains", "keep one in the file");
  seen_command_ = true;
  launcher(words, static_cast<std::size_t>(program - words.begin()));
  flags_.assign(program + 1, words.end());
}

void Script::launcher(const Words& words, std::size_t count) {
  std::map<std::string, std::int64_t> given;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = words[i].text;
    name.erase(0, name.find_first_not_of('-'));
    std::replace(name.begin(), name.end(), '_', '-');
    std::string value = i + 1 < count ? words[i + 1].text : "";
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (words[i].text.compare(0, 1, "-") == 0)
      if (const auto n = integer(value)) given[name] = *n;
  }
  std::int64_t ranks = 0;
  for (const char* name : {"n", "np", "ntasks"})
    if (given.count(name)) ranks = given[name];
  if (given.count("nproc-per-node")) ranks = given["nproc-per-node"] * (given.count("nnodes") ? given["nnodes"] : 1);
  if (ranks > 0 && ranks < 100'000'000) ranks_ = static_cast<int>(ranks);
}

void Script::from_variables() {
  for (const Variable& v : variables_) {
    Words words;
    add(words, v.words, false, true);
    if (words.empty() || words[0].text.compare(0, 2, "--") != 0) continue;
    const bool starts = std::any_of(words.begin(), words.end(), [](const Word& w) {
      return w.text.find("nproc_per_node") != std::string::npos || w.text.find("nproc-per-node") != std::string::npos;
    });
    if (starts) launcher(words, words.size());
    else flags_.insert(flags_.end(), words.begin(), words.end());
  }
}

// NAME=word, NAME+=word, NAME=( words ); also behind export and its like.
bool Script::assignment() {
  for (const char* prefix : {"export ", "declare ", "local ", "readonly "})
    if (is(prefix)) {
      at_ += std::char_traits<char>::length(prefix);
      skip_blanks();
      while (peek() == '-') at_ = std::min(text_.find_first_of(" \n", at_), text_.size()), skip_blanks();
      break;
    }
  std::size_t end = at_;
  if (!starts_name(peek())) return false;
  while (end < text_.size() && in_name(text_[end])) ++end;
  const bool append = text_.compare(end, 2, "+=") == 0;
  if (!append && (end >= text_.size() || text_[end] != '=')) return false;
  const std::string name = text_.substr(at_, end - at_);
  at_ = end + (append ? 2 : 1);
  if (peek() != '(') {
    Words value = peek() == '\n' || is_blank(peek()) || peek() == ';' ? Words{} : word();
    std::string text, why;
    for (const Word& w : value) text += (text.empty() ? "" : " ") + w.text, why = why.empty() ? w.unknown : why;
    assign(name, {Word{text, why, false}}, false, append);
    return true;
  }
  ++at_;
  Words value;
  for (;;) {
    skip_blanks();
    if (peek() == '\n') ++at_;
    else if (peek() == ')') break;
    else if (peek() == '\0') fail(fmt::format("'{}=(' is not closed", one_line(name)));
    else
      for (Word& w : word()) value.push_back(std::move(w));
  }
  ++at_;
  for (Word& w : value) w.quoted = true;
  assign(name, std::move(value), true, append);
  return true;
}

void Script::assign(const std::string& name, Words value, bool array, bool append) {
  Variable* v = find(name);
  if (v == nullptr) variables_.push_back({name, std::move(value), array});
  else if (!append) v->words = std::move(value), v->array = array;
  else if (v->array) v->words.insert(v->words.end(), value.begin(), value.end());
  else v->words[0].text += value.empty() ? "" : value[0].text;
}

Words Script::counted(Words value) {
  for (const Word& w : value) expanded_ += w.text.size() + 1;
  if (expanded_ > kMaxExpandedBytes)
    fail(fmt::format("the values of names come to more than {} bytes", kMaxExpandedBytes), "a name may hold itself");
  return value;
}

Words Script::value_of(const std::string& name) {
  const Variable* v = find(name);
  const bool known = v != nullptr && std::none_of(v->words.begin(), v->words.end(),
                                                  [](const Word& w) { return !w.unknown.empty(); });
  if (known) return counted(v->words);
  if (const char* text = std::getenv(name.c_str())) return counted({Word{text, "", false}});
  if (v != nullptr) return counted(v->words);
  return {unknown(fmt::format("${} has no value", one_line(name)))};
}

// Append a value to the word being read: whole where quoted, else cut at blanks. `all`: every element of an array.
void Script::add(Words& out, const Words& value, bool quoted, bool all) const {
  bool fresh = out.empty();
  const auto append = [&](const std::string& text, const std::string& why) {
    if (fresh) out.push_back({});
    fresh = false;
    out.back().text += text;
    if (out.back().unknown.empty()) out.back().unknown = why;
  };
  for (std::size_t i = 0; i < value.size() && (all || i == 0); ++i) {
    if (i > 0) fresh = true;
    const Word& w = value[i];
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

// One word of the script: no word where an unquoted expansion is empty, several where it holds blanks.
Words Script::word() {
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

void Script::dollar(Words& out, bool quoted) {
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
  if (end < text_.size() &&
      (std::isdigit(static_cast<unsigned char>(text_[end])) || text_[end] == '@' || text_[end] == '*')) {
    const Word what = unknown(fmt::format("${} is a parameter of the script, and it has none", text_[end]));
    at_ = end + 1;
    return add(out, {what}, quoted, false);
  }
  add(out, {Word{"$", "", false}}, true, false);
  ++at_;
}

// ${NAME}, ${NAME[@]}, ${NAME:-default}
void Script::braces(Words& out, bool quoted) {
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
    if (!fallback.empty()) value = {Word{fallback, "", false}};
  } else if (rest.empty() || rest == "[@]" || rest == "[*]") {
    value = value_of(name);
    all = !rest.empty();
  } else if (rest.compare(0, 1, ":") == 0 || rest.compare(0, 1, "-") == 0 || rest.compare(0, 1, "=") == 0) {
    value = value_of(name);
    const std::size_t skip = rest[0] == ':' ? 2 : 1;
    if (rest.size() >= skip && (rest[skip - 1] == '-' || rest[skip - 1] == '=') &&
        (value.empty() || !value[0].unknown.empty() || value[0].text.empty()))
      value = {Word{rest.substr(skip), "", false}};
  } else {
    value = {unknown(fmt::format("'${{{}}}' is not understood", one_line(inside)))};
  }
  at_ = end + 1;
  add(out, value, quoted, all);
}

void Script::arithmetic(Words& out) {
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

std::int64_t Script::sum(const std::string& s, std::size_t& at) {
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

std::int64_t Script::factor(const std::string& s, std::size_t& at) {
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
  const auto n = integer(word);
  if (!n) fail(fmt::format("'$(({}))' is no sum of integers", one_line(s)));
  return *n;
}

}  // namespace

ArgsFile read_args_file(const std::string& path) { return Script(path).read(); }

}  // namespace mt
