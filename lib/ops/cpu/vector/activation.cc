#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

template <class Act>
void activation(const float* x, const float* bias, float* out, Count n) {
  if (bias == nullptr) MT_EACH for (Count i = 0; i < n; ++i) out[i] = Act::value(x[i]);
  else MT_EACH for (Count i = 0; i < n; ++i) out[i] = Act::value(x[i] + bias[i]);
}

template <class Act>
void activation_backward(const float* x, const float* bias, const float* dout, float* dx, Count n) {
  if (bias == nullptr) MT_EACH for (Count i = 0; i < n; ++i) dx[i] = dout[i] * Act::slope(x[i]);
  else MT_EACH for (Count i = 0; i < n; ++i) dx[i] = dout[i] * Act::slope(x[i] + bias[i]);
}

template <class Act>
void gated(const float* gate, const float* up, const float* gate_bias, const float* up_bias, float* out, Count n) {
  if (gate_bias == nullptr) MT_EACH for (Count i = 0; i < n; ++i) out[i] = Act::value(gate[i]) * up[i];
  else MT_EACH for (Count i = 0; i < n; ++i) out[i] = Act::value(gate[i] + gate_bias[i]) * (up[i] + up_bias[i]);
}

template <class Act>
void gated_backward(const float* gate, const float* up, const float* gate_bias, const float* up_bias, const float* dout,
                    float* dgate, float* dup, Count n) {
  if (gate_bias == nullptr) MT_EACH for (Count i = 0; i < n; ++i) {
      const float g = gate[i], u = up[i], d = dout[i];
      dgate[i] = d * u * Act::slope(g);
      dup[i] = d * Act::value(g);
    }
  else MT_EACH for (Count i = 0; i < n; ++i) {
      const float g = gate[i] + gate_bias[i], u = up[i] + up_bias[i], d = dout[i];
      dgate[i] = d * u * Act::slope(g);
      dup[i] = d * Act::value(g);
    }
}

#define MT_ACTIVATION(Act)                                                                                        \
  template void activation<Act>(const float*, const float*, float*, Count);                                       \
  template void activation_backward<Act>(const float*, const float*, const float*, float*, Count);                \
  template void gated<Act>(const float*, const float*, const float*, const float*, float*, Count);                \
  template void gated_backward<Act>(const float*, const float*, const float*, const float*, const float*, float*, \
                                    float*, Count);
MT_ACTIVATION(ActGeluTanh)
MT_ACTIVATION(ActGeluErf)
MT_ACTIVATION(ActSilu)
MT_ACTIVATION(ActRelu)
MT_ACTIVATION(ActSquaredRelu)

}  // namespace mt::ops::cpu::MT_ISA
