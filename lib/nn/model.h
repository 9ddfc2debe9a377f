#pragma once
// The sub-layers of one (stage, chunk), assembled from ModelSpec in order.
//
// Adding a kind of row: a builder like nn/mlp.h and a case in nn/model.cc. Code: nn/model.cc. Tests: tests/nn/.

#include <vector>

#include "layout/param_spec.h"
#include "nn/sub_layer.h"
#include "tensor/tensor.h"

namespace mt {

class Model {
 public:
  // needs  `params` holds the table of the same (model, layout, coordinate) and outlives the model
  Model(const ModelSpec& spec, const BatchSpec& batch, const Groups& groups, const ParameterStore& params, int chunk,
        Device device);

  const ModelSpec& spec() const { return spec_; }
  const StageContent& content() const { return content_; }
  // Embedding first and head last where this stage has them.
  const std::vector<SubLayer>& layers() const { return layers_; }

 private:
  ModelSpec spec_;
  StageContent content_;
  Tensor rotary_table_;  // f32 [positions, R], host-made, same for all rows
  std::vector<SubLayer> layers_;
};

}  // namespace mt
