#include "base/features.h"

#include <string>

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(Features, TextAgreesWithTheConstants) {
  const std::string text = kBackends;
  EXPECT_EQ(text.find("mpi yes") != std::string::npos, kHaveMpi);
  EXPECT_EQ(text.find("cuda yes") != std::string::npos, kHaveCuda);
  EXPECT_EQ(text.find("nccl yes") != std::string::npos, kHaveNccl);
}

}  // namespace
}  // namespace mt
