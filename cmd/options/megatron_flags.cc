#include "options/megatron_flags.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/args_file.h"
#include "base/cli.h"
#include "base/error.h"

namespace mt::options {

namespace {

struct Entry {
  std::string name, argument;
  std::vector<std::string> values;  // accepted ones; empty: any
  bool many = false;
};

Entry parse_entry(const std::string& text) {
  Entry e;
  const auto equals = text.find('=');
  e.name = text.substr(0, equals);
  if (equals == std::string::npos) return e;
  e.argument = "X";
  const std::string what = text.substr(equals + 1);
  e.many = what.size() > 3 && what.compare(what.size() - 3, 3, "...") == 0;
  if (what[0] != ':') return e;
  std::istringstream in(what.substr(1));
  for (std::string value; std::getline(in, value, '|');) e.values.push_back(value);
  return e;
}

std::vector<std::string> words_of(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// "--name=value" in its two parts.
struct Given {
  std::string name;
  bool adjacent = false;
  std::string value;
};
Given given_flag(const std::string& argument) {
  Given g;
  if (argument.compare(0, 2, "--") != 0) return g;
  const auto equals = argument.find('=');
  g.name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
  g.adjacent = equals != std::string::npos;
  if (g.adjacent) g.value = argument.substr(equals + 1);
  return g;
}

}  // namespace

const char* state_name(FlagState state) {
  constexpr const char* names[] = {"supported", "accepted", "refused"};
  return names[static_cast<int>(state)];
}

void MegatronFlags::add_row(OptionTable& table, const FlagGroup& group, const std::string& entry) {
  const Entry e = parse_entry(entry);
  OptionRow row;
  row.name = e.name;
  row.argument = e.argument;
  row.multiple = e.many;
  row.hidden = row.foreign = true;
  row.help = group.words;
  row.set = [this, group, e](const std::vector<std::string>& values) {
    if (e.argument.empty() && !values.empty() && values[0] == "false") return;
    std::string said = e.name;
    for (const auto& v : e.argument.empty() ? std::vector<std::string>{} : values) said += " " + v;
    const bool legal = e.values.empty() || std::find(e.values.begin(), e.values.end(), values.at(0)) != e.values.end();
    if (group.state == FlagState::accepted && legal)
      return notices_.push_back(fmt::format("--{}: {}", said, group.words));
    refused_.push_back({fmt::format("{}: {}", said, group.words), group.instead});
  };
  table.add_foreign(std::move(row));
}

void MegatronFlags::add(OptionTable& table) {
  table.group("Launch");
  OptionRow& row = table.add("args-file", args_file_, "FILE", "read flags from a shell script or a list of flags");
  row.set = [](const std::vector<std::string>&) {
    throw Error(Code::usage, "a file of flags is named on the command line", "--args-file");
  };
  table.add("megatron-flags", print_wanted, "", "print every Megatron flag, whether it is supported, and why not");
  for (const OptionRow& r : table.rows()) {
    own_.push_back(r.name);
    for (const auto& other : table.aliases_of(r.name)) own_.push_back(other);
  }
  for (const FlagGroup& group : megatron_table())
    for (const std::string& entry : words_of(group.names)) {
      const std::string name = parse_entry(entry).name;
      const bool taken = std::find(own_.begin(), own_.end(), name) != own_.end();
      if (group.state != FlagState::supported && !taken) add_row(table, group, entry);
    }
  for (const Spelling& s : megatron_spellings()) table.also_known(s.name);
  table.rewrite([this](const std::vector<std::string>& arguments) { return rewrite(arguments); });
}

std::vector<std::string> MegatronFlags::flags_of_file(const std::string& path) {
  constexpr int kMaxFiles = 64;
  std::error_code ec;
  const auto file = std::filesystem::weakly_canonical(path, ec).string();
  if (std::find(open_files_.begin(), open_files_.end(), file) != open_files_.end())
    throw Error(Code::usage, "the file names itself as a file of flags", path, "take --args-file out of it");
  if (++files_read_ > kMaxFiles)
    throw Error(Code::usage, fmt::format("more than {} files of flags name one another", kMaxFiles), path);
  const ArgsFile read = read_args_file(path);
  if (read.ranks) script_ranks_ = read.ranks;
  open_files_.push_back(file);
  auto flags = rewrite(read.flags);
  open_files_.pop_back();
  return flags;
}

std::vector<std::string> MegatronFlags::rewrite(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Given g = given_flag(arguments[i]);
    const auto next = [&](const std::string& hint) {
      if (g.adjacent) return g.value;
      if (i + 1 >= arguments.size()) throw Error(Code::usage, "a value is missing", "--" + g.name, hint);
      return arguments[++i];
    };
    if (g.name == "args-file") {
      args_file_ = next("write --args-file FILE");
      for (auto& flag : flags_of_file(args_file_)) out.push_back(std::move(flag));
      continue;
    }
    const auto all = megatron_spellings();
    const auto s = std::find_if(all.begin(), all.end(), [&](const Spelling& x) { return x.name == g.name; });
    if (s == all.end() || std::find(own_.begin(), own_.end(), g.name) != own_.end()) {
      out.push_back(arguments[i]);
      continue;
    }
    std::string means = s->means;
    std::vector<std::string> flags = words_of(s->means);
    if (!s->has_value && g.adjacent) throw Error(Code::usage, "takes no value", "--" + g.name, means.empty() ? "" : "it is read as " + means);
    if (s->has_value) {
      const std::string value = next(fmt::format("write --{} X", g.name));
      if (!flags.empty()) flags.push_back(value), means += " " + value;
    }
    const std::string words = s->words;
    std::string said = means.empty() ? "" : " is read as " + means;
    if (!words.empty()) said += ": " + words;
    notices_.push_back("--" + g.name + said);
    out.insert(out.end(), flags.begin(), flags.end());
  }
  return out;
}

void MegatronFlags::print(bool json) const {
  for (const FlagGroup& group : megatron_table())
    for (const std::string& entry : words_of(group.names)) {
      const Entry e = parse_entry(entry);
      const bool row = std::find(own_.begin(), own_.end(), e.name) != own_.end();
      std::string state = state_name(group.state);
      if (row && group.state != FlagState::supported) state = "supported, " + state;
      if (!row && group.state == FlagState::supported) state = "none";
      std::string values = e.argument + (e.many ? "..." : "");
      if (!e.values.empty()) values.clear();
      for (const auto& v : e.values) values += (values.empty() ? "" : " ") + v;
      if (json)
        cli::object({{"flag", e.name}, {"state", state}, {"argument", e.argument}, {"why", group.words},
                     {"instead", group.instead},
                     {"values", e.values}});
      else
        cli::row({"--" + e.name, state, values, group.words, group.instead});
    }
}

}  // namespace mt::options
