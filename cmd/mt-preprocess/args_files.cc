#include "args_files.h"

#include <algorithm>

#include "base/args_file.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"

namespace mt::preprocess {

namespace {

// The name of a flag, "" where a word is none.
std::string flag_name(const std::string& word) {
  if (word.size() < 3 || word.compare(0, 2, "--") != 0) return "";
  return word.substr(2, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2);
}

bool has(const OptionTable& table, const std::string& name) {
  return std::any_of(table.rows().begin(), table.rows().end(), [&](const OptionRow& row) { return row.name == name; });
}

std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) text += (i > 0 ? ", --" : "--") + names[i];
  return names.size() > kNamed ? fmt::format("{} and {} more", text, names.size() - kNamed) : text;
}

std::vector<std::string> flags_of_file(const std::string& file, const OptionTable& table) {
  std::vector<std::string> mine, others;
  bool known = false;
  for (const std::string& word : read_args_file(file).flags) {
    if (const std::string name = flag_name(word); !name.empty()) {
      known = has(table, name) && name != "args-file";
      if (!known) others.push_back(name);
    }
    if (known) mine.push_back(word);
  }
  log::info("{}: {} left aside, which samples do not depend on{}", file, counted(std::ssize(others), "flag"),
            others.empty() ? "" : ": " + some(others));
  return mine;
}

std::vector<std::string> rewrite(const std::vector<std::string>& arguments, const OptionTable& table) {
  std::vector<std::string> out, unknown;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string name = flag_name(word);
    if (name != "args-file") {
      if (!name.empty() && !has(table, name)) unknown.push_back(name);
      out.push_back(word);
      continue;
    }
    const bool adjacent = word.find('=') != std::string::npos;
    if (!adjacent && i + 1 == arguments.size()) throw Error(Code::usage, "a value is missing", "--args-file", "--args-file FILE");
    const std::string file = adjacent ? word.substr(word.find('=') + 1) : arguments[++i];
    for (auto& flag : flags_of_file(file, table)) out.push_back(std::move(flag));
  }
  if (unknown.size() > 1)  // a single one may be misspelt, and the table names what is near
    throw Error(Code::usage, fmt::format("{} flags are unknown here: {}", unknown.size(), some(unknown)), "",
                "all flags of a training may stand in a file for --args-file");
  return out;
}

}  // namespace

void take_args_files(OptionTable& table, std::string& file) {
  table.add("args-file", file, "FILE", "take these flags from a script or a list of flags of a training");
  table.rewrite([&table](const std::vector<std::string>& arguments) { return rewrite(arguments, table); });
}

}  // namespace mt::preprocess
