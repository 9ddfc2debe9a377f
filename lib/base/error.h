#pragma once
// The three kinds of failure: a bug aborts, the outside world throws, a branch is a value.
//
//   bug      MT_CHECK: prints the log prefix, file:line and the values, then aborts. Never reachable from user input.
//   world    throw mt::Error{code, what, where, hint}: caught once, in cli::run, which prints one line and exits with the code.
//   branch   std::optional or a small enum, [[nodiscard]].
//
// Code: base/error.cc. Tests: tests/base/error_test.cc.

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace mt {

// Exit status of a tool; documented in mt.7. `difference` is only ever returned by `diff`-like commands.
enum class Code : int {
  difference = 1,
  usage = 2,    // the command line is wrong
  config = 3,   // the options are each fine but do not fit together
  data = 4,     // input text, token files, tokenizers
  io = 5,       // the file system said no
  corrupt = 6,  // a file is there but its content is not what it claims
  device = 7,   // an accelerator, or memory
  comm = 8,     // MPI, NCCL, a lost or silent rank
  internal = 70,
  non_finite_limit = 40,  // training: too many non-finite steps
  signal_saved = 41,      // training: saved and left on a signal
  time_limit = 42,        // training: saved and left at the time limit
};

// Name of a code as printed and documented ("usage", "config", ...).
const char* code_name(Code code);

// The outside world is wrong. what(): one line "what: where (hint)", without a trailing newline.
//   what   what happened, with wanted and found values
//   where  file:line, field, flag or rank it happened at; may be empty
//   hint   what to do next; may be empty
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& what, const std::string& where = "", const std::string& hint = "");
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }

 private:
  Code code_;
  std::string message_, where_, hint_;
};

// The text of an errno value, thread safe ("No space left on device").
std::string errno_text(int error_number);

// Print a bug report and abort. Use MT_CHECK, not this.
[[noreturn]] void bug(const char* file, int line, const char* condition, const std::string& values);

}  // namespace mt

// Abort with the values when `cond` is false; on in every build. The rest is a fmt format string and its arguments:
//   MT_CHECK(x.dim(1) == w.dim(0), "x {} w {}", x.dim(1), w.dim(0));
#define MT_CHECK(cond, ...)                                                                   \
  do {                                                                                        \
    if (!(cond)) [[unlikely]] ::mt::bug(__FILE__, __LINE__, #cond, ::fmt::format(__VA_ARGS__)); \
  } while (false)
