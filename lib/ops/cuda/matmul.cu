// What a plan is: descriptors and the algorithm, everything of a product but pointers.
#include "ops/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "device/buffer.h"
#include "ops/cuda/cublaslt.h"

namespace mt::ops::cuda {

Matrix::Matrix(const View& v)
    : data(v.data),
      dtype(v.dtype),
      inner(v.dim(-1)),
      outer(v.dim(-2)),
      row(v.dim(-2) > 1 && v.stride(-2) > v.dim(-1) ? v.stride(-2) : v.dim(-1)),
      batch_stride(v.num_dims() == 3 ? v.stride(0) : 0) {}

namespace {

constexpr int kMostCandidates = 64;
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;

void check(cublasStatus_t status, const char* call, int device) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(Code::device, fmt::format("{} failed: {}", call, cublas_lt().cublasLtGetStatusString(status)),
                device_text({DeviceKind::cuda, device}), "this is a fault of the driver, of cuBLASLt or of mt");
}

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_16F;
  }
}

cublasLtMatmulMatrixScale_t mode_of(Scaling s) {
  return s == Scaling::along    ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
         : s == Scaling::square ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

// The border a pointer lies on, up to 256 bytes.
unsigned border_of(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p) | 256u;
  return static_cast<unsigned>(at & (~at + 1));
}

using Key = std::array<std::int64_t, 25>;

class Plan {
 public:
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  bool there = false;   // the library has an algorithm
  bool chosen = false;  // the fastest of those asked for
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
cublasStatus_t set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const T& value) {
  return cublas_lt().cublasLtMatmulDescSetAttribute(d, what, &value, sizeof value);
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

// What the library is given: c may be another matrix than the caller's, and the bias absent.
struct Product {
  Matrix a, b, c;
  Count batch = 1;
  bool trans_a = false, trans_b = false, accumulate = false;
  const void* bias = nullptr;
  DType bias_dtype = DType::f32;
  bool wide = false;  // c is an f32 sum in scratch, to which a bias of another dtype is added
  GemmMode mode;
  Epilogue epilogue = Epilogue::none;
  void* aux = nullptr;
  std::int64_t aux_row = 0;

  explicit Product(const MatmulArgs& g)
      : a(g.a),
        b(g.b),
        c(g.c),
        batch(g.c.num_dims() == 3 ? g.c.dim(0) : 1),
        trans_a(g.trans_a),
        trans_b(g.trans_b),
        accumulate(g.accumulate),
        mode(g.mode),
        epilogue(g.epilogue),
        aux(g.aux.data),
        aux_row(g.aux ? Matrix(g.aux).row : 0) {
    mode.tf32 = mode.tf32 && a.dtype == DType::f32;
    // The library adds a bias of the result's dtype (of fp8 operands: 16 bits); another is added to the f32 sum.
    const bool fuses = g.bias && g.bias.dtype == g.c.dtype && (bits_of(a.dtype) > 8 || g.c.dtype != DType::f32);
    if (fuses) bias = g.bias.data, bias_dtype = g.bias.dtype;
    wide = g.bias && !fuses && g.c.dtype != DType::f32;
    if (wide) c = Matrix(View(nullptr, DType::f32, g.c.shape));
  }

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
            bias != nullptr,
            static_cast<std::int64_t>(a.dtype) * 256 + static_cast<std::int64_t>(b.dtype),
            static_cast<std::int64_t>(c.dtype) * 256 + static_cast<std::int64_t>(bias_dtype),
            a.batch_stride,
            b.batch_stride,
            c.batch_stride,
            static_cast<std::int64_t>(a.scaling) * 256 + static_cast<std::int64_t>(b.scaling),
            static_cast<std::int64_t>(border_of(a.data)) << 32 | border_of(b.data) << 16 | border_of(c.data),
            border_of(bias),
            mode.tf32 * 65536 + mode.candidates,
            static_cast<std::int64_t>(epilogue) << 32 | border_of(aux),
            aux_row};
  }
};

// Pointers that change from call to call; the search looks at them, too.
cublasStatus_t set_pointers(const Plan& plan, const Product& p) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto point = [&](cublasLtMatmulDescAttributes_t what, const void* to) {
    if (to != nullptr && status == CUBLAS_STATUS_SUCCESS) status = set(plan.product, what, to);
  };
  point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
  point(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b.scale);
  point(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a.scale);
  return status;
}

cublasLtEpilogue_t epilogue_of(const Product& p) {
  const bool bias = p.bias != nullptr;
  switch (p.epilogue) {
    case Epilogue::gelu: return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_backward: return CUBLASLT_EPILOGUE_DGELU;
    default: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

cublasStatus_t describe(const Plan& plan, const Product& p) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto say = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    if (status == CUBLAS_STATUS_SUCCESS) status = set(plan.product, what, value);
  };
  say(CUBLASLT_MATMUL_DESC_TRANSA, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  say(CUBLASLT_MATMUL_DESC_TRANSB, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (const cublasLtEpilogue_t e = epilogue_of(p); e != CUBLASLT_EPILOGUE_DEFAULT) say(CUBLASLT_MATMUL_DESC_EPILOGUE, e);
  if (p.bias != nullptr) say(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias_dtype));
  if (p.aux != nullptr) say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_row);
  if (p.b.scaling > Scaling::tensor) say(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(p.b.scaling));
  if (p.a.scaling > Scaling::tensor) say(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(p.a.scaling));
  return status == CUBLAS_STATUS_SUCCESS ? set_pointers(plan, p) : status;
}

class Wish {
 public:
  explicit Wish(int device) : device_(device) {
    check(cublas_lt().cublasLtMatmulPreferenceCreate(&wish_), "cublasLtMatmulPreferenceCreate", device);
  }
  ~Wish() { cublas_lt().cublasLtMatmulPreferenceDestroy(wish_); }
  Wish(const Wish&) = delete;
  Wish& operator=(const Wish&) = delete;
  template <class T>
  void say(cublasLtMatmulPreferenceAttributes_t what, T value) {
    check(cublas_lt().cublasLtMatmulPreferenceSetAttribute(wish_, what, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", device_);
  }
  cublasLtMatmulPreference_t get() const { return wish_; }

 private:
  int device_;
  cublasLtMatmulPreference_t wish_ = nullptr;
};

struct Found {
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results;  // no vector: nvcc 13.0 dies of one
  int count = 0;
};

// The library's algorithms, its favourite first; none where it has no way.
Found search(const Product& p, const Plan& plan, cublasLtHandle_t handle, int device) {
  Wish wish(device);
  wish.say(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMostWorkspace});
  wish.say(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{border_of(p.b.data)});
  wish.say(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{border_of(p.a.data)});
  wish.say(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{border_of(p.c.data)});
  wish.say(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{border_of(p.c.data)});
  Found found;
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      handle, plan.product, plan.left, plan.right, plan.result, plan.result, wish.get(),
      std::clamp(p.mode.candidates, 1, kMostCandidates), found.results.data(), &found.count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic", device);
  if (status != CUBLAS_STATUS_SUCCESS) found.count = 0;
  return found;
}

void run(const Stream& stream, const Product& p, const Plan& plan, void* result, std::byte* workspace) {
  const int device = stream.device().index;
  const float one = 1, add = p.accumulate ? 1.0f : 0.0f;
  check(cublas_lt().cublasLtMatmul(handle_of(library(), device), plan.product, &one, p.b.data, plan.left, p.a.data,
                                   plan.right, &add, p.c.data, plan.result, result, plan.result, &plan.algo, workspace,
                                   plan.workspace, mt::cuda::native(stream)),
        "cublasLtMatmul", device);
}

void use(Plan& plan, const cublasLtMatmulHeuristicResult_t& found) {
  plan.algo = found.algo;
  plan.workspace = found.workspaceSize;
}

// Milliseconds of a few runs. Of an accumulating product the sum goes elsewhere, so that c is as it was.
float milliseconds(const Stream& stream, const Product& p, const Plan& plan, void* result, std::byte* workspace) {
  constexpr int kRuns = 3;
  const int device = stream.device().index;
  cudaEvent_t ends[2] = {};
  for (cudaEvent_t& e : ends) mt::cuda::check(cudaEventCreateWithFlags(&e, cudaEventDefault), "cudaEventCreate", device);
  run(stream, p, plan, result, workspace);
  mt::cuda::check(cudaEventRecord(ends[0], mt::cuda::native(stream)), "cudaEventRecord", device);
  for (int i = 0; i < kRuns; ++i) run(stream, p, plan, result, workspace);
  mt::cuda::check(cudaEventRecord(ends[1], mt::cuda::native(stream)), "cudaEventRecord", device);
  mt::cuda::check(cudaEventSynchronize(ends[1]), "cudaEventSynchronize", device);
  float ms = 0;
  mt::cuda::check(cudaEventElapsedTime(&ms, ends[0], ends[1]), "cudaEventElapsedTime", device);
  for (cudaEvent_t e : ends) cudaEventDestroy(e);
  return ms;
}

// The fastest of several, the library's order where equal, once the product's own memory is there to try them on. Where there is no memory to try them, its favourite stays.
void choose(const Stream& stream, Product p, Plan& plan) {
  plan.chosen = true;
  const Found found = search(p, plan, handle_of(library(), stream.device().index), stream.device().index);
  if (found.count < 2) return;
  const std::size_t result = static_cast<std::size_t>(
      bytes_of(p.c.dtype, (p.batch - 1) * p.c.batch_stride + (p.c.outer - 1) * p.c.row + p.c.inner));
  const bool elsewhere = p.accumulate || p.c.data == nullptr;
  Buffer memory;
  try {
    memory = Buffer(stream.device(), kMostWorkspace + (elsewhere ? result : 0));
  } catch (const Error&) {
    return;
  }
  void* to = elsewhere ? memory.data() + kMostWorkspace : p.c.data;
  if (p.c.data == nullptr) p.c.data = to;
  float least = 0;
  std::size_t best = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(found.count); ++i) {
    use(plan, found.results[i]);
    const float ms = milliseconds(stream, p, plan, to, memory.data());
    if (i == 0 || ms < least) least = ms, best = i;
  }
  use(plan, found.results[best]);
}

std::unique_ptr<Plan> make_plan(const Product& p, cublasLtHandle_t handle, int device) {
  auto plan = std::make_unique<Plan>();
  check(cublas_lt().cublasLtMatmulDescCreate(
            &plan->product, p.mode.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate", device);
  // A library older than a way of scaling refuses it here.
  const cublasStatus_t known = describe(*plan, p);
  if (p.a.scaling > Scaling::tensor && known != CUBLAS_STATUS_SUCCESS) return plan;
  check(known, "cublasLtMatmulDescSetAttribute", device);
  plan->left = layout_of(p.b, p.batch, device);
  plan->right = layout_of(p.a, p.batch, device);
  plan->result = layout_of(p.c, p.batch, device);
  const Found found = search(p, *plan, handle, device);
  plan->there = found.count > 0;
  if (plan->there) use(*plan, found.results[0]);
  plan->chosen = p.mode.candidates < 2;
  return plan;
}

// The library is locked: a plan's pointers are set and used by one thread at a time.
Plan& plan_of(const Stream& stream, const Product& p) {
  const int device = stream.device().index;
  mt::cuda::use_device(device);
  std::unique_ptr<Plan>& plan = library().plans[p.key(device)];
  if (!plan) plan = make_plan(p, handle_of(library(), device), device);
  return *plan;
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
  e.whole_words = on_borders(v);
  return e;
}

}  // namespace

void add_bias(const Stream& stream, const View& x, const View& bias, const View& c) {
  const Count batch = c.num_dims() == 3 ? c.dim(0) : 1, rows = c.dim(-2);
  each_group(stream, batch * rows, c.dim(-1),
             AddBias{x ? rows_of(x) : Elements{}, flat(bias), rows_of(c), x && x.num_dims() == 3 ? x.stride(0) : 0,
                     c.num_dims() == 3 ? c.stride(0) : 0, rows});
}

bool can_matmul(const Stream& stream, const MatmulArgs& g) {
  const std::lock_guard lock(library().mutex);
  return plan_of(stream, Product(g)).there;
}

void matmul(const Stream& stream, const MatmulArgs& g) {
  Product p(g);
  const int device = stream.device().index;
  const std::lock_guard lock(library().mutex);
  Plan& plan = plan_of(stream, p);
  if (!plan.there) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", device);
  if (!plan.chosen) {
    check(set_pointers(plan, p), "cublasLtMatmulDescSetAttribute", device);
    choose(stream, p, plan);
  }
  const std::size_t sum_bytes = p.wide ? (static_cast<std::size_t>(g.c.size()) * 4 + 255) / 256 * 256 : 0;
  std::byte* memory = sum_bytes + plan.workspace > 0 ? mt::cuda::scratch(stream, sum_bytes + plan.workspace) : nullptr;
  if (p.wide) p.c.data = memory;
  check(set_pointers(plan, p), "cublasLtMatmulDescSetAttribute", device);
  run(stream, p, plan, p.c.data, memory + sum_bytes);
  if (g.bias && p.bias == nullptr) add_bias(stream, p.wide ? View(memory, DType::f32, g.c.shape) : g.c, g.bias, g.c);
}

}  // namespace mt::ops::cuda
