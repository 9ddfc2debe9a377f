#pragma once
// The tests every op's cases go through; an x_test.cc includes this and calls MT_OP_TESTS(Name, cases()).

#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace mt::test {

inline void expect_right(const OpCase& c) {
  SCOPED_TRACE(c.name);
  Prepared p = c.prepare();
  TestStream stream;
  p.run(stream);
  for (const Output& o : p.outputs) {
    if (o.want.empty()) continue;
    const Doubles got = values(o.view);
    ASSERT_EQ(got.size(), o.want.size()) << o.name;
    int wrong = 0;
    for (std::size_t i = 0; i < got.size() && wrong < 5; ++i) {
      const double want = o.want[i];
      const bool ok = std::isfinite(want) ? std::abs(got[i] - want) <= o.tolerance * (1 + std::abs(want))
                                          : (std::isnan(want) ? std::isnan(got[i]) : got[i] == want);
      if (!ok) {
        ++wrong;
        ADD_FAILURE() << o.name << "[" << i << "] is " << got[i] << ", wanted " << want;
      }
    }
  }
}

inline std::vector<std::vector<std::byte>> bits_of(const OpCase& c, int threads, Stream::Mode mode) {
  Prepared p = c.prepare();
  TestStream stream(threads, mode);
  p.run(stream);
  stream.synchronize();
  std::vector<std::vector<std::byte>> out;
  for (const Output& o : p.outputs) {
    const Doubles v = values(o.view);
    const auto* bytes = reinterpret_cast<const std::byte*>(v.data());
    out.emplace_back(bytes, bytes + v.size() * sizeof(double));
  }
  return out;
}

inline void expect_thread_free(const OpCase& c) {
  SCOPED_TRACE(c.name);
  const auto one = bits_of(c, 1, Stream::Mode::immediate);
  if (!on_cpu()) {  // threads are the CPU's; again is again
    EXPECT_EQ(one, bits_of(c, 2, Stream::Mode::immediate)) << "a second run";
    return;
  }
  EXPECT_EQ(one, bits_of(c, 2, Stream::Mode::immediate)) << "2 threads";
  EXPECT_EQ(one, bits_of(c, 3, Stream::Mode::immediate)) << "3 threads";
  EXPECT_EQ(one, bits_of(c, 1, Stream::Mode::deferred)) << "deferred stream";
}

}  // namespace mt::test

#define MT_OP_TESTS(Name, list)                                           \
  TEST(Name, MatchesTheReferenceInDouble) {                               \
    for (const auto& c : list) ::mt::test::expect_right(c);               \
  }                                                                       \
  TEST(Name, GivesTheSameBitsForAnyNumberOfThreadsAndOnADeferredStream) { \
    for (const auto& c : list) ::mt::test::expect_thread_free(c);         \
  }
