#pragma once
// cuBLASLt, opened when the first product asks for it: it maps half a gigabyte, which a program that computes on the CPU
// neither waits for nor needs to find.
//
// Code: ops/cuda/cublaslt.cu. Tests: tests/ops/gemm_test.cc, on a device.

#include <cublasLt.h>

// The functions used.
#define MT_CUBLASLT_FUNCTIONS(X)                                                                               \
  X(cublasLtGetStatusString) X(cublasLtCreate) X(cublasLtMatmul) X(cublasLtMatmulAlgoGetHeuristic)             \
  X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute)                   \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute)

namespace mt::ops::cuda {

struct CublasLt {
#define MT_FIELD(name) decltype(&::name) name = nullptr;
  MT_CUBLASLT_FUNCTIONS(MT_FIELD)
#undef MT_FIELD
};

//   fails  Error{device}: not found, or without one of the functions
const CublasLt& cublas_lt();

}  // namespace mt::ops::cuda
