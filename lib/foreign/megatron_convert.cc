#include "foreign/megatron_convert.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/soundness.h"
#include "foreign/megatron_args.h"
#include "foreign/megatron_files.h"
#include "foreign/megatron_optimizer.h"
#include "foreign/torch_dist.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

// Starts of names in a torch_dist checkpoint that are not the model's.
constexpr std::array<std::string_view, 5> kOtherState = {"optimizer.", "chained_", "rng_state", "rerun_state", "opt_param_scheduler"};

// The optimizer's, as tensors or within objects.
bool holds_state(const TorchDist& dist) {
  const auto any = [](const auto& named) {
    return std::any_of(named.begin(), named.end(), [](const auto& n) { return is_megatron_state(n.first); });
  };
  return any(dist.sources()) || any(dist.objects());
}

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

void begin(ForeignModel& out, const fs::path& dir, const MegatronModel& model, const Json& args) {
  NativeImport& in = out.what;
  in.from = dir.string();
  in.model = model.spec;
  in.iteration = megatron_iteration(dir);
  in.consumed_samples = std::max<std::int64_t>(0, whole(args, "consumed_train_samples", 0));
  in.specs["megatron"] = {{"args", args}};
  out.notices = model.notices;
}

ForeignModel open_legacy(const fs::path& dir, std::optional<std::int64_t> vocab_size, bool weights_only) {
  struct Files {
    MegatronFiles ranks;
    std::deque<TorchFile> more;
  };
  const auto all = std::make_shared<Files>(MegatronFiles(dir), std::deque<TorchFile>());
  const MegatronFiles* files = &all->ranks;
  const MegatronModel model = model_of_megatron(files->args(), vocab_size, dir.string());
  ForeignModel out;
  begin(out, dir, model, files->args());
  files->fill(model.spec, out.what);
  out.tensors = files->tensors();
  out.num_tensors = out.tensors.size();
  if (files->has_optimizer() && weights_only) out.notices.push_back("optimizer state is left behind: train on with --no-load-optim");
  else if (files->has_optimizer()) add_megatron_state(*files, all->more, out);
  out.files = all;
  return out;
}

// The file of what ranks share: common.pt, or an object of the store.
std::optional<TorchFile> common_file(const fs::path& dir, const TorchDist& dist) {
  std::error_code ec;
  if (fs::exists(dir / "common.pt", ec)) return std::optional<TorchFile>(std::in_place, dir / "common.pt");
  for (const auto& [name, place] : dist.objects())
    if (name.starts_with("common_state")) return dist.object(name);
  return std::nullopt;
}

ForeignModel open_dist(const fs::path& dir, std::optional<std::int64_t> vocab_size, bool weights_only) {
  require_complete(dir);
  struct Files {
    TorchDist dist;
    std::deque<TorchFile> more;
  };
  const auto all = std::make_shared<Files>(TorchDist(dir), std::deque<TorchFile>());
  const TorchDist* files = &all->dist;
  const Common common = common_of(dir, *files);
  if (common.args.empty()) throw Error(Code::config, "holds no args, so what model it is cannot be known", dir.string());
  const MegatronModel model = model_of_megatron(common.args, vocab_size, dir.string());
  ForeignModel out;
  begin(out, dir, model, common.args);
  bool stacked = false, state = false;
  std::int64_t rows = model.padded_vocab;
  for (auto& [name, t] : files->sources()) {
    state |= is_megatron_state(name);
    if (is_other_state(name)) continue;
    if (name.ends_with("_extra_state") || name.ends_with(".inv_freq")) continue;
    constexpr std::string_view kLayers = "decoder.layers.";
    stacked |= name.starts_with(kLayers) && name.size() > kLayers.size() && (name[kLayers.size()] < '0' || name[kLayers.size()] > '9');
    // A table may have been padded for more ranks than the args say.
    if (name == "embedding.word_embeddings.weight" && t.shape.size() == 2) rows = std::max(t.shape[0], model.spec.vocab_size);
    if (!out.tensors.emplace(megatron_dist_name(name), std::move(t)).second) throw Error(Code::corrupt, name + " is there under two names", dir.string());
  }
  out.what.map = megatron_dist_tensors(model.spec, rows, stacked, dir.string());
  if (const auto head = out.tensors.find("output_layer.weight"); model.spec.tied && head != out.tensors.end())
    out.what.copies.push_back({head->first, "embedding.word_embeddings.weight", mt::whole(head->second.shape), mt::whole(head->second.shape)});
  out.num_tensors = out.tensors.size();
  const auto& objects = files->objects();
  const auto there = [&](const char* start) { return std::any_of(objects.begin(), objects.end(), [&](const auto& o) { return o.first.starts_with(start); }); };
  state |= std::any_of(objects.begin(), objects.end(), [](const auto& o) { return is_megatron_state(o.first); });
  if (state && weights_only) {
    out.notices.push_back("optimizer state is left behind: train on with --no-load-optim");
  } else if (state) {
    auto shared = common_file(dir, *files);
    if (!shared) throw Error(Code::config, "optimizer state without what ranks share", dir.string(), kWithoutState);
    all->more.push_back(std::move(*shared));
    add_megatron_state(MegatronDistState{*files, all->more.front(), common.args, rows}, all->more, out);
  }
  for (const char* key : {"rng_state", "rerun_state_machine"})
    if (there(key)) out.notices.push_back(fmt::format("{} stays behind: random numbers are a function of the seed here", key));
  out.files = all;
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
                {"optimizer", holds_state(dist)}};
  }
  for (auto& [name, t] : s.tensors) t.read = nullptr;
  s.consumed_samples = whole(s.args, "consumed_train_samples", 0);
  return s;
}

ForeignModel open_megatron(const fs::path& from, std::optional<std::int64_t> iteration, std::optional<std::int64_t> vocab_size, bool weights_only) {
  const auto dir = megatron_directory(from, iteration);
  return detect_format(dir) == CheckpointFormat::megatron_torch ? open_legacy(dir, vocab_size, weights_only) : open_dist(dir, vocab_size, weights_only);
}

Converted import_megatron(const MegatronImport& what, const BytesDone& progress) {
  ForeignModel model = open_megatron(what.from, what.iteration, what.vocab_size, what.weights_only);
  const auto iteration = model.what.iteration;
  return import_model(std::move(model), {what.from, what.root, iteration, what.version}, progress);
}

}  // namespace mt
