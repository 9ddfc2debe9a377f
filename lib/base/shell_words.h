#pragma once
// Words of a shell script as far as they are known without running it: quotes, names, defaults, integer arithmetic.
//
// What a reader of a script stands on: it reads statements (base/args_file.cc), this their words. Code:
// base/shell_words.cc. Tests: tests/base/args_file_test.cc.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

// A word after expansion; `unknown` says why its text is not known.
struct Word {
  std::string text, unknown;
  bool quoted = false;
  bool fallback = false;  // of a parameter that the script was not given: the environment's goes before it
};
using Words = std::vector<Word>;

struct Variable {
  std::string name;
  Words words;  // one, unless an array
  bool array = false;
};

class ShellWords {
 public:
  // path  for messages
  ShellWords(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}

 protected:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;
  std::size_t line() const;
  bool is(const char* s) const { return text_.compare(at_, std::char_traits<char>::length(s), s) == 0; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // Blanks, continued lines and comments; never a line end.
  void skip_blanks();
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // One word at the place: no word where an unquoted expansion is empty, several where it holds blanks.
  //   fails  Error{usage}: an open quote or bracket, arithmetic that has no value, names that grow without end
  Words word();
  // NAME=value, or += .
  void assign(const std::string& name, Words value, bool array, bool append);
  // Append a value to the word being read: whole where quoted, else cut at blanks. `all`: every element of an array.
  void add(Words& out, const Words& value, bool quoted, bool all) const;
  Word unknown(const std::string& what) const;

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  static bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  static bool in_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }
  static std::optional<std::int64_t> integer(const std::string& text);
  // What a message quotes: one line, and the beginning of it where it is long.
  static std::string one_line(std::string text);

  std::string path_, text_;
  std::size_t at_ = 0;
  std::vector<Variable> variables_;

 private:
  void dollar(Words& out, bool quoted);
  void braces(Words& out, bool quoted);
  void arithmetic(Words& out);
  std::int64_t sum(const std::string& s, std::size_t& at);
  std::int64_t factor(const std::string& s, std::size_t& at);
  Words value_of(const std::string& name);
  Words counted(Words value);
  Variable* find(const std::string& name);

  std::size_t expanded_ = 0;
  int depth_ = 0;
};

}  // namespace mt
