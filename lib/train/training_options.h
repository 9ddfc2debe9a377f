#pragma once
// Everything a training run is told, as values with Megatron's names; cmd/options fills it from flags.
//
// Tests: through tests/train/.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "data/run_sets.h"
#include "data/sample_options.h"
#include "tokenizer/tokenizer.h"
#include "layout/model_spec.h"
#include "layout/pipeline_split.h"
#include "nn/tp_overlap.h"
#include "ops/attention_mode.h"
#include "ops/gemm.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "schedule/durations.h"
#include "train/timer_options.h"

namespace mt {

using data::BatchSchedule;

struct DataOptions : data::SetOptions {
  bool mock_data = false;
  std::string mock_data_style = "runs";  // or "megatron"
  std::optional<std::int64_t> vocab_size;  // else the tokenizer's, else what the token file's sidecar says
  tokenizer::TokenizerSpec tokenizer;
  bool tokenizer_given = false;
  bool eod_mask_loss = false, reset_position_ids = false, reset_attention_mask = false;
  bool inter_document_masking = false;
  bool fim_data = false;  // samples are changed to fill-in-middle
  data::FimOptions fim;
  bool sft = false;  // paths are chat JSON lines, not token files
  data::SftOptions sft_options;
};

struct LrOptions {
  double lr = -1, min_lr = 0, warmup_init = 0;
  std::string decay_style = "linear", wsd_decay_style = "exponential";
  std::optional<std::int64_t> decay_iters, wsd_decay_iters;
  std::int64_t warmup_iters = 0;
  std::optional<std::int64_t> decay_samples, wsd_decay_samples;  // with train_samples, instead of the three above
  std::int64_t warmup_samples = 0;
  double warmup_fraction = 0;  // of the decay length; 0: the warm-up above counts
  double weight_decay = 0.01;
  std::optional<double> start_weight_decay, end_weight_decay;
  std::string weight_decay_incr_style = "constant";
  bool override_scheduler = false;        // on resume: these options count, not the checkpoint's
  bool use_checkpoint_scheduler = false;  // on resume: the checkpoint's count
};

struct OptimizerNames {
  std::string rule = "adam";
  bool precision_aware = false;
  std::string main_grads_dtype = "fp32", main_params_dtype = "fp32", exp_avg_dtype = "fp32", exp_avg_sq_dtype = "fp32";
  bool cpu_offload = false, pin_cpu_grads = true, pin_cpu_params = true;
  double offload_fraction = 1;
  std::string muon_tp_mode = "duplicated", muon_scale_mode = "spectral", muon_coefficient_type = "quintic";
};

struct Fp8Options {
  std::string format, recipe = "delayed", amax_compute_algo = "most_recent";  // format empty: no fp8
  int margin = 0, amax_history_len = 1;
  bool weight_gradients = true;
  bool first_last_layers_bf16 = false;
  int num_layers_at_start_in_bf16 = 1, num_layers_at_end_in_bf16 = 1;
};

struct RecomputeOptions {
  std::string granularity, method;
  std::optional<int> num_layers;
  std::vector<std::string> modules;  // empty: core_attn
  bool activations = false;          // the old spelling of selective
  bool distribute_saved = false;
};

struct TrainingOptions {
  ModelOptions model;
  ParallelSpec parallel;
  bool tp_pp_dp_mapping = false;  // the order tp-cp-ep-pp-dp
  PipelineSplit split;  // fills vpp and stage_layers of `parallel`
  BatchSpec batch;
  std::optional<int> data_parallel_size;  // what dp should come to; else it follows from the ranks
  std::optional<int> micro_batch_group;   // of the interleaved schedule; default pp
  std::vector<Problem> flag_problems;     // flags that are refused, listed with all other problems
  bool global_batch_given = false;  // else micro_batch · dp, as Megatron
  DataOptions data;
  LrOptions lr;
  OptimizerNames optimizer_names;  // fill `optimizer`
  OptimizerOptions optimizer;
  RecomputeOptions recompute;
  int host_layers = 0;  // of each stage: saved tensors of so many layers lie in host memory beside an accelerator
  std::string cuda_graph_impl = "none";
  int cuda_graph_warmup_steps = 3;
  int graph_warmup = 0;  // what they come to: how often an act runs before it is a graph; 0: never
  bool bf16 = false, fp16 = false;
  bool grad_reduce_in_bf16 = false;                // gradients in bf16
  bool accumulate_allreduce_grads_in_fp32 = false;  // that they are in f32: the default
  LossScaleOptions loss_scale;
  Fp8Options fp8;
  std::uint64_t seed = 1234;

  std::int64_t train_iters = -1;               // required, or:
  std::optional<std::int64_t> train_samples;  // complete_options makes train_iters of it
  std::vector<std::int64_t> rampup_batch_size;  // start, increment, samples; empty: one size throughout
  std::vector<std::string> step_batch_sizes;    // TOKENS:SAMPLES …, instead of global_batch; empty: none
  BatchSchedule batch_schedule;                 // made by complete_options
  std::vector<std::int64_t> iterations_to_skip;  // their samples are read over, nothing is trained
  bool mean_of_means_loss = false;  // the mean over micro-batches of each one's mean over tokens
  bool check_for_nan = false;       // the first non-finite step ends the run
  bool check_for_spiky_loss = false;
  std::int64_t eval_iters = 100, eval_interval = 0;
  bool full_validation = false, multiple_validation_sets = false;
  std::vector<std::string> validation_set_names;
  std::int64_t log_interval = 100;
  bool json_lines = false;  // standard output carries run.jsonl's events, steps by log_interval, not Megatron's lines
  std::int64_t non_finite_limit = 10;  // steps skipped in a row before the run gives up
  double exit_duration_min = 0;        // leave after so many minutes; 0: never
  std::int64_t exit_interval = 0;      // leave at iterations that are multiples of it; 0: never

  std::string save, load;
  std::string save_local;  // saves go there first and are copied to `save` beside training; empty: straight to `save`
  std::int64_t save_interval = 0, save_retain_interval = 0;
  bool async_save = false;
  std::string ckpt_codec = "none";  // a name of ckpt/store.h
  std::optional<std::int64_t> ckpt_step;
  bool load_if_present = false, use_checkpoint_args = false;
  bool finetune = false, no_load_optim = false;

  bool use_distributed_optimizer = false, use_megatron_fsdp = false;
  std::string sharding_strategy;  // no_shard, optim, optim_grads, optim_grads_params; empty: by the two above
  Overlap overlap;
  bool tp_comm_overlap = false;
  TpOverlap tp_overlap = {.gather = true, .sum = true, .bulk_dgrad = true, .bulk_wgrad = true};  // completed: of the run
  std::string schedule;  // empty: 1f1b, interleaved with virtual stages
  std::string device = "cpu";
  std::string cuda_f32_precision = "f32";
  ops::GemmMode gemm_mode;  // completed by cuda_f32_precision and deterministic
  bool deterministic = false;
  std::string attention_backend = "auto";
  ops::AttentionMode attention_mode;  // by it and deterministic
  std::string distributed_backend;  // comm/device_world.h
  int threads = 0;               // per rank; 0: cores / ranks of this host
  std::string emulate_compute;           // as given, and what it says: acts are waits, nothing is trained
  std::optional<Durations> emulated_ms;
  bool deferred_stream = false;  // debug: queued work runs as late as its events allow
  std::string metrics_file, registry = "mt-runs.db";
  TimerOptions timers;
  std::string trace;            // a timeline of all ranks; empty: none
  std::string tensorboard_dir;  // empty: none
  std::int64_t tensorboard_log_interval = 1;
  Json resolved;  // every flag, for the record

  StateSpec state() const {
    StateSpec s = optimizer.state(compute());
    if (grad_reduce_in_bf16) s.grads = DType::bf16;
    return s;
  }
  DType compute() const { return bf16 ? DType::bf16 : fp16 ? DType::f16 : DType::f32; }
  std::vector<std::string> notices;  // from complete_options: what the person should know; rank 0 warns of them
};

}  // namespace mt
