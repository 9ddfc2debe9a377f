#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/manifest.h"
#include "layout/validate.h"
#include "train/flag_choice.h"
#include "train/optimizer_options.h"
#include "train/fp8_options.h"
#include "train/graph_options.h"
#include "train/pipeline_schedule.h"
#include "train/recompute_options.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/run_length.h"
#include "train/tp_overlap_options.h"
#include "train/trainer.h"

namespace mt {

namespace {

constexpr int kMostPipelineRanks = 256;  // schedules of more would take longer to write down than to doubt

void check_names(const TrainingOptions& o) {
  require_choice("position-embedding-type", o.model.position_embedding_type, {"learned_absolute", "rope", "none"});
  require_choice("normalization", o.model.normalization, {"LayerNorm", "RMSNorm"});
  require_choice("device", o.device, {"cpu", "cuda"});
  require_choice("cuda-f32-precision", o.cuda_f32_precision, {"f32", "tf32"});
  require_choice("attention-backend", o.attention_backend, {"auto", "flash", "fused", "unfused", "local"});
  if (!o.distributed_backend.empty()) require_choice("distributed-backend", o.distributed_backend, {"nccl", "mpi", "gloo"});
  parse_lr_style(o.lr.decay_style);
  parse_wsd_style(o.lr.wsd_decay_style);
  parse_weight_decay_style(o.lr.weight_decay_incr_style);
}

// Every batch of a ramp makes a number of micro-batches that the schedule can run.   fails  Error{config}
void check_ramp(const TrainingOptions& o) {
  for (int size : o.batch_schedule.sizes()) {
    ScheduleSpec spec = schedule_spec_of(o);
    spec.num_micro_batches = size / (o.batch.micro_batch * o.parallel.dp);
    const ScheduleRow* row = find_schedule(o.schedule);
    const std::string problem = row != nullptr                       ? problem_of(*row, spec)
                                : size != o.batch.global_batch ? "a file holds one number of micro-batches"
                                                               : "";
    if (!problem.empty())
      throw Error(Code::config, fmt::format("--{} passes {}, with --pipeline-schedule {}: {}",
                                            o.step_batch_sizes.empty() ? "rampup-batch-size" : "step-batch-size-schedule",
                                            size, o.schedule, problem),
                  "", "a larger start or increment, or another --pipeline-schedule");
  }
}

// ZeRO stage of the flags.   fails  Error{usage}, Error{config}
int zero_stage_of(const TrainingOptions& o) {
  if (o.sharding_strategy.empty()) return o.use_megatron_fsdp ? 3 : o.use_distributed_optimizer ? 1 : 0;
  constexpr const char* names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  for (int stage = 0; stage < 4; ++stage) {
    if (o.sharding_strategy != names[stage]) continue;
    if (stage == 3 && !o.use_megatron_fsdp)
      throw Error(Code::config, "--data-parallel-sharding-strategy optim_grads_params shards weights layer by layer", "",
                  "add --use-megatron-fsdp, or take optim_grads");
    if (stage == 0 && o.use_distributed_optimizer)
      throw Error(Code::config, "--use-distributed-optimizer with --data-parallel-sharding-strategy no_shard", "",
                  "leave one of them out");
    return stage;
  }
  throw Error(Code::usage, fmt::format("--data-parallel-sharding-strategy '{}' is unknown", o.sharding_strategy), "",
              "one of no_shard, optim, optim_grads, optim_grads_params");
}

// Which sets there are, and what validation is asked of them.
std::vector<Problem> set_problems(const TrainingOptions& o) {
  std::vector<Problem> p;
  const auto add = [&](std::string what, std::string near) { p.push_back({std::move(what), std::move(near)}); };
  const auto& d = o.data;
  const bool per_split = d.per_split();
  if (per_split && (d.mock_data || !d.data_path.empty()))
    add(fmt::format("train-data-path and its like exclude {}", d.mock_data ? "mock-data" : "data-path"), "one of them");
  if (per_split && d.train_path.empty()) add("valid-data-path or test-data-path without train-data-path", "--train-data-path");
  if (per_split && !d.train_path.empty() && d.valid_path.empty() && o.eval_interval > 0)
    add("eval-interval with train-data-path and no valid-data-path", "--valid-data-path");
  if (o.full_validation && d.mock_data) add("full-validation with mock-data, which has no end", "--eval-iters");
  if (o.multiple_validation_sets && !o.full_validation)
    add("multiple-validation-sets needs full-validation", "--full-validation");
  if (o.multiple_validation_sets && d.valid_path.empty())
    add("multiple-validation-sets needs valid-data-path", "--valid-data-path A B");
  if (!o.validation_set_names.empty() && !o.multiple_validation_sets)
    add("validation-set-names without multiple-validation-sets", "--multiple-validation-sets");
  if (o.multiple_validation_sets && !o.validation_set_names.empty() && !d.valid_path.empty()) {
    const std::size_t sets = data::parse_data_path(d.valid_path).prefixes.size();
    for (std::size_t i = 0; i < o.validation_set_names.size(); ++i) {
      const auto& names = o.validation_set_names;
      const auto mine = names.begin() + static_cast<std::ptrdiff_t>(i);
      if (names[i].empty() || std::any_of(names[i].begin(), names[i].end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }))
        add(fmt::format("validation-set-names: name {} is empty or has a control character", i + 1), "a name of one line");
      else if (std::find(names.begin(), mine, names[i]) != mine)
        add(fmt::format("validation-set-names: '{}' is there twice", names[i]), "a name for each");
    }
    if (sets != o.validation_set_names.size())
      add(fmt::format("{} validation-set-names for {} sets", o.validation_set_names.size(), sets), "a name for each");
  }
  return p;
}

// What samples are made of.
void check_samples(const DataOptions& d, std::vector<Problem>& p) {
  const struct { bool given; const char* what; const char* near; } clashes[] = {
      {d.fim_data && d.mock_data, "fim-data with mock-data, which has no text", "--data-path"},
      {d.fim_data && d.sft, "fim-data and sft exclude each other", "one of them"},
      {d.fim_data && d.inter_document_masking,
       "fim-data with dataloader-inter-document-masking: documents move in the sample", "--reset-attention-mask"},
      {d.sft && d.mock_data, "sft with mock-data", "--data-path CHAT.jsonl"},
      {d.sft && (d.reset_position_ids || d.reset_attention_mask || d.eod_mask_loss || d.inter_document_masking),
       "sft with reset-position-ids, reset-attention-mask, eod-mask-loss or dataloader-inter-document-masking: "
       "conversations are parted already", "none of them"}};
  for (const auto& c : clashes)
    if (c.given) p.push_back({c.what, c.near});
}

// The scale and what gradients are divided by it with are f32: both finite there, and no denormals.
void check_loss_scale(const LossScaleOptions& o, std::vector<Problem>& p) {
  constexpr double kLeast = std::numeric_limits<float>::min(), kMost = 1 / kLeast;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"loss-scale", o.fixed.value_or(1)}, {"initial-loss-scale", o.initial}, {"min-loss-scale", o.min}})
    if (!(value >= kLeast && value <= kMost))
      p.push_back({fmt::format("{} {} or 1 / {} is beyond f32, which wants {:.3g} to {:.3g}", name, value, value, kLeast,
                               kMost),
                   fmt::format("--{} 1024", name)});
  if (o.min > o.initial)
    p.push_back({fmt::format("min-loss-scale {} is above initial-loss-scale {}", o.min, o.initial),
                 "a smaller --min-loss-scale"});
}

std::string save_local_problem(const TrainingOptions& o) {
  if (o.save_local.empty()) return "";
  if (o.save.empty()) return "save-local without save";
  std::error_code ec;
  const auto local = std::filesystem::weakly_canonical(o.save_local, ec), save = std::filesystem::weakly_canonical(o.save, ec);
  const auto inside = [](const auto& a, const auto& b) { return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end(); };
  return inside(local, save) || inside(save, local) ? "save-local and save lie in each other" : "";
}

// Acts that only take time train nothing, so there is nothing to load, save or score.
void check_emulation(const TrainingOptions& o, std::vector<Problem>& p) {
  if (!o.emulated_ms) return;
  const struct { bool given; const char* flag; const char* why; const char* near; } clashes[] = {
      {!o.save.empty(), "save", "nothing is trained", "no --save"},
      {!o.load.empty(), "load", "nothing is trained", "no --load"},
      {o.eval_interval > 0, "eval-interval", "there is no model to score", "no --eval-interval"},
      {o.deferred_stream, "deferred-stream", "acts are waits of the host", "no --deferred-stream"},
      {o.parallel.tp > 1, "tensor-model-parallel-size above 1", "its messages lie inside the acts",
       "--tensor-model-parallel-size 1"}};
  for (const auto& c : clashes)
    if (c.given) p.push_back({fmt::format("emulate-compute with {}: {}", c.flag, c.why), c.near});
}

// Options that are each fine alone.
std::vector<Problem> run_problems(const TrainingOptions& o) {
  std::vector<Problem> p;
  const auto add = [&](std::string what, std::string near) { p.push_back({std::move(what), std::move(near)}); };
  check_loss_scale(o.loss_scale, p);
  if (o.grad_reduce_in_bf16 && !o.bf16) add("grad-reduce-in-bf16 without bf16", "--bf16");
  if (o.grad_reduce_in_bf16 && o.accumulate_allreduce_grads_in_fp32)
    add("grad-reduce-in-bf16 and accumulate-allreduce-grads-in-fp32 exclude each other", "one of them");
  if (o.loss_scale.fixed && !o.fp16 && !o.bf16) add("loss-scale without fp16 or bf16", "--fp16, or no --loss-scale");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"min-lr", o.lr.min_lr}, {"lr-warmup-init", o.lr.warmup_init},
           {"weight-decay", o.lr.weight_decay}, {"init-method-std", o.model.init_method_std},
           {"eval-interval", static_cast<double>(o.eval_interval)}, {"eval-iters", static_cast<double>(o.eval_iters)},
           {"exit-interval", static_cast<double>(o.exit_interval)}, {"exit-duration-in-mins", o.exit_duration_min},
           {"log-interval", static_cast<double>(o.log_interval)},
           {"lr-warmup-iters", static_cast<double>(o.lr.warmup_iters)},
           {"non-finite-limit", static_cast<double>(o.non_finite_limit)}})
    if (!std::isfinite(value) || value < 0)
      add(fmt::format("{} {} is not a number of 0 or more", name, value), fmt::format("--{} 0", name));
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"adam-eps", o.optimizer.adam.eps}, {"norm-epsilon", o.model.norm_epsilon}, {"rotary-base", o.model.rotary_base},
           {"rope-scaling-factor", o.model.rope_scaling_factor}, {"rotary-percent", o.model.rotary_percent}})
    if (!std::isfinite(value) || value <= 0)
      add(fmt::format("{} {} is not a number above 0", name, value), fmt::format("--{} 1", name));
  if (o.model.rotary_percent > 1)
    add(fmt::format("rotary-percent {} is more than a whole head", o.model.rotary_percent), "--rotary-percent 1");
  if (o.model.swiglu && o.model.squared_relu) add("swiglu and squared-relu exclude each other", "one of them");
  if (o.data.mock_data && !o.data.data_path.empty()) add("mock-data and data-path exclude each other", "one of them");
  for (auto& more : set_problems(o)) p.push_back(std::move(more));
  check_samples(o.data, p);
  check_emulation(o, p);
  for (const auto& [name, file, near] : std::initializer_list<std::tuple<const char*, const std::string&, const char*>>{
           {"metrics-file", o.metrics_file, "--json, which prints the events"},
           {"trace", o.trace, "a file name"},
           {"registry", o.registry, "--registry none"}})
    if (file == "-") add(fmt::format("{} -: it is written to a file and read again, standard output is none", name), near);
  if (o.load_if_present && o.load.empty()) add("load-if-present without load", "--load DIR");
  if (o.threads < 0 || o.threads > 1024) add(fmt::format("threads {} is not in 0 to 1024", o.threads), "--threads 0");
  if (!std::isfinite(o.lr.lr)) add(fmt::format("lr {} is not a number of 0 or more", o.lr.lr), "--lr 1e-4");
  if (o.lr.lr < 0 && o.train_iters > 0) add("lr is not given", "--lr 1e-4");
  if (o.lr.min_lr > o.lr.lr && o.lr.lr >= 0) add(fmt::format("min-lr {} is above lr {}", o.lr.min_lr, o.lr.lr), "a smaller --min-lr");
  if (o.lr.warmup_init > o.lr.lr && o.lr.lr >= 0)
    add(fmt::format("lr-warmup-init {} is above lr {}", o.lr.warmup_init, o.lr.lr), "a smaller --lr-warmup-init");
  if (!o.save.empty() && o.save_interval < 0) add("save-interval is negative", "--save-interval 100");
  if (o.async_save && o.save.empty()) add("async-save without save", "--save DIR");
  if (const auto problem = save_local_problem(o); !problem.empty()) add(problem, "--save-local DIR, a fast directory beside --save");
  if (o.save_retain_interval != 0 && o.save_interval <= 0)
    add(fmt::format("save-retain-interval {} without save-interval", o.save_retain_interval),
        fmt::format("--save-interval {}", o.save_retain_interval));
  else if (o.save_retain_interval != 0 && (o.save_retain_interval < 0 || o.save_retain_interval % o.save_interval != 0))
    add(fmt::format("save-retain-interval {} is not a multiple of save-interval {}", o.save_retain_interval,
                    o.save_interval),
        fmt::format("--save-retain-interval {}",
                    std::max<std::int64_t>(1, o.save_retain_interval / o.save_interval) * o.save_interval));
  if (o.lr.warmup_fraction < 0 || o.lr.warmup_fraction >= 1)
    add(fmt::format("lr-warmup-fraction {} is not in [0, 1)", o.lr.warmup_fraction), "--lr-warmup-fraction 0.01");
  if (o.optimizer.adam.beta1 < 0 || o.optimizer.adam.beta1 >= 1 || o.optimizer.adam.beta2 < 0 || o.optimizer.adam.beta2 >= 1)
    add("adam betas must be in [0, 1)", "--adam-beta1 0.9 --adam-beta2 0.999");
  for (double d : {o.model.attention_dropout, o.model.hidden_dropout})
    if (d < 0 || d >= 1) add(fmt::format("dropout {} is not in [0, 1)", d), "0.1");
  return p;
}

}  // namespace

namespace {

ModelSpec shape_of(const TrainingOptions& o) {
  if (!o.use_checkpoint_args) return build_model(o.model, vocab_size_of(o.data));
  if (o.load.empty())
    throw Error(Code::usage, "there is no checkpoint to take the model from", "--use-checkpoint-args", "--load DIR");
  if (nothing_to_load(o)) return build_model(o.model, vocab_size_of(o.data));
  const auto dir = resolve_load(o).dir;
  return model_from_json(json_field<Json>(read_manifest(dir).meta.specs, "model", dir.string()), dir.string());
}

}  // namespace

ModelSpec model_of(const TrainingOptions& o) {
  ModelSpec model = shape_of(o);
  use_fp8(model, fp8_spec_of(o));
  return model;
}

bool nothing_to_load(const TrainingOptions& o) {
  if (o.load.empty()) return true;
  if (!o.load_if_present) return false;
  return holds_no_checkpoint(o.load) && !newer_local(o);
}

namespace {

// What stands for the global batch size where the batch changes by steps: memory and validation are of the largest.
std::optional<int> largest_step_batch(const TrainingOptions& o) {
  const auto steps = BatchSchedule::read_steps(o.step_batch_sizes, std::max(1, o.batch.seq_length));
  if (!steps.problem.empty()) return std::nullopt;
  return steps.largest();
}

}  // namespace

TrainingOptions complete_options(TrainingOptions o, int world, Purpose purpose) {
  data::read_path_files(o.data);
  auto& p = o.parallel;
  if (p.sequence_parallel && p.tp == 1) {
    o.notices.push_back("--sequence-parallel without tensor parallelism does nothing and is off");
    p.sequence_parallel = false;
  }
  const int model_ranks = static_cast<int>(std::min(1e9, 1.0 * std::max(1, p.tp) * std::max(1, p.cp) * std::max(1, p.pp)));
  if (o.data_parallel_size) p.dp = *o.data_parallel_size;
  else if (world > 0) p.dp = std::max(1, world / model_ranks);
  if (!o.global_batch_given) o.batch.global_batch = largest_step_batch(o).value_or(o.batch.micro_batch * p.dp);
  const DataOptions& d = o.data;
  o.batch.parts = d.sft || d.reset_position_ids || d.reset_attention_mask || d.inter_document_masking;
  const ModelSpec model = model_of(o);
  auto problems = o.flag_problems;
  const std::size_t before_split = problems.size();
  for (auto& more : split_stages(o.split, model.num_layers(), p)) problems.push_back(std::move(more));
  p.zero_stage = zero_stage_of(o);
  choose_schedule(o);
  check_names(o);
  o.gemm_mode.tf32 = o.cuda_f32_precision == "tf32";
  if (o.deterministic) o.gemm_mode.candidates = 1;
  o.attention_mode = {o.attention_backend == "auto"    ? ops::AttentionKernels::fastest
                      : o.attention_backend == "fused" ? ops::AttentionKernels::cudnn
                                                       : ops::AttentionKernels::ours,
                      o.deterministic};
  if (o.attention_backend == "unfused" || o.attention_backend == "local")
    o.notices.push_back(fmt::format("--attention-backend {}: scores are never stored whole; it is as flash", o.attention_backend));
  Limits limits;
  limits.world = world;
  limits.max_pp = kMostPipelineRanks;
  if (purpose == Purpose::rehearse) limits.max_cp = limits.max_ep = limits.max_etp = limits.max_experts = INT_MAX;
  limits.max_zero_stage = 3;
  // A wrong split is told once, not again as layers that do not divide.
  if (const bool split_is_wrong = problems.size() > before_split; split_is_wrong)
    p.stage_layers = nearly_even_split(model.num_layers(), std::max(1, p.pp) * std::max(1, p.vpp));
  for (auto& more : validate(model, p, o.batch, limits, int{o.bf16} + int{o.fp16})) problems.push_back(std::move(more));
  complete_run_length(o, problems);
  if (o.check_for_nan) o.non_finite_limit = 1;
  for (auto& more : run_problems(o)) problems.push_back(std::move(more));
  p.recompute = recompute_spec_of(o, problems);
  complete_host_layers(o, problems);
  complete_graphs(o, problems);
  complete_tp_overlap(o, problems);
  add_fp8_problems(o, model, problems);
  complete_optimizer(o, problems);
  // As Megatron asks; weights that arrive late need a step whose gradients are under way too.
  if (o.overlap.param_gather && p.zero_stage == 0)
    problems.push_back({"overlap-param-gather without sharded weights to gather", "--use-distributed-optimizer"});
  if (o.overlap.param_gather && !o.overlap.grad_reduce)
    problems.push_back({"overlap-param-gather without overlap-grad-reduce", "--overlap-grad-reduce"});
  require_valid(problems);
  check_schedule(o);
  check_ramp(o);
  return o;
}

}  // namespace mt
