#include "base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

namespace po = boost::program_options;

namespace mt {

struct OptionTable::Setting {
  std::string name;
  std::vector<std::string> values;
  std::string source;  // "--save", "MT_SAVE", "run.conf:3": how messages name the flag
};

namespace {

template <class T>
void read_number(const std::string& text, T& into, const char* wanted) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range)
    throw Error(Code::usage, fmt::format("wanted {}, found '{}', which is out of range", wanted, text));
  if (code != std::errc() || end != text.data() + text.size())
    throw Error(Code::usage, fmt::format("wanted {}, found '{}'", wanted, text));
  into = value;
}

void read_value(const std::string& text, std::string& into) { into = text; }
void read_value(const std::string& text, std::filesystem::path& into) { into = text; }
void read_value(const std::string& text, int& into) { read_number(text, into, "an integer"); }
void read_value(const std::string& text, std::int64_t& into) { read_number(text, into, "an integer"); }
void read_value(const std::string& text, std::uint64_t& into) { read_number(text, into, "an integer of 0 or more"); }
void read_value(const std::string& text, double& into) {
  double value = 0;
  read_number(text, value, "a number");
  if (!std::isfinite(value)) throw Error(Code::usage, fmt::format("wanted a finite number, found '{}'", text));
  into = value;
}
void read_value(const std::string& text, bool& into) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") into = true;
  else if (text == "false" || text == "0" || text == "no" || text == "off") into = false;
  else throw Error(Code::usage, fmt::format("wanted true or false, found '{}'", text));
}
template <class E>
void read_value(const std::string& text, std::optional<E>& into) {
  E value{};
  read_value(text, value);
  into = value;
}

std::string text_of(const std::string& v) { return v; }
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(const std::filesystem::path& v) { return v.string(); }
template <class T> requires std::is_arithmetic_v<T>
std::string text_of(T v) { return fmt::format("{}", v); }
template <class E>
std::string text_of(const std::optional<E>& v) { return v ? text_of(*v) : ""; }
template <class E>
std::string text_of(const std::vector<E>& v) {
  std::string text;
  for (const E& e : v) text += (text.empty() ? "" : " ") + text_of(e);
  return text;
}

template <class T> struct Traits {
  static constexpr bool kSwitch = false, kMultiple = false;
};
template <> struct Traits<bool> {
  static constexpr bool kSwitch = true, kMultiple = false;
};
template <> struct Traits<std::optional<bool>> {
  static constexpr bool kSwitch = true, kMultiple = false;
};
template <class E> struct Traits<std::vector<E>> {
  static constexpr bool kSwitch = false, kMultiple = true;
};

bool is_negative_number(const std::string& s) {
  if (s.size() < 2 || s[0] != '-') return false;
  double ignored = 0;
  const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), ignored);
  return code != std::errc::invalid_argument && end == s.data() + s.size();
}

const std::string kOff = "\x01off";  // ends the name of a switch that is taken back; no name a person writes ends so

std::string trim(const std::string& s) {
  const auto from = s.find_first_not_of(" \t\r");
  return from == std::string::npos ? "" : s.substr(from, s.find_last_not_of(" \t\r") - from + 1);
}

// Cut a config line at an unquoted '#' that starts a word.
std::string without_comment(const std::string& s) {
  bool quoted = false;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '"') quoted = !quoted;
    if (s[i] == '#' && !quoted && (i == 0 || s[i - 1] == ' ' || s[i - 1] == '\t')) return s.substr(0, i);
  }
  return s;
}

// Words parted by blanks; "a b" is one word.
std::vector<std::string> words_of(const std::string& s) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, started = false;
  for (const char c : s) {
    if (c == '"') {
      quoted = !quoted;
      started = true;
    } else if (!quoted && (c == ' ' || c == '\t')) {
      if (started) words.push_back(word);
      word.clear();
      started = false;
    } else {
      word += c;
      started = true;
    }
  }
  if (started) words.push_back(word);
  return words;
}

std::string unquoted(const std::string& s) {
  return s.size() >= 2 && s.front() == '"' && s.back() == '"' ? s.substr(1, s.size() - 2) : s;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Append `text` wrapped at 80 columns, every line after the first indented.
void append_wrapped(std::string& out, const std::string& text, std::size_t indent) {
  std::size_t column = indent;
  bool first = true;
  for (const std::string& word : words_of(text)) {
    if (!first && column + 1 + word.size() > 80) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

}  // namespace

bool OptionRow::names_something() const {
  for (const char* word : {"FILE", "DIR", "DIRECTORY", "PREFIX", "P", "NAME"})
    if (argument == word) return true;
  return false;
}

std::string OptionRow::range_text() const {
  const bool low = least != -std::numeric_limits<double>::infinity();
  const bool high = most != std::numeric_limits<double>::infinity();
  if (!low) return high ? fmt::format("{} at most", most) : "";
  if (!high) return above_least ? fmt::format("above {}", least) : fmt::format("{} or more", least);
  return fmt::format("{} {}to {}", least, above_least ? "(excluded) " : "", most);
}

namespace {

// needs  the row's own reader has taken the value as a number
void check_range(const OptionRow& row, const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (value < row.least || (row.above_least && value == row.least) || value > row.most)
    throw Error(Code::usage, fmt::format("wanted {}, found {}", row.range_text(), text));
}

}  // namespace

namespace {

// Every word of `word` stands in `name`, in this order: tensor-parallel in tensor-model-parallel-size.
bool has_words_of(const std::string& name, const std::string& word) {
  std::size_t at = 0;
  const std::string in = "-" + name + "-";
  for (std::size_t from = 0; from <= word.size();) {
    const auto dash = std::min(word.find('-', from), word.size());
    const auto found = in.find("-" + word.substr(from, dash - from) + "-", at);
    if (found == std::string::npos) return false;
    at = found + dash - from + 1;
    from = dash + 1;
  }
  return true;
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& names) {
  std::size_t best = (word.size() <= 3 ? 1 : std::max<std::size_t>(2, word.size() / 3)) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    // What was typed may be the start of the name: then the rest costs little.
    const bool starts = word.size() >= 3 && name.compare(0, word.size(), word) == 0;
    const bool shortened = word.size() >= 3 && has_words_of(name, word);
    const std::size_t d = starts || shortened ? 1 : edit_distance(word, name);
    if (d < best) {
      best = d;
      nearest = name;
    }
  }
  return nearest;
}

OptionTable::OptionTable(std::string tool, std::string usage, std::string summary)
    : tool_(std::move(tool)), usage_(std::move(usage)), summary_(std::move(summary)) {}

OptionTable& OptionTable::group(std::string name) {
  group_ = std::move(name);
  return *this;
}

OptionRow& OptionTable::insert(OptionRow row) {
  MT_CHECK(find(row.name) == nullptr, "--{} is added twice to {}", row.name, tool_);
  if (!row.foreign) row.group = group_;
  rows_.push_back(std::move(row));
  return rows_.back();
}

const OptionRow* OptionTable::find(const std::string& name) const {
  const auto alias = aliases_.find(name);
  const std::string& wanted = alias == aliases_.end() ? name : alias->second;
  for (const OptionRow& row : rows_)
    if (row.name == wanted) return &row;
  return nullptr;
}

OptionRow* OptionTable::find(const std::string& name) {
  return const_cast<OptionRow*>(static_cast<const OptionTable*>(this)->find(name));
}

template <class T>
OptionRow& OptionTable::add(std::string name, T& variable, std::string argument, std::string help, std::string unit) {
  OptionRow row;
  row.name = std::move(name);
  row.argument = std::move(argument);
  row.unit = std::move(unit);
  row.help = std::move(help);
  row.multiple = Traits<T>::kMultiple;
  MT_CHECK(row.argument.empty() == Traits<T>::kSwitch, "--{}: a switch has no argument word, a value has one", row.name);
  if constexpr (!std::is_same_v<T, bool>) row.fallback = text_of(variable);
  else if (variable) row.fallback = "true";
  if constexpr (std::is_same_v<T, bool>) row.off_is_absent = !variable;
  row.show = [&variable] { return text_of(variable); };
  row.set = [&variable](const std::vector<std::string>& values) {
    if constexpr (Traits<T>::kMultiple) {
      T all(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) read_value(values[i], all[i]);
      variable = std::move(all);
    } else {
      read_value(values.at(0), variable);
    }
  };
  return insert(std::move(row));
}

#define MT_OPTION_TYPE(...) \
  template OptionRow& OptionTable::add<__VA_ARGS__>(std::string, __VA_ARGS__&, std::string, std::string, std::string);
MT_OPTION_TYPE(bool)
MT_OPTION_TYPE(int)
MT_OPTION_TYPE(std::int64_t)
MT_OPTION_TYPE(std::uint64_t)
MT_OPTION_TYPE(double)
MT_OPTION_TYPE(std::string)
MT_OPTION_TYPE(std::filesystem::path)
MT_OPTION_TYPE(std::vector<std::string>)
MT_OPTION_TYPE(std::vector<std::int64_t>)
MT_OPTION_TYPE(std::vector<double>)
MT_OPTION_TYPE(std::optional<bool>)
MT_OPTION_TYPE(std::optional<int>)
MT_OPTION_TYPE(std::optional<std::int64_t>)
MT_OPTION_TYPE(std::optional<std::uint64_t>)
MT_OPTION_TYPE(std::optional<double>)
MT_OPTION_TYPE(std::optional<std::string>)
#undef MT_OPTION_TYPE

OptionRow& OptionTable::add_off(std::string name, bool& variable, std::string help) {
  OptionRow row;
  row.name = std::move(name);
  row.help = std::move(help);
  row.off_is_absent = true;
  row.show = [&variable] { return text_of(!variable); };
  row.set = [&variable](const std::vector<std::string>& values) {
    bool off = false;
    read_value(values.at(0), off);
    variable = !off;
  };
  return insert(std::move(row));
}

void OptionTable::alias(std::string other_name, const std::string& name) {
  MT_CHECK(find(name) != nullptr && find(other_name) == nullptr, "alias {} of {}", other_name, name);
  aliases_[std::move(other_name)] = name;
}

std::vector<std::string> OptionTable::aliases_of(const std::string& name) const {
  std::vector<std::string> others;
  for (const auto& [other, target] : aliases_)
    if (target == name) others.push_back(other);
  return others;
}

void OptionTable::positional(std::vector<std::string>& into, std::string argument, std::string help) {
  positional_ = &into;
  positional_argument_ = std::move(argument);
  positional_help_ = std::move(help);
}

std::string OptionTable::hint_for(const std::string& name) const {
  std::vector<std::string> names, understood;  // of two as near, what works goes before what is only understood
  for (const OptionRow& row : rows_)
    if (!row.hidden || row.foreign) (row.foreign ? understood : names).push_back(row.name);
  for (const auto& [other, row] : aliases_) names.push_back(other);
  names.insert(names.end(), understood.begin(), understood.end());
  names.insert(names.end(), known_.begin(), known_.end());
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "see " + tool_ + " --help" : "did you mean --" + nearest + "?";
}

// Boost's switches take no value: of one, "--x=true" is "--x" and "--x=false" another switch, behind its name kOff.
std::string OptionTable::as_switch(const std::string& word) const {
  const auto equals = word.find('=');
  if (word.compare(0, 2, "--") != 0 || equals == std::string::npos) return word;
  const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
  const OptionRow* row = find(name.substr(2));
  if (row == nullptr || !row->argument.empty() || (value != "true" && value != "false")) return word;
  return value == "true" ? name : name + kOff;
}

std::vector<OptionTable::Setting> OptionTable::read_command_line(int argc, const char* const* argv) {
  po::options_description description;
  const auto describe = [&description](const std::string& name, const OptionRow& row) {
    if (row.argument.empty()) description.add_options()((name + kOff).c_str(), new po::untyped_value(true));
    if (row.multiple) description.add_options()(name.c_str(), po::value<std::vector<std::string>>()->multitoken());
    else description.add_options()(name.c_str(), new po::untyped_value(row.argument.empty()));
  };
  for (const OptionRow& row : rows_) describe(row.name, row);
  for (const auto& [other, name] : aliases_) describe(other, *find(name));

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (rewrite_) arguments = rewrite_(arguments);
  for (std::string& word : arguments) {
    if (word == "--") break;
    word = as_switch(word);
  }
  const auto end_of_flags = std::find(arguments.begin(), arguments.end(), "--");
  const auto free_words = static_cast<std::size_t>(
      end_of_flags == arguments.end() ? 0 : arguments.end() - end_of_flags - 1);

  po::parsed_options parsed(&description);
  try {
    using namespace po::command_line_style;
    po::command_line_parser parser(arguments);
    parser.options(description).allow_unregistered().style(allow_long | long_allow_adjacent | long_allow_next);
    parsed = parser.run();
  } catch (const po::error_with_option_name& e) {
    std::string name = e.get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    const OptionRow* row = find(name);
    const bool is_switch = row != nullptr && row->argument.empty();
    throw Error(Code::usage, is_switch ? "takes no value" : "a value is missing", "--" + name,
                row == nullptr || is_switch ? "" : fmt::format("write --{} {}", name, row->argument));
  } catch (const po::error& e) {
    throw Error(Code::usage, e.what());
  }

  std::vector<Setting> settings;
  std::vector<std::string> words;
  for (const auto& option : parsed.options) {
    if (option.string_key.empty()) {
      words.insert(words.end(), option.value.begin(), option.value.end());
      continue;
    }
    const bool off = option.string_key.ends_with(kOff);
    const std::string name = option.string_key.substr(0, option.string_key.size() - (off ? kOff.size() : 0));
    const OptionRow* row = find(name);
    if (row == nullptr) throw Error(Code::usage, "unknown flag", "--" + name, hint_for(name));
    const std::string flag = "--" + name;
    const bool adjacent = !option.original_tokens.empty() && option.original_tokens[0].find('=') != std::string::npos;
    for (std::size_t i = adjacent ? 1 : 0; i < option.value.size(); ++i)
      if (option.value[i].compare(0, 2, "--") == 0) {
        std::string found = option.value[i];
        if (found.ends_with(kOff)) found.replace(found.size() - kOff.size(), kOff.size(), "=false");
        throw Error(Code::usage, fmt::format("wanted {}, found '{}'", row->argument, found), flag,
                    fmt::format("write {}={} if that is the value", flag, found));
      }
    settings.push_back({row->name, row->argument.empty() ? std::vector<std::string>{off ? "false" : "true"} : option.value, flag});
  }
  for (std::size_t i = 0; i + free_words < words.size(); ++i)
    if (words[i].size() > 1 && words[i][0] == '-' && !is_negative_number(words[i]))
      throw Error(Code::usage, "unknown flag", words[i], hint_for(words[i].substr(1)));
  if (!words.empty() && positional_ == nullptr)
    throw Error(Code::usage, fmt::format("unexpected argument '{}'", words[0]), "", "flags start with --");
  if (!words.empty()) *positional_ = words;
  return settings;
}

std::vector<OptionTable::Setting> OptionTable::read_environment() const {
  std::vector<Setting> settings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (text.compare(0, 3, "MT_") != 0 || equals == std::string::npos) continue;
    const std::string variable = text.substr(0, equals), value = text.substr(equals + 1);
    const auto starts = [&](std::string_view with) { return variable.compare(0, with.size(), with) == 0; };
    if (starts("MT_TEST_") || starts("MT_RANK_") || starts("MT_EMULATION_") || value.empty()) continue;
    if (variable == "MT_MAX_CPU_ISA") continue;  // device/device.h reads it
    std::string name = variable.substr(3);
    for (char& c : name) c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const OptionRow* row = find(name);
    if (row == nullptr) {
      log::warn("{} in the environment is no option of {} and is ignored", variable, tool_);
      continue;
    }
    settings.push_back({row->name, row->multiple ? words_of(value) : std::vector<std::string>{value}, variable});
  }
  return settings;
}

std::vector<OptionTable::Setting> OptionTable::read_config(const std::string& path) const {
  std::vector<Setting> settings;
  const std::string content = read_file(path);
  std::size_t number = 0;
  for (std::size_t from = 0; from < content.size();) {
    const std::size_t end = std::min(content.find('\n', from), content.size());
    const std::string text = trim(without_comment(content.substr(from, end - from)));
    from = end + 1;
    const std::string where = fmt::format("{}:{}", path, ++number);
    if (text.empty()) continue;
    const auto equals = text.find('=');
    const std::string name = trim(text.substr(0, equals));
    const OptionRow* row = find(name);
    if (row == nullptr) throw Error(Code::usage, fmt::format("unknown option '{}'", name), where, hint_for(name));
    if (name == "config") throw Error(Code::usage, "a --config file cannot name another", where);
    std::string value = equals == std::string::npos ? "" : trim(text.substr(equals + 1));
    if (equals == std::string::npos && row->argument.empty()) value = "true";
    if (value.empty()) throw Error(Code::usage, fmt::format("'{}': a value is missing", name), where,
                                   fmt::format("write {} = {}", name, row->argument.empty() ? "true" : row->argument));
    settings.push_back({row->name, row->multiple ? words_of(value) : std::vector<std::string>{unquoted(value)}, where});
  }
  return settings;
}

void OptionTable::assign(const Setting& setting) {
  OptionRow& row = *find(setting.name);
  const bool from_flag = setting.source.compare(0, 2, "--") == 0;
  const std::string where = from_flag ? setting.source : fmt::format("--{} from {}", row.name, setting.source);
  if (row.names_something() && std::find(setting.values.begin(), setting.values.end(), "") != setting.values.end())
    throw Error(Code::usage, fmt::format("wanted {}, found ''", row.argument), where, "a name, or leave the flag out");
  if (!row.choices.empty()) {
    for (const std::string& value : setting.values) {
      if (std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end()) continue;
      std::string all;
      for (const std::string& choice : row.choices) all += (all.empty() ? "" : ", ") + choice;
      const std::string nearest = nearest_name(value, row.choices);
      throw Error(Code::usage, fmt::format("wanted one of {}, found '{}'", all, value), where,
                  nearest.empty() ? "" : "did you mean " + nearest + "?");
    }
  }
  try {
    row.set(setting.values);
    if (!row.range_text().empty())
      for (const std::string& value : setting.values) check_range(row, value);
  } catch (const Error& e) {
    if (!e.where().empty()) throw;
    throw Error(e.code(), e.message(), where, e.hint());
  }
  if (row.off_is_absent && setting.values == std::vector<std::string>{"false"}) given_[row.name].clear();
  else given_[row.name] = setting.source;
}

void OptionTable::parse(int argc, const char* const* argv) {
  const std::vector<Setting> flags = read_command_line(argc, argv);
  const std::vector<Setting> environment = read_environment();
  std::vector<Setting> config;
  std::string config_path;
  for (const Setting& s : environment)
    if (s.name == "config") config_path = s.values.at(0);
  for (const Setting& s : flags)
    if (s.name == "config") config_path = s.values.at(0);
  if (!config_path.empty()) config = read_config(config_path);

  // A value that a stronger source replaces is never read, so a wrong one there does no harm. Sources are applied from
  // the weakest on, because two rows (--x and --no-x) may be bound to one variable.
  const std::vector<Setting>* const sources[] = {&config, &environment, &flags};
  std::map<std::string, const Setting*> winner;
  for (const auto* source : sources)
    for (const Setting& s : *source) winner[s.name] = &s;
  for (const auto* source : sources)
    for (const Setting& s : *source)
      if (winner[s.name] == &s) assign(s);
}

const std::string* OptionTable::source_of(const std::string& name) const {
  const OptionRow* row = find(name);
  MT_CHECK(row != nullptr, "{} has no --{}", tool_, name);
  const auto found = given_.find(row->name);
  return found == given_.end() ? nullptr : &found->second;
}
bool OptionTable::given(const std::string& name) const { return source_of(name) && !source_of(name)->empty(); }
bool OptionTable::taken_back(const std::string& name) const { return source_of(name) && source_of(name)->empty(); }


std::string OptionTable::short_usage() const {
  std::string text = "usage: " + tool_ + (usage_.empty() ? "" : " " + usage_);
  if (!positional_argument_.empty() && usage_.find(positional_argument_) == std::string::npos)
    text += " " + positional_argument_;
  return text;
}

std::string OptionTable::help() const {
  constexpr std::size_t kIndent = 32;
  std::string out = short_usage() + "\n";
  append_wrapped(out, summary_, 0);
  const auto entry = [&out](const std::string& head, const std::string& text) {
    out += "  " + head;
    if (head.size() + 4 > kIndent) out += "\n" + std::string(kIndent, ' ');
    else out += std::string(kIndent - 2 - head.size(), ' ');
    append_wrapped(out, text, kIndent);
  };
  if (!positional_argument_.empty()) {
    out += "\n";
    entry(positional_argument_, positional_help_);
  }
  std::vector<std::string> groups;
  for (const OptionRow& row : rows_)
    if (!row.hidden && std::find(groups.begin(), groups.end(), row.group) == groups.end()) groups.push_back(row.group);
  for (const std::string& group : groups) {
    out += "\n" + (group.empty() ? "Options" : group) + ":\n";
    for (const OptionRow& row : rows_) {
      if (row.hidden || row.group != group) continue;
      std::string text = row.help, notes;
      const auto note = [&notes](const std::string& n) { notes += (notes.empty() ? "" : "; ") + n; };
      if (!row.choices.empty()) {
        std::string all;
        for (const std::string& choice : row.choices) all += (all.empty() ? "" : ", ") + choice;
        note("one of " + all);
      }
      if (!row.unit.empty()) note(row.unit);
      if (!row.range_text().empty()) note(row.range_text());
      if (!row.fallback.empty()) note("default " + row.fallback);
      for (const std::string& other : aliases_of(row.name)) note("also --" + other);
      if (!notes.empty()) text += " (" + notes + ")";
      entry("--" + row.name + (row.argument.empty() ? "" : " " + row.argument + (row.multiple ? "..." : "")), text);
    }
  }
  return out;
}

Json OptionTable::resolved() const {
  Json all = Json::object();
  for (const OptionRow& row : rows_)
    if (!row.hidden) all[row.name] = row.show ? row.show() : "";
  return all;
}

void require_distinct(const std::vector<std::string>& values, const std::string& flag) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) != value) {
      throw Error(Code::usage, fmt::format("'{}' is given twice", *value), flag);
    }
  }
}

}  // namespace mt
