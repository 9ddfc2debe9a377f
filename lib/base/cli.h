#pragma once
// The frame of every tool: parse, run, print one line for an error, exit with its code.
//
// Code: base/cli.cc. Tests: tests/base/cli_test.cc and tests/cli/.

#include <functional>
#include <span>
#include <string>

#include "base/json.h"
#include "base/options.h"

namespace mt::cli {

// Values every tool takes: --help --version --quiet --verbose --json --config FILE.
struct Shared {
  bool json = false;  // one JSON object a line on stdout instead of TSV
};

// A command of a tool ("encode", "info"); a tool with one command leaves the name empty.
struct Command {
  std::string name;
  std::string summary;
  // Build the table (binding variables that live in the closure); return what runs after parsing.
  std::function<std::function<int()>(OptionTable&, const Shared&)> build;
};

struct Tool {
  std::string name;     // "mt-ckpt"
  std::string summary;  // one sentence
  std::vector<Command> commands;
  std::string default_command;  // used when the first argument is a flag; empty: a command is required
  // Called with the exit code before a non-zero exit; mt-train passes the job's abort. May not return.
  std::function<void(int)> on_fatal;
  // Written after the version number: "mpi yes, cuda no, nccl no".
  std::string backends;
  // False where another process of the same job says what is wrong with the command line, and ends the job: this one
  // waits 2 s for that, and speaks where it is the only one.
  bool speaks = true;
};

// Run a tool. Catches mt::Error (one line "tool: what: where (hint)" on stderr, exit code_of it), std::bad_alloc
// (device, 7) and any other exception (internal, 70). --help and --version go to stdout and give 0. At the end stdout
// is flushed and closed; a failure of that is Error{io}. SIGXFSZ is ignored from here on.
int run(const Tool& tool, int argc, char** argv);

// Hidden command `--dump-options` of every tool prints the table as JSON lines, for the lint of man pages.

// Print a result row: TSV, tabs and newlines in values escaped as \t \n.
void row(std::span<const std::string> fields);
void row(std::initializer_list<std::string> fields);
void object(const Json& j);  // one JSON line
void part(const std::string& text);  // a piece of a line too long to make whole, as it is

// "mt-ckpt 0.1.0 (v0.1.0-3-gabc)" parts.
std::string version();

}  // namespace mt::cli
