#include "cublasLt.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/dtype.h"

struct cublasLtContext {
  int device;
};
struct EmulatedPreference {
  std::uint64_t workspace = 0;
  std::uint32_t border[4] = {256, 256, 256, 256};  // of a, b, c, d
};
struct EmulatedLayout {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct EmulatedMatmulDesc {
  cublasComputeType_t compute;
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::optional<cudaDataType_t> bias_type;  // of the result, where it is not said
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;
  const float *a_scale = nullptr, *b_scale = nullptr;
  cublasLtMatmulMatrixScale_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                              b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

namespace mt::emulation {

std::vector<double>& product_times() {
  static std::vector<double> times{3, 1, 2};
  return times;
}
std::vector<ProductAsked>& products_asked() {
  static std::vector<ProductAsked> asked;
  return asked;
}

}  // namespace mt::emulation

namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::size_t kWorkspace = 1024;  // of an algorithm, times its place

bool is_fp8(cudaDataType_t t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }
std::int64_t bytes_of(cudaDataType_t t) { return t == CUDA_R_32F ? 4 : is_fp8(t) ? 1 : 2; }
bool on_border(const void* p, std::uint64_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

float get(const void* data, cudaDataType_t type, std::int64_t at) {
  switch (type) {
    case CUDA_R_32F: return static_cast<const float*>(data)[at];
    case CUDA_R_16BF: return mt::to_f32(static_cast<const mt::bf16*>(data)[at]);
    case CUDA_R_8F_E4M3: return mt::to_f32(static_cast<const mt::e4m3*>(data)[at]);
    case CUDA_R_8F_E5M2: return mt::to_f32(static_cast<const mt::e5m2*>(data)[at]);
    default: return mt::to_f32(static_cast<const mt::f16*>(data)[at]);
  }
}
void put(void* data, cudaDataType_t type, std::int64_t at, float x) {
  if (type == CUDA_R_32F) static_cast<float*>(data)[at] = x;
  else if (type == CUDA_R_16BF) static_cast<mt::bf16*>(data)[at] = mt::to_bf16(x);
  else static_cast<mt::f16*>(data)[at] = mt::to_f16(x);
}

// Ten bits of mantissa, to nearest, halves away from zero.
float to_tf32(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  return (u & 0x7f800000u) == 0x7f800000u ? x : std::bit_cast<float>((u + 0x1000u) & ~0x1fffu);
}

constexpr int kGelu = 32, kGeluBackward = 64;

// In double: other bits than ours, as the library's are.
float gelu(float v) {
  const double x = static_cast<double>(v), u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return static_cast<float>(0.5 * x * (1 + std::tanh(u)));
}
float gelu_slope(float v) {
  const double x = static_cast<double>(v), c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return static_cast<float>(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x));
}

template <class T>
cublasStatus_t take(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<void*>(&to), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// One operand of a product, its rows along the sum.
struct Side {
  EmulatedLayout layout;
  const void* data;
  cublasOperation_t trans;
  bool left;
  const float* scale;
  cublasLtMatmulMatrixScale_t mode;

  std::int64_t outer() const { return (trans == CUBLAS_OP_N) == left ? layout.rows : layout.columns; }
  std::int64_t depth() const { return (trans == CUBLAS_OP_N) == left ? layout.columns : layout.rows; }
  float at(std::int64_t item, std::int64_t i, std::int64_t l) const {
    const bool down = (trans == CUBLAS_OP_N) == left;
    return get(data, layout.type, item * layout.stride + (down ? i + l * layout.leading : l + i * layout.leading));
  }
  float scale_at(std::int64_t i, std::int64_t block) const {
    if (scale == nullptr) return 1;
    const std::int64_t blocks = (depth() + kBlock - 1) / kBlock;
    switch (mode) {
      case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F: return *scale;
      case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F: return scale[block * outer() + i];
      default: return scale[i / kBlock * ((blocks + 3) / 4 * 4) + block];
    }
  }
  bool blocks() const { return mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F; }
};

struct Work {
  EmulatedMatmulDesc desc;
  Side a, b;
  EmulatedLayout c, d;
  const void* c_data;
  void* d_data;
  float alpha, beta;
  std::size_t algorithm;

  // One item: block by block of the sum where scales are, else as one.
  void run(std::int64_t item) const {
    const std::int64_t m = d.rows, n = d.columns, k = a.depth(), block = a.blocks() ? kBlock : std::max<std::int64_t>(k, 1);
    const auto size = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const auto rounded = [&](float x) { return desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? to_tf32(x) : x; };
    std::vector<float> left(size(k * m)), sum(size(m)), part(size(m));
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t i = 0; i < m; ++i) left[size(l * m + i)] = rounded(a.at(item, i, l));
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (std::int64_t from = 0; from < k; from += block) {
        std::fill(part.begin(), part.end(), 0.0f);
        for (std::int64_t l = from; l < std::min(from + block, k); ++l) {
          const float x = rounded(b.at(item, j, l));
          for (std::int64_t i = 0; i < m; ++i) part[size(i)] += x * left[size(l * m + i)];
        }
        for (std::int64_t i = 0; i < m; ++i)
          sum[size(i)] += part[size(i)] * (a.scale_at(i, from / kBlock) * b.scale_at(j, from / kBlock));
      }
      for (std::int64_t i = 0; i < m; ++i) {
        float x = alpha * sum[size(i)];
        if (beta != 0) x += beta * get(c_data, c.type, item * c.stride + i + j * c.leading);
        if ((desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) x += get(desc.bias, desc.bias_type.value_or(d.type), i);
        const std::int64_t at = i + j * desc.aux_leading;
        if ((desc.epilogue & kGelu) != 0) put(desc.aux, d.type, at, x), x = gelu(x);
        if ((desc.epilogue & kGeluBackward) != 0) x *= gelu_slope(get(desc.aux, d.type, at));
        put(d_data, d.type, item * d.stride + i + j * d.leading, x);
      }
    }
  }
};

Side left_of(const EmulatedMatmulDesc& desc, const EmulatedLayout& a, const void* data) {
  return {a, data, desc.trans_a, true, desc.a_scale, desc.a_mode};
}
Side right_of(const EmulatedMatmulDesc& desc, const EmulatedLayout& b, const void* data) {
  return {b, data, desc.trans_b, false, desc.b_scale, desc.b_mode};
}

int capability() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

// The table of fp8 products, and what it asks of layouts and scales.
bool fits_fp8(const EmulatedMatmulDesc& desc, const Side& a, const Side& b, const EmulatedLayout& d) {
  const int here = capability();
  const bool types = is_fp8(a.layout.type) && is_fp8(b.layout.type) &&
                     !(a.layout.type == CUDA_R_8F_E5M2 && b.layout.type == CUDA_R_8F_E5M2) && !is_fp8(d.type);
  const bool bias = (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) == 0 ||
                    desc.bias_type.value_or(d.type) == (d.type == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF);
  const bool tn = desc.trans_a == CUBLAS_OP_T && desc.trans_b == CUBLAS_OP_N;
  const auto whole = [](std::int64_t count, cudaDataType_t t) { return count * bytes_of(t) % 16 == 0; };
  const bool borders = whole(a.depth(), a.layout.type) && whole(a.layout.leading, a.layout.type) &&
                       whole(b.layout.leading, b.layout.type) && whole(d.rows, d.type) && whole(d.leading, d.type);
  bool scales = a.blocks() == b.blocks();
  if (a.blocks())
    scales = scales && here / 10 == 9 && a.outer() % 4 == 0 && b.outer() % 4 == 0 && a.scale && b.scale &&
             on_border(a.scale, 16) && on_border(b.scale, 16) &&
             !(a.mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F && b.mode == a.mode);
  const bool plain = (desc.epilogue & (kGelu | kGeluBackward)) == 0;  // ours are never asked for here
  return here >= 89 && plain && desc.compute == CUBLAS_COMPUTE_32F && types && bias && (tn || here / 10 == 10) && borders && scales;
}

// The table of the other dtypes.
bool fits(const EmulatedMatmulDesc& desc, const Side& a, const Side& b, const EmulatedLayout& d) {
  if (is_fp8(a.layout.type) || is_fp8(b.layout.type)) return fits_fp8(desc, a, b, d);
  const bool types = a.layout.type == b.layout.type && (d.type == CUDA_R_32F || d.type == a.layout.type);
  const bool bias = (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) == 0 || desc.bias_type.value_or(d.type) == d.type;
  const bool gelu = (desc.epilogue & (kGelu | kGeluBackward)) != 0;
  if (gelu && (d.type == CUDA_R_32F || d.batch > 1 || desc.aux == nullptr || !on_border(desc.aux, 16) ||
               desc.aux_leading % 8 != 0 || desc.aux_leading < d.rows))
    return false;
  const bool compute = desc.compute == CUBLAS_COMPUTE_32F || (a.layout.type == CUDA_R_32F && capability() >= 80);
  return types && bias && compute && !desc.a_scale && !desc.b_scale && !a.blocks() && !b.blocks() && a.depth() > 0;
}

bool same_place(const EmulatedLayout& c, const EmulatedLayout& d) {
  return c.type == d.type && c.rows == d.rows && c.columns == d.columns && c.batch == d.batch;
}

bool is_current(const cublasLtContext* handle) {
  int device = -1;
  cudaGetDevice(&device);
  return handle != nullptr && handle->device == device;
}

// What an algorithm remembers of its search: its place, and borders of eight bits' logarithm each.
std::uint64_t borders_word(const std::uint32_t (&border)[4]) {
  std::uint64_t word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<std::uint64_t>(std::countr_zero(border[i])) << (8 * i);
  return word;
}
bool keeps_borders(std::uint64_t word, const void* const (&pointers)[4]) {
  for (int i = 0; i < 4; ++i)
    if (!on_border(pointers[i], std::uint64_t{1} << (word >> (8 * i) & 255))) return false;
  return true;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                                 : "invalid";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{0};
  cudaGetDevice(&(*handle)->device);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new EmulatedMatmulDesc{compute};
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
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return take(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return take(desc->aux_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return take(desc->a_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return take(desc->b_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return take(desc->a_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return take(desc->b_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(desc->bias_type.emplace(), value, bytes);
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
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t bytes) {
  if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(preference->workspace, value, bytes);
  std::uint32_t& border = preference->border[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  const cublasStatus_t status = take(border, value, bytes);
  return status == CUBLAS_STATUS_SUCCESS && !std::has_single_bit(border) ? CUBLAS_STATUS_INVALID_VALUE : status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (!is_current(handle)) return CUBLAS_STATUS_ARCH_MISMATCH;
  const Side left = left_of(*desc, *a, nullptr), right = right_of(*desc, *b, nullptr);
  if (wanted < 1 || left.outer() != d->rows || right.outer() != d->columns || left.depth() != right.depth() ||
      !same_place(*c, *d) || a->batch != d->batch || b->batch != d->batch)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!fits(*desc, left, right, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_fp8(a->type) && *std::min_element(preference->border, preference->border + 4) < 16)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::size_t known = std::min(mt::emulation::product_times().size(), static_cast<std::size_t>(wanted));
  for (std::size_t i = 0; i < known && kWorkspace * i <= preference->workspace; ++i) {
    results[i] = {};
    results[i].algo.data[0] = i;
    results[i].algo.data[1] = borders_word(preference->border);
    results[i].workspaceSize = kWorkspace * i;
    ++*found;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (!is_current(handle)) return CUBLAS_STATUS_ARCH_MISMATCH;
  const Work work{*desc,
                  left_of(*desc, *a_layout, a),
                  right_of(*desc, *b_layout, b),
                  *c_layout,
                  *d_layout,
                  c,
                  d,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  algo->data[0]};
  if (!fits(*desc, work.a, work.b, work.d) || !same_place(work.c, work.d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!keeps_borders(algo->data[1], {a, b, c, d}) || workspace_bytes < kWorkspace * work.algorithm ||
      (work.algorithm > 0 && (workspace == nullptr || !on_border(workspace, 256))) ||
      (c == d && c_layout->leading != d_layout->leading))
    return CUBLAS_STATUS_INVALID_VALUE;
  auto& asked = mt::emulation::products_asked();
  if (asked.size() == 4096) asked.clear();  // nobody looks
  asked.push_back({work.a.layout.type, work.b.layout.type, work.d.type, desc->compute,
                   desc->a_mode, desc->b_mode, work.algorithm, desc->epilogue});
  mt::emulation::queue(stream, [work] {
    for (std::int64_t i = 0; i < work.d.batch; ++i) work.run(i);
    const auto& times = mt::emulation::product_times();
    mt::emulation::pass_time(times[std::min(work.algorithm, times.size() - 1)]);
  });
  return CUBLAS_STATUS_SUCCESS;
}
