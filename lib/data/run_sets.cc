#include "data/run_sets.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>

#include "base/error.h"

namespace mt::data {

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// One value of the JSON file.
std::vector<std::string> words_of(const Json& value, const std::string& key, const std::string& file) {
  if (value.is_null()) return {};
  if (value.is_string()) return words_of(value.get<std::string>());
  std::vector<std::string> words;
  bool good = value.is_array();
  if (good)
    for (const Json& word : value) {
      good = good && (word.is_string() || word.is_number());
      if (good) words.push_back(word.is_string() ? word.get<std::string>() : json_line(word));
    }
  if (!good)
    throw Error(Code::data, fmt::format("'{}' is neither a text nor a list of prefixes and weights", key), file,
                R"("train": ["0.3", "a", "0.7", "b"])");
  return words;
}

// A parser keeps one of two equal keys, and the files of the other would be left out in silence.
void refuse_key_twice(const std::string& text, const std::string& file) {
  std::set<std::string> keys;
  const Json::parser_callback_t see = [&](int depth, Json::parse_event_t event, Json& key) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(key.get<std::string>()).second)
      throw Error(Code::data, fmt::format("the key '{}' is there twice", key.get<std::string>()), file, "each once");
    return true;
  };
  [[maybe_unused]] const Json read = Json::parse(text, see, false);  // what is no JSON is said by parse_json
}

}  // namespace

void read_path_files(SetOptions& o) {
  if (!o.data_args_path.empty() && !o.per_split_data_args_path.empty())
    throw Error(Code::config, "--data-args-path and --per-split-data-args-path exclude each other", "", "one of them");
  if (const std::string& file = o.data_args_path; !file.empty()) {
    auto words = words_of(read_file(file));
    if (words.empty()) throw Error(Code::data, "no token file is named", file, "words as for --data-path");
    if (o.data_path != words && (!o.data_path.empty() || o.per_split()))
      throw Error(Code::config, "--data-args-path beside other flags that name token files", "", "one of them");
    o.data_path = std::move(words);
  }
  if (const std::string& file = o.per_split_data_args_path; !file.empty()) {
    SetOptions read;
    const std::string text = read_file(file);
    refuse_key_twice(text, file);
    const Json j = parse_json(text, file);
    if (!j.is_object()) throw Error(Code::data, "wanted an object with the keys train, valid and test", file);
    for (const auto& [key, value] : j.items()) {
      auto* words = key == "train" ? &read.train_path : key == "valid" ? &read.valid_path : key == "test" ? &read.test_path : nullptr;
      if (words == nullptr) throw Error(Code::data, fmt::format("'{}' is no key of it: train, valid and test are", key), file);
      *words = words_of(value, key, file);
    }
    if (read.train_path.empty()) throw Error(Code::data, "no token file is named for 'train'", file);
    const bool done = o.train_path == read.train_path && o.valid_path == read.valid_path && o.test_path == read.test_path;
    if (!done && (!o.data_path.empty() || o.per_split()))
      throw Error(Code::config, "--per-split-data-args-path beside other flags that name token files", "", "one of them");
    o.train_path = std::move(read.train_path);
    o.valid_path = std::move(read.valid_path);
    o.test_path = std::move(read.test_path);
  }
}

std::array<std::int64_t, 3> samples_wanted(const SetLength& l) {
  const std::int64_t train = l.train_samples.value_or(l.train_iters * l.global_batch);
  if (l.eval_interval == 0) return {train, 0, 0};
  return {train, (l.train_iters / l.eval_interval + 1) * l.eval_iters * l.global_batch, l.eval_iters * l.global_batch};
}

std::vector<const RunSets::Set*> RunSets::all() const {
  std::vector<const Set*> sets;
  if (train) sets.push_back(&*train);
  for (const Set& s : valid) sets.push_back(&s);
  if (test) sets.push_back(&*test);
  return sets;
}

std::vector<SetPlan> RunSets::plans() const {
  std::vector<SetPlan> plans;
  for (const Set* s : all()) plans.push_back({s->name, s->samples.size(), &s->samples.plan(), false});
  return plans;
}

Json plan_json(const std::vector<SetPlan>& sets) {
  Json plan = Json::object();
  for (const SetPlan& s : sets) {
    Json members = Json::array();
    for (const MemberPlan& m : *s.members) {
      members.push_back({{"prefix", m.prefix}, {"weight", m.weight}, {"samples", m.samples}, {"samples_made", m.made},
                         {"epochs", m.epochs}, {s.chats ? "lines" : "sequences", m.sequences}});
      if (!s.chats) members.back()["tokens"] = m.tokens;
    }
    plan[s.name] = {{"samples", s.samples}, {"members", std::move(members)}};
  }
  return plan;
}

std::vector<std::string> plan_lines(const std::vector<SetPlan>& sets, std::size_t most) {
  std::vector<std::string> lines;
  for (const SetPlan& s : sets) {
    const std::vector<MemberPlan>& members = *s.members;
    const auto size = [&s](const MemberPlan& m) { return s.chats ? fmt::format("{} lines", m.sequences) : fmt::format("{} tokens", m.tokens); };
    if (members.size() == 1) {
      const MemberPlan& m = members.front();
      lines.push_back(fmt::format("{} set: {} samples, {:.2f} epochs of {} of {}", s.name, m.samples, m.epochs, size(m), m.prefix));
      continue;
    }
    lines.push_back(fmt::format("{} set: {} samples of {} {} files", s.name, s.samples, members.size(), s.chats ? "chat" : "token"));
    std::vector<std::size_t> shown(members.size());
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    if (members.size() > most) {
      std::stable_sort(shown.begin(), shown.end(), [&](auto a, auto b) { return members[a].samples > members[b].samples; });
      shown.resize(most);
      std::sort(shown.begin(), shown.end());
    }
    for (const std::size_t i : shown) {
      const MemberPlan& m = members[i];
      lines.push_back(fmt::format("  {} {}: {:.3g} % of the samples, {} of {}, {:.2f} epochs of {}", i, m.prefix,
                                  100 * m.weight, m.samples, m.made, m.epochs, size(m)));
    }
    if (members.size() > most) lines.push_back(fmt::format("  and {} more", members.size() - most));
  }
  return lines;
}

std::vector<std::string> names_of_sets(const DataPath& path, const std::vector<std::string>& given) {
  if (!path.weights.empty())
    throw Error(Code::config, "--multiple-validation-sets scores each file by itself, weights would not count",
                "--valid-data-path", "leave the weights out");
  std::set<std::string> prefixes, names;
  std::vector<std::string> last;
  for (const auto& prefix : path.prefixes) {
    if (!prefixes.insert(std::filesystem::path(prefix).lexically_normal().string()).second)
      throw Error(Code::config, fmt::format("'{}' is named twice: two sets of one name would be scored alike", prefix),
                  "--valid-data-path", "name each file once");
    last.push_back(std::filesystem::path(prefix).filename().string());
    names.insert(last.back());
  }
  if (!given.empty()) return given;
  return names.size() == last.size() ? last : path.prefixes;
}

namespace {

// A set that is wanted, and where it goes.
struct WantedSet {
  enum class Kind { train, valid, test } kind;
  SetRequest request;
  bool may_fail = false;  // then a notice is all that comes of it
};

class SetRequests {
 public:
  explicit SetRequests(const RunSetsRequest& request) : r_(request) {}

  std::vector<WantedSet> all() {
    if (r_.paths.per_split()) own_paths();
    else shared_path();
    return std::move(wanted_);
  }

 private:
  using Kind = WantedSet::Kind;

  SetRequest& add(Kind kind, const std::string& name, DataPath path, std::optional<std::int64_t> samples) {
    SetRequest s;
    s.path = std::move(path);
    s.name = name;
    s.num_samples = samples;
    s.seq_length = r_.seq_length;
    s.seed = r_.seed;
    s.surplus = r_.paths.surplus;
    wanted_.push_back({kind, std::move(s)});
    return wanted_.back().request;
  }
  // Part `part` of a path that all sets share.
  void share(Kind kind, const std::string& name, std::size_t part, std::optional<std::int64_t> samples) {
    SetRequest& s = add(kind, name, parse_data_path(r_.paths.data_path), samples);
    s.split = r_.paths.split;
    s.part = part;
  }
  // All of a path that is for this set alone.
  void own(Kind kind, const std::string& name, DataPath path, std::optional<std::int64_t> samples) {
    add(kind, name, std::move(path), samples).own_path = true;
  }

  void shared_path() {
    const auto [train, valid, test] = r_.samples;
    if (train > 0) share(Kind::train, "training", 0, train);
    if (valid > 0) share(Kind::valid, "validation", 1, r_.full_validation ? std::nullopt : std::optional(valid));
    // The test set is scored if there is one; a run without is none the worse.
    if (test == 0 || parse_split(r_.paths.split)[2] == 0) return;
    share(Kind::test, "test", 2, test);
    wanted_.back().may_fail = true;
  }

  void own_paths() {
    const auto [train, valid, test] = r_.samples;
    if (train > 0) own(Kind::train, "training", parse_data_path(r_.paths.train_path), train);
    const std::optional<std::int64_t> of_each = r_.full_validation ? std::nullopt : std::optional(valid);
    if (valid > 0 && !r_.paths.valid_path.empty()) {
      const DataPath path = parse_data_path(r_.paths.valid_path);
      if (!r_.multiple_validation_sets) {
        own(Kind::valid, "validation", path, of_each);
      } else {
        const auto names = names_of_sets(path, r_.validation_set_names);
        for (std::size_t i = 0; i < path.prefixes.size(); ++i) own(Kind::valid, names[i], {{path.prefixes[i]}, {}}, of_each);
      }
    }
    if (test > 0 && !r_.paths.test_path.empty()) own(Kind::test, "test", parse_data_path(r_.paths.test_path), test);
  }

  const RunSetsRequest& r_;
  std::vector<WantedSet> wanted_;
};

// Documents of a file without end tokens run into each other, and into those of the next file.
void note_mixed_ends(const std::vector<WantedSet>& sets, std::vector<std::string>& notices) {
  for (const WantedSet& wanted : sets) {
    std::string with, without;
    for (const std::string& prefix : wanted.request.path.prefixes) {
      const auto origin = origin_of(prefix);
      if (!origin) continue;
      if (std::string& first = origin->eod_appended ? with : without; first.empty()) first = prefix;
    }
    if (!with.empty() && !without.empty())
      notices.push_back(fmt::format("{} set: documents of {} end with the end token, those of {} with none: a model sees where "
                                    "some end and others not (--append-eod)", wanted.request.name, with, without));
  }
}

std::string no_test_loss(const Error& e) { return fmt::format("there will be no test loss: {}", e.message()); }

}  // namespace

std::unique_ptr<RunSets> open_run_sets(const RunSetsRequest& r, IndexCache& cache) {
  auto run = std::make_unique<RunSets>();
  const std::vector<WantedSet> sets = SetRequests(r).all();
  for (const WantedSet& wanted : sets) {
    const SetRequest& s = wanted.request;
    try {
      RunSets::Set set{s.name, build_set(s, run->files, cache)};
      if (!s.num_samples) set.pass = set.samples.size();
      if (wanted.kind == WantedSet::Kind::train) run->train = std::move(set);
      else if (wanted.kind == WantedSet::Kind::test) run->test = std::move(set);
      else run->valid.push_back(std::move(set));
    } catch (const Error& e) {
      if (!wanted.may_fail) throw;
      run->notices.push_back(no_test_loss(e));
    }
  }
  note_mixed_ends(sets, run->notices);
  return run;
}

ExpectedSets expect_run_sets(const RunSetsRequest& r) {
  ExpectedSets expected;
  TokenFiles files;
  const std::vector<WantedSet> sets = SetRequests(r).all();
  for (const WantedSet& wanted : sets) {
    const SetRequest& s = wanted.request;
    try {
      expected.sets.push_back({s.name, expected_plan(s, files)});
    } catch (const Error& e) {
      if (!wanted.may_fail) throw;
      expected.notices.push_back(no_test_loss(e));
    }
  }
  note_mixed_ends(sets, expected.notices);
  return expected;
}

}  // namespace mt::data
