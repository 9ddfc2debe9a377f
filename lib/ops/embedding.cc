#include "ops/embedding.h"

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

void embedding_forward(Stream& stream, const EmbeddingForwardArgs& g) {
  MT_CHECK(g.out.num_dims() == 2 && g.weight.num_dims() == 2, "out {}, weight {}", shape_text(g.out.shape),
           shape_text(g.weight.shape));
  const std::int64_t tokens = g.out.dim(0), hidden = g.out.dim(1);
  MT_CHECK_VIEW(g.ids, DType::i32, {tokens});
  MT_CHECK_FLOAT(g.weight, {g.weight.dim(0), hidden});
  MT_CHECK_FLOAT(g.out, {tokens, hidden});
  if (g.position_weight) {
    MT_CHECK_FLOAT(g.position_weight, {g.position_weight.dim(0), hidden});
    MT_CHECK_VIEW(g.positions, DType::i32, {tokens});
  }
  dispatch(stream, &Kernels::embedding_forward, g);
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& g) {
  MT_CHECK(g.dout.num_dims() == 2 && g.dweight.num_dims() == 2, "dout {}, dweight {}", shape_text(g.dout.shape),
           shape_text(g.dweight.shape));
  MT_CHECK_VIEW(g.ids, DType::i32, {g.dout.dim(0)});
  MT_CHECK_FLOAT(g.dout, {g.dout.dim(0), g.dout.dim(1)});
  MT_CHECK_FLOAT(g.dweight, {g.dweight.dim(0), g.dout.dim(1)});
  MT_CHECK(g.dweight.contiguous(), "dweight of strides {}", shape_text(g.dweight.strides));
  dispatch(stream, &Kernels::embedding_backward, g);
}

Cost embedding_cost(std::int64_t tokens, std::int64_t hidden, int bytes_per_element) {
  return {0, 2.0 * static_cast<double>(tokens) * static_cast<double>(hidden) * bytes_per_element};
}

}  // namespace mt::ops
