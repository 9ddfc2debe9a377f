#pragma once
// Megatron's flags that are no options of mt-train: each is accepted with a line that says why nothing is to be done, or
// refused with the reason and what to take instead. Spellings seen in the wild are read as what they mean.
//
// One table (megatron_table.cc) holds every flag of Megatron's parser once. A flag is in one of three states:
//   supported  it is a row of mt-train's option table, and the table here lists its name alone
//   accepted   nothing has to be done for it here, always or never; a value that would ask for more is refused
//   refused    exit 3, together with every other problem of the command line
// To support a flag: add its option row, move its name to a `supported` group, and run
// tests/lint/megatron_flags.sh --write, which makes man/mt-megatron-flags.7 from the table. The same script, as a test,
// fails when a flag is in two states or in none. Code: megatron_flags.cc, megatron_table.cc.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "layout/validate.h"

namespace mt::options {

enum class FlagState { supported, accepted, refused };
const char* state_name(FlagState state);

// Flags that share a state and its reason. `names` are parted by blanks, each "name" (a switch), "name=N" (one value),
// "name=N..." (one or more) or "name=:a|b" (one value; others than these are refused).
struct FlagGroup {
  FlagState state;
  const char* names;
  const char* words = "";    // why, in a clause
  const char* instead = "";  // of refused flags, and of refused values
};
std::span<const FlagGroup> megatron_table();

// A spelling that is not Megatron's of today, and what it means. `means` are whole flags; a value of the spelling goes
// behind them. Empty: nothing is left to say (the words tell why).
struct Spelling {
  const char* name;
  bool has_value;
  const char* means;
  const char* words = "";
};
std::span<const Spelling> megatron_spellings();

class MegatronFlags {
 public:
  // Hidden rows for all accepted and refused flags, --args-file, and the reading of spellings.
  //   needs  all other rows are in the table, and this object outlives it
  void add(OptionTable& table);

  // What the parsed command line gave rise to, in its order.
  const std::vector<std::string>& notices() const { return notices_; }
  const std::vector<Problem>& refused() const { return refused_; }

  // Print every flag: name, state, words, instead. Where a flag is a row of the table and has words here too, its state
  // is "supported, refused" (a mistake that the lint finds).
  void print(bool json) const;
  bool print_wanted = false;
  // What the launcher of --args-file's script starts, when it says so.
  std::optional<int> script_ranks() const { return script_ranks_; }

 private:
  std::vector<std::string> rewrite(const std::vector<std::string>& arguments);
  // The flags of a file, and of the files it names.   fails  Error{usage}: it names itself, or too many are named
  std::vector<std::string> flags_of_file(const std::string& path);
  void add_row(OptionTable& table, const FlagGroup& group, const std::string& entry);

  std::vector<std::string> notices_, own_;  // own_: names that were rows before ours
  std::vector<Problem> refused_;
  std::string args_file_;
  std::vector<std::string> open_files_;  // whose flags are being read, the outermost first
  int files_read_ = 0;
  std::optional<int> script_ranks_;
};

}  // namespace mt::options
