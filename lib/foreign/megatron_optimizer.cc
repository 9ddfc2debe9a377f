#include "foreign/megatron_optimizer.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "foreign/megatron_training.h"

namespace mt {

namespace {

[[noreturn]] void not_read(const std::string& what, const std::string& where) { throw Error(Code::config, what, where, kWithoutState); }

// ours  kind of ours    theirs  its names, master weights' apart
constexpr std::array<const char*, 3> kKinds = {"exp_avg", "exp_avg_sq", "master"};

struct Param {
  std::string name;
  int chunk = 0;
  Dims shape;
};

// Parameters of a rank that an optimizer has, in the order they lie in its file. Experts are apart where they are spread.
struct RankParams {
  std::vector<Param> dense, experts;
};

RankParams params_of(const MegatronFiles& files, const MegatronFiles::Rank& rank, const ForeignModel& out) {
  RankParams all;
  std::map<std::string, Dims> known;
  const std::string prefix = rank.name + "/";
  for (const auto& t : out.what.map) known[t.name] = t.shape;
  // A tied head that the table's own stage holds too is no parameter.
  const auto is_second = [&](const TensorCopy& c) { return c.name == prefix + "output_layer.weight" && c.of == prefix + "embedding.word_embeddings.weight"; };
  for (const auto& c : out.what.copies)
    if (const auto there = out.tensors.find(c.name); !is_second(c) && there != out.tensors.end()) known[c.name] = there->second.shape;
  for (std::size_t chunk = 0; chunk < rank.order.size(); ++chunk)
    for (const auto& name : rank.order[chunk])
      if (const auto found = known.find(prefix + name); found != known.end()) {
        const bool expert = files.cut().ep > 1 && name.find(".mlp.experts.") != std::string::npos;
        (expert ? all.experts : all.dense).push_back({name, static_cast<int>(chunk), found->second});
      }
  return all;
}

void put(ForeignModel& out, const TorchFile& file, const char* kind, const std::string& name, const TorchTensor& t) {
  SourceTensor s{t.dtype, t.dtype_text, file.where(), t.shape, [&file, view = t](const Box& box, std::byte* to) { file.read(view, box, to); }};
  if (!out.tensors.emplace(std::string(kind) + "/" + name, std::move(s)).second) throw Error(Code::corrupt, name + " has its state twice", file.where());
}

// An optimizer that is whole on its rank: torch's state dict, with master weights beside it where weights are half as wide.
class WholeOptimizer {
 public:
  WholeOptimizer(const TorchFile& file, const PickleValue& part) : file_(file), inner_(part) {
    for (const char* key : {"fp32_from_fp16_params", "fp32_from_fp16"})
      if (const auto m = part.find(key)) masters_ = *m;
    if (masters_) {
      const auto inner = part.find("optimizer");
      if (!inner) part.fail("no optimizer beside fp32_from_fp16_params");
      inner_ = *inner;
    }
    const auto state = inner_.find("state"), groups = inner_.find("param_groups");
    if (!state || !groups) not_read("an optimizer without state or param_groups, which is not read", file.where());
    groups_.emplace(*groups);
    for (std::size_t i = 0; i < state->num_entries(); ++i)
      if (state->key(i).is(PickleKind::integer)) states_.emplace(state->key(i).integer(), state->entry(i));
  }

  void take(const std::string& prefix, const std::vector<Param>& params, ForeignModel& out) {
    std::vector<std::size_t> taken(groups_->size(), 0);
    for (const auto& p : params) {
      const std::size_t g = group_of(p.name.ends_with(".bias") || p.shape.size() == 1);
      const std::size_t i = taken[g]++;
      const auto ids = ids_of(g);
      if (i >= ids.size()) not_read(fmt::format("its group {} has {} parameters, the model more", g, ids.size()), file_.where());
      const auto state = states_.find(ids[i].integer());
      if (state == states_.end()) not_read(fmt::format("parameter {} has no state", ids[i].integer()), file_.where());
      for (const char* kind : {"exp_avg", "exp_avg_sq"}) put(out, file_, kind, prefix + p.name, tensor(state->second.find(kind), kind, p));
      if (!masters_) continue;
      if (g >= masters_->size() || i >= (*masters_)[g].size()) not_read(fmt::format("{} has no master weight", p.name), file_.where());
      put(out, file_, "master", prefix + p.name, tensor((*masters_)[g][i], "master", p));
    }
    for (std::size_t g = 0; g < taken.size(); ++g)
      if (const auto n = ids_of(g).size(); n != taken[g]) not_read(fmt::format("its group {} has {} parameters, the model {} of them", g, n, taken[g]), file_.where());
  }

 private:
  // Groups are those that weight decay takes and those that it does not.
  std::size_t group_of(bool spared) const {
    std::optional<std::size_t> found;
    for (std::size_t g = 0; g < groups_->size(); ++g) {
      const auto group = (*groups_)[g];
      const auto wd = group.find("wd_mult"), decoupled = group.find("is_decoupled_lr");
      if (!wd) not_read("groups of parameters without wd_mult, whose order is not known", file_.where());
      if (decoupled && decoupled->is(PickleKind::boolean) && decoupled->boolean()) not_read("groups of parameters with a learning rate of their own (--decoupled-lr)", file_.where());
      if ((wd->number() == 0) != spared) continue;
      if (found) not_read("several groups of parameters of one weight decay, whose order is not known", file_.where());
      found = g;
    }
    if (!found) not_read("no group of the parameters that weight decay spares, or of those it does not", file_.where());
    return *found;
  }
  PickleValue ids_of(std::size_t g) const {
    const auto ids = (*groups_)[g].find("params");
    if (!ids) not_read("groups of parameters without their numbers", file_.where());
    return *ids;
  }
  TorchTensor tensor(const std::optional<PickleValue>& v, const char* kind, const Param& p) const {
    const auto t = v ? file_.tensor(*v) : std::nullopt;
    if (!t) not_read(fmt::format("{} has no {}: another optimizer than Adam", p.name, kind), file_.where());
    if (t->shape != p.shape)
      not_read(fmt::format("the {} in the place of {} has shape {}, the parameter {}", kind, p.name, dims_text(t->shape), dims_text(p.shape)), file_.where());
    return *t;
  }

  const TorchFile& file_;
  PickleValue inner_;
  std::optional<PickleValue> masters_, groups_;
  std::map<std::int64_t, PickleValue> states_;
};

std::vector<MappedTensor> renamed(std::vector<MappedTensor> map, const std::string& prefix) {
  for (auto& t : map) t.name = prefix + t.name;
  return map;
}

// The optimizers of a rank: one, or where experts are spread theirs too.
std::vector<PickleValue> parts_of(const PickleValue& optimizer) {
  if (!optimizer.is(PickleKind::list)) return {optimizer};
  std::vector<PickleValue> out;
  for (std::size_t i = 0; i < optimizer.size(); ++i) out.push_back(optimizer[i]);
  return out;
}

// Its state is in distrib_optim.pt.
bool is_distributed(const PickleValue& part) {
  const auto inner = part.find("optimizer");
  return !part.find("fp32_from_fp16_params") && !part.find("fp32_from_fp16") && inner && !inner->find("state");
}

}  // namespace

void require_adam(const Json& args, const std::string& where) {
  const std::string rule = args.contains("optimizer") && args["optimizer"].is_string() ? args["optimizer"].get<std::string>() : "adam";
  if (rule != "adam") not_read("its optimizer is " + rule + ", and adam alone is read", where);
}

bool is_alone(const ModelSpec& model, int pp, const std::string& name) {
  return model.tied && pp > 1 && (name == "embedding.word_embeddings.weight" || name == "output_layer.weight");
}

std::optional<std::int64_t> bucket_size_of(const Json& args, int pp_rank, int chunk) {
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return args.contains(key) && args[key].is_number_integer() ? args[key].get<std::int64_t>() : otherwise;
  };
  if (args.value("overlap_grad_reduce", Json(false)) != Json(true) || pp_rank > 0 || chunk > 0) return std::nullopt;
  const std::int64_t ranks = number("data_parallel_size", 1) * number("context_parallel_size", 1);
  return number("ddp_bucket_size", std::max<std::int64_t>(40'000'000, 1'000'000 * ranks));
}

void add_state_maps(const std::vector<MappedTensor>& map, const std::vector<TensorCopy>& copies, ForeignModel& out) {
  const bool masters = std::any_of(map.begin(), map.end(), [&](const MappedTensor& t) { return out.tensors.count("master/" + t.name) > 0; });
  const bool narrow = std::any_of(out.what.map.begin(), out.what.map.end(), [&](const MappedTensor& t) {
    const auto found = out.tensors.find(t.name);
    return found != out.tensors.end() && found->second.dtype != DType::f32;
  });
  if (narrow && !masters) not_read("no master weights beside weights that are not f32", out.what.from);
  for (const char* kind : kKinds) {
    const bool master = std::string_view(kind) == "master";
    if (master && !masters) continue;
    const std::string prefix = std::string(kind) + "/";
    out.what.states.push_back({kind, renamed(map, prefix), master, !master || narrow});
    for (auto c : copies) {
      c.name = prefix + c.name, c.of = prefix + c.of;
      if (out.tensors.count(c.name) > 0) out.what.copies.push_back(std::move(c));
    }
  }
  out.what.specs["optimizer"] = "adam";
}

void add_flat_buffer(const FlatBuffers& from, int chunk, std::span<const FlatParam> params, std::optional<std::int64_t> bucket_size, ForeignModel& out) {
  const auto& where = from.file.where();
  if (from.root.is(PickleKind::list)) not_read("experts in flat buffers of the distributed optimizer, which are not read", where);
  if (const auto c = from.root.find("buckets_coalesced"); !c || !c->is(PickleKind::boolean) || !c->boolean())
    not_read("flat buffers bucket by bucket, as they were before Megatron Core 0.7", where);
  std::optional<PickleValue> buffer;
  for (std::size_t i = 0; i < from.root.num_entries(); ++i)
    if (from.root.key(i).is(PickleKind::integer) && from.root.key(i).integer() == chunk) buffer = from.root.entry(i);
  if (!buffer || buffer->num_entries() != 1) not_read(fmt::format("buffer {} is not there, or of several dtypes", chunk), where);
  const auto layout = flat_layout(params, bucket_size);
  for (const auto& [kind, theirs] : {std::pair("exp_avg", "exp_avg"), std::pair("exp_avg_sq", "exp_avg_sq"), std::pair("master", "param")}) {
    const auto v = buffer->entry(0).find(theirs);
    const auto flat = v ? from.file.tensor(*v) : std::nullopt;
    if (!flat || flat->shape.size() != 1) not_read(fmt::format("buffer {} has no flat {}", chunk, theirs), where);
    if (flat->shape[0] != layout.size())
      not_read(fmt::format("buffer {} has {} elements of {}, its parameters make {}: it is laid out otherwise", chunk, flat->shape[0], theirs, layout.size()), where);
    for (std::size_t i = 0; i < params.size(); ++i) {
      TorchTensor t = *flat;
      t.offset += layout.begin_of(i) * (flat->strides.empty() ? 1 : flat->strides[0]);
      t.shape = t.strides = params[i].shape;
      std::int64_t stride = flat->strides.empty() ? 1 : flat->strides[0];
      for (std::size_t d = t.shape.size(); d-- > 0;) t.strides[d] = stride, stride *= t.shape[d];
      put(out, from.file, kind, from.prefix + params[i].name, t);
    }
  }
}

void add_megatron_state(const MegatronFiles& ranks, std::deque<TorchFile>& files, ForeignModel& out) {
  const auto where = ranks.dir().string();
  require_adam(ranks.args(), where);
  if (ranks.is_grouped()) not_read("what is kept of experts that lie in two tensors a layer (GroupedMLP)", where);
  const auto map = out.what.map;
  const auto copies = out.what.copies;
  for (const auto& rank : ranks.ranks()) {
    const auto optimizer = rank.file->root().find("optimizer");
    if (!optimizer) not_read("no optimizer's state, which other ranks have", rank.file->where());
    const auto params = params_of(ranks, rank, out);
    const auto parts = parts_of(*optimizer);
    const std::string prefix = rank.name + "/";
    if (is_distributed(parts[0])) {
      if (parts.size() > 1 || !params.experts.empty()) not_read("experts in flat buffers of the distributed optimizer, which are not read", rank.file->where());
      const TorchFile& flat = files.emplace_back(ranks.dir() / rank.name / "distrib_optim.pt");
      for (int chunk = 0; chunk < ranks.chunks(); ++chunk) {
        std::vector<FlatParam> of_chunk;
        for (const auto& p : params.dense)
          if (p.chunk == chunk) of_chunk.push_back({p.name, p.shape, is_alone(out.what.model, ranks.cut().pp, p.name)});
        add_flat_buffer({flat, flat.root(), prefix}, chunk, of_chunk, bucket_size_of(ranks.args(), rank.pp, chunk), out);
      }
      continue;
    }
    std::vector<const std::vector<Param>*> wanted;
    for (const auto* some : {&params.dense, &params.experts})
      if (!some->empty()) wanted.push_back(some);
    if (parts.size() != wanted.size()) not_read(fmt::format("{} optimizers of a rank, wanted {}", parts.size(), wanted.size()), rank.file->where());
    for (std::size_t i = 0; i < parts.size(); ++i) WholeOptimizer(*rank.file, parts[i]).take(prefix, *wanted[i], out);
  }
  add_state_maps(map, copies, out);
  const TorchFile& first = *ranks.ranks().front().file;
  const auto optimizer = *first.root().find("optimizer");
  const auto step = optimizer_step(first, optimizer);
  if (!step) not_read("the optimizer's step is not said", first.where());
  out.what.training = megatron_training(first, first.root(), ranks.args(), *step, out.what.iteration);
  if (auto scale = megatron_loss_scaler(first, optimizer); !scale.is_null()) out.what.training["loss_scaler"] = std::move(scale);
  for (const char* key : {"rng_state", "rerun_state_machine"})
    if (first.root().find(key)) out.notices.push_back(fmt::format("{} stays behind: random numbers are a function of the seed here", key));
}

}  // namespace mt
