#include "mt-reshard/boxes_of_layout.h"

#include <map>
#include <set>

#include "base/error.h"

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
  const auto placement = place(parallel);
  std::vector<std::vector<TensorBox>> owned(placement.coordinates.size());
  std::map<std::string, int> stage_of;  // a tied weight lives on two pipeline stages; the first owns it
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    const auto& c = placement.coordinates[rank];
    for (const auto& param : param_specs(model, parallel, c))
      for (const auto& piece : param.pieces) {
        if (stage_of.emplace(piece.name, c.pp).first->second != c.pp) continue;
        parameters.insert(piece.name);
        const auto replica = replica_of(piece, parallel, c);
        const auto entries = stored.find(piece.name);
        if (entries == stored.end())
          throw Error(Code::config, piece.name + ": the model has it, the checkpoint has not");
        for (const auto* t : entries->second) {
          if (is_scale(*t)) continue;
          if (t->shape != piece.shape)
            throw Error(Code::config, fmt::format("{}: the model has shape {}, the checkpoint {}",
                                                  tensor_text(t->name, t->kind), dims_text(piece.shape),
                                                  dims_text(t->shape)));
          if (piece.box.empty()) continue;
          TensorBox own{t->name, t->kind, t->dtype, t->shape, written_part(piece, replica, t->dtype)};
          if (!own.box.empty()) owned[rank].push_back(std::move(own));
        }
      }
  }
  for (const auto& t : manifest.tensors)
    if (!parameters.count(t.name) || is_scale(t)) owned[0].push_back({t.name, t.kind, t.dtype, t.shape, whole(t.shape)});
  return owned;
}

}  // namespace mt
