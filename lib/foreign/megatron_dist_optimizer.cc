// What optimizers keep in torch_dist checkpoints.

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "foreign/megatron_optimizer.h"
#include "foreign/megatron_training.h"

namespace mt {

namespace {

constexpr std::string_view kState = "optimizer.state.", kDistributed = "optimizer.distributed.dp_group_idx_";

[[noreturn]] void not_read(const std::string& what, const std::string& where) { throw Error(Code::config, what, where, kWithoutState); }

// Without what chained optimizers put before: "chained_0.".
std::string_view unchained(std::string_view name) {
  constexpr std::string_view kChained = "chained_";
  if (!name.starts_with(kChained)) return name;
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// The number behind `word` in a name; -1 without.
int number_behind(std::string_view name, std::string_view word) {
  const auto at = name.find(word);
  if (at == std::string_view::npos) return -1;
  int n = 0;
  std::size_t digits = 0;
  for (auto i = at + word.size(); i < name.size() && name[i] >= '0' && name[i] <= '9' && digits < 8; ++i, ++digits) n = n * 10 + (name[i] - '0');
  return digits > 0 ? n : -1;
}

const char* kind_of(std::string_view theirs) {
  if (theirs == "exp_avg") return "exp_avg";
  if (theirs == "exp_avg_sq") return "exp_avg_sq";
  return theirs == "fp32_param" || theirs == "param" ? "master" : nullptr;
}

// optimizer.state.KIND.PARAMETER: each lies as its parameter does.
void add_by_parameter(const TorchDist& dist, ForeignModel& out) {
  for (auto& [name, t] : dist.sources()) {
    const auto plain = unchained(name);
    if (!plain.starts_with(kState)) continue;
    const auto rest = plain.substr(kState.size());
    const auto dot = rest.find('.');
    const char* kind = dot == std::string_view::npos ? nullptr : kind_of(rest.substr(0, dot));
    if (kind == nullptr) not_read(name + " is no state of Adam's", out.what.from);
    const auto parameter = megatron_dist_name(std::string(rest.substr(dot + 1)));
    const auto weight = out.tensors.find(parameter);
    if (weight != out.tensors.end() && weight->second.shape != t.shape)
      not_read(fmt::format("{} has shape {}, its parameter {}: the flat parts of fully_sharded_model_space, which Megatron Core 0.14 and older write; "
                           "load and save it with 0.15 to have it otherwise", name, dims_text(t.shape), dims_text(weight->second.shape)), out.what.from);
    if (!out.tensors.emplace(std::string(kind) + "/" + parameter, std::move(t)).second) throw Error(Code::corrupt, name + " is there twice", out.what.from);
  }
  add_state_maps(std::vector<MappedTensor>(out.what.map), std::vector<TensorCopy>(out.what.copies), out);
}

// How the model was cut when it was saved, by the args.
struct Cut {
  MegatronCut cut;
  int chunks = 1;
  std::vector<MegatronRank> ranks;  // each with the start of the names that its state has here
};
Cut cut_of(const MegatronDistState& from, const ForeignModel& out) {
  const auto& where = out.what.from;
  const auto number = [&](const char* key) {
    const bool there = from.args.contains(key) && from.args[key].is_number_integer();
    const auto n = there ? from.args[key].get<std::int64_t>() : 1;
    if (n < 1 || n > 65536) not_read(fmt::format("args.{} is {}", key, n), where);
    return static_cast<int>(n);
  };
  for (const char* key : {"pipeline_model_parallel_layout", "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"})
    if (from.args.contains(key) && !from.args[key].is_null()) not_read(fmt::format("flat buffers of stages by args.{}", key), where);
  Cut c;
  c.cut.tp = number("tensor_model_parallel_size");
  c.cut.pp = number("pipeline_model_parallel_size");
  c.chunks = number("virtual_pipeline_model_parallel_size");
  const int stages = c.cut.pp * c.chunks, layers = out.what.model.num_layers();
  if (layers % stages != 0) not_read(fmt::format("{} layers in flat buffers of {} stages", layers, stages), where);
  c.cut.stage_layers.assign(static_cast<std::size_t>(stages), layers / stages);
  c.cut.padded_vocab = from.padded_vocab;
  for (int pp = 0; pp < c.cut.pp; ++pp)
    for (int tp = 0; tp < c.cut.tp; ++tp) c.ranks.push_back({tp, pp, 0, fmt::format("dp_group_idx_{}/", tp + c.cut.tp * pp)});
  return c;
}

// Parameters of a chunk of a rank in the order they were made.
std::vector<FlatParam> params_of(const MegatronDistState& from, const Cut& c, const MegatronRank& rank, int chunk, const ForeignModel& out) {
  std::vector<FlatParam> params;
  for (const auto& t : megatron_tensors(out.what.model, c.cut, rank.tp, chunk * c.cut.pp + rank.pp, 0, out.what.from))
    params.push_back({t.theirs.name, t.theirs.shape, is_alone(out.what.model, c.cut.pp, t.theirs.name)});
  const bool fused = from.args.value("transformer_impl", Json("transformer_engine")) != Json("local");
  std::stable_sort(params.begin(), params.end(), [&](const FlatParam& a, const FlatParam& b) { return made_before(a.name, b.name, fused); });
  return params;
}

// Some elements of a flat tensor, as a tensor of a shape.
SourceTensor part_of_flat(const SourceTensor& flat, std::int64_t begin, const Dims& shape) {
  SourceTensor out{flat.dtype, flat.dtype_text, flat.where, shape, nullptr};
  const auto width = static_cast<std::size_t>(flat.dtype ? bytes_of(*flat.dtype, 1) : 1);
  out.read = [read = flat.read, begin, shape, width](const Box& box, std::byte* to) {
    for_each_run(whole(shape), box, [&](std::int64_t from, std::int64_t at, std::int64_t n) {
      read(Box{{begin + from}, {n}}, to + static_cast<std::size_t>(at) * width);
    });
  };
  return out;
}

// Flat buckets, a tensor each.
void add_buckets(const MegatronDistState& from, const Cut& c, ForeignModel& out) {
  struct Bucket {
    std::map<std::string, SourceTensor> by_kind;
  };
  std::map<std::pair<int, int>, std::map<int, Bucket>> all;  // (group, buffer), bucket
  for (auto& [name, t] : from.dist.sources()) {
    const auto plain = unchained(name);
    if (!plain.starts_with(kDistributed)) continue;
    const char* kind = kind_of(plain.substr(plain.rfind('.') + 1));
    const int group = number_behind(plain, "dp_group_idx_"), buffer = number_behind(plain, ".gbuf_idx_"), bucket = number_behind(plain, ".bucket_idx_");
    if (kind == nullptr || group < 0 || buffer < 0 || bucket < 0 || t.shape.size() != 1) not_read(name + " is no bucket of Adam's", out.what.from);
    if (!all[{group, buffer}][bucket].by_kind.emplace(kind, std::move(t)).second) not_read(name + ": experts in flat buffers, which are not read", out.what.from);
  }
  for (const auto& rank : c.ranks)
    for (int chunk = 0; chunk < c.chunks; ++chunk) {
      const auto found = all.find({rank.tp + c.cut.tp * rank.pp, chunk});
      if (found == all.end()) not_read(fmt::format("no flat buffer {} of {}", chunk, rank.prefix), out.what.from);
      std::vector<std::int64_t> sizes;
      for (const auto& [number, bucket] : found->second) {
        const bool whole = number == static_cast<int>(sizes.size()) && bucket.by_kind.size() == 3;
        if (!whole) not_read(fmt::format("bucket {} of {} lacks what Adam keeps", sizes.size(), rank.prefix), out.what.from);
        sizes.push_back(bucket.by_kind.at("master").shape[0]);
      }
      const auto params = params_of(from, c, rank, chunk, out);
      const auto layout = flat_layout_of(params, sizes);
      if (!layout) not_read(fmt::format("buckets of {} have other sizes than its parameters make", rank.prefix), out.what.from);
      for (std::size_t i = 0; i < params.size(); ++i)
        for (const auto& [kind, t] : found->second.at(static_cast<int>(layout->places[i].bucket)).by_kind)
          out.tensors.emplace(kind + "/" + rank.prefix + params[i].name, part_of_flat(t, layout->places[i].begin, params[i].shape));
      all.erase(found);
    }
  if (!all.empty()) not_read(fmt::format("flat buffers of {} more groups: experts, or another layout than the args say", all.size()), out.what.from);
}

// Flat buffers in objects, each what a distrib_optim.pt holds.
bool add_gathered(const MegatronDistState& from, const Cut& c, std::deque<TorchFile>& files, ForeignModel& out) {
  std::map<int, std::string> objects;
  for (const auto& [name, place] : from.dist.objects())
    if (const auto plain = unchained(name); plain.starts_with(kDistributed) && plain.find(".param_state") != std::string_view::npos &&
                                            plain.find(".param_state_") == std::string_view::npos) {
      if (plain != name) not_read("experts in flat buffers, which are not read", out.what.from);
      objects[number_behind(plain, "dp_group_idx_")] = name;
    }
  if (objects.empty()) return false;
  for (const auto& rank : c.ranks) {
    const auto found = objects.find(rank.tp + c.cut.tp * rank.pp);
    if (found == objects.end()) not_read("no param_state of " + rank.prefix, out.what.from);
    const TorchFile& file = files.emplace_back(from.dist.object(found->second));
    const bool wrapped = file.root().is(PickleKind::list) && file.root().size() == 1;
    const PickleValue root = wrapped ? file.root()[0] : file.root();
    for (int chunk = 0; chunk < c.chunks; ++chunk)
      add_flat_buffer({file, root, rank.prefix}, chunk, params_of(from, c, rank, chunk, out), bucket_size_of(from.args, rank.pp, chunk), out);
  }
  return true;
}

}  // namespace

bool is_megatron_state(const std::string& name) { return unchained(name).starts_with("optimizer."); }

void add_megatron_state(const MegatronDistState& from, std::deque<TorchFile>& files, ForeignModel& out) {
  const auto& where = out.what.from;
  require_adam(from.args, where);
  const auto& tensors = from.dist.tensors();
  const bool by_parameter = std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return unchained(t.first).starts_with(kState); });
  if (by_parameter) {
    add_by_parameter(from.dist, out);
  } else {
    const Cut c = cut_of(from, out);
    if (!add_gathered(from, c, files, out)) add_buckets(from, c, out);
    auto all = megatron_rank_map(out.what.model, c.cut, c.chunks, c.ranks, where);
    add_state_maps(all.map, all.copies, out);
  }
  // What is not of one parameter lies in what all share, or in an object a group.
  std::optional<double> step;
  Json scaler;
  const auto look = [&](const TorchFile& file, const PickleValue& optimizer) {
    if (!step) step = optimizer_step(file, optimizer);
    if (scaler.is_null()) scaler = megatron_loss_scaler(file, optimizer);
  };
  if (const auto o = from.common.root().find("optimizer")) look(from.common, *o);
  for (const auto& [name, place] : from.dist.objects())
    if (const auto plain = unchained(name); !step && plain.starts_with(kDistributed) && plain.find(".optimizer") != std::string_view::npos) {
      const TorchFile& file = files.emplace_back(from.dist.object(name));
      look(file, file.root());
    }
  if (!step) not_read("the optimizer's step is not said", where);
  out.what.training = megatron_training(from.common, from.common.root(), from.args, *step, out.what.iteration);
  if (!scaler.is_null()) out.what.training["loss_scaler"] = std::move(scaler);
}

}  // namespace mt
