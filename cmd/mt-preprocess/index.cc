#include <algorithm>
#include <climits>

#include "args_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/batch_schedule.h"
#include "data/run_sets.h"
#include "options/data_flags.h"
#include "options/registry_options.h"

namespace mt::preprocess {

namespace {

// The flags of a training that its samples depend on, with mt-train's names and defaults.
struct Flags {
  data::RunSetsRequest request;
  std::int64_t seq_length = 0, global_batch = 0, train_iters = -1, eval_iters = 100, eval_interval = 0;
  std::optional<std::int64_t> train_samples;
  std::uint64_t seed = 1234;
  std::vector<std::int64_t> rampup;
  std::vector<std::string> steps;
  std::string args_file;
  options::RegistryFlag registry;

  void add(OptionTable& t);
  data::SetLength length() const;
};

void Flags::add(OptionTable& t) {
  options::add_sets(t, request.paths);
  t.group("Samples");
  t.add("seq-length", seq_length, "N", "tokens of a sample", "tokens").between(1, INT_MAX).no_default();
  t.add("seed", seed, "N", "of the order");
  t.add("global-batch-size", global_batch, "N", "samples of a step", "samples").between(1, INT_MAX).no_default();
  t.add("train-iters", train_iters, "N", "steps to train", "steps").at_least(0).no_default();
  t.add("train-samples", train_samples, "N", "length of the run in samples, instead of train-iters", "samples").at_least(0);
  t.add("rampup-batch-size", rampup, "N", "START INCREMENT SAMPLES: the global batch grows to its size", "samples");
  t.add("step-batch-size-schedule", steps, "T:N", "the global batch is N samples from T tokens on").multiple = true;
  t.add("eval-iters", eval_iters, "N", "batches of one validation", "steps").at_least(0);
  t.add("eval-interval", eval_interval, "N", "validate every N steps", "steps").at_least(1).no_default();
  t.add("full-validation", request.full_validation, "", "each validation set is read whole");
  t.add("multiple-validation-sets", request.multiple_validation_sets, "", "every file of valid-data-path is a set");
  t.add("validation-set-names", request.validation_set_names, "NAME", "their names");
  registry.add(t);
}

// As mt-train counts them.
data::SetLength Flags::length() const {
  const auto want = [](bool there, const char* flag) {
    if (!there) throw Error(Code::usage, "not given", flag, "the flags of the training");
  };
  want(seq_length > 0, "--seq-length");
  want(train_iters >= 0 || train_samples, "--train-iters");
  want(global_batch > 0 || !steps.empty(), "--global-batch-size");
  if (train_iters >= 0 && train_samples)
    throw Error(Code::config, "--train-iters and --train-samples exclude each other", "", "one of them");
  if (global_batch > 0 && !steps.empty())
    throw Error(Code::config, "--step-batch-size-schedule and --global-batch-size exclude each other", "", "one of them");
  data::SetLength l{train_samples, std::max<std::int64_t>(0, train_iters), global_batch, eval_iters, eval_interval};
  data::BatchSchedule schedule(static_cast<int>(std::max<std::int64_t>(1, global_batch)));
  std::string problem;
  if (!steps.empty()) {
    const auto read = data::BatchSchedule::read_steps(steps, static_cast<int>(seq_length));
    problem = read.problem;
    l.global_batch = read.largest();
    if (problem.empty()) schedule = data::BatchSchedule::of_steps(read);
  } else if (!rampup.empty()) {
    problem = data::BatchSchedule::ramp_up_problem(rampup, static_cast<int>(global_batch));
    if (problem.empty()) schedule = data::BatchSchedule::ramp_up(rampup, static_cast<int>(global_batch));
  }
  if (!problem.empty()) throw Error(Code::config, problem);
  if (train_samples) l.train_iters = schedule.iterations_within(*train_samples);
  return l;
}

void print(const data::RunSets& sets, bool json) {
  if (!json) cli::row({"set", "member", "prefix", "weight", "samples", "samples_made", "epochs", "sequences", "tokens"});
  for (const auto* set : sets.all()) {
    const auto& members = set->samples.plan();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const data::MemberPlan& m = members[i];
      if (json)
        cli::object({{"set", set->name}, {"member", i}, {"prefix", m.prefix}, {"weight", m.weight}, {"samples", m.samples},
                     {"samples_made", m.made}, {"epochs", m.epochs}, {"sequences", m.sequences}, {"tokens", m.tokens}});
      else
        cli::row({set->name, std::to_string(i), m.prefix, fmt::format("{:.6g}", m.weight), std::to_string(m.samples),
                  std::to_string(m.made), fmt::format("{:.3f}", m.epochs), std::to_string(m.sequences),
                  std::to_string(m.tokens)});
    }
  }
}

int index(Flags& f, const Json& start, bool json) {
  const auto begun = Clock::now();
  data::RunSetsRequest& r = f.request;
  data::read_path_files(r.paths);
  r.samples = data::samples_wanted(f.length());
  if (r.full_validation && f.eval_interval > 0) r.samples[1] = std::max<std::int64_t>(1, r.samples[1]);
  r.seq_length = f.seq_length;
  r.seed = static_cast<std::uint32_t>(f.seed);
  if (r.paths.cache_path == "none") throw Error(Code::usage, "there is nowhere to keep them", "--data-cache-path", "--data-cache-path DIR");
  data::IndexCache cache(r.paths.cache_path);
  const auto sets = data::open_run_sets(r, cache);
  for (const auto& notice : sets->notices) log::warn("{}", notice);
  const auto& report = cache.report();
  for (const auto& notice : report.notices) log::warn("{}", notice);
  print(*sets, json);
  if (!report.text().empty()) log::info("{}", report.text());
  else if (r.paths.cache_path.empty())
    log::info("nothing is stored: orders below {} MiB are made at the start of a run, unless --data-cache-path is given",
                 data::IndexCache::kWorthStoring >> 20);
  f.registry.record(start, seconds_since(begun),
                    {{"hits", report.hits}, {"built", report.built + report.waited}, {"bytes", report.bytes}},
                    {{{"event", "plan"}, {"data", sets->plan()}}});
  if (report.in_memory > 0 && !r.paths.cache_path.empty())
    throw Error(Code::io, fmt::format("{} could not be stored", counted(report.in_memory, "order")), r.paths.cache_path,
                "a directory that can be written and has room");
  return 0;
}

}  // namespace

Run build_index(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  flags->add(table);
  table.group("Samples");
  take_args_files(table, flags->args_file);
  return [flags, &shared, &table] {
    return index(*flags, options::RegistryFlag::start("mt-preprocess index", table), shared.json);
  };
}

}  // namespace mt::preprocess
