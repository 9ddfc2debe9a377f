#pragma once
// Declarations of this folder's loops inside the namespace of one instruction class; see vector.h for what each does.

#include "ops/cpu/vector/lanes.h"

namespace mt::ops::cpu::MT_ISA {

// convert.cc
void bf16_to_f32(const void* x, float* out, Count n);
void f16_to_f32(const void* x, float* out, Count n);
void f32_to_bf16(const float* x, void* out, Count n);
void f32_to_f16(const float* x, void* out, Count n);
void add(const float* a, const float* b, float* out, Count n);
void scale(const float* x, float factor, float* out, Count n);
float max(const float* x, Count n);
void transpose(const float* x, Count x_row, Count rows, Count columns, float* out, Count out_row);
float dot(const float* a, const float* b, Count n);

// norm.cc
float rms_forward(const float* x, const float* weight, float shift, float epsilon, float* out, Count n);
void rms_backward(const float* dout, const float* x, const float* weight, float shift, float rstd,
                  const float* dresidual, float* dx, Count n);
void rms_columns(const float* dout, const float* x, float rstd, float* dweight, Count n);
void layer_forward(const float* x, const float* weight, const float* bias, float shift, float epsilon, float* out,
                   Count n, float* mean_rstd);
void layer_backward(const float* dout, const float* x, const float* weight, float shift, const float* mean_rstd,
                    const float* dresidual, float* dx, Count n);
void layer_columns(const float* dout, const float* x, const float* mean_rstd, float* dweight, float* dbias, Count n);

// activation.cc
template <class Act>
void activation(const float* x, const float* bias, float* out, Count n);
template <class Act>
void activation_backward(const float* x, const float* bias, const float* dout, float* dx, Count n);
template <class Act>
void gated(const float* gate, const float* up, const float* gate_bias, const float* up_bias, float* out, Count n);
template <class Act>
void gated_backward(const float* gate, const float* up, const float* gate_bias, const float* up_bias, const float* dout,
                    float* dgate, float* dup, Count n);

// dropout.cc
void bias_add(const float* x, const float* bias, const float* residual, float* out, Count n);
void bias_dropout_add(const float* x, const float* bias, const float* residual, const DropoutRow& row, float* out,
                      Count n);
void dropout(float* x, const DropoutRow& row, Count n);
void rotate_half(float* x, const float* cosine, const float* sine, float sign, Count half);
void rotate_interleaved(float* x, const float* cosine, const float* sine, float sign, Count half);

// loss.cc
void exp_sums(const float* x, float max, Count n, float* sums);
void softmax_gradient(const float* x, float max, float factor, float subtract, float* out, Count n);
float exp_row(float* x, float max, Count n);
void softmax_backward(const float* p, const float* dp, float delta, float scale, float* ds, Count n);
void adamw(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, const AdamwStep& step, Count n);
Count add_squares(const float* x, Count n, std::int64_t* digits);

// block_product.cc
void block_product(const BlockProduct& p);

}  // namespace mt::ops::cpu::MT_ISA
