#pragma once
// One option table a command: it parses (Boost.Program_options), prints --help, is compared with the man page, and
// gives the registry every resolved value.
//
// A row is (name, argument word, unit, default, help, group) bound to a variable. Order of precedence:
// flag > environment > --config file > default. `--save-interval` is MT_SAVE_INTERVAL in the environment and
// `save-interval = 100` in a --config file ('#' starts a comment). An empty MT_* variable counts as not set. A flag given twice: the last wins. `--flag=value` and
// `--flag value` both work; a switch that a file of flags or an earlier word set is taken back by `--switch=false`, and
// counts as not given then; no abbreviation. An unknown flag is Error{usage} with the nearest name as hint; an unknown
// MT_* variable is a warning (MT_TEST_*, MT_RANK_* and MT_MAX_CPU_ISA belong to others and are ignored).
//
// Code: base/options.cc. Tests: tests/base/options_test.cc.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mt {

struct OptionRow {
  std::string name;      // "save-interval", without dashes
  std::string argument;  // "N", "FILE", "LR"; empty for a switch
  std::string unit;      // "iterations", "s", "bytes"; may be empty
  std::string fallback;  // default as text; empty: none
  std::string help;      // one line
  std::string group;     // heading in --help and the man page
  bool multiple = false;  // takes one or more values (--data-path A B C)
  bool hidden = false;    // accepted, not shown
  bool foreign = false;   // hidden, another program's; still what a misspelt flag may have meant
  bool off_is_absent = false;  // a switch whose "false" is what it is without being given
  std::vector<std::string> choices;  // empty: any
  // What a number may be; anything else is Error{usage} that says the range. Checked for each value of a multiple row.
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // `least` itself is too little

  OptionRow& at_least(double n) { return between(n, std::numeric_limits<double>::infinity()); }
  OptionRow& above(double n) {
    above_least = true;
    return at_least(n);
  }
  OptionRow& between(double lo, double hi) {
    least = lo;
    most = hi;
    return *this;
  }
  // Show no default: the variable's value stands for "not given".
  OptionRow& no_default() {
    fallback.clear();
    return *this;
  }
  // True where the argument word says that the value names something (FILE, DIR, PREFIX, NAME, ...): then it is not empty.
  bool names_something() const;
  // "1 or more", "above 0", "0 to 1"; empty without a range.
  std::string range_text() const;

  // Reads one value (or all, when multiple) into the bound variable; throws Error{usage} through the table.
  std::function<void(const std::vector<std::string>&)> set;
  std::function<std::string()> show;  // current value as text
};

// The name nearest to `word` by edit distance, or "" when none is near enough to be what was meant. A name that `word`
// begins, or whose words it leaves some of out, is near. Of two as near the first.
std::string nearest_name(const std::string& word, const std::vector<std::string>& names);

class OptionTable {
 public:
  // usage: the line after the tool's name, "[options] --input FILE..."; summary: one sentence.
  OptionTable(std::string tool, std::string usage, std::string summary);

  // Start a group; rows added after it belong to it.
  OptionTable& group(std::string name);

  // Bind a row. The variable's value at this moment is the default shown. T: bool (a switch), int, std::int64_t,
  // std::uint64_t, double, std::string, a std::vector of std::string, std::int64_t or double (takes one or more values),
  // or std::optional of the scalar ones. The returned row is valid until the next add.
  template <class T>
  OptionRow& add(std::string name, T& variable, std::string argument, std::string help, std::string unit = "");
  // A switch that clears: --no-x sets `variable` to false.
  OptionRow& add_off(std::string name, bool& variable, std::string help);
  // A hidden row of another program, with a setter of its own (cmd/options/megatron_flags.h).
  void add_foreign(OptionRow row) {
    row.off_is_absent = row.argument.empty();
    insert(std::move(row));
  }
  // A name that is no row and that a misspelt flag may have meant; what rewrite() makes of it is its caller's.
  void also_known(std::string name) { known_.push_back(std::move(name)); }
  // Called with the command line before it is parsed; what it gives is parsed.
  void rewrite(std::function<std::vector<std::string>(const std::vector<std::string>&)> with) { rewrite_ = std::move(with); }
  // Another name for an existing row.
  void alias(std::string other_name, const std::string& name);
  // Positional arguments, in order, end up here; without it a positional argument is Error{usage}.
  void positional(std::vector<std::string>& into, std::string argument, std::string help);

  // Parse everything but argv[0].   fails  Error{usage} naming the flag, the value and what would be right
  void parse(int argc, const char* const* argv);
  // True if the row was set by flag, environment or file.
  bool given(const std::string& name) const;
  // True if the last word on a switch was that it is off, as it is without a word.
  bool taken_back(const std::string& name) const;

  std::string help() const;
  std::string short_usage() const;
  const std::string& tool() const { return tool_; }
  const std::vector<OptionRow>& rows() const { return rows_; }
  std::vector<std::string> aliases_of(const std::string& name) const;
  // {"save-interval": "100", ...}: every resolved value, for the registry.
  Json resolved() const;

 private:
  OptionRow& insert(OptionRow row);
  OptionRow* find(const std::string& name);
  const OptionRow* find(const std::string& name) const;
  struct Setting;  // a name, its values and where they came from
  std::vector<Setting> read_command_line(int argc, const char* const* argv);
  std::vector<Setting> read_environment() const;
  std::vector<Setting> read_config(const std::string& path) const;
  std::string as_switch(const std::string& word) const;
  void assign(const Setting& setting);
  const std::string* source_of(const std::string& name) const;
  std::string hint_for(const std::string& name) const;

  std::string tool_, usage_, summary_, group_;
  std::vector<OptionRow> rows_;
  std::vector<std::string> known_;
  std::function<std::vector<std::string>(const std::vector<std::string>&)> rewrite_;
  std::map<std::string, std::string> aliases_;
  std::map<std::string, std::string> given_;  // name -> where the value came from; "" for a switch that was taken back
  std::vector<std::string>* positional_ = nullptr;
  std::string positional_argument_, positional_help_;
};

// The values of a flag that takes each value once.
//   fails  Error{usage} naming the flag and the value given twice
void require_distinct(const std::vector<std::string>& values, const std::string& flag);

}  // namespace mt
