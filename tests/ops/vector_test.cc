// The loops of ops/cpu/vector: equal bits in body and tail, and in every instruction class where no fused
// multiply-add is involved.
#include "ops/cpu/vector/vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace mt::ops::cpu {

namespace {

std::vector<const Vector*> tables() {
  std::vector<const Vector*> out{&generic::kVector};
#if defined(__x86_64__)
  if (cpu_isa() >= CpuIsa::avx2) out.push_back(&avx2::kVector);
  if (cpu_isa() >= CpuIsa::avx512) out.push_back(&avx512::kVector);
#endif
  return out;
}

constexpr Count kN = 301;

struct Rows {
  std::vector<float> a, b, c, d;
  Rows() {
    std::mt19937 random(3);
    std::normal_distribution<float> dist(0, 2);
    for (auto* v : {&a, &b, &c, &d})
      for (Count i = 0; i < kN; ++i) v->push_back(dist(random));
  }
};

using Loop = std::function<void(const Vector&, const Rows&, Count at, Count n, float* out)>;

std::vector<std::pair<const char*, Loop>> element_wise() {
  std::vector<std::pair<const char*, Loop>> loops;
  for (int k = 0; k < kActivations; ++k) {
    loops.push_back({"activation", [k](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                       v.activation[k](&r.a[static_cast<std::size_t>(at)], &r.b[static_cast<std::size_t>(at)], out, n);
                     }});
    loops.push_back({"activation_backward", [k](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                       v.activation_backward[k](&r.a[static_cast<std::size_t>(at)], nullptr,
                                                &r.b[static_cast<std::size_t>(at)], out, n);
                     }});
    loops.push_back({"gated", [k](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                       v.gated[k](&r.a[static_cast<std::size_t>(at)], &r.b[static_cast<std::size_t>(at)], nullptr,
                                  nullptr, out, n);
                     }});
  }
  loops.push_back({"softmax_gradient", [](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                     v.softmax_gradient(&r.a[static_cast<std::size_t>(at)], 3.0f, 0.1f, 0.01f, out, n);
                   }});
  loops.push_back({"bias_dropout_add", [](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                     v.bias_dropout_add(&r.a[static_cast<std::size_t>(at)], &r.b[static_cast<std::size_t>(at)],
                                        &r.c[static_cast<std::size_t>(at)], {{1, 2}, 3, 4, 5, at + 1, 1u << 22, 1.3f},
                                        out, n);
                   }});
  loops.push_back({"adamw", [](const Vector& v, const Rows& r, Count at, Count n, float* out) {
                     std::vector<float> m(r.b.begin() + at, r.b.begin() + at + n),
                         s(r.c.begin() + at, r.c.begin() + at + n);
                     for (float& x : s) x = x < 0 ? -x : x;
                     std::memcpy(out, &r.a[static_cast<std::size_t>(at)], static_cast<std::size_t>(n) * 4);
                     v.adamw(out, m.data(), s.data(), &r.d[static_cast<std::size_t>(at)],
                             {0.1f, 0.5f, 0.2f, 0.3f, 0.9f, 0.99f, 1e-8f, 0.1f}, n);
                   }});
  return loops;
}

}  // namespace

TEST(Vector, ElementWiseLoopsGiveEqualBitsInBodyTailAndEveryClass) {
  const Rows r;
  for (const auto& [name, loop] : element_wise()) {
    std::vector<float> one_by_one(kN);
    for (Count i = 0; i < kN; ++i) loop(generic::kVector, r, i, 1, &one_by_one[static_cast<std::size_t>(i)]);
    for (const Vector* v : tables())
      for (Count n : {kN, Count{300}, Count{17}, Count{3}}) {
        std::vector<float> out(static_cast<std::size_t>(n));
        loop(*v, r, 0, n, out.data());
        EXPECT_EQ(std::memcmp(out.data(), one_by_one.data(), static_cast<std::size_t>(n) * 4), 0) << name << " " << n;
      }
  }
}

TEST(Vector, ReductionsGiveEqualBitsInEveryClass) {
  const Rows r;
  for (Count n : {kN, Count{16}, Count{5}}) {
    float sums[2];
    generic::kVector.exp_sums(r.a.data(), 4.0f, n, sums);
    for (const Vector* v : tables()) {
      float other[2];
      v->exp_sums(r.a.data(), 4.0f, n, other);
      EXPECT_EQ(std::memcmp(sums, other, sizeof sums), 0);
      const float dot = v->dot(r.a.data(), r.b.data(), n), want = generic::kVector.dot(r.a.data(), r.b.data(), n);
      EXPECT_EQ(std::memcmp(&dot, &want, 4), 0);
      EXPECT_EQ(v->max(r.a.data(), n), *std::max_element(r.a.begin(), r.a.begin() + n));
    }
  }
}

TEST(Vector, BlockProductsMatchDoubleForEveryEdge) {
  std::mt19937 random(4);
  std::normal_distribution<float> dist;
  std::vector<float> a(70 * 70), b(70 * 128);
  for (auto* v : {&a, &b})
    for (float& x : *v) x = dist(random);
  for (const Vector* v : tables())
    for (Count m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 64})
      for (Count n : {16, 32, 48, 64, 80, 128})
        for (bool turned : {false, true}) {
          const Count k = 19;
          std::vector<float> c(static_cast<std::size_t>(m * 130), 0.5f);
          v->block_product({m, n, k, a.data(), turned ? 1 : 70, turned ? 70 : 1, b.data(), 128, c.data(), 130, true});
          double worst = 0;
          for (Count i = 0; i < m; ++i)
            for (Count j = 0; j < 130; ++j) {
              double want = 0.5;
              for (Count l = 0; j < n && l < k; ++l)
                want += static_cast<double>(a[static_cast<std::size_t>(turned ? l * 70 + i : i * 70 + l)]) *
                        static_cast<double>(b[static_cast<std::size_t>(l * 128 + j)]);
              worst = std::max(worst, std::abs(static_cast<double>(c[static_cast<std::size_t>(i * 130 + j)]) - want));
            }
          EXPECT_LT(worst, 1e-5) << m << "x" << n;
        }
}

}  // namespace mt::ops::cpu
