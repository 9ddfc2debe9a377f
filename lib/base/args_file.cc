#include "base/args_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/shell_words.h"

namespace mt {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;  // beyond it a file is no script

std::string script_text(const std::string& path) {
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (fs::is_character_file(status) || fs::is_block_file(status))
    throw Error(Code::usage, "a device is no file of flags", path);
  std::string text = read_file(path);
  if (text.size() > kMaxFileBytes)
    throw Error(Code::usage, fmt::format("{} bytes are more than a file of flags has", text.size()), path,
                fmt::format("at most {}", kMaxFileBytes));
  if (text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
  if (text.find('\0') != std::string::npos)
    throw Error(Code::usage, "a binary file is no file of flags", path, fmt::format("byte {} is 0", text.find('\0')));
  return text;
}

class Script : ShellWords {
 public:
  explicit Script(const std::string& path) : ShellWords(path, script_text(path)) {}

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
  void statement();
  void command(const Words& words);
  void launcher(const Words& words, std::size_t count);
  void from_variables();
  bool assignment();
  std::string compound_word() const;
  std::string raw_word();
  void pass_over(const std::string& keyword);
  void pass_array();
  void forget(const std::string& name, const std::string& keyword);

  Words flags_;
  bool conditional_ = false;  // behind && or ||
  std::size_t began_ = 0;     // the statement being read
  bool seen_command_ = false;
  std::optional<int> ranks_;
};

// The word that begins a construct which only a shell can walk, or "".
std::string Script::compound_word() const {
  std::size_t end = at_;
  while (end < text_.size() && !is_blank(text_[end]) && std::string_view("\n;&|<>()\"'$").find(text_[end]) == std::string_view::npos) ++end;
  std::string word = text_.substr(at_, end - at_);
  for (const char* keyword : {"if", "for", "while", "until", "case", "select", "function", "{", "[[", "[", "test"})
    if (word == keyword) return word;
  if (!word.empty() && starts_name(word[0]) && text_.compare(end, 2, "()") == 0) return "function";
  return "";
}

// A word as it stands, with its quotes.
std::string Script::raw_word() {
  const std::size_t from = at_;
  while (at_ < text_.size() && !is_blank(text_[at_]) && std::string_view("\n;&|<>()").find(text_[at_]) == std::string_view::npos && !is("\\\n")) {
    if (text_[at_] == '\'' || text_[at_] == '"') {
      const char quote = text_[at_];
      for (++at_; peek() != quote; ++at_) {
        if (peek() == '\0') at_ = from, fail(fmt::format("a quote {} is not closed", quote));
        if (quote == '"' && peek() == '\\') ++at_;
      }
    } else if (text_[at_] == '\\') {
      ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }
  return text_.substr(from, at_ - from);
}

// Behind NAME= an array in brackets.
void Script::pass_array() {
  for (int open = 0; at_ < text_.size(); ++at_) {
    if (peek() == '#' && is_blank(text_[at_ - 1])) skip_line();
    open += int{peek() == '('} - int{peek() == ')'};
    if (open == 0) break;
  }
  at_ = std::min(at_ + 1, text_.size());
}

// A construct up to its end. What names it sets is not known; flags in it would be wanted, and are an error.
void Script::pass_over(const std::string& keyword) {
  const std::size_t begin = at_;
  const auto is_one_of = [](const std::string& word, std::initializer_list<const char*> all) {
    return std::any_of(all.begin(), all.end(), [&](const char* w) { return word == w; });
  };
  int depth = 0;
  bool trains = false, first = true;  // first word of a command
  std::string command;
  while (at_ < text_.size() && !trains) {
    skip_blanks();
    const char c = peek();
    if (c == '\0' || (c == '\n' && depth == 0)) break;
    if (std::string_view("\n;&|()<>").find(c) != std::string_view::npos) {
      first = c != '<' && c != '>';
      ++at_;
      continue;
    }
    const std::string word = raw_word();
    std::size_t name = 0;
    while (name < word.size() && in_name(word[name])) ++name;
    if (first && name > 0 && (word.compare(name, 1, "=") == 0 || word.compare(name, 2, "+=") == 0)) {
      forget(word.substr(0, name), keyword);
      if (peek() == '(') pass_array();
      continue;
    }
    if (first) command = word;
    const bool program = word.size() > 3 && word.compare(word.size() - 3, 3, ".py") == 0;
    trains = (program && !is_one_of(command, {"[", "[[", "test", "echo", "ls", "cp"})) || word == "mt-train" || (first && word.compare(0, 2, "--") == 0);
    if (!first) continue;
    depth += is_one_of(word, {"if", "for", "while", "until", "case", "select", "{"});
    depth -= is_one_of(word, {"fi", "done", "esac", "}"});
    first = is_one_of(word, {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "export", "local", "declare", "readonly"});
  }
  if (!trains && depth <= 0) return;
  at_ = begin;
  fail(fmt::format("'{}' would have to be run, and no shell is", keyword), "keep the flags alone in a file");
}

void Script::forget(const std::string& name, const std::string& keyword) {
  assign(name, {unknown(fmt::format("{} is set where '{}' would have to be run, and no shell is", name, keyword))}, false, false);
}

// One statement up to its end: assignments, flags or a command.
void Script::statement() {
  Words words;
  const auto before = variables_;
  bool goes_on = false;
  skip_blanks();
  began_ = at_;
  for (;;) {
    skip_blanks();
    const char c = peek();
    if (c == '\0') break;
    if ((goes_on = is("&&") || is("||"))) {
      at_ += 2;
      break;
    }
    if (c == '\n' || c == ';' || c == '&') {
      ++at_;
      break;
    }
    if (words.empty())
      if (const auto keyword = compound_word(); !keyword.empty()) return pass_over(keyword);
    if (c == '|' || c == '>' || c == '<') {  // what happens to the output is no flag
      while (at_ < text_.size() && text_[at_] != '\n') at_ += is("\\\n") ? 2 : 1;
      break;
    }
    if (c == '(' || c == ')') fail(fmt::format("'{}' is not understood here", c), "keep the flags alone in a file");
    if (words.empty() && assignment()) continue;
    for (Word& w : word()) words.push_back(std::move(w));
  }
  if (!words.empty()) {
    variables_ = before;  // what stands before a command is the command's alone
    command(words);
  }
  conditional_ = goes_on;
}

void Script::command(const Words& words) {
  const std::string& first = words[0].text;
  if (first.compare(0, 2, "--") == 0) {
    flags_.insert(flags_.end(), words.begin(), words.end());
    return;
  }
  if (first == "exit" && !conditional_) at_ = text_.size();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& name = words[i].text;
    if (first == "unset") std::erase_if(variables_, [&](const Variable& v) { return v.name == name; });
    const std::size_t at = std::exchange(at_, began_);  // the line it is told of
    if (first == "read" && !name.empty() && starts_name(name[0])) forget(name, first);
    if (first == "let" || first == "eval") forget(name.substr(0, name.find_first_of("+-*/=")), first);
    at_ = at;
  }
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
    // An array's elements stay whole, but for a flag that has its value with it.
    for (const Word& w : v.words) {
      Words one;
      add(one, {w}, v.array && w.text.compare(0, 2, "--") != 0, true);
      words.insert(words.end(), one.begin(), one.end());
    }
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
  if (conditional_) {
    if (peek() == '(') pass_array();
    else (void)word();
    forget(name, "&&");
    return true;
  }
  if (peek() != '(') {
    Words value = peek() == '\n' || is_blank(peek()) || peek() == ';' ? Words{} : word();
    Word whole;
    for (const Word& w : value) {
      whole.text += (whole.text.empty() ? "" : " ") + w.text;
      if (whole.unknown.empty()) whole.unknown = w.unknown;
      whole.fallback |= w.fallback;
    }
    assign(name, {whole}, false, append);
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
  for (Word& w : value) w.quoted = false;
  assign(name, std::move(value), true, append);
  return true;
}

}  // namespace

ArgsFile read_args_file(const std::string& path) { return Script(path).read(); }

}  // namespace mt
