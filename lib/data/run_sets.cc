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
    const Json j = read_json(file);
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

Json RunSets::plan() const {
  Json plan = Json::object();
  for (const Set* s : all()) {
    Json members = Json::array();
    for (const MemberPlan& m : s->samples.plan())
      members.push_back({{"prefix", m.prefix}, {"weight", m.weight}, {"samples", m.samples}, {"samples_made", m.made},
                         {"epochs", m.epochs}, {"sequences", m.sequences}, {"tokens", m.tokens}});
    plan[s->name] = {{"samples", s->samples.size()}, {"members", std::move(members)}};
  }
  return plan;
}

std::vector<std::string> RunSets::plan_lines(std::size_t most) const {
  std::vector<std::string> lines;
  for (const Set* s : all()) {
    const std::vector<MemberPlan>& members = s->samples.plan();
    if (members.size() == 1) {
      const MemberPlan& m = members.front();
      lines.push_back(fmt::format("{} set: {} samples, {:.2f} epochs of {} tokens of {}", s->name, m.samples, m.epochs,
                                  m.tokens, m.prefix));
      continue;
    }
    lines.push_back(fmt::format("{} set: {} samples of {} token files", s->name, s->samples.size(), members.size()));
    std::vector<std::size_t> shown(members.size());
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    if (members.size() > most) {
      std::stable_sort(shown.begin(), shown.end(), [&](auto a, auto b) { return members[a].samples > members[b].samples; });
      shown.resize(most);
      std::sort(shown.begin(), shown.end());
    }
    for (const std::size_t i : shown) {
      const MemberPlan& m = members[i];
      lines.push_back(fmt::format("  {} {}: {:.3g} % of the samples, {} of {}, {:.2f} epochs of {} tokens", i, m.prefix,
                                  100 * m.weight, m.samples, m.made, m.epochs, m.tokens));
    }
    if (members.size() > most) lines.push_back(fmt::format("  and {} more", members.size() - most));
  }
  return lines;
}

namespace {

class SetMaker {
 public:
  SetMaker(const RunSetsRequest& request, RunSets& run, IndexCache& cache) : r_(request), run_(run), cache_(cache) {}

  // Part `part` of a path that all sets share.
  RunSets::Set shared(const std::string& name, std::size_t part, std::optional<std::int64_t> samples) {
    SetRequest s = request(name, parse_data_path(r_.paths.data_path), samples);
    s.split = r_.paths.split;
    s.part = part;
    return made(name, s);
  }
  // All of a path that is for this set alone.
  RunSets::Set own(const std::string& name, DataPath path, std::optional<std::int64_t> samples) {
    SetRequest s = request(name, std::move(path), samples);
    s.own_path = true;
    return made(name, s);
  }

 private:
  SetRequest request(const std::string& name, DataPath path, std::optional<std::int64_t> samples) const {
    SetRequest s;
    s.path = std::move(path);
    s.name = name;
    s.num_samples = samples;
    s.seq_length = r_.seq_length;
    s.seed = r_.seed;
    s.surplus = r_.paths.surplus;
    return s;
  }
  RunSets::Set made(const std::string& name, const SetRequest& s) {
    RunSets::Set set{name, build_set(s, run_.files, cache_)};
    if (!s.num_samples) set.pass = set.samples.size();
    return set;
  }
  const RunSetsRequest& r_;
  RunSets& run_;
  IndexCache& cache_;
};

std::vector<std::string> set_names(const RunSetsRequest& r, const std::vector<std::string>& prefixes) {
  if (!r.validation_set_names.empty()) return r.validation_set_names;
  std::vector<std::string> names;
  for (const auto& prefix : prefixes) names.push_back(std::filesystem::path(prefix).filename().string());
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : prefixes;
}

void open_shared_path(const RunSetsRequest& r, SetMaker& make, RunSets& run) {
  const auto [train, valid, test] = r.samples;
  if (train > 0) run.train = make.shared("training", 0, train);
  if (valid > 0)
    run.valid.push_back(make.shared("validation", 1, r.full_validation ? std::nullopt : std::optional(valid)));
  // The test set is scored if there is one; a run without is none the worse.
  if (test == 0 || parse_split(r.paths.split)[2] == 0) return;
  try {
    run.test = make.shared("test", 2, test);
  } catch (const Error& e) {
    run.notices.push_back(fmt::format("there will be no test loss: {}", e.message()));
  }
}

void open_own_paths(const RunSetsRequest& r, SetMaker& make, RunSets& run) {
  const auto [train, valid, test] = r.samples;
  if (train > 0) run.train = make.own("training", parse_data_path(r.paths.train_path), train);
  const std::optional<std::int64_t> of_each = r.full_validation ? std::nullopt : std::optional(valid);
  if (valid > 0 && !r.paths.valid_path.empty()) {
    const DataPath path = parse_data_path(r.paths.valid_path);
    if (!r.multiple_validation_sets) {
      run.valid.push_back(make.own("validation", path, of_each));
    } else {
      if (!path.weights.empty())
        throw Error(Code::config, "--multiple-validation-sets scores each file by itself, weights would not count",
                    "--valid-data-path", "leave the weights out");
      const auto names = set_names(r, path.prefixes);
      for (std::size_t i = 0; i < path.prefixes.size(); ++i)
        run.valid.push_back(make.own(names[i], {{path.prefixes[i]}, {}}, of_each));
    }
  }
  if (test > 0 && !r.paths.test_path.empty()) run.test = make.own("test", parse_data_path(r.paths.test_path), test);
}

}  // namespace

std::unique_ptr<RunSets> open_run_sets(const RunSetsRequest& r, IndexCache& cache) {
  auto run = std::make_unique<RunSets>();
  SetMaker make(r, *run, cache);
  if (r.paths.per_split()) open_own_paths(r, make, *run);
  else open_shared_path(r, make, *run);
  return run;
}

}  // namespace mt::data
