#include "engine/batch.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

Tokens uploaded(std::vector<std::int32_t> cu_seqlens) {
  HostBatch b;
  b.ids.assign(static_cast<std::size_t>(cu_seqlens.back()), 1);
  b.cu_seqlens = std::move(cu_seqlens);
  Stream stream;
  Arena arena(Device{}, 4096);
  return upload(stream, arena, b, 1.0);
}

TEST(Batch, LengthsOfSequencesAreTold) {
  const auto equal = uploaded({0, 8, 16, 24}).lengths;
  EXPECT_TRUE(equal.equal);
  EXPECT_EQ(equal.longest_q, 8);
  EXPECT_EQ(equal.longest_k, 8);
  const auto packed = uploaded({0, 3, 16, 24}).lengths;
  EXPECT_FALSE(packed.equal);
  EXPECT_EQ(packed.longest_q, 13);
  EXPECT_EQ(packed.longest_k, 13);
  EXPECT_TRUE(uploaded({0, 5}).lengths.equal);
}

}  // namespace
}  // namespace mt
