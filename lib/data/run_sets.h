#pragma once
// The sets of a run: which token files are for training, validation and test, how many samples of each are wanted, and
// the sets themselves. mt-train opens them; mt-preprocess index makes their orders ahead of time.
//
//   full pass  every sample of a set once
// Code: data/run_sets.cc. Tests: tests/data/run_sets_test.cc.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/blend.h"

namespace mt::data {

// What the command line says about token files, with Megatron's names.
struct SetOptions {
  std::vector<std::string> data_path;
  std::vector<std::string> train_path, valid_path, test_path;  // a blend for each set, instead of data_path and split
  std::string data_args_path;            // a file with the words of data_path
  std::string per_split_data_args_path;  // a JSON file with those of the three others
  std::string split = "969,30,1";
  double surplus = 0.005;      // --mid-level-dataset-surplus
  std::string cache_path;      // --data-cache-path; as IndexCache takes it

  bool per_split() const { return !train_path.empty() || !valid_path.empty() || !test_path.empty(); }
};

// Read what the two files say into the paths they stand for. The first: words between white space. The second: an object
// with the keys train, valid and test, each a list of words (prefixes; weights as text or numbers), a text of words, or
// null. A second call finds the paths filled and does nothing.
//   fails  Error{io}; Error{config}: beside the flags they stand for, or both; Error{corrupt}, Error{data}: no JSON, another
//          key, no words
void read_path_files(SetOptions& options);

// How long a run is, as far as its sets depend on it.
struct SetLength {
  std::optional<std::int64_t> train_samples;  // else train_iters x global_batch
  std::int64_t train_iters = 0, global_batch = 0, eval_iters = 0, eval_interval = 0;
};

// Samples of training, validation, test: Megatron's numbers. Validation: (train_iters / eval_interval + 1) x eval_iters x
// batch; test: eval_iters x batch; none of both without an eval_interval.
std::array<std::int64_t, 3> samples_wanted(const SetLength& length);

// Names of validation sets that are scored each by itself: those given, else the files' own names, or all of their prefixes
// where two files are called the same.
//   needs  `given` is empty or has a name for each
//   fails  Error{config}: weights, which would not count; a file that is named twice
std::vector<std::string> names_of_sets(const DataPath& path, const std::vector<std::string>& given);

struct RunSetsRequest {
  SetOptions paths;
  std::array<std::int64_t, 3> samples{};  // 0: that set is not needed and not built
  bool full_validation = false, multiple_validation_sets = false;
  std::vector<std::string> validation_set_names;
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
};

// What a set is drawn of.
struct SetPlan {
  std::string name;
  std::int64_t samples = 0;
  const std::vector<MemberPlan>* members = nullptr;
  bool chats = false;  // members are chat files: their lines count, their tokens are not known
};
// {"training": {"samples": N, "members": [{"prefix", "weight", "samples", "epochs", ...}]}, ...}
Json plan_json(const std::vector<SetPlan>& sets);
// The same for people: a line a set and a line a member; of more than `most` members the ones most is drawn of, and how
// many more there are.
std::vector<std::string> plan_lines(const std::vector<SetPlan>& sets, std::size_t most = 12);

struct RunSets {
  struct Set {
    std::string name;
    BlendedDataset samples;
    std::int64_t pass = 0;  // samples of a full pass; 0: the set begins anew at its end
  };
  TokenFiles files;  // the sets read from these
  std::optional<Set> train, test;
  std::vector<Set> valid;
  std::vector<std::string> notices;

  // Every set there is.
  std::vector<const Set*> all() const;
  std::vector<SetPlan> plans() const;
  Json plan() const { return plan_json(plans()); }
  std::vector<std::string> plan_lines(std::size_t most = 12) const { return data::plan_lines(plans(), most); }
};

// Open the files and build the sets. A test set that cannot be is a notice.
//   fails  as build_set
std::unique_ptr<RunSets> open_run_sets(const RunSetsRequest& request, IndexCache& cache);

// The sets as open_run_sets would build them, without an order of samples: for a look before a run.
struct ExpectedSets {
  struct Set {
    std::string name;
    std::vector<ExpectedMember> members;
  };
  std::vector<Set> sets;
  std::vector<std::string> notices;
};
//   fails  as expected_plan   cost  reads each .idx once
ExpectedSets expect_run_sets(const RunSetsRequest& request);

}  // namespace mt::data
