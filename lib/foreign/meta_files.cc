#include "foreign/meta_files.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "foreign/rotary_rows.h"
#include "foreign/torch_file.h"

namespace mt {

namespace {

namespace fs = std::filesystem;
constexpr const char* kParams = "params.json";

fs::path rank_file(const fs::path& dir, std::size_t rank) { return dir / fmt::format("consolidated.{:02d}.pth", rank); }

// How a tensor is cut over ranks: along a dimension, or whole on each (-1).
struct MetaName {
  const char* theirs;
  const char* ours;
  int dim;
};
constexpr MetaName kNames[] = {
    {"tok_embeddings.weight", "embedding.word_embeddings.weight", 1},
    {"layers.{L}.attention_norm.weight", "decoder.layers.{L}.input_layernorm.weight", -1},
    {"layers.{L}.attention.wq.weight", "decoder.layers.{L}.self_attention.linear_q.weight", 0},
    {"layers.{L}.attention.wk.weight", "decoder.layers.{L}.self_attention.linear_k.weight", 0},
    {"layers.{L}.attention.wv.weight", "decoder.layers.{L}.self_attention.linear_v.weight", 0},
    {"layers.{L}.attention.wo.weight", "decoder.layers.{L}.self_attention.linear_proj.weight", 1},
    {"layers.{L}.ffn_norm.weight", "decoder.layers.{L}.pre_mlp_layernorm.weight", -1},
    {"layers.{L}.feed_forward.w1.weight", "decoder.layers.{L}.mlp.linear_fc1_gate.weight", 0},
    {"layers.{L}.feed_forward.w3.weight", "decoder.layers.{L}.mlp.linear_fc1_up.weight", 0},
    {"layers.{L}.feed_forward.w2.weight", "decoder.layers.{L}.mlp.linear_fc2.weight", 1},
    {"norm.weight", "decoder.final_layernorm.weight", -1},
    {"output.weight", "output_layer.weight", 0},
};

// The files of all ranks, and their tensors.
struct MetaFiles {
  std::deque<TorchFile> files;
  std::vector<std::map<std::string, TorchTensor>> ranks;
};

MetaFiles open_files(const fs::path& dir) {
  MetaFiles all;
  std::error_code ec;
  while (fs::exists(rank_file(dir, all.files.size()), ec)) all.files.emplace_back(rank_file(dir, all.files.size()));
  std::size_t there = 0;
  for (const auto& e : fs::directory_iterator(dir, ec)) {
    const auto name = e.path().filename().string();
    there += name.starts_with("consolidated.") && name.ends_with(".pth") ? 1 : 0;
  }
  if (all.files.empty() || there != all.files.size())
    throw Error(Code::config, "is missing, and other ranks are there", rank_file(dir, all.files.size()).string());
  for (const auto& f : all.files) {
    auto& rank = all.ranks.emplace_back();
    for (auto& t : tensors_of(f, f.root()).tensors) rank.emplace(t.name, std::move(t.tensor));
  }
  return all;
}

// Extent of a tensor along a dimension, over all ranks.
std::int64_t extent(const MetaFiles& all, const std::string& name, int dim, const std::string& where) {
  std::int64_t n = 0;
  for (const auto& rank : all.ranks) {
    const auto t = rank.find(name);
    if (t == rank.end() || t->second.shape.size() != 2) throw Error(Code::config, name + " is missing, or no matrix", where);
    n += t->second.shape[static_cast<std::size_t>(dim)];
  }
  return n;
}

// Tables were cut along columns at first, and along rows later.
int table_dim(const MetaFiles& all, std::int64_t hidden) {
  const auto t = all.ranks[0].find("tok_embeddings.weight");
  return t != all.ranks[0].end() && t->second.shape.size() == 2 && t->second.shape[1] == hidden ? 0 : 1;
}

ModelSpec model_of(const Json& p, const MetaFiles& all, const std::string& where, std::vector<std::string>& notices) {
  for (const char* key : {"moe", "quantization_args", "lora_args", "vision_chunk_size"})
    if (p.contains(key)) throw Error(Code::config, fmt::format("{} is not represented", key), where);
  const auto count = [&](const char* key) {
    const auto n = json_field<std::int64_t>(p, key, where);
    if (n < 1 || n > (1 << 28)) throw Error(Code::config, fmt::format("{} is {}", key, n), where);
    return static_cast<int>(n);
  };
  ModelOptions o;
  o.hidden_size = count("dim");
  o.num_layers = count("n_layers");
  o.num_attention_heads = count("n_heads");
  o.num_query_groups = p.contains("n_kv_heads") && !p["n_kv_heads"].is_null() ? count("n_kv_heads") : o.num_attention_heads;
  o.group_query_attention = o.num_query_groups != o.num_attention_heads;
  if (p.contains("head_dim")) o.kv_channels = count("head_dim");
  o.norm_epsilon = json_field<double>(p, "norm_eps", where);
  o.normalization = "RMSNorm";
  o.position_embedding_type = "rope";
  o.rotary_base = p.contains("rope_theta") ? json_field<double>(p, "rope_theta", where) : 10000;
  o.use_rope_scaling = p.contains("use_scaled_rope") && json_field<bool>(p, "use_scaled_rope", where);
  o.max_position_embeddings = o.use_rope_scaling ? 131072 : o.rotary_base >= 500000 ? 8192 : 4096;
  notices.push_back(fmt::format("params.json does not say the longest sequence: {} positions are taken", o.max_position_embeddings));
  o.swiglu = true;
  o.add_bias_linear = false;
  o.untie_embeddings_and_output_weights = true;
  o.attention_dropout = o.hidden_dropout = 0;
  o.ffn_hidden_size = static_cast<int>(extent(all, "layers.0.feed_forward.w1.weight", 0, where));
  const int dim = table_dim(all, o.hidden_size);
  std::int64_t vocab = extent(all, "tok_embeddings.weight", 0, where);
  if (dim == 1) vocab /= static_cast<std::int64_t>(all.ranks.size());
  return build_model(o, vocab);
}

// Maps the tensors of one name on every rank.
void add_name(const MetaFiles& all, const std::string& theirs, const std::string& ours, int dim, NativeImport& in) {
  std::int64_t at = 0;
  const std::string first = "consolidated.00.pth/" + theirs;
  for (std::size_t r = 0; r < all.ranks.size(); ++r) {
    const std::string name = fmt::format("consolidated.{:02d}.pth/{}", r, theirs);
    const auto found = all.ranks[r].find(theirs);
    if (found == all.ranks[r].end()) throw Error(Code::config, name + " is missing", in.from);
    const Dims& shape = found->second.shape;
    if (shape.size() != (dim < 0 ? 1u : 2u)) throw Error(Code::config, fmt::format("{} has shape {}", name, dims_text(shape)), in.from);
    if (dim < 0 && r > 0) {
      in.copies.push_back({name, first, whole(shape), whole(shape)});
      continue;
    }
    Box box = whole(shape);
    const auto d = static_cast<std::size_t>(std::max(dim, 0));
    box.offset[d] = at;
    at += box.extent[d];
    in.map.push_back({name, shape, {{ours, box, whole(shape)}}});
  }
}

}  // namespace

SourceTensors meta_tensors(const fs::path& dir) {
  SourceTensors out;
  const MetaFiles all = open_files(dir);
  for (std::size_t r = 0; r < all.ranks.size(); ++r)
    for (const auto& [name, t] : all.ranks[r])
      out[fmt::format("consolidated.{:02d}.pth/{}", r, name)] = {t.dtype, t.dtype_text, all.files[r].where(), t.shape, nullptr};
  return out;
}

ForeignModel open_meta(const fs::path& from) {
  const auto where = (from / kParams).string();
  const Json params = read_json(from / kParams);
  const auto files = std::make_shared<MetaFiles>(open_files(from));
  const MetaFiles& all = *files;
  ForeignModel out;
  out.files = files;
  NativeImport& in = out.what;
  in.model = model_of(params, all, where, out.notices);
  in.from = from.string();
  in.specs["meta"] = {{"params", params}};
  const int head_dim = in.model.decoder().rows.front().attention.head_dim;
  for (std::size_t r = 0; r < all.ranks.size(); ++r)
    for (const auto& [name, t] : all.ranks[r]) {
      if (name == "rope.freqs") continue;
      const TorchFile& file = all.files[r];
      SourceTensor s{t.dtype, t.dtype_text, file.where(), t.shape, [&file, view = t](const Box& box, std::byte* to) { file.read(view, box, to); }};
      const bool pairs = (name.ends_with(".wq.weight") || name.ends_with(".wk.weight")) && t.dtype;
      out.tensors.emplace(fmt::format("consolidated.{:02d}.pth/{}", r, name), pairs ? with_rows_in_halves(std::move(s), head_dim) : std::move(s));
    }
  const int table = table_dim(all, in.model.hidden);
  for (const auto& n : kNames) {
    const int dim = std::string_view(n.theirs) == "tok_embeddings.weight" ? table : n.dim;
    if (std::string_view(n.theirs).find("{L}") == std::string_view::npos) add_name(all, n.theirs, n.ours, dim, in);
    else
      for (int layer = 0; layer < in.model.num_layers(); ++layer) add_name(all, of_layer(n.theirs, layer), of_layer(n.ours, layer), dim, in);
  }
  out.num_tensors = out.tensors.size();
  return out;
}

Converted import_meta(const ModelImport& what, const BytesDone& progress) { return import_model(open_meta(what.from), what, progress); }

}  // namespace mt
