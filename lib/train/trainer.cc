#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include <unistd.h>

#include "base/cli.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "engine/checkpoint.h"
#include "layout/flops.h"
#include "plan/memory.h"
#include "schedule/passes.h"
#include "probe/gemm_peak.h"
#include "train/batch_source.h"
#include "train/run_record.h"
#include "train/save_lock.h"
#include "train/stop_request.h"

namespace mt {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

int threads_per_rank(const TrainingOptions& o, int world) {
  if (o.threads > 0) return o.threads;
  if (const char* omp = std::getenv("OMP_NUM_THREADS"); omp && std::atoi(omp) > 0) return std::atoi(omp);
  const char* local = std::getenv("MPI_LOCALNRANKS");
  const int ranks_here = local && std::atoi(local) > 0 ? std::atoi(local) : world;
  return std::max(1, usable_cores() / ranks_here);
}

// Where a run stands; all of it is in a checkpoint.
struct Position {
  std::int64_t iteration = 0, consumed_samples = 0, consumed_valid_samples = 0;
  std::int64_t schedule_samples = 0;  // samples of successful steps: the clock of the learning rate
  std::int64_t skipped = 0, skipped_in_a_row = 0;
};

class Trainer {
 public:
  Trainer(Communicator& world, TrainingOptions options, const TrainerHooks& hooks);
  int run();

 private:
  void require_same_options();
  void require_memory(const std::vector<ParamSpec>& specs) const;
  void find_checkpoint();
  void require_same_model() const;
  void load();
  void agree_on_schedule(const Json& training);
  void step();
  double global_sum(double mine);
  double loss_sum(double mine);
  void validate_now();
  void save();
  bool wants_save() const;
  int stop_code();
  void phase(const char* name) {
    if (hooks_.on_phase) hooks_.on_phase(name, at_.iteration);
  }

  Communicator& world_;
  TrainingOptions o_;
  const TrainerHooks& hooks_;
  Clock::time_point started_ = Clock::now();
  Device device_;
  Stream stream_;
  Groups groups_;
  ModelSpec model_spec_;
  LrSchedule schedule_;
  std::unique_ptr<Reader> reader_;
  RunData data_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::unique_ptr<Model>> models_;  // by chunk
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<RunReporter> report_;
  StopRequest stop_;
  std::optional<SaveLock> save_lock_;
  Lane lane_;
  Position at_;
  std::int64_t saved_iteration_ = -1;
  double peak_flop_per_s_ = 0, step_flop_ = 0;
};

DType compute_dtype(const TrainingOptions& o) { return o.bf16 ? DType::bf16 : DType::f32; }

Trainer::Trainer(Communicator& world, TrainingOptions options, const TrainerHooks& hooks)
    : world_(world),
      o_(std::move(options)),
      hooks_(hooks),
      stream_(device_, threads_per_rank(o_, world.size()),
              o_.deferred_stream ? Stream::Mode::deferred : Stream::Mode::immediate),
      model_spec_(model_of(o_)),
      schedule_(lr_schedule_of(o_)) {
  require_same_options();
  find_checkpoint();
  if (!o_.save.empty() && world.rank() == 0) save_lock_.emplace(o_.save, o_.load.empty() || o_.finetune);
  const Placement placement = place(o_.parallel);
  auto specs =
      param_specs(model_spec_, o_.parallel, placement.coordinates[static_cast<std::size_t>(world.rank())]);
  if (hooks.on_specs) hooks.on_specs(specs);
  const LoadWhat what = o_.finetune || o_.no_load_optim ? LoadWhat::weights : LoadWhat::everything;
  if (reader_) check_loadable(*reader_, model_spec_, specs, what);
  if (reader_) require_same_model();
  require_memory(specs);
  if (o_.train_iters > 0) data_ = open_data(o_, model_spec_.vocab_size);
  groups_ = make_groups(world, placement, kv_heads_of(model_spec_));
  stream_.set_poll([this] { world_.progress(); });
  store_ = std::make_unique<ParameterStore>(
      specs, compute_dtype(o_), device_, ParameterStore::Gradients::present,
      ShardSpec{o_.parallel.zero_stage, groups_.dp_cp->size(), groups_.dp_cp->rank()});
  optimizer_ = std::make_unique<Optimizer>(*store_, o_.adam, device_);
  std::vector<const Model*> chunks;
  for (int c = 0; c < o_.parallel.vpp; ++c) {
    models_.push_back(std::make_unique<Model>(model_spec_, o_.batch, groups_, *store_, c, device_));
    chunks.push_back(models_.back().get());
  }
  const auto pp_rank = static_cast<std::size_t>(groups_.coordinate.pp);
  const Schedule schedule = insert_communication(make_schedule(o_.schedule, schedule_spec_of(o_)));
  lane_ = schedule.lanes[pp_rank];
  const MemoryPlan plan = plan_memory(model_spec_, o_.parallel, o_.batch, groups_.coordinate, compute_dtype(o_),
                                      schedule.max_in_flight[pp_rank]);
  executor_ = std::make_unique<Executor>(
      ExecutorParts{stream_, groups_, *store_, o_.seed, static_cast<std::size_t>(plan.slot_bytes),
                    static_cast<std::size_t>(plan.scratch_bytes)},
      chunks, o_.batch, device_);
  phase("initialize");
  optimizer_->initialize(stream_, groups_, o_.seed);
  if (reader_) load();
  step_flop_ = step_flops(model_spec_, o_.parallel, o_.batch).causal;
  if (o_.train_iters > at_.iteration) peak_flop_per_s_ = gemm_peak_flop_per_s(stream_, compute_dtype(o_));
  if (world_.rank() == 0) report_ = std::make_unique<RunReporter>(o_, "mt-train");
}

// Ranks started with different options would train different things and call it one run.
void Trainer::require_same_options() {
  const auto digest = static_cast<std::int64_t>(xxh3(o_.resolved.dump() + parallel_text(o_.parallel)) >> 2);
  std::int64_t bounds[2] = {digest, -digest};
  world_.all_reduce(stream_, View(bounds, DType::i64, {2}), Reduce::max).wait_host();
  if (bounds[0] != -bounds[1])
    throw Error(Code::comm, "ranks were started with different options", "", "start all ranks with the same command line");
}

// What the plan says this rank needs, against all the memory there is.
void Trainer::require_memory(const std::vector<ParamSpec>& specs) const {
  if (specs.empty()) return;
  const Coordinate at = place(o_.parallel).coordinates[static_cast<std::size_t>(world_.rank())];
  const double wanted =
      static_cast<double>(plan_memory(model_spec_, o_.parallel, o_.batch, at, compute_dtype(o_), 1).total());
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (wanted > there)
    throw Error(Code::device, fmt::format("a rank needs {:.1f} GiB, this machine has {:.1f}", wanted / (1 << 30),
                                          there / (1 << 30)),
                "", "a smaller --micro-batch-size, or more ranks; --dry-run shows the bytes");
}

// Rank by rank the same directory must be found, or ranks would start from different weights.
void Trainer::find_checkpoint() {
  if (o_.load.empty()) return;
  std::int64_t found = -1;
  if (!nothing_to_load(o_)) {
    const Resolved r = resolve(o_.load, o_.ckpt_step);
    if (world_.rank() == 0)
      for (const auto& line : r.ignored) log::warn("{}", line);
    found = r.iteration;
    reader_ = std::make_unique<Reader>(r.dir);
  }
  std::int64_t bounds[2] = {found, -found};
  world_.all_reduce(stream_, View(bounds, DType::i64, {2}), Reduce::max).wait_host();
  if (bounds[0] != -bounds[1])
    throw Error(Code::config, fmt::format("ranks see different checkpoints: iterations {} to {}", -bounds[1], bounds[0]),
                o_.load, "is the directory on a shared file system?");
  if (found < 0 && world_.rank() == 0) log::info("no checkpoint in {} yet: starting fresh", o_.load);
}

// Shapes can agree where computation does not: other head counts, another norm epsilon or rotary base.
void Trainer::require_same_model() const {
  const std::string where = reader_->dir().string();
  const Json& specs = reader_->manifest().meta.specs;
  if (o_.finetune || !specs.contains("model")) return;
  if (const auto d = model_difference(model_from_json(specs["model"], where), model_spec_); !d.empty())
    throw Error(Code::config, "the checkpoint's model is another one, " + d, where,
                "repeat the run's model flags, or --use-checkpoint-args, or --finetune to change them on purpose");
}

void Trainer::load() {
  phase("load");
  const auto& meta = reader_->manifest().meta;
  const bool weights_only = o_.finetune || o_.no_load_optim;
  load_training(*reader_, stream_, groups_, *store_, *optimizer_, weights_only ? LoadWhat::weights : LoadWhat::everything);
  if (world_.rank() == 0) log::info("loaded iteration {} from {}", meta.iteration, reader_->dir().string());
  const std::string where = reader_->dir().string();
  if (!o_.finetune) {
    at_.iteration = saved_iteration_ = meta.iteration;
    at_.consumed_samples = meta.consumed_samples;
    const Json& t = meta.training;
    at_.consumed_valid_samples = json_field<std::int64_t>(t, "consumed_valid_samples", where);
    at_.schedule_samples = json_field<std::int64_t>(t, "schedule_samples", where);
    at_.skipped = json_field<std::int64_t>(t, "skipped_steps", where);
    if (!weights_only) optimizer_->set_num_steps(json_field<std::int64_t>(t, "optimizer_steps", where));
    if (json_field<std::uint64_t>(t, "seed", where) != o_.seed && world_.rank() == 0)
      log::warn("--seed {} is not the checkpoint's {}: data order and dropout change from here", o_.seed,
                json_field<std::uint64_t>(t, "seed", where));
    agree_on_schedule(t);
  }
  if (!meta.tokenizer.empty() && !data_.tokenizer_fingerprint.empty() &&
      meta.tokenizer != data_.tokenizer_fingerprint)
    throw Error(Code::config, "the checkpoint was trained with another tokenizer than the data was encoded with",
                where, "encode the data with the checkpoint's tokenizer");
  reader_.reset();
}

void Trainer::agree_on_schedule(const Json& training) {
  const std::string where = "the checkpoint's training state";
  const LrSchedule stored = lr_schedule_from_json(json_field<Json>(training, "lr_schedule", where), where);
  if (o_.lr.use_checkpoint_scheduler) {
    schedule_ = stored;
    return;
  }
  if (o_.lr.override_scheduler) return;
  const Json mine = to_json(schedule_), theirs = to_json(stored);
  const bool constant_decay = schedule_.start_weight_decay == schedule_.end_weight_decay;
  for (const auto& [key, value] : mine.items())
    if (value != theirs[key] && !(constant_decay && key == "weight_decay_samples"))
      throw Error(Code::config,
                  fmt::format("{} is {} here and {} in the checkpoint", key, value.dump(), theirs[key].dump()), o_.load,
                  "repeat the run's options, or say --override-opt-param-scheduler or "
                  "--use-checkpoint-opt-param-scheduler");
}

double Trainer::global_sum(double mine) {
  groups_.dp_cp->all_reduce(stream_, View(&mine, DType::f64, {1}), Reduce::sum).wait_host();
  return mine;
}

// Only the last stage has losses; the others add zero.
double Trainer::loss_sum(double mine) {
  mine = global_sum(mine);
  groups_.pp->all_reduce(stream_, View(&mine, DType::f64, {1}), Reduce::sum).wait_host();
  return mine;
}

double masked_sum(const std::vector<HostBatch>& batches, const std::vector<std::vector<float>>& losses) {
  double sum = 0;
  for (std::size_t m = 0; m < batches.size(); ++m)
    for (std::size_t t = 0; t < losses[m].size(); ++t)
      if (batches[m].mask[t] != 0) sum += static_cast<double>(batches[m].mask[t]) * static_cast<double>(losses[m][t]);
  return sum;
}

double unmasked(const std::vector<HostBatch>& batches) {
  double n = 0;
  for (const auto& b : batches) n += b.unmasked();
  return n;
}

void Trainer::step() {
  const auto start = Clock::now();
  ++at_.iteration;
  phase("batch");
  const auto batches = data_.train->step(at_.consumed_samples, o_.parallel.dp, groups_.coordinate.dp);
  const double count = global_sum(unmasked(batches));
  if (count <= 0)
    throw Error(Code::data, fmt::format("no token of the batch at iteration {} has a loss", at_.iteration), "",
                "look at --eod-mask-loss and the data");
  store_->zero_grads(stream_);
  phase("forward-backward");
  const auto losses = executor_->run_lane(lane_, batches, 1 / count, {});
  if (hooks_.after_backward) hooks_.after_backward(at_.iteration, *store_);
  const double loss = loss_sum(masked_sum(batches, losses)) / count;
  phase("optimizer");
  const double lr = schedule_.learning_rate(at_.schedule_samples);
  const auto result =
      optimizer_->step(stream_, groups_, lr, schedule_.weight_decay(at_.schedule_samples));
  stream_.synchronize();
  at_.consumed_samples += o_.batch.global_batch;
  if (result.skipped) {
    ++at_.skipped;
    ++at_.skipped_in_a_row;
    if (world_.rank() == 0)
      log::warn("iteration {}: gradients are not finite, the step is skipped ({} in a row, limit {})", at_.iteration,
                at_.skipped_in_a_row, o_.non_finite_limit);
  } else {
    at_.schedule_samples += o_.batch.global_batch;
    at_.skipped_in_a_row = 0;
  }
  if (hooks_.after_step) hooks_.after_step(at_.iteration, loss, result.grad_norm);
  if (!report_) return;
  StepReport r{at_.iteration, at_.consumed_samples, o_.batch.global_batch, loss, result.grad_norm, lr,
               seconds_since(start)};
  r.tokens_per_s = static_cast<double>(o_.batch.global_batch) * o_.batch.seq_length / r.step_s;
  const double flop_per_s = step_flop_ / r.step_s / world_.size();
  r.tflops = flop_per_s * 1e-12;
  r.mfu = peak_flop_per_s_ > 0 ? flop_per_s / peak_flop_per_s_ : 0;
  r.skipped = result.skipped;
  r.skipped_so_far = at_.skipped;
  report_->step(r);
}

void Trainer::validate_now() {
  if (!data_.valid) return;
  phase("evaluate");
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < o_.eval_iters; ++i) {
    const auto batches = data_.valid->step(at_.consumed_valid_samples, o_.parallel.dp, groups_.coordinate.dp);
    std::vector<std::vector<float>> losses;
    for (const auto& b : batches) losses.push_back(executor_->score(b));
    sum += masked_sum(batches, losses);
    count += unmasked(batches);
    at_.consumed_valid_samples += o_.batch.global_batch;
  }
  sum = loss_sum(sum);
  count = global_sum(count);
  if (report_ && count > 0)
    report_->evaluation(at_.iteration, "validation", sum / count, static_cast<std::int64_t>(count));
}

void Trainer::save() {
  phase("save");
  const auto start = Clock::now();
  CheckpointMeta meta;
  meta.iteration = at_.iteration;
  meta.consumed_samples = at_.consumed_samples;
  meta.world_size = world_.size();
  meta.version = cli::version();
  meta.tokenizer = data_.tokenizer_fingerprint;
  meta.specs = {{"model", to_json(model_spec_)},
                {"parallel", to_json(o_.parallel)},
                {"compute_dtype", std::string(dtype_name(compute_dtype(o_)))}};
  meta.training = {{"seed", o_.seed},
                   {"optimizer_steps", optimizer_->num_steps()},
                   {"schedule_samples", at_.schedule_samples},
                   {"consumed_valid_samples", at_.consumed_valid_samples},
                   {"skipped_steps", at_.skipped},
                   {"lr_schedule", to_json(schedule_)},
                   {"seq_length", o_.batch.seq_length},
                   {"global_batch_size", o_.batch.global_batch}};
  const std::uint64_t bytes =
      save_training(o_.save, meta, model_spec_, stream_, groups_, *store_, *optimizer_);
  saved_iteration_ = at_.iteration;
  if (report_)
    report_->checkpoint(at_.iteration, (std::filesystem::path(o_.save) / iteration_name(at_.iteration)).string(), bytes,
                        seconds_since(start));
}

// Why to stop after this step, agreed on by all ranks; 0: go on.
int Trainer::stop_code() {
  std::int64_t code = 0;
  if (o_.exit_duration_min > 0 && seconds_since(started_) > o_.exit_duration_min * 60)
    code = static_cast<int>(Code::time_limit);
  if (StopRequest::seen() != 0) code = static_cast<int>(Code::signal_saved);
  world_.all_reduce(stream_, View(&code, DType::i64, {1}), Reduce::max).wait_host();
  if (at_.skipped_in_a_row >= o_.non_finite_limit && o_.non_finite_limit > 0)
    code = static_cast<int>(Code::non_finite_limit);
  return static_cast<int>(code);
}

bool Trainer::wants_save() const {
  return !o_.save.empty() && o_.save_interval > 0 && at_.iteration % o_.save_interval == 0;
}

int Trainer::run() {
  if (world_.rank() == 0 && o_.train_iters > 0 && at_.iteration >= o_.train_iters)
    log::warn("the checkpoint is at iteration {}, --train-iters is {}: nothing is left to train", at_.iteration,
              o_.train_iters);
  if (report_) report_->start({{"parallel", to_json(o_.parallel)}, {"world_size", world_.size()}});
  int code = 0;
  bool leave = false;
  while (!leave && at_.iteration < o_.train_iters) {
    step();
    code = stop_code();
    // Before the save: where validation stands is part of the checkpoint.
    if (o_.eval_interval > 0 && at_.iteration % o_.eval_interval == 0) validate_now();
    // A run of non-finite steps must not replace the last good checkpoint.
    if (code != static_cast<int>(Code::non_finite_limit) && at_.skipped_in_a_row == 0 && wants_save()) save();
    leave = code != 0 || (o_.exit_interval > 0 && at_.iteration % o_.exit_interval == 0);
  }
  const bool good = code != static_cast<int>(Code::non_finite_limit);
  if (good && !o_.save.empty() && saved_iteration_ != at_.iteration) save();
  if (code == static_cast<int>(Code::non_finite_limit) && world_.rank() == 0)
    log::line(fmt::format("giving up at iteration {}: {} steps in a row had gradients that are not finite; the last "
                          "checkpoint is untouched", at_.iteration, at_.skipped_in_a_row));
  if (report_) report_->end(code == 0 ? "done" : code_name(static_cast<Code>(code)));
  world_.barrier(stream_).wait_host();
  return code;
}

}  // namespace

int train(Communicator& world, const TrainingOptions& options, const TrainerHooks& hooks) {
  return Trainer(world, options, hooks).run();
}

}  // namespace mt
