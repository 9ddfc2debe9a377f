#include "train/resume.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/iterations.h"
#include "ckpt/verify.h"
#include "engine/save_agreement.h"
#include "train/remembered_data.h"
#include "train/remembered_options.h"
#include "train/save.h"
#include "train/trainer.h"

namespace mt {

std::optional<Resolved> newer_local(const TrainingOptions& o, std::string* passed_over) {
  std::error_code ec;
  const auto same = [&](const std::string& a, const std::string& b) {
    return std::filesystem::weakly_canonical(a, ec) == std::filesystem::weakly_canonical(b, ec);
  };
  if (o.save_local.empty() || o.load.empty() || o.ckpt_step || !same(o.load, o.save)) return std::nullopt;
  std::optional<Resolved> local;
  try {
    if (!holds_no_checkpoint(o.save_local)) local = resolve(o.save_local);
  } catch (const Error& e) {  // what is durable counts
    if (passed_over) *passed_over = fmt::format("passed over {}: {}", o.save_local, e.what());
  }
  if (!local || holds_no_checkpoint(o.load)) return local;
  if (resolve(o.load).iteration >= local->iteration) return std::nullopt;
  return local;
}

Resolved resolve_load(const TrainingOptions& o) {
  std::string passed_over;
  try {
    if (auto local = newer_local(o, &passed_over)) return std::move(*local);
    Resolved named = resolve(o.load, o.ckpt_step);
    if (!passed_over.empty()) named.ignored.push_back(std::move(passed_over));
    return named;
  } catch (const Error& e) {
    if (o.load_if_present || !holds_no_checkpoint(o.load)) throw;
    throw Error(e.code(), e.message(), e.where(), "on a first start --load-if-present begins without one");
  }
}

namespace {

// A save that was not yet durable has been read by nobody: where its bytes are wrong, what is durable is taken instead.
Resolved resolve_sound(TrainingRun& run) {
  const auto& o = run.options;
  Resolved r = resolve_load(o);
  if (o.save_local.empty()) return r;
  std::string problem;
  std::error_code ec;
  if (run.speaks() && std::filesystem::equivalent(r.dir.parent_path(), o.save_local, ec)) {
    const VerifyReport report = verify_checkpoint(r.dir);
    for (const auto* found : {&report.problems, &report.unreadable})
      if (problem.empty() && !found->empty()) problem = found->front();
  }
  if (!any_rank(run.stream, run.world, !problem.empty()) || holds_no_checkpoint(o.load)) return r;
  Resolved durable = resolve(o.load);
  durable.ignored.push_back(fmt::format("passed over {}: {}", r.dir.string(), problem));
  return durable;
}

}  // namespace

std::unique_ptr<Reader> find_checkpoint(TrainingRun& run) {
  const auto& o = run.options;
  if (o.load.empty()) return nullptr;
  std::int64_t found = -1;
  std::unique_ptr<Reader> reader;
  if (!nothing_to_load(o)) {
    const Resolved r = resolve_sound(run);
    if (run.speaks())
      for (const auto& line : r.ignored) log::warn("{}", line);
    found = r.iteration;
    reader = std::make_unique<Reader>(r.dir);
  }
  std::int64_t bounds[2] = {found, -found};
  run.world.all_reduce(run.stream, View(bounds, DType::i64, {2}), Reduce::max).wait_host();
  if (bounds[0] != -bounds[1])
    throw Error(Code::config, fmt::format("ranks see different checkpoints: iterations {} to {}", -bounds[1], bounds[0]),
                o.load, "is the directory on a shared file system?");
  if (found < 0 && run.speaks()) {
    log::info("no checkpoint in {} yet: starting fresh", o.load);
    if (std::filesystem::is_directory(o.load))
      for (const auto& i : list_iterations(o.load)) log::warn("ignored {}: {}", i.dir.string(), i.problem);
  }
  return reader;
}

LoadWhat what_to_load(const TrainingOptions& o) {
  return o.finetune || o.no_load_optim ? LoadWhat::weights : LoadWhat::everything;
}

std::string require_same_model(const TrainingOptions& o, const ModelSpec& model, const Reader& reader) {
  const std::string where = reader.dir().string();
  const Json& specs = reader.manifest().meta.specs;
  if (!specs.contains("model")) return "";
  const auto d = model_difference(model_from_json(specs["model"], where), model);
  if (d.empty()) return "";
  if (!o.finetune)
    throw Error(Code::config, "the checkpoint's model is another one, " + d, where,
                "repeat the run's model flags, or --use-checkpoint-args, or --finetune to change them on purpose");
  return fmt::format("the checkpoint's model computes otherwise, {}; --use-checkpoint-args takes its shape", d);
}

namespace {

// The flags behind a number of the schedule. Lengths are kept in samples, so another batch makes them others.
std::string said_by(const std::string& key) {
  static const std::pair<const char*, const char*> flags[] = {
      {"max_lr", "--lr"},
      {"min_lr", "--min-lr"},
      {"warmup_init", "--lr-warmup-init"},
      {"warmup_samples", "the warm-up (--lr-warmup-iters, -samples or -fraction; in samples)"},
      {"decay_samples", "the decay (--lr-decay-iters times --global-batch-size, or -samples; in samples)"},
      {"wsd_decay_samples", "WSD's decay (--lr-wsd-decay-iters times --global-batch-size, or -samples; in samples)"},
      {"style", "--lr-decay-style (its number)"},
      {"wsd_style", "--lr-wsd-decay-style (its number)"},
      {"start_weight_decay", "--start-weight-decay"},
      {"end_weight_decay", "--weight-decay or --end-weight-decay"},
      {"weight_decay_samples", "the weight decay's growth (--train-iters times --global-batch-size; in samples)"},
      {"weight_decay_style", "--weight-decay-incr-style (its number)"}};
  for (const auto& [name, flag] : flags)
    if (key == name) return flag;
  return key;
}

// `lr` is the options'; it becomes the checkpoint's where they ask for that.
void agree_on_schedule(const TrainingOptions& o, LrSchedule& lr, const Json& training) {
  const std::string where = "the checkpoint's training state";
  const LrSchedule stored = lr_schedule_from_json(json_field<Json>(training, "lr_schedule", where), where);
  if (o.lr.use_checkpoint_scheduler) {
    lr = stored;
    return;
  }
  if (o.lr.override_scheduler) return;
  const Json mine = to_json(lr), theirs = to_json(stored);
  const bool constant_decay = lr.start_weight_decay == lr.end_weight_decay;
  std::string clashes;
  for (const auto& [key, value] : mine.items())
    if (value != theirs[key] && !(constant_decay && key == "weight_decay_samples"))
      clashes += fmt::format("{}{} is {} here and {} in the checkpoint", clashes.empty() ? "" : "; ", said_by(key),
                             json_line(value), json_line(theirs[key]));
  if (!clashes.empty())
    throw Error(Code::config, clashes, o.load,
                "repeat the run's options, or say --override-opt-param-scheduler or "
                "--use-checkpoint-opt-param-scheduler");
}

template <class T>
T field_or(const Json& j, const char* key, T otherwise, const std::string& where) {
  return j.contains(key) ? json_field<T>(j, key, where) : otherwise;
}

const Json& state_of_run(const CheckpointMeta& meta, const std::string& where) {
  if (meta.training.empty())
    throw Error(Code::config, "the checkpoint holds weights and no state of a run", where, "--finetune starts a run from them");
  return meta.training;
}

// Where the saved run stood.
void take_position(TrainingRun& run, const CheckpointMeta& meta, const std::string& where) {
  const Json& t = state_of_run(meta, where);
  run.at.iteration = run.saved_iteration = meta.iteration;
  run.at.consumed_samples = meta.consumed_samples;
  run.at.consumed_valid_samples = json_field<std::int64_t>(t, "consumed_valid_samples", where);
  run.at.schedule_samples = json_field<std::int64_t>(t, "schedule_samples", where);
  run.at.skipped = json_field<std::int64_t>(t, "skipped_steps", where);
  run.at.skipped_samples = field_or<std::int64_t>(t, "skipped_samples", 0, where);
  run.at.largest_early_loss = field_or<double>(t, "largest_early_loss", 0, where);
  run.at.early_losses = field_or<std::int64_t>(t, "early_losses", 0, where);
  if (what_to_load(run.options) == LoadWhat::everything)
    run.optimizer->set_num_steps(json_field<std::int64_t>(t, "optimizer_steps", where));
  if (t.contains("loss_scaler")) run.loss_scaler.restore(run.stream, t["loss_scaler"], where);
  if (t.contains("fp8_amax")) run.fp8.restore(run.stream, t["fp8_amax"]);
  const auto seed = json_field<std::uint64_t>(t, "seed", where);
  if (seed != run.options.seed && run.speaks())
    log::warn("--seed {} is not the checkpoint's {}: data order and dropout change from here", run.options.seed, seed);
  if (run.speaks() && t.contains("options"))
    for (const auto& line : option_changes(t["options"], remembered_options(run.options))) log::warn("{}", line);
  if (run.speaks() && t.contains("data"))
    for (const auto& line : data_changes(t["data"], run.training_files))
      log::warn("{}: the samples consumed so far were others", line);
  agree_on_schedule(run.options, run.lr, t);
}

}  // namespace

void load_checkpoint(TrainingRun& run, const Reader& reader) {
  run.phase("load");
  const auto& meta = reader.manifest().meta;
  const std::string where = reader.dir().string();
  load_training(reader, run.stream, run.groups, *run.store, *run.optimizer, what_to_load(run.options));
  if (run.speaks()) log::info("loaded iteration {} from {}", meta.iteration, where);
  try {
    if (!run.options.finetune) take_position(run, meta, where);
  } catch (const Json::exception& e) {
    throw Error(Code::corrupt, std::string("the training state is not what it should be: ") + e.what(), where,
                "mt-ckpt info shows it");
  }
  if (!meta.tokenizer.empty() && !run.data.tokenizer_fingerprint.empty() &&
      meta.tokenizer != run.data.tokenizer_fingerprint)
    throw Error(Code::config, "the checkpoint was trained with another tokenizer than the data was encoded with", where,
                "encode the data with the checkpoint's tokenizer");
}

Json look_at_start(const TrainingOptions& o, const ModelSpec& model) {
  const auto said = [](bool checked, std::string words) { return Json{{"checked", checked}, {"words", std::move(words)}}; };
  const bool fresh = nothing_to_load(o);
  std::error_code ec;
  if (!fresh && !std::filesystem::exists(o.load, ec) && !newer_local(o))
    return said(false, fmt::format("not looked at: {} is not on this machine", o.load));
  std::optional<Reader> reader;
  std::string words;
  if (!fresh) {
    const Resolved from = resolve_load(o);
    reader.emplace(from.dir);
    for (const Coordinate& at : place(o.parallel).coordinates)
      if (at.tp == 0 && at.cp == 0 && at.dp == 0)
        check_loadable(*reader, model, param_specs(model, o.parallel, at), what_to_load(o), o.state());
    words = require_same_model(o, model, *reader);
    LrSchedule lr = lr_schedule_of(o);
    if (!o.finetune) agree_on_schedule(o, lr, state_of_run(reader->manifest().meta, from.dir.string()));
    for (const auto& line : from.ignored) words += (words.empty() ? "" : "; ") + line;
    words = fmt::format("loads {}{}{}", from.dir.string(), words.empty() ? "" : "; ", words);
  }
  look_at_saves(o, reader ? &*reader : nullptr);
  return said(true, fresh ? "starts fresh" : words);
}

}  // namespace mt
