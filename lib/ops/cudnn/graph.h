#pragma once
// The graph of one attention, forward or backward, in the words of cuDNN's frontend.
//
// Header only, as the frontend is. Included only inside ops/cudnn/. Tests: tests/ops/cudnn_plans_test.cc.

#include <memory>

#include "ops/cudnn/frontend.h"

#include "ops/cuda/sdpa_plan.h"

namespace mt::ops::cudnn {

namespace fe = cudnn_frontend;
using cuda::Sdpa;
using Graph = fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// What pointers are given under: tensors, their first elements, and the lengths.
constexpr std::int64_t uid_of(int tensor) { return 1 + tensor; }
constexpr std::int64_t firsts_uid_of(int tensor) { return 101 + tensor; }
constexpr std::int64_t kQueryLengthsUid = 201, kKeyLengthsUid = 202;

inline fe::DataType_t element_of(const Sdpa& s) {
  return s.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

class GraphTensors {
 public:
  GraphTensors(Graph& graph, const Sdpa& sdpa) : graph_(graph), s_(sdpa) {}

  Tensor input(int tensor) {
    auto t = graph_.tensor(fe::graph::Tensor_attributes().set_uid(uid_of(tensor)));
    shape(*t, tensor);
    return t;
  }
  void output(const Tensor& t, int tensor) {
    t->set_output(true).set_uid(uid_of(tensor));
    shape(*t, tensor);
  }
  Tensor numbers(std::int64_t uid, std::int64_t count, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }

 private:
  void shape(fe::graph::Tensor_attributes& t, int tensor) {
    const bool is_lse = tensor == cuda::kSdpaLse;
    const std::int64_t heads = cuda::of_keys(tensor) ? s_.groups : s_.heads;
    const std::int64_t tokens = cuda::of_keys(tensor) ? s_.keys : s_.queries;
    const auto& step = s_.steps[static_cast<std::size_t>(tensor)];
    t.set_dim({s_.batch, heads, tokens, is_lse ? 1 : s_.dim})
        .set_stride({step.sequence, step.head, step.token, 1})
        .set_data_type(is_lse ? fe::DataType_t::FLOAT : element_of(s_));
    if (s_.packed) t.set_ragged_offset(numbers(firsts_uid_of(tensor), s_.batch + 1, fe::DataType_t::INT64));
  }

  Graph& graph_;
  const Sdpa& s_;
};

template <class Attributes>
void set_masks(Attributes& a, GraphTensors& tensors, const Sdpa& s) {
  a.set_attn_scale(s.scale);
  if (s.causal) {
    // With as many queries as keys both say the same; the library has more plans for the first.
    const bool square = s.queries == s.keys;
    a.set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    a.set_diagonal_band_right_bound(0);
  }
  if (s.packed) {
    a.set_padding_mask(true);
    a.set_seq_len_q(tensors.numbers(kQueryLengthsUid, s.batch, fe::DataType_t::INT32));
    a.set_seq_len_kv(tensors.numbers(kKeyLengthsUid, s.batch, fe::DataType_t::INT32));
  }
}

inline std::shared_ptr<Graph> sdpa_graph(const Sdpa& s) {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(element_of(s))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(s.capability);
  GraphTensors tensors(*graph, s);
  const Tensor q = tensors.input(cuda::kSdpaQ), k = tensors.input(cuda::kSdpaK), v = tensors.input(cuda::kSdpaV);
  if (!s.backward) {
    fe::graph::SDPA_attributes a;
    a.set_generate_stats(true);
    set_masks(a, tensors, s);
    const auto [out, lse] = graph->sdpa(q, k, v, a);
    tensors.output(out, cuda::kSdpaOut);
    tensors.output(lse, cuda::kSdpaLse);
    return graph;
  }
  fe::graph::SDPA_backward_attributes a;
  a.set_deterministic_algorithm(s.repeats);
  set_masks(a, tensors, s);
  const Tensor out = tensors.input(cuda::kSdpaOut), dout = tensors.input(cuda::kSdpaDout);
  const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, tensors.input(cuda::kSdpaLse), a);
  tensors.output(dq, cuda::kSdpaDq);
  tensors.output(dk, cuda::kSdpaDk);
  tensors.output(dv, cuda::kSdpaDv);
  return graph;
}

}  // namespace mt::ops::cudnn
