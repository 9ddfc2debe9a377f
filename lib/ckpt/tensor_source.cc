#include "ckpt/tensor_source.h"

namespace mt {

void TensorSource::set_tensors(std::vector<TensorBox> all) {
  tensors_ = std::move(all);
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(std::pair(tensors_[i].name, tensors_[i].kind), i);
}

const TensorBox* TensorSource::find(std::string_view name, std::string_view kind) const {
  const auto found = places_.find(std::pair(std::string(name), std::string(kind)));
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

CheckpointTensors::CheckpointTensors(const Reader& reader) : reader_(reader) {
  std::vector<TensorBox> all;
  for (const auto& t : reader.manifest().tensors) all.push_back({t.name, t.kind, t.dtype, t.shape, whole(t.shape)});
  set_tensors(std::move(all));
}

void CheckpointTensors::read(const TensorBox& tensor, const Box& box, std::byte* out) const {
  TensorRequest q;
  q.what = {tensor.name, tensor.kind, tensor.dtype, tensor.shape, box};
  q.out = out;
  reader_.read({&q, 1});
}

}  // namespace mt
