#include "mt-reshard/boxes_of_layout.h"

#include <map>
#include <set>

#include "base/error.h"
#include "ckpt/owned_boxes.h"

namespace mt {

namespace {

// One number of a whole tensor: what a moment of few bits is multiplied by.
bool is_scale(const TensorEntry& t) { return t.kind.ends_with("_scale") && t.shape == Dims{1}; }

}  // namespace

std::vector<std::vector<TensorBox>> boxes_of_layout(const Manifest& manifest, const ModelSpec& model,
                                                    const ParallelSpec& parallel) {
  std::map<std::string, std::vector<const TensorEntry*>> stored;
  for (const auto& t : manifest.tensors) stored[t.name].push_back(&t);
  std::set<std::string> parameters;
  for (const auto& t : logical_tensors(model)) {
    const auto entries = stored.find(t.name);
    if (entries == stored.end()) throw Error(Code::config, t.name + ": the model has it, the checkpoint has not");
    for (const auto* e : entries->second)
      if (!is_scale(*e) && e->shape != t.shape)
        throw Error(Code::config, fmt::format("{}: the model has shape {}, the checkpoint {}", tensor_text(e->name, e->kind),
                                              dims_text(t.shape), dims_text(e->shape)));
    parameters.insert(t.name);
  }
  const auto kinds = [&](const ParamSpec&, const Piece& piece) {
    std::vector<StateKind> k;
    for (const auto* t : stored.find(piece.name)->second)
      if (!is_scale(*t)) k.push_back({t->kind.c_str(), t->dtype});
    return k;
  };
  const auto placement = place(parallel);
  std::vector<std::vector<TensorBox>> owned(placement.coordinates.size());
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const auto& at = placement.coordinates[rank];
    const auto specs = param_specs(model, parallel, at);
    for (auto& box : owned_boxes(specs, plan_shards(specs, shard_spec(parallel, at)), parallel, at, kinds))
      owned[rank].push_back(std::move(box.what));
  }
  for (const auto& t : manifest.tensors)
    if (!parameters.count(t.name) || is_scale(t)) owned[0].push_back({t.name, t.kind, t.dtype, t.shape, whole(t.shape)});
  return owned;
}

}  // namespace mt
