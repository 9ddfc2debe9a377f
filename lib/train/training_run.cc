#include "train/training_run.h"

#include <filesystem>

#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "comm/graph_operations.h"
#include "comm/world.h"
#include "ckpt/reader.h"
#include "engine/checkpoint.h"
#include "layout/flops.h"
#include "ops/attention_mode.h"
#include "ops/fp8.h"
#include "probe/gemm_peak.h"
#include "registry/event_log.h"
#include "train/pipeline_schedule.h"
#include "train/rank_memory.h"
#include "train/remembered_data.h"
#include "train/resume.h"
#include "train/save.h"
#include "train/trace_file.h"

namespace mt {

void require_same_options(const TrainingOptions& o, Communicator& world) {
  Stream stream{Device{}};
  const auto digest = static_cast<std::int64_t>(xxh3(json_line(o.resolved) + parallel_text(o.parallel)) >> 2);
  std::int64_t bounds[2] = {digest, -digest};
  world.all_reduce(stream, View(bounds, DType::i64, {2}), Reduce::max).wait_host();
  if (bounds[0] != -bounds[1])
    throw Error(Code::comm, "ranks were started with different options", "",
                "start all ranks with the same command line");
}

namespace {

std::string size_text(std::uint64_t bytes) {
  const bool large = bytes >= std::uint64_t{1} << 30;
  return fmt::format("{:.2f} {}", static_cast<double>(bytes) / (large ? 1 << 30 : 1 << 20), large ? "GiB" : "MiB");
}

// What the plan says this rank needs, against all the memory there is.
void require_memory(const TrainingRun& run, const Coordinate& at, const MemoryPlan& plan) {
  const auto& o = run.options;
  const bool on_host = run.device.kind == DeviceKind::cpu;
  const auto snapshot =
      o.async_save ? static_cast<std::uint64_t>(bytes_to_write(run.model, o.parallel, at, o.state())) : 0;
  const auto wanted = static_cast<std::uint64_t>(plan.total()) + (on_host ? snapshot : 0);
  const auto host = static_cast<std::uint64_t>(plan.host_bytes) + (on_host ? 0 : snapshot);
  if (const std::uint64_t there = memory_bytes({}); host > there)
    throw Error(Code::device, fmt::format("a rank needs {} of host memory, this machine has {}", size_text(host), size_text(there)),
                "", "a smaller --optimizer-offload-fraction, fewer --cpu-offloading-num-layers, or no --async-save");
  const std::uint64_t there = memory_bytes(run.device);
  if (wanted > there)
    throw Error(Code::device, fmt::format("a rank needs {}, {} has {}", size_text(wanted),
                                          on_host ? "this machine" : device_text(run.device), size_text(there)),
                "", "a smaller --micro-batch-size, or more ranks; --dry-run shows the bytes");
}

// That a trace cannot be written, or would overwrite something else, is said before anything is trained.
//   record  the file this run is about to make
void require_place(const std::string& file, const std::filesystem::path& record) {
  const auto parent = std::filesystem::path(file).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (::access(directory.c_str(), W_OK) != 0 || std::filesystem::is_directory(file))
    throw Error(Code::io, "cannot write the trace there", file, "name a file in a directory that is there");
  std::error_code ec;
  const auto same = [&](const std::filesystem::path& p) { return std::filesystem::weakly_canonical(p, ec); };
  if (std::filesystem::is_regular_file(file, ec) ? !may_hold_trace(file) : same(file) == same(record))
    throw Error(Code::config, "what is there is no trace, and one would overwrite it", file, "name another --trace");
}

// Which way messages go is known only when ranks have met.
void require_messages_for_graphs(const TrainingOptions& o, Communicator& world) {
  if (o.graph_warmup == 0 || o.parallel.tp == 1 || comm::graph_capture(world) != nullptr) return;
  throw Error(Code::config,
              "cuda-graph-impl local with tensor-model-parallel-size above 1: messages inside graphs go over NCCL alone, "
              "and here they go through the host",
              "", "start a rank a device, or use --cuda-graph-impl none");
}

// Whose kernels attention has; what was asked for and is not there is a warning.
void say_attention(const TrainingOptions& o, Device device) {
  std::string words = ops::attention_kernels(device, o.attention_mode.kernels);
  const bool is_cudnn = !words.starts_with("our own");
  if (is_cudnn && o.compute() == DType::f32) words = "our own (cuDNN's are for bf16 and fp16)";
  else if (is_cudnn && o.model.attention_dropout > 0) words = "our own (cuDNN's have no --attention-dropout of ours)";
  if (o.attention_backend == "fused" && words.starts_with("our own"))
    log::warn("--attention-backend fused: attention kernels are {} on {}", words, device_text(device));
  else
    log::info("attention: kernels are {} on {}", words, device_text(device));
}

}  // namespace

TrainingRun::TrainingRun(Communicator& job, TrainingOptions given, const TrainerHooks& looking)
    : world(job),
      options(std::move(given)),
      hooks(looking),
      device(device_of_rank(options.device, comm::local_rank(job))),
      stream(device, threads_per_rank(options.threads, job.size()),
             options.deferred_stream ? Stream::Mode::deferred : Stream::Mode::immediate),
      model(model_of(options)),
      lr(lr_schedule_of(options)),
      loss_scaler(options.loss_scale, options.fp16, device),
      fp8(model, device) {
  const auto& o = options;
  require_messages_for_graphs(o, world);
  if (speaks()) require_event_log(metrics_path(o));
  if (speaks() && model.fp8.on() && device.kind != DeviceKind::cpu && !o.emulated_ms)
    log::info("fp8: products of sizes that are multiples of 16 are {} on {}",
              ops::fp8_products(device, model.fp8.recipe == Fp8Spec::Recipe::blockwise), device_text(device));
  if (speaks() && device.kind != DeviceKind::cpu) say_attention(o, device);
  if (speaks() && !o.trace.empty()) require_place(o.trace, metrics_path(o));
  if (speaks())
    for (const auto& notice : o.notices) log::warn("{}", notice);
  const auto reader = find_checkpoint(*this);
  lock_saves(*this, reader.get());
  const Placement placement = place(o.parallel);
  const Coordinate here = placement.coordinates[static_cast<std::size_t>(world.rank())];
  auto specs = param_specs(model, o.parallel, here);
  if (hooks.on_specs) hooks.on_specs(specs);
  if (reader) {
    check_loadable(*reader, model, specs, what_to_load(o), o.state());
    const auto difference = require_same_model(o, model, *reader);
    if (!difference.empty() && speaks()) log::warn("{}", difference);
  }
  const int buffers = make_lanes(here.pp);
  const MemoryPlan plan = rank_memory(o, model, here, lane(o.batch.global_batch));
  if (!specs.empty()) require_memory(*this, here, plan);
  if (o.train_iters > 0) data = open_data(o, model.vocab_size);
  if (speaks() && (reader || !o.save.empty())) training_files = remembered_data(data);
  if (speaks())
    for (const auto& notice : data.notices) log::warn("{}", notice);
  if (const auto members = data.members(); members && !o.emulated_ms)
    source_losses.emplace(members->count, members->of, o.batch.seq_length);
  groups = make_groups(world, placement, kv_heads_of(model));
  stream.set_poll([this] { world.progress(); });
  // Before the run's own buffers, so that its matrices are not beside them.
  if (o.train_iters > 0 && !o.emulated_ms && has_speed(device))
    peak_flop_per_s = gemm_peak_flop_per_s(stream, compute(), device.kind == DeviceKind::cpu ? 1024 : 8192);
  build(specs, plan, buffers);
  phase("initialize");
  optimizer->initialize(stream, groups, o.seed);
  if (reader) load_checkpoint(*this, *reader);
  prepare_saves(*this, reader.get());
  step_flop = step_flops(model, o.parallel, o.batch);
  if (speaks()) report = std::make_unique<RunReporter>(o, "mt-train", reader != nullptr && !o.finetune);
}

const Lane& TrainingRun::lane(int global_batch) const {
  BatchSpec batch = options.batch;
  batch.global_batch = global_batch;
  return lanes.at(batch.num_micro_batches(options.parallel));
}

int TrainingRun::make_lanes(int pp_rank) {
  int buffers = 0;
  for (int size : options.batch_schedule.sizes()) {
    TrainingOptions o = options;
    o.batch.global_batch = size;
    RankWork work = work_of(o, pp_rank);
    lanes[o.batch.num_micro_batches(o.parallel)] = std::move(work.lane);
    buffers = std::max(buffers, work.gradient_buffers);
  }
  return buffers;
}

// Parameters, optimizer state, sub-layers, and the executor with its arenas.
void TrainingRun::build(const std::vector<ParamSpec>& specs, const MemoryPlan& plan, int buffers) {
  const auto& o = options;
  store = std::make_unique<ParameterStore>(
      specs, compute(), device,
      o.grad_reduce_in_bf16 ? ParameterStore::Gradients::bf16 : ParameterStore::Gradients::present,
      shard_spec(o.parallel, groups.coordinate));
  store->set_overlap(o.overlap);
  optimizer = std::make_unique<Optimizer>(*store, o.optimizer, device);
  std::vector<const Model*> models;
  for (int c = 0; c < o.parallel.vpp; ++c) {
    chunks.push_back(std::make_unique<Model>(model, o.batch, groups, *store, c, device));
    models.push_back(chunks.back().get());
  }
  executor = std::make_unique<Executor>(
      ExecutorParts{stream, groups, *store, o.seed, plan.arenas, static_cast<std::size_t>(plan.scratch_bytes),
                    buffers, loss_scaler.on_device(), model.fp8.on() ? &fp8 : nullptr, o.gemm_mode, o.attention_mode,
                    o.emulated_ms ? &*o.emulated_ms : nullptr, o.host_layers, o.graph_warmup, o.tp_overlap},
      models, o.batch, device);
}

}  // namespace mt
