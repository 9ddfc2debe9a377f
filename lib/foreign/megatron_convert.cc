#include "foreign/megatron_convert.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/soundness.h"
#include "foreign/megatron_args.h"
#include "foreign/megatron_files.h"
#include "foreign/torch_dist.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

// Starts of names in a torch_dist checkpoint that are not the model's.
constexpr std::array<std::string_view, 5> kOtherState = {"optimizer.", "chained_", "rng_state", "rerun_state", "opt_param_scheduler"};

bool is_other_state(const std::string& name) {
  return std::any_of(kOtherState.begin(), kOtherState.end(), [&](std::string_view s) { return name.starts_with(s); });
}

std::int64_t whole(const Json& j, const char* key, std::int64_t otherwise) {
  return j.is_object() && j.contains(key) && j[key].is_number_integer() ? j[key].get<std::int64_t>() : otherwise;
}

// Args and iteration of a torch_dist checkpoint: in common.pt, or in an object of the store.
struct Common {
  Json args = Json::object();
  std::int64_t iteration = 0;
};
Common common_of(const fs::path& dir, const TorchDist& dist) {
  Common c;
  std::error_code ec;
  if (fs::exists(dir / "common.pt", ec)) {
    const TorchFile file(dir / "common.pt");
    if (const auto a = file.root().find("args"); a && a->state()) c.args = plain_json(*a->state());
    if (const auto i = file.root().find("iteration"); i && i->is(PickleKind::integer)) c.iteration = i->integer();
    return c;
  }
  for (const auto& [name, place] : dist.objects())
    if (name.starts_with("common_state")) {
      dist.with_object(name, [&](const PickleValue& root) {
        if (const auto a = root.find("args"); a && a->state()) c.args = plain_json(*a->state());
        if (const auto i = root.find("iteration"); i && i->is(PickleKind::integer)) c.iteration = i->integer();
      });
      return c;
    }
  return c;
}

void require_complete(const fs::path& dir) {
  const Json j = read_json(dir / "metadata.json");
  const auto backend = json_field<std::string>(j, "sharded_backend", (dir / "metadata.json").string());
  if (backend != "torch_dist")
    throw Error(Code::config, "its tensors are stored as " + backend + ", which is not read, only torch_dist", (dir / "metadata.json").string());
}

NativeImport begun_import(const fs::path& dir, const MegatronImport& what, const ModelSpec& model, const Json& args) {
  NativeImport in;
  in.root = what.root;
  in.version = what.version;
  in.from = dir.string();
  in.model = model;
  in.iteration = megatron_iteration(dir);
  in.consumed_samples = std::max<std::int64_t>(0, whole(args, "consumed_train_samples", 0));
  in.specs["megatron"] = {{"args", args}};
  return in;
}

Converted import_legacy(const fs::path& dir, const MegatronImport& what, const BytesDone& progress) {
  const MegatronFiles files(dir);
  const MegatronModel model = model_of_megatron(files.args(), what.vocab_size, dir.string());
  NativeImport in = begun_import(dir, what, model.spec, files.args());
  files.fill(model.spec, in);
  Converted out = import_tensors(files.tensors(), in, progress);
  out.notices = model.notices;
  if (files.has_optimizer()) out.notices.push_back("optimizer state is left behind: train on with --no-load-optim, or convert a torch_dist checkpoint");
  return out;
}

Converted import_dist(const fs::path& dir, const MegatronImport& what, const BytesDone& progress) {
  require_complete(dir);
  const TorchDist dist(dir);
  const Common common = common_of(dir, dist);
  if (common.args.empty()) throw Error(Code::config, "holds no args, so what model it is cannot be known", dir.string());
  MegatronModel model = model_of_megatron(common.args, what.vocab_size, dir.string());
  NativeImport in = begun_import(dir, what, model.spec, common.args);
  SourceTensors sources;
  std::size_t left_behind = 0;
  bool stacked = false;
  std::int64_t rows = model.padded_vocab;
  for (auto& [name, t] : dist.sources()) {
    if (is_other_state(name)) {
      ++left_behind;
      continue;
    }
    if (name.ends_with("_extra_state") || name.ends_with(".inv_freq")) continue;
    constexpr std::string_view kLayers = "decoder.layers.";
    stacked |= name.starts_with(kLayers) && name.size() > kLayers.size() && (name[kLayers.size()] < '0' || name[kLayers.size()] > '9');
    // A table may have been padded for more ranks than the args say.
    if (name == "embedding.word_embeddings.weight" && t.shape.size() == 2) rows = std::max(t.shape[0], model.spec.vocab_size);
    if (!sources.emplace(megatron_dist_name(name), std::move(t)).second) throw Error(Code::corrupt, name + " is there under two names", dir.string());
  }
  in.map = megatron_dist_tensors(model.spec, rows, stacked, dir.string());
  if (const auto head = sources.find("output_layer.weight"); model.spec.tied && head != sources.end())
    in.copies.push_back({head->first, "embedding.word_embeddings.weight", mt::whole(head->second.shape), mt::whole(head->second.shape)});
  Converted out = import_tensors(sources, in, progress);
  out.notices = model.notices;
  if (left_behind > 0) out.notices.push_back(fmt::format("{} tensors of optimizer and random state are left behind: train on with --no-load-optim", left_behind));
  return out;
}

}  // namespace

std::int64_t megatron_iteration(const fs::path& dir) {
  const auto name = fs::weakly_canonical(dir).filename().string();
  return iteration_of(name).value_or(0);
}

MegatronSummary megatron_summary(const fs::path& from, std::optional<std::int64_t> iteration) {
  MegatronSummary s;
  s.dir = megatron_directory(from, iteration);
  if (detect_format(s.dir) == CheckpointFormat::megatron_torch) {
    const MegatronFiles files(s.dir);
    s.format = "megatron";
    s.iteration = files.iteration();
    s.args = files.args();
    s.layout = {{"tensor_model_parallel_size", files.cut().tp}, {"pipeline_model_parallel_size", files.cut().pp},
                {"virtual_pipeline_model_parallel_size", files.chunks()}, {"expert_model_parallel_size", files.cut().ep},
                {"checkpoint_version", files.version()}, {"files", files.num_files()}, {"optimizer", files.has_optimizer()}};
    s.tensors = files.tensors();
  } else {
    require_complete(s.dir);
    const TorchDist dist(s.dir);
    const Common common = common_of(s.dir, dist);
    s.format = "megatron-dist";
    s.iteration = common.iteration;
    s.args = common.args;
    s.tensors = dist.sources();
    s.layout = {{"objects", dist.objects().size()},
                {"optimizer", std::any_of(s.tensors.begin(), s.tensors.end(), [](const auto& t) { return is_other_state(t.first); })}};
  }
  for (auto& [name, t] : s.tensors) t.read = nullptr;
  s.consumed_samples = whole(s.args, "consumed_train_samples", 0);
  return s;
}

Converted import_megatron(const MegatronImport& what, const BytesDone& progress) {
  const auto dir = megatron_directory(what.from, what.iteration);
  return detect_format(dir) == CheckpointFormat::megatron_torch ? import_legacy(dir, what, progress) : import_dist(dir, what, progress);
}

}  // namespace mt
