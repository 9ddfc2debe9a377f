#pragma once
// Another program's tensors under our names: each of ours, read out of the boxes it is made of.
//
// What converts a model and what compares one with a checkpoint go through this, so both see the same elements.
// Code: foreign/foreign_tensors.cc. Tests: tests/foreign/foreign_tensors_test.cc.

#include <cstdint>
#include <vector>

#include "ckpt/tensor_source.h"
#include "foreign/source_tensors.h"

namespace mt {

class ForeignTensors : public TensorSource {
 public:
  // Count both ways, compare copies and what must round to weights. Both are borrowed.
  //   fails  Error{config}: a token that visits more experts than there are; as import_tensors
  //   cost   copies are read twice, master weights that must round and their weights once; nothing else
  ForeignTensors(const SourceTensors& sources, const NativeImport& what);

  void read(const TensorBox& tensor, const Box& box, std::byte* out) const override;
  // Elements [begin, end), flat, of tensors()[i].
  void read_range(std::size_t i, std::int64_t begin, std::int64_t end, std::byte* out) const;

 private:
  void add(const std::string& kind, const std::vector<MappedTensor>& map, const std::vector<NamedShape>& ours, std::vector<TensorBox>& all);
  void require_rounding(const StateMap& state, const std::vector<NamedShape>& ours) const;
  const SourceTensors& sources_;
  std::string from_;
  std::vector<std::vector<SourcePart>> parts_;
};

}  // namespace mt
