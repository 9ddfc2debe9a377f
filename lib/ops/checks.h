#pragma once
// Argument checks the ops share. For ops/*.cc only.

#include "tensor/view.h"

namespace mt::ops {

struct GemmArgs;
void check_gemm(const GemmArgs& args);  // ops/gemm.cc

inline bool is_float(const View& v) { return v.dtype == DType::f32 || v.dtype == DType::bf16 || v.dtype == DType::f16; }

// `v` is a float tensor of exactly this shape with a last stride of 1.
#define MT_CHECK_FLOAT(v, ...)                                                                                       \
  MT_CHECK(                                                                                                          \
      ::mt::ops::is_float(v) && (v).shape == (::mt::Shape __VA_ARGS__) && ((v).dim(-1) <= 1 || (v).stride(-1) == 1), \
      #v " is {} of {}, wanted a float of {}", ::mt::dtype_name((v).dtype), ::mt::shape_text((v).shape),             \
      ::mt::shape_text(::mt::Shape __VA_ARGS__))

// `v` is a contiguous tensor of exactly this dtype and shape.
#define MT_CHECK_VIEW(v, type, ...)                                                                                 \
  MT_CHECK((v).dtype == (type) && (v).shape == (::mt::Shape __VA_ARGS__) && (v).contiguous(),                       \
           #v " is {} of {}, wanted contiguous {} of {}", ::mt::dtype_name((v).dtype), ::mt::shape_text((v).shape), \
           ::mt::dtype_name(type), ::mt::shape_text(::mt::Shape __VA_ARGS__))

}  // namespace mt::ops
