// Cuts of Megatron's tensors, from the names and shapes of ours.

#include "foreign/megatron_map.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

constexpr std::string_view kLayers = "decoder.layers.";

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view e) { return name.ends_with(e); });
}

// Layer of a tensor; -1: of none.
int layer_of(const std::string& name) { return name.starts_with(kLayers) ? std::atoi(name.c_str() + kLayers.size()) : -1; }

// Their boxes of matrices have all columns, their boxes of vectors none.
Box rows_of(const Dims& shape, std::int64_t first, std::int64_t rows) {
  Box b = whole(shape);
  b.offset[0] = first;
  b.extent[0] = rows;
  return b;
}

// Makes the tensors of one rank and stage.
class Cutter {
 public:
  Cutter(const ModelSpec& model, const MegatronCut& cut, int tp_rank, int stage, int ep_rank, const std::string& where)
      : model_(model), cut_(cut), tp_(tp_rank), stage_(stage), ep_(ep_rank), where_(where) {
    for (auto& t : logical_tensors(model)) {
      order_.push_back(t.name);
      shapes_[t.name] = t.shape;
    }
    const auto before = cut.stage_layers.begin() + stage;
    first_layer_ = std::accumulate(cut.stage_layers.begin(), before, 0);
    last_layer_ = first_layer_ + *before;
  }

  std::vector<MegatronTensor> run() {
    for (const auto& name : order_)
      if (is_here(name)) add(name);
    const int last = static_cast<int>(cut_.stage_layers.size()) - 1;
    if (model_.tied && stage_ == last && last > 0) {
      vocabulary("embedding.word_embeddings.weight");
      MegatronTensor& head = out_.back();
      head.theirs.name = "output_layer.weight";
      head.of_tp = tp_;
      head.replica = TensorCopy{head.theirs.name, "embedding.word_embeddings.weight", whole(head.theirs.shape), whole(head.theirs.shape)};
    }
    return std::move(out_);
  }

 private:
  bool is_here(const std::string& name) const {
    if (const int layer = layer_of(name); layer >= 0) return layer >= first_layer_ && layer < last_layer_;
    return name.starts_with("embedding.") ? stage_ == 0 : stage_ + 1 == static_cast<int>(cut_.stage_layers.size());
  }

  std::int64_t part(std::int64_t n, int of, const std::string& name) const {
    if (n % of != 0) throw Error(Code::config, fmt::format("{}: {} cannot be cut in {}", name, n, of), where_);
    return n / of;
  }

  void add(const std::string& name) {
    if (name.find(".mlp.experts.") != std::string::npos) return experts(name);
    const auto kind = name.substr(name.rfind('.'));
    if (name.ends_with(".linear_q" + kind)) return qkv(name, kind);
    if (ends_with_any(name, {".linear_k.weight", ".linear_k.bias", ".linear_v.weight", ".linear_v.bias"})) return;
    if (name.ends_with(".linear_fc1_gate" + kind)) return gated(name, kind);
    if (name.ends_with(".linear_fc1_up" + kind)) return;
    if (name.ends_with(".linear_fc1" + kind)) return plain(name, 0);
    if (ends_with_any(name, {".linear_proj.weight", ".linear_fc2.weight"})) return plain(name, 1);
    if (name == "embedding.word_embeddings.weight" || name == "output_layer.weight") return vocabulary(name);
    plain(name, -1);
  }

  // One of ours, cut along a dimension, or whole on every tensor rank (-1).
  void plain(const std::string& name, int dim) {
    const Dims& shape = shapes_.at(name);
    Box mine = whole(shape);
    if (dim >= 0) {
      const auto d = static_cast<std::size_t>(dim);
      mine.extent[d] = part(shape[d], cut_.tp, name);
      mine.offset[d] = mine.extent[d] * tp_;
    }
    MappedTensor t{name, mine.extent, {{name, mine, whole(mine.extent)}}, {}};
    finish(std::move(t), dim < 0);
  }

  void vocabulary(const std::string& name) {
    const Dims& shape = shapes_.at(name);
    const std::int64_t rows = part(cut_.padded_vocab, cut_.tp, name), first = rows * tp_;
    const std::int64_t real = std::clamp<std::int64_t>(shape[0] - first, 0, rows);
    MappedTensor t{name, {rows, shape[1]}, {}, {}};
    if (real > 0) t.parts.push_back({name, rows_of(shape, first, real), rows_of(t.shape, 0, real)});
    if (real < rows) t.padding.push_back(rows_of(t.shape, real, rows - real));
    finish(std::move(t), false);
  }

  // Gate rows, then up rows.
  void gated(const std::string& gate, const std::string& kind) {
    const std::string stem = gate.substr(0, gate.size() - kind.size() - std::string_view("_gate").size());
    Dims shape = shapes_.at(gate);
    const std::int64_t rows = part(shape[0], cut_.tp, gate);
    MappedTensor t{stem + kind, shape, {}, {}};
    t.shape[0] = 2 * rows;
    t.parts.push_back({gate, rows_of(shape, rows * tp_, rows), rows_of(t.shape, 0, rows)});
    t.parts.push_back({stem + "_up" + kind, rows_of(shape, rows * tp_, rows), rows_of(t.shape, rows, rows)});
    finish(std::move(t), false);
  }

  void qkv(const std::string& q, const std::string& kind) {
    const std::string stem = q.substr(0, q.size() - kind.size() - std::string_view("linear_q").size());
    const std::string k = stem + "linear_k" + kind, v = stem + "linear_v" + kind;
    const Row& row = attention_of(layer_of(q));
    const std::int64_t width = row.attention.head_dim, groups = row.attention.kv_heads;
    const std::int64_t q_rows = part(row.attention.heads, row.attention.kv_heads, q) * width, group = q_rows + 2 * width;
    MappedTensor t{stem + "linear_qkv" + kind, shapes_.at(q), {}, {}};
    const std::int64_t rows = part(groups * group, cut_.tp, q), first = rows * tp_;
    t.shape[0] = rows;
    const auto put = [&](const std::string& name, std::int64_t ours, std::int64_t at, std::int64_t n) {
      const std::int64_t from = std::max(at, first), to = std::min(at + n, first + rows);
      if (from < to) t.parts.push_back({name, rows_of(shapes_.at(name), ours + from - at, to - from), rows_of(t.shape, from - first, to - from)});
    };
    if (cut_.qkv_by_part) {
      const std::int64_t each = part(groups, cut_.tp, q) * width, heads = each * (q_rows / width);
      put(q, heads * tp_, first, heads);
      put(k, each * tp_, first + heads, each);
      put(v, each * tp_, first + heads + each, each);
    } else {
      for (std::int64_t g = 0; g < groups; ++g) {
        put(q, g * q_rows, g * group, q_rows);
        put(k, g * width, g * group + q_rows, width);
        put(v, g * width, g * group + q_rows + width, width);
      }
    }
    finish(std::move(t), false);
  }

  const Row& attention_of(int layer) const {
    for (const auto& r : model_.decoder().rows)
      if (r.layer == layer && r.kind == RowKind::attention) return r;
    MT_CHECK(false, "layer {} has queries and no attention", layer);
  }

  // A tensor an expert, of a stack of ours.
  void experts(const std::string& name) {
    const auto at = name.find(".mlp.experts.") + std::string_view(".mlp.experts.").size();
    const std::string inside = name.substr(at);
    if (inside == "linear_fc1_up.weight") return;
    const bool gate = inside == "linear_fc1_gate.weight", columns = inside == "linear_fc2.weight";
    const Dims& shape = shapes_.at(name);
    const int etp = cut_.etp > 0 ? cut_.etp : cut_.tp, expert_tp = tp_ % etp;
    const std::int64_t local = part(shape[0], cut_.ep, name), n = part(shape[columns ? 2 : 1], etp, name);
    for (std::int64_t e = local * ep_; e < local * (ep_ + 1); ++e) {
      Box mine{{e, columns ? 0 : n * expert_tp, columns ? n * expert_tp : 0}, {1, columns ? shape[1] : n, columns ? n : shape[2]}};
      MappedTensor t{name.substr(0, at) + std::to_string(e) + "." + (gate ? "linear_fc1.weight" : inside), {mine.extent[1], mine.extent[2]}, {}, {}};
      if (gate) t.shape[0] *= 2;
      t.parts.push_back({name, mine, rows_of(t.shape, 0, mine.extent[1])});
      if (gate) t.parts.push_back({name.substr(0, at) + "linear_fc1_up.weight", mine, rows_of(t.shape, n, n)});
      out_.push_back({std::move(t), std::nullopt, expert_tp});
    }
  }

  void finish(MappedTensor t, bool whole_on_each) {
    MegatronTensor m{std::move(t), std::nullopt, whole_on_each ? 0 : tp_};
    if (m.of_tp != tp_ || ep_ != 0) m.replica = TensorCopy{m.theirs.name, m.theirs.name, whole(m.theirs.shape), whole(m.theirs.shape)};
    out_.push_back(std::move(m));
  }

  const ModelSpec& model_;
  const MegatronCut& cut_;
  const int tp_, stage_, ep_;
  const std::string& where_;
  int first_layer_ = 0, last_layer_ = 0;
  std::vector<std::string> order_;
  std::map<std::string, Dims> shapes_;
  std::vector<MegatronTensor> out_;
};

// A box of one tensor as one of a stack of them.
Box stacked_box(const Box& b, std::int64_t at) {
  Box out{{at}, {1}};
  out.offset.insert(out.offset.end(), b.offset.begin(), b.offset.end());
  out.extent.insert(out.extent.end(), b.extent.begin(), b.extent.end());
  return out;
}

// `t` as element `at` of a stack of `n` that is called `name`.
void add_to_stack(std::vector<MappedTensor>& all, std::map<std::string, std::size_t>& places, const std::string& name, MappedTensor t,
                  std::int64_t at, std::int64_t n) {
  const auto [found, fresh] = places.emplace(name, all.size());
  if (fresh) {
    Dims shape{n};
    shape.insert(shape.end(), t.shape.begin(), t.shape.end());
    all.push_back({name, std::move(shape), {}, {}});
  }
  MappedTensor& stack = all[found->second];
  for (auto& p : t.parts) stack.parts.push_back({p.ours, p.our_box, stacked_box(p.their_box, at), p.transposed});
}

}  // namespace

std::vector<MegatronTensor> megatron_tensors(const ModelSpec& model, const MegatronCut& cut, int tp_rank, int stage, int ep_rank,
                                             const std::string& where) {
  return Cutter(model, cut, tp_rank, stage, ep_rank, where).run();
}

MegatronRankMap megatron_rank_map(const ModelSpec& model, const MegatronCut& cut, int chunks, const std::vector<MegatronRank>& ranks, const std::string& where) {
  MegatronRankMap out;
  std::map<std::pair<std::string, int>, std::string> counted;  // name and tensor rank, where it counts
  for (const auto& r : ranks)
    for (int stage = r.pp; stage < cut.pp * chunks; stage += cut.pp)
      for (auto& t : megatron_tensors(model, cut, r.tp, stage, r.ep, where)) {
        const std::string& name = t.replica ? t.replica->of : t.theirs.name;  // a tied head is its table
        const std::string here = r.prefix + t.theirs.name;
        const auto [found, first] = counted.emplace(std::pair(name, t.of_tp), here);
        const Box all = whole(t.theirs.shape);
        t.theirs.name = here;
        if (first) out.map.push_back(std::move(t.theirs));
        else out.copies.push_back({here, found->second, all, all});
      }
  return out;
}

std::vector<MappedTensor> megatron_dist_tensors(const ModelSpec& model, std::int64_t padded_vocab, bool stacked, const std::string& where) {
  MegatronCut cut;
  cut.stage_layers = {model.num_layers()};
  cut.padded_vocab = padded_vocab;
  int experts = 0;
  for (const auto& r : model.decoder().rows)
    if (r.kind == RowKind::moe) experts = r.moe.experts;
  // Experts of a layer first, then layers.
  std::vector<MappedTensor> layered, out;
  std::map<std::string, std::size_t> expert_places, layer_places;
  for (auto& m : megatron_tensors(model, cut, 0, 0, 0, where)) {
    constexpr std::string_view kExperts = ".mlp.experts.";
    const auto at = m.theirs.name.find(kExperts);
    if (at == std::string::npos) {
      layered.push_back(std::move(m.theirs));
      continue;
    }
    const auto number = at + kExperts.size(), behind = m.theirs.name.find('.', number);
    const std::string name = m.theirs.name.substr(0, number) + "experts" + m.theirs.name.substr(behind);
    add_to_stack(layered, expert_places, name, std::move(m.theirs), std::atoi(m.theirs.name.c_str() + number), experts);
  }
  for (auto& t : layered) {
    const int layer = layer_of(t.name);
    if (layer < 0 || !stacked) {
      out.push_back(std::move(t));
      continue;
    }
    const std::string name = std::string(kLayers) + t.name.substr(t.name.find('.', kLayers.size()) + 1);
    add_to_stack(out, layer_places, name, std::move(t), layer, model.num_layers());
  }
  return out;
}

}  // namespace mt
