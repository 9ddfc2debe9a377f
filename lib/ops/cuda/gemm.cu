// Products by cuBLASLt. It thinks in columns: a row-major C = A·B is its Cᵀ = Bᵀ·Aᵀ, so the operands change places and
// nothing is copied. What it chose for a shape is kept.
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "ops/cuda/cublaslt.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;

void check(cublasStatus_t status, const char* call, int device) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(Code::device, fmt::format("{} failed: {}", call, cublas_lt().cublasLtGetStatusString(status)),
                device_text({DeviceKind::cuda, device}), "this is a fault of the driver, of cuBLASLt or of mt");
}

cudaDataType_t type_of(DType t) { return t == DType::f32 ? CUDA_R_32F : t == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F; }

// The border a pointer lies on, up to 256 bytes.
unsigned border_of(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p) | 256u;
  return static_cast<unsigned>(at & (~at + 1));
}

// A matrix as cuBLASLt sees it: rows of ours are its columns.
struct Matrix {
  void* data;
  DType dtype;
  Count inner, outer, row, batch_stride;
  explicit Matrix(const View& v)
      : data(v.data),
        dtype(v.dtype),
        inner(v.dim(-1)),
        outer(v.dim(-2)),
        row(v.dim(-2) > 1 && v.stride(-2) > v.dim(-1) ? v.stride(-2) : v.dim(-1)),
        batch_stride(v.num_dims() == 3 ? v.stride(0) : 0) {}
};

using Key = std::array<std::int64_t, 20>;

// A product with everything but pointers settled.
class Plan {
 public:
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algo{};
  std::size_t workspace = 0;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (product != nullptr) cublas_lt().cublasLtMatmulDescDestroy(product);
    for (cublasLtMatrixLayout_t l : {left, right, result})
      if (l != nullptr) cublas_lt().cublasLtMatrixLayoutDestroy(l);
  }
};

struct Library {
  std::mutex mutex;
  std::map<int, cublasLtHandle_t> handles;  // by device; they live as long as the process
  std::map<Key, std::unique_ptr<Plan>> plans;
};
Library& library() {
  static Library& l = *new Library;  // kept to the end: the driver may be gone before static objects are
  return l;
}

cublasLtHandle_t handle_of(Library& l, int device) {
  cublasLtHandle_t& h = l.handles[device];
  if (h == nullptr) check(cublas_lt().cublasLtCreate(&h), "cublasLtCreate", device);
  return h;
}

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const T& value, int device) {
  check(cublas_lt().cublasLtMatmulDescSetAttribute(d, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute",
        device);
}

cublasLtMatrixLayout_t layout_of(const Matrix& m, Count batch, int device) {
  cublasLtMatrixLayout_t l = nullptr;
  check(cublas_lt().cublasLtMatrixLayoutCreate(&l, type_of(m.dtype), static_cast<std::uint64_t>(m.inner),
                                   static_cast<std::uint64_t>(m.outer), m.row),
        "cublasLtMatrixLayoutCreate", device);
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t stride = m.batch_stride;
    const auto say = [&](cublasLtMatrixLayoutAttribute_t what, const auto& value) {
      check(cublas_lt().cublasLtMatrixLayoutSetAttribute(l, what, &value, sizeof value),
            "cublasLtMatrixLayoutSetAttribute", device);
    };
    say(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    say(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return l;
}

struct Product {
  Matrix a, b, c;
  Count batch;
  bool trans_a, trans_b, accumulate, bias;
  DType bias_dtype;

  Key key(int device) const {
    return {device,
            a.inner,
            a.outer,
            a.row,
            b.inner,
            b.outer,
            b.row,
            c.inner,
            c.row,
            batch,
            trans_a,
            trans_b,
            accumulate,
            bias,
            static_cast<std::int64_t>(a.dtype),
            static_cast<std::int64_t>(c.dtype) * 256 + static_cast<std::int64_t>(bias_dtype),
            a.batch_stride,
            b.batch_stride,
            c.batch_stride,
            static_cast<std::int64_t>(border_of(a.data)) << 32 | border_of(b.data) << 16 | border_of(c.data)};
  }
};

std::unique_ptr<Plan> make_plan(const Product& p, const void* bias, cublasLtHandle_t handle, int device) {
  auto plan = std::make_unique<Plan>();
  check(cublas_lt().cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate",
        device);
  set(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, device);
  set(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, device);
  if (p.bias) {
    set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, device);
    set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias_dtype), device);
    set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, device);  // the choice looks at it
  }
  plan->left = layout_of(p.b, p.batch, device);
  plan->right = layout_of(p.a, p.batch, device);
  plan->result = layout_of(p.c, p.batch, device);

  cublasLtMatmulPreference_t wish = nullptr;
  check(cublas_lt().cublasLtMatmulPreferenceCreate(&wish), "cublasLtMatmulPreferenceCreate", device);
  const auto ask = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    check(cublas_lt().cublasLtMatmulPreferenceSetAttribute(wish, what, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", device);
  };
  ask(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMostWorkspace});
  ask(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{border_of(p.b.data)});
  ask(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{border_of(p.a.data)});
  ask(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{border_of(p.c.data)});
  ask(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{border_of(p.c.data)});
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      handle, plan->product, plan->left, plan->right, plan->result, plan->result, wish, 1, &found, &count);
  cublas_lt().cublasLtMatmulPreferenceDestroy(wish);
  check(count > 0 || status != CUBLAS_STATUS_SUCCESS ? status : CUBLAS_STATUS_NOT_SUPPORTED,
        "cublasLtMatmulAlgoGetHeuristic", device);
  plan->algo = found.algo;
  plan->workspace = found.workspaceSize;
  return plan;
}

void run(const Stream& stream, const Product& p, const void* bias, std::byte* workspace, Plan& plan,
         cublasLtHandle_t handle) {
  const int device = stream.device().index;
  if (p.bias) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, device);
  const float one = 1, add = p.accumulate ? 1.0f : 0.0f;
  check(
      cublas_lt().cublasLtMatmul(handle, plan.product, &one, p.b.data, plan.left, p.a.data, plan.right, &add, p.c.data,
                                 plan.result, p.c.data, plan.result, &plan.algo, workspace, plan.workspace,
                                 mt::cuda::native(stream)),
      "cublasLtMatmul", device);
}

// out = x + bias, either absent: what the library's epilogue does not do.
struct AddBias {
  Elements x, bias, out;
  Count x_batch, out_batch, rows;  // of a batch
  __device__ void operator()(Count row, Count at, int count) const {
    const Count item = row / rows, own = row % rows;
    float v[kGroup] = {}, b[kGroup];
    if (x.data != nullptr) load(x, own, item * x_batch + at, count, v);
    if (bias.data != nullptr) {
      load(bias, 0, at, count, b);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) v[i] += b[i];
    }
    store(out, own, item * out_batch + at, count, v);
  }
};

Elements rows_of(const View& v) {
  const View one = v.num_dims() == 3 ? [&] {
    View w = v;
    w.shape = {v.dim(1), v.dim(2)};
    w.strides = {v.stride(1), v.stride(2)};
    return w;
  }() : v;
  Elements e = elements(one);
  if (v.num_dims() == 3) e.whole_words = e.whole_words && bytes_of(v.dtype, v.stride(0)) % 16 == 0;
  return e;
}

void add_bias(const Stream& stream, const View& x, const View& bias, const View& c) {
  const Count batch = c.num_dims() == 3 ? c.dim(0) : 1, rows = c.dim(-2);
  each_group(stream, batch * rows, c.dim(-1),
             AddBias{x ? rows_of(x) : Elements{}, flat(bias), rows_of(c), x && x.num_dims() == 3 ? x.stride(0) : 0,
                     c.num_dims() == 3 ? c.stride(0) : 0, rows});
}

}  // namespace

void gemm(const Stream& stream, const GemmArgs& g) {
  const Count k = g.trans_a ? g.a.dim(-2) : g.a.dim(-1);
  if (k == 0) {
    if (!g.accumulate) add_bias(stream, {}, g.bias, g.c);
    return;
  }
  // The library adds a bias of the result's dtype; another is added to the f32 sum.
  const bool fuses = g.bias && g.bias.dtype == g.c.dtype, wide = g.bias && !fuses && g.c.dtype != DType::f32;
  const std::size_t sum_bytes = wide ? (static_cast<std::size_t>(g.c.size()) * 4 + 255) / 256 * 256 : 0;
  const int device = stream.device().index;
  mt::cuda::use_device(device);
  Product p{Matrix(g.a), Matrix(g.b),  Matrix(g.c), g.c.num_dims() == 3 ? g.c.dim(0) : 1, g.trans_a,
            g.trans_b,   g.accumulate, fuses,       fuses ? g.bias.dtype : DType::f32};
  View sum;
  const std::lock_guard lock(library().mutex);
  const cublasLtHandle_t handle = handle_of(library(), device);
  if (wide) p.c = Matrix(View(nullptr, DType::f32, g.c.shape));
  std::unique_ptr<Plan>& plan = library().plans[p.key(device)];
  if (!plan) plan = make_plan(p, g.bias.data, handle, device);
  std::byte* memory =
      sum_bytes + plan->workspace > 0 ? mt::cuda::scratch(stream, sum_bytes + plan->workspace) : nullptr;
  if (wide) {
    sum = View(memory, DType::f32, g.c.shape);
    p.c.data = memory;
  }
  run(stream, p, g.bias.data, memory + sum_bytes, *plan, handle);
  if (g.bias && !fuses) add_bias(stream, wide ? sum : g.c, g.bias, g.c);
}

}  // namespace mt::ops::cuda
