// What the stand-in for cuBLASLt refuses, and what our products ask it for.
#include <cublasLt.h>

#include <cstdlib>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "ops/fp8_gemm_cases.h"
#include "ops/gemm_cases.h"
#include "ops/gemm_gelu_cases.h"
#include "pinned.h"

namespace mt::emulation {
namespace {

using test::I;
using test::Pinned;

// A product of fp8, [m, k]ᵀ·[k, n], that every check passes, to be changed.
struct Asked {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E4M3, d = CUDA_R_16BF, bias = CUDA_R_16BF;
  cublasOperation_t ta = CUBLAS_OP_T, tb = CUBLAS_OP_N;
  std::uint64_t m = 16, n = 8, k = 32;
  std::int64_t lda = 0;  // 0: without gaps
  cublasLtMatmulMatrixScale_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                              b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  std::size_t scale_offset = 0;
  bool scales = true, with_bias = false;
  std::uint32_t border = 16;
  cublasLtEpilogue_t gelu = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t aux_leading = 16;
  std::size_t aux_offset = 0;  // bytes
};

cublasStatus_t search(const Asked& q) {
  const Pinned<float> scale(64);
  cublasLtHandle_t handle;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t desc;
  cublasLtMatmulDescCreate(&desc, q.compute, CUDA_R_32F);
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, q.ta);
  set(CUBLASLT_MATMUL_DESC_TRANSB, q.tb);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, q.a_mode);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, q.b_mode);
  const float* at = scale.data() + q.scale_offset;
  if (q.scales) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at);
  if (q.scales) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at);
  if (q.with_bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, q.bias);
  }
  if (q.gelu != CUBLASLT_EPILOGUE_DEFAULT) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, q.gelu);
    const void* aux = reinterpret_cast<const std::byte*>(scale.data()) + q.aux_offset;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, q.aux_leading);
  }
  const auto layout = [](cudaDataType_t t, std::uint64_t rows, std::uint64_t columns, std::int64_t lead) {
    cublasLtMatrixLayout_t l;
    cublasLtMatrixLayoutCreate(&l, t, rows, columns, lead > 0 ? lead : static_cast<std::int64_t>(rows));
    return l;
  };
  const bool t = q.ta == CUBLAS_OP_T, u = q.tb == CUBLAS_OP_T;
  const cublasLtMatrixLayout_t a = layout(q.a, t ? q.k : q.m, t ? q.m : q.k, q.lda),
                               b = layout(q.b, u ? q.n : q.k, u ? q.k : q.n, 0), d = layout(q.d, q.m, q.n, 0);
  cublasLtMatmulPreference_t wish;
  cublasLtMatmulPreferenceCreate(&wish);
  for (int i = 0; i < 4; ++i)
    cublasLtMatmulPreferenceSetAttribute(
        wish, static_cast<cublasLtMatmulPreferenceAttributes_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
        &q.border, sizeof q.border);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, wish, 1, &found, &count);
  EXPECT_EQ(count, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
  for (const auto l : {a, b, d}) cublasLtMatrixLayoutDestroy(l);
  cublasLtMatmulPreferenceDestroy(wish);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
  return status;
}

cublasStatus_t with(const std::function<void(Asked&)>& change) {
  Asked q;
  change(q);
  return search(q);
}

constexpr auto kNo = CUBLAS_STATUS_NOT_SUPPORTED;
constexpr auto kAlong = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
constexpr auto kSquare = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;

TEST(EmulatedCublasLt, TakesFp8AsDocumentedAndNoOtherWay) {
  EXPECT_EQ(with([](auto&) {}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.a = CUDA_R_8F_E5M2; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.d = CUDA_R_32F; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.d = CUDA_R_32F, q.with_bias = true; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.scales = false; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.a = q.b = CUDA_R_8F_E5M2; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.b = CUDA_R_16BF; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.ta = CUBLAS_OP_N; }), kNo) << "TN alone on 9.0";
  EXPECT_EQ(with([](auto& q) { q.tb = CUBLAS_OP_T; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.k = 24; }), kNo) << "16 bytes of the sum";
  EXPECT_EQ(with([](auto& q) { q.m = 12; }), kNo) << "16 bytes of a column of the result";
  EXPECT_EQ(with([](auto& q) { q.lda = 40; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.border = 8; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.with_bias = true, q.bias = CUDA_R_32F; }), kNo);
}

TEST(EmulatedCublasLt, TakesScalesOfBlocksAsDocumentedAndNoOtherWay) {
  EXPECT_EQ(with([](auto& q) { q.a_mode = q.b_mode = kAlong; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.a_mode = kSquare, q.b_mode = kAlong; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.a_mode = kAlong, q.b_mode = kSquare; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](auto& q) { q.a_mode = q.b_mode = kSquare; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.a_mode = kAlong; }), kNo) << "of a tensor on the other side";
  EXPECT_EQ(with([](auto& q) { q.a_mode = q.b_mode = kAlong, q.n = 6; }), kNo) << "n of no multiple of 4";
  EXPECT_EQ(with([](auto& q) { q.a_mode = q.b_mode = kAlong, q.scales = false; }), kNo);
  EXPECT_EQ(with([](auto& q) { q.a_mode = q.b_mode = kAlong, q.scale_offset = 1; }), kNo) << "scales off their border";
}

TEST(EmulatedCublasLt, TakesGeluAsDocumentedAndNoOtherWay) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_DGELU}) {
    const auto gelu = [&](const std::function<void(Asked&)>& change) {
      return with([&](auto& q) {
        q.a = q.b = q.d = CUDA_R_16BF, q.scales = false, q.gelu = epilogue;
        change(q);
      });
    };
    EXPECT_EQ(gelu([](auto&) {}), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(gelu([](auto& q) { q.aux_leading = 24; }), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(gelu([](auto& q) { q.aux_leading = 20; }), kNo) << "no multiple of 8";
    EXPECT_EQ(gelu([](auto& q) { q.aux_leading = 8; }), kNo) << "shorter than a column";
    EXPECT_EQ(gelu([](auto& q) { q.aux_offset = 8; }), kNo) << "off its border";
    EXPECT_EQ(gelu([](auto& q) { q.d = CUDA_R_32F; }), kNo);
  }
}

TEST(EmulatedCublasLt, TakesTf32OfF32Alone) {
  const auto f32 = [](auto& q) { q.a = q.b = q.d = CUDA_R_32F, q.scales = false; };
  EXPECT_EQ(with(f32), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([&](auto& q) { f32(q), q.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([&](auto& q) { f32(q), q.scales = true; }), kNo);
  EXPECT_EQ(with([&](auto& q) { f32(q), q.a = q.b = q.d = CUDA_R_16BF, q.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }), kNo);
}

std::vector<ProductAsked> asked_by(const test::OpCase& c) {
  ::setenv("MT_TEST_DEVICE", "cuda", 1);  // its data where the device sees it
  const test::Prepared p = c.prepare();
  Stream stream(test::kEmulatedDevice);
  products_asked().clear();
  p.run(stream);
  stream.synchronize();
  return products_asked();
}

bool is_fp8(cudaDataType_t t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }

TEST(ProductsOfOurs, OfFp8AreFp8WhereTheDeviceHasThem) {
  for (const auto& c : test::fp8_gemm_hardware_cases()) {
    SCOPED_TRACE(c.name);
    const auto asked = asked_by(c);
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_TRUE(is_fp8(asked[0].a) && is_fp8(asked[0].b));
    const bool blocks = c.name.find("tensor") == std::string::npos;
    EXPECT_EQ(asked[0].b_mode, blocks ? kAlong : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
    EXPECT_EQ(asked[0].a_mode, !blocks                                        ? CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F
                               : c.name.find("lines") != std::string::npos ? kAlong
                                                                              : kSquare);
  }
}

TEST(ProductsOfOurs, OfOddShapesAreOfRoundedOperands) {
  for (const auto& c : test::fp8_gemm_odd_cases()) {
    SCOPED_TRACE(c.name);
    for (const auto& one : asked_by(c)) EXPECT_EQ(one.a, CUDA_R_16BF);
  }
}

TEST(ProductsOfOurs, TakeGeluAlongWhereTheLibraryDoes) {
  for (const auto& c : test::gemm_gelu_fused_cases()) {
    SCOPED_TRACE(c.name);
    const auto asked = asked_by(c);
    ASSERT_EQ(asked.size(), 1u);
    const bool bias = c.name.find("bias true") != std::string::npos;
    EXPECT_EQ(asked[0].epilogue, c.name.find("backward true") != std::string::npos ? CUBLASLT_EPILOGUE_DGELU
                                 : bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                        : CUBLASLT_EPILOGUE_GELU_AUX);
  }
  for (const auto& c : test::gemm_gelu_odd_cases())
    for (const auto& one : asked_by(c)) EXPECT_LE(one.epilogue, CUBLASLT_EPILOGUE_BIAS) << c.name;
}

TEST(ProductsOfOurs, OfF32AreTf32WhereAskedAndOnlyThey) {
  for (const auto& c : test::gemm_mode_cases()) {
    SCOPED_TRACE(c.name);
    const bool wanted = c.name.find("tf32") != std::string::npos && c.name.find("f32->f32") != std::string::npos &&
                        c.name.find("bf16->") == std::string::npos;
    for (const auto& one : asked_by(c))
      EXPECT_EQ(one.compute, wanted ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
  }
}

// A shape no other test has, so that nothing is known of it.
std::vector<std::size_t> algorithms(I m, int candidates, bool accumulate, const std::vector<double>& times) {
  const auto before = std::exchange(product_times(), times);
  const auto asked = asked_by(test::gemm_case(
      {0, m, 40, 24, DType::bf16, DType::f32, true, false, accumulate, false, 0, {false, candidates}}));
  product_times() = before;
  std::vector<std::size_t> out;
  for (const auto& one : asked) out.push_back(one.algorithm);
  return out;
}

TEST(ProductsOfOurs, AreOfTheFastestAlgorithmOnceItIsKnown) {
  const auto first = algorithms(71, 3, true, {5, 2, 4, 1});
  ASSERT_GT(first.size(), 3u) << "all three were tried";
  EXPECT_EQ(first.back(), 1u) << "the fastest of the three asked for";
  EXPECT_EQ(algorithms(71, 3, true, {5, 2, 4, 1}), (std::vector<std::size_t>{1})) << "and is remembered";
  EXPECT_EQ(algorithms(71, 1, true, {5, 2, 4, 1}), (std::vector<std::size_t>{0})) << "without trials the library's favourite";
  EXPECT_EQ(algorithms(72, 3, false, {2, 2, 2}).back(), 0u) << "among equals, too";
  EXPECT_EQ(algorithms(73, 9, false, {3, 2}).back(), 1u) << "fewer than were asked for";
}

}  // namespace
}  // namespace mt::emulation
