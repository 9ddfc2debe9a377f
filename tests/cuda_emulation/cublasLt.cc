#include "cublasLt.h"

#include <cstring>
#include <vector>

#include "base/dtype.h"

struct cublasLtContext {};
struct EmulatedPreference {};
struct EmulatedLayout {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct EmulatedMatmulDesc {
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = CUDA_R_32F;
  const void* bias = nullptr;
};

namespace {

float get(const void* data, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  if (type == CUDA_R_16BF) return mt::to_f32(static_cast<const mt::bf16*>(data)[at]);
  return mt::to_f32(static_cast<const mt::f16*>(data)[at]);
}
void put(void* data, cudaDataType_t type, std::int64_t at, float x) {
  if (type == CUDA_R_32F) static_cast<float*>(data)[at] = x;
  else if (type == CUDA_R_16BF) static_cast<mt::bf16*>(data)[at] = mt::to_bf16(x);
  else static_cast<mt::f16*>(data)[at] = mt::to_f16(x);
}

template <class T>
cublasStatus_t take(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

struct Work {
  EmulatedMatmulDesc desc;
  EmulatedLayout a, b, c;
  const void *a_data, *b_data;
  void* c_data;
  float alpha, beta;

  std::int64_t depth() const { return desc.trans_a == CUBLAS_OP_N ? a.columns : a.rows; }

  void run(std::int64_t item) const {
    const std::int64_t m = c.rows, n = c.columns, k = depth();
    std::vector<float> right(static_cast<std::size_t>(k * m)), sum(static_cast<std::size_t>(m));
    // Columns of the result are contiguous: the first operand as [k, m].
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t i = 0; i < m; ++i)
        right[static_cast<std::size_t>(l * m + i)] = get(
            a_data, a.type, item * a.stride + (desc.trans_a == CUBLAS_OP_N ? i + l * a.leading : l + i * a.leading));
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (std::int64_t l = 0; l < k; ++l) {
        const float x = get(b_data, b.type,
                            item * b.stride + (desc.trans_b == CUBLAS_OP_N ? l + j * b.leading : j + l * b.leading));
        const float* row = right.data() + l * m;
        for (std::int64_t i = 0; i < m; ++i) sum[static_cast<std::size_t>(i)] += x * row[i];
      }
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t at = item * c.stride + i + j * c.leading;
        float x = alpha * sum[static_cast<std::size_t>(i)];
        if (beta != 0) x += beta * get(c_data, c.type, at);
        if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) x += get(desc.bias, desc.bias_type, i);
        put(c_data, c.type, at, x);
      }
    }
  }
};

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                                 : "invalid";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new EmulatedMatmulDesc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(desc->trans_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(desc->trans_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new EmulatedLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t bytes) {
  return what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? take(layout->batch, value, bytes)
                                                    : take(layout->stride, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void*,
                                                    std::size_t bytes) {
  const std::size_t wanted = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
  return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

// Refuses what the library's table of dtypes does not hold.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const bool types = a->type == b->type && c->type == d->type && (c->type == CUDA_R_32F || c->type == a->type);
  const bool bias = desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc->bias_type == d->type;
  const std::int64_t m = desc->trans_a == CUBLAS_OP_N ? a->rows : a->columns,
                     k = desc->trans_a == CUBLAS_OP_N ? a->columns : a->rows,
                     n = desc->trans_b == CUBLAS_OP_N ? b->columns : b->rows,
                     other = desc->trans_b == CUBLAS_OP_N ? b->rows : b->columns;
  if (!types || !bias || k == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (wanted < 1 || m != d->rows || n != d->columns || k != other) return CUBLAS_STATUS_INVALID_VALUE;
  *results = {};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  const Work work{*desc,
                  *a_layout,
                  *b_layout,
                  *d_layout,
                  a,
                  b,
                  d,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta)};
  if (c != d) return CUBLAS_STATUS_NOT_SUPPORTED;
  mt::emulation::queue(stream, [work] {
    for (std::int64_t i = 0; i < work.c.batch; ++i) work.run(i);
  });
  return CUBLAS_STATUS_SUCCESS;
}
