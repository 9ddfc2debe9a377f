// Which attention goes to cuDNN: a question about arguments alone.
#include <gtest/gtest.h>

#include <functional>

#include "ops/attention.h"

namespace mt::ops {

namespace {

// Two sequences of 8 tokens, 4 heads of 64 over 2, as slices of a fused row; nothing is read.
struct Args {
  alignas(64) std::byte memory[4096];
  AttentionBackwardArgs g;

  Args() {
    const View fused(memory, DType::bf16, {16, 8, 64});
    g.q = g.dq = fused.slice(1, 0, 4);
    g.k = g.dk = fused.slice(1, 4, 6);
    g.v = g.dv = fused.slice(1, 6, 8);
    g.out = g.dout = View(memory, DType::bf16, {16, 4, 64});
    g.lse = View(memory, DType::f32, {16, 4});
    g.shape.cu_q = g.shape.cu_k = View(memory, DType::i32, {3});
    g.shape.lengths = {8, 8, true};
    g.shape.scale = 0.125f;
  }
  AttentionForwardArgs forward() const { return {g.q, g.k, g.v, g.out, g.lse, g.shape}; }
};

// Whether it goes there after `change`, forward and backward alike.
bool goes(const std::function<void(AttentionBackwardArgs&)>& change, int capability = 90) {
  Args a;
  change(a.g);
  const bool backward = cudnn_takes(a.g, capability), forward = cudnn_takes(a.forward(), capability);
  EXPECT_EQ(forward, backward);
  return forward && backward;
}

}  // namespace

TEST(AttentionChoice, EqualAndPackedSequencesGoToCudnn) {
  EXPECT_TRUE(goes([](auto&) {}));
  EXPECT_TRUE(goes([](auto&) {}, 100));
  EXPECT_TRUE(goes([](auto& g) { g.shape.causal = false; }));
  EXPECT_TRUE(goes([](auto& g) { g.shape.lengths = {13, 13, false}; }));
  EXPECT_TRUE(goes([](auto& g) { g.shape.mode.repeats = true; }));
  EXPECT_TRUE(goes([](auto& g) { g.shape.mode.kernels = AttentionKernels::cudnn; }));
}

TEST(AttentionChoice, OlderDevicesAndARefusalKeepOurKernels) {
  EXPECT_FALSE(goes([](auto&) {}, 80));
  EXPECT_FALSE(goes([](auto&) {}, 89));
  EXPECT_FALSE(goes([](auto& g) { g.shape.mode.kernels = AttentionKernels::ours; }));
}

TEST(AttentionChoice, WhatCudnnDoesNotComputeKeepsOurKernels) {
  EXPECT_FALSE(goes([](auto& g) { g.shape.dropout.p = 0.1f; }));
  EXPECT_FALSE(goes([](auto& g) { g.shape.used_k = g.shape.cu_k.rows(0, 2); }));
  EXPECT_FALSE(goes([](auto& g) { g.shape.scale = -1; }));
  EXPECT_FALSE(goes([](auto& g) {
    for (View* x : {&g.q, &g.k, &g.v, &g.out, &g.dout, &g.dq, &g.dk, &g.dv}) x->dtype = DType::f32;
  }));
  for (std::int64_t dim : {4, 60, 264})
    EXPECT_FALSE(goes([&](auto& g) {
      for (View* x : {&g.q, &g.k, &g.v, &g.out, &g.dout, &g.dq, &g.dk, &g.dv}) {
        x->shape = {x->dim(0), x->dim(1), dim};
        x->strides = {x->dim(1) * 512, 512, 1};
      }
    })) << dim;
}

TEST(AttentionChoice, LengthsThatTheHostDoesNotKnowKeepOurKernels) {
  EXPECT_FALSE(goes([](auto& g) { g.shape.lengths = {}; }));
  EXPECT_FALSE(goes([](auto& g) { g.shape.lengths = {7, 7, true}; }));  // not those of 16 tokens
  EXPECT_FALSE(goes([](auto& g) { g.shape.lengths = {1, 1, false}; }));
  // Of packed sequences whose queries are not their keys nobody knows that each has enough of them.
  EXPECT_FALSE(goes([](auto& g) {
    g.shape.lengths = {8, 8, false};
    g.shape.cu_k.data = static_cast<std::byte*>(g.shape.cu_q.data) + 64;
  }));
}

TEST(AttentionChoice, CausalQueriesThatSeeNoKeyKeepOurKernels) {
  const auto fewer_keys = [](auto& g) {
    for (View* x : {&g.k, &g.v, &g.dk, &g.dv}) *x = x->rows(0, 8);
    g.shape.lengths = {8, 4, true};
  };
  EXPECT_FALSE(goes(fewer_keys));
  EXPECT_TRUE(goes([&](auto& g) { fewer_keys(g); g.shape.causal = false; }));
}

TEST(AttentionChoice, RowsOffTheBordersKeepOurKernels) {
  EXPECT_FALSE(goes([](auto& g) { g.q.data = static_cast<std::byte*>(g.q.data) + 8; }));
  EXPECT_FALSE(goes([](auto& g) { g.v.strides = {516, 64, 1}; }));
  EXPECT_FALSE(goes([](auto& g) { g.out.strides = {256, 68, 1}; }));
}

// What is written in f32 is not what cuDNN writes; each pass looks at its own.
TEST(AttentionChoice, ResultsInF32KeepOurKernels) {
  for (View AttentionBackwardArgs::*x : {&AttentionBackwardArgs::dout, &AttentionBackwardArgs::dq,
                                         &AttentionBackwardArgs::dk, &AttentionBackwardArgs::dv}) {
    Args a;
    (a.g.*x).dtype = DType::f32;
    EXPECT_FALSE(cudnn_takes(a.g, 90));
    EXPECT_TRUE(cudnn_takes(a.forward(), 90));
  }
  EXPECT_FALSE(goes([](auto& g) { g.out.dtype = DType::f32; }));
}

TEST(AttentionChoice, WordsSayWhoseKernelsTheyAre) {
  EXPECT_EQ(attention_kernels({}, AttentionKernels::fastest), "our own");
  EXPECT_EQ(attention_kernels({}, AttentionKernels::cudnn), "our own");
}

}  // namespace mt::ops
