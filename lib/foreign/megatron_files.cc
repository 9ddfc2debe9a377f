#include "foreign/megatron_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"

namespace mt {

namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "model_optim_rng.pt";
// Ends of names that hold no weights.
constexpr std::array<std::string_view, 3> kIgnored = {"_extra_state", ".inv_freq", ".rotary_pos_emb"};

bool is_ignored(std::string_view name) {
  return std::any_of(kIgnored.begin(), kIgnored.end(), [&](std::string_view end) { return name.ends_with(end); });
}

// Numbers behind "mp_rank_".
std::optional<std::vector<int>> rank_numbers(const std::string& name) {
  constexpr std::string_view kStart = "mp_rank_";
  if (!name.starts_with(kStart)) return std::nullopt;
  std::vector<int> out;
  for (std::size_t at = kStart.size(); at <= name.size();) {
    const auto end = std::min(name.find('_', at), name.size());
    const auto digits = name.substr(at, end - at);
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    out.push_back(std::stoi(digits));
    at = end + 1;
  }
  return out.size() <= 3 ? std::optional(out) : std::nullopt;
}

std::int64_t whole(const Json& args, const char* key, std::int64_t otherwise) {
  return args.contains(key) && args[key].is_number_integer() ? args[key].get<std::int64_t>() : otherwise;
}

// The chunks of a file: "model", or "model0", "model1" ...
std::vector<PickleValue> chunks_of(const TorchFile& file) {
  const PickleValue root = file.root();
  std::vector<PickleValue> out;
  if (const auto one = root.find("model")) out.push_back(*one);
  for (int i = 0; out.size() == static_cast<std::size_t>(i); ++i) {
    const auto next = root.find(fmt::format("model{}", i));
    if (next) out.push_back(*next);
  }
  if (out.empty()) throw Error(Code::config, "holds no model", file.where(), "wanted what Megatron's --ckpt-format torch saves");
  return out;
}

// Experts in two tensors (GroupedMLP) are a view each: of the first all columns one expert after the other, as [in, out]; of the
// second rows, as [in, out] too.
void split_grouped(std::vector<NamedTorchTensor>& tensors, int local_experts, const std::string& where) {
  std::vector<NamedTorchTensor> out;
  for (auto& t : tensors) {
    const bool first = t.name.ends_with("mlp.experts.weight1"), second = t.name.ends_with("mlp.experts.weight2");
    if (!first && !second) {
      out.push_back(std::move(t));
      continue;
    }
    const Dims& shape = t.tensor.shape;
    const bool whole = shape.size() == 2 && local_experts > 0 && shape[first ? 1 : 0] % local_experts == 0 && t.tensor.strides == Dims{shape[1], 1};
    if (!whole) throw Error(Code::config, fmt::format("{} of shape {} is not that of {} experts", t.name, dims_text(shape), local_experts), where);
    const std::int64_t in = first ? shape[0] : shape[0] / local_experts, columns = first ? shape[1] / local_experts : shape[1];
    for (int e = 0; e < local_experts; ++e) {
      NamedTorchTensor one = t;
      one.name = fmt::format("{}local_experts.{}.linear_fc{}.weight", t.name.substr(0, t.name.size() - std::string_view("weight1").size()), e, first ? 1 : 2);
      one.tensor.offset += e * in * columns;
      one.tensor.shape = {columns, in};
      one.tensor.strides = {1, columns};
      out.push_back(std::move(one));
    }
  }
  tensors = std::move(out);
}

// Layers of a chunk, by its names.
int layers_in(const TorchTensors& t, const std::string& where) {
  constexpr int kMostLayers = 100'000;
  int layers = 0;
  for (const auto& named : t.tensors) {
    const auto name = megatron_name(named.name, 0, 0);
    constexpr std::string_view kLayers = "decoder.layers.";
    if (!name.starts_with(kLayers)) continue;
    const auto digits = name.substr(kLayers.size(), name.find('.', kLayers.size()) - kLayers.size());
    const bool number = !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos;
    const int layer = number ? std::stoi(digits) : kMostLayers;
    if (layer >= kMostLayers) throw Error(Code::config, named.name + " is of no layer", where);
    layers = std::max(layers, layer + 1);
  }
  return layers;
}

}  // namespace

fs::path megatron_directory(const fs::path& path, std::optional<std::int64_t> iteration) {
  std::error_code ec;
  if (!fs::exists(path, ec)) throw Error(Code::io, "no such directory", path.string());
  const auto is_one = [](const fs::path& dir) {
    const auto f = detect_format(dir);
    return f == CheckpointFormat::megatron_torch || f == CheckpointFormat::megatron_torch_dist;
  };
  if (!iteration && is_one(path)) return path;
  fs::path dir;
  if (iteration) {
    dir = path / iteration_name(*iteration);
  } else {
    const auto tracker = path / kTrackerName;
    if (!fs::exists(tracker, ec)) throw Error(Code::config, "no checkpoint of Megatron's there", path.string(), "a --save directory of Megatron's, or an iter_0000000 in it");
    std::string text = read_file(tracker);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    dir = text == "release" ? path / "release" : path / iteration_name(read_tracker(path).value_or(0));
  }
  if (!fs::exists(dir, ec)) throw Error(Code::config, "is not there", dir.string());
  if (!is_one(dir)) throw Error(Code::config, "holds no checkpoint of Megatron's", dir.string());
  return dir;
}

MegatronFiles::MegatronFiles(const fs::path& dir) : dir_(dir) {
  std::map<std::vector<int>, std::string> names;
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(dir, ec))
    if (const auto numbers = rank_numbers(e.path().filename().string())) names[*numbers] = e.path().filename().string();
  if (ec) throw Error(Code::io, "cannot be listed: " + ec.message(), dir.string());
  if (names.empty()) throw Error(Code::config, "no mp_rank_00 there", dir.string());
  open_first(names.begin()->second);
  const std::size_t numbers = names.begin()->first.size();
  for (const auto& [n, name] : names) {
    if (n.size() != numbers) throw Error(Code::config, fmt::format("{} and {}: ranks of several layouts", names.begin()->second, name), dir.string());
    Rank r{n[0], 0, 0, name, nullptr, {}};
    // One number behind the tensor rank is the pipeline's where there is one.
    if (numbers == 3) r.pp = n[1], r.ep = n[2];
    else if (numbers == 2) (whole(args_, "pipeline_model_parallel_size", 2) > 1 ? r.pp : r.ep) = n[1];
    ranks_.push_back(r);
    cut_.tp = std::max(cut_.tp, r.tp + 1);
    cut_.pp = std::max(cut_.pp, r.pp + 1);
    cut_.ep = std::max(cut_.ep, r.ep + 1);
  }
  require_all_ranks();
  open_ranks();
}

void MegatronFiles::open_first(const std::string& name) {
  const TorchFile first(dir_ / name / kFile);
  const auto args = first.root().find("args");
  if (!args || !args->is(PickleKind::object) || !args->state())
    throw Error(Code::config, "holds no args, so what model it is cannot be known", first.where());
  args_ = plain_json(*args->state());
  if (!args_.is_object()) throw Error(Code::config, "its args are no list of names and values", first.where());
  if (const auto i = first.root().find("iteration"); i && i->is(PickleKind::integer)) iteration_ = std::max<std::int64_t>(0, i->integer());
  if (const auto v = first.root().find("checkpoint_version"); v && !v->is_none()) version_ = v->number();
  optimizer_ = first.root().find("optimizer").has_value();
  cut_.padded_vocab = whole(args_, "padded_vocab_size", 0);
  const bool experts = whole(args_, "num_experts", 0) > 0;
  if (experts) cut_.etp = static_cast<int>(std::clamp<std::int64_t>(whole(args_, "expert_tensor_parallel_size", 0), 0, 1 << 20));
  if (version_ > 0 && version_ < 2)
    throw Error(Code::config, fmt::format("checkpoint_version {}: its order of queries, keys and values is not read", version_), first.where(),
                "load and save it with a Megatron of 2020 or later");
  cut_.qkv_by_part = version_ == 0;
}

void MegatronFiles::require_all_ranks() const {
  std::vector<std::string> missing;
  constexpr std::size_t kEnough = 100;  // names say how many ranks there are, and may say anything
  // Where experts are cut otherwise a run's ranks have some pairs of tensor and expert rank alone: each part must be on one.
  const int etp = cut_.etp > 0 ? cut_.etp : cut_.tp;
  const auto there = [&](int tp, int pp, int ep) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pp == pp && r.tp == tp && r.ep == ep; });
  };
  const auto part_there = [&](int tp, int pp, int ep) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pp == pp && r.tp == tp; }) &&
           std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pp == pp && r.tp % etp == tp % etp && r.ep == ep; });
  };
  for (int tp = 0; tp < cut_.tp && missing.size() < kEnough; ++tp)
    for (int pp = 0; pp < cut_.pp && missing.size() < kEnough; ++pp)
      for (int ep = 0; ep < cut_.ep && missing.size() < kEnough; ++ep)
        if (!(etp == cut_.tp ? there(tp, pp, ep) : part_there(tp, pp, ep)))
          missing.push_back(fmt::format("rank tp {}, pp {}, ep {} is missing", tp, pp, ep));
  for (const auto& [key, n] : {std::pair("tensor_model_parallel_size", cut_.tp), std::pair("pipeline_model_parallel_size", cut_.pp),
                               std::pair("expert_model_parallel_size", cut_.ep)})
    if (const auto said = whole(args_, key, n); said != n) missing.push_back(fmt::format("args.{} is {}, and {} are there", key, said, n));
  if (etp < 1 || cut_.tp % etp != 0)
    missing.push_back(fmt::format("args.expert_tensor_parallel_size is {} beside {} tensor ranks: file names do not tell such ranks apart", etp, cut_.tp));
  if (!missing.empty()) refuse_all(missing, dir_.string());
}

void MegatronFiles::open_ranks() {
  // Layers of the chunks of every pipeline rank, by the first rank that has them.
  std::map<std::pair<int, int>, int> layers;  // (pp, chunk)
  std::vector<std::vector<TorchTensors>> all;
  for (auto& r : ranks_) {
    const TorchFile& file = files_.emplace_back(dir_ / r.name / kFile);
    r.file = &file;
    const auto chunks = chunks_of(file);
    if (files_.size() > 1 && static_cast<int>(chunks.size()) != chunks_)
      throw Error(Code::config, fmt::format("has {} model chunks, other ranks have {}", chunks.size(), chunks_), file.where());
    chunks_ = static_cast<int>(chunks.size());
    auto& tensors = all.emplace_back();
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      tensors.push_back(tensors_of(file, chunks[c]));
      const int n = layers_in(tensors.back(), file.where());
      const auto [known, fresh] = layers.emplace(std::pair(r.pp, static_cast<int>(c)), n);
      if (!fresh && known->second != n)
        throw Error(Code::config, fmt::format("has {} layers, another rank of its stage {}", n, known->second), file.where());
    }
  }
  for (int stage = 0; stage < cut_.pp * chunks_; ++stage) cut_.stage_layers.push_back(layers.at({stage % cut_.pp, stage / cut_.pp}));
  for (std::size_t i = 0; i < ranks_.size(); ++i) add_rank(ranks_[i], all[i]);
}

void MegatronFiles::add_rank(Rank& r, std::vector<TorchTensors>& chunks) {
  const TorchFile& file = *r.file;
  const int experts = static_cast<int>(whole(args_, "num_experts", 0)) / cut_.ep;
  for (int c = 0; c < chunks_; ++c) {
    auto& order = r.order.emplace_back();
    int first_layer = 0;
    for (int s = 0; s < c * cut_.pp + r.pp; ++s) first_layer += cut_.stage_layers[static_cast<std::size_t>(s)];
    auto& tensors = chunks[static_cast<std::size_t>(c)].tensors;
    grouped_ |= std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.name.ends_with("mlp.experts.weight1"); });
    split_grouped(tensors, experts, file.where());
    for (auto& t : tensors) {
      if (is_ignored(t.name)) continue;
      order.push_back(megatron_name(t.name, first_layer, experts * r.ep));
      const auto name = r.name + "/" + order.back();
      SourceTensor s{t.tensor.dtype, t.tensor.dtype_text, file.where(), t.tensor.shape,
                     [&file, view = t.tensor](const Box& box, std::byte* out) { file.read(view, box, out); }};
      if (!sources_.emplace(name, std::move(s)).second) throw Error(Code::corrupt, name + " is there twice", file.where());
    }
  }
}

void MegatronFiles::fill(const ModelSpec& model, NativeImport& what) const {
  if (const int layers = std::accumulate(cut_.stage_layers.begin(), cut_.stage_layers.end(), 0); layers != model.num_layers())
    throw Error(Code::config, fmt::format("its files hold {} layers, its args say {}", layers, model.num_layers()), dir_.string());
  std::vector<MegatronRank> ranks;
  for (const auto& r : ranks_) ranks.push_back({r.tp, r.pp, r.ep, r.name + "/"});
  auto all = megatron_rank_map(model, cut_, chunks_, ranks, dir_.string());
  std::move(all.map.begin(), all.map.end(), std::back_inserter(what.map));
  std::move(all.copies.begin(), all.copies.end(), std::back_inserter(what.copies));
  // One stage that holds both tied tables may have written the head too.
  for (const auto& r : ranks_)
    if (const auto head = r.name + "/output_layer.weight"; model.tied && cut_.pp * chunks_ == 1 && sources_.count(head) > 0) {
      const auto& shape = sources_.at(head).shape;
      what.copies.push_back({head, r.name + "/embedding.word_embeddings.weight", mt::whole(shape), mt::whole(shape)});
    }
}

}  // namespace mt
