// A machine made up for hwloc must be reported as it was made up; and the peak of a product is a plausible number.

#include "probe/machine.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/error.h"
#include "probe/gemm_peak.h"

namespace mt {
namespace {

Json synthetic(const char* topology) {
  ::setenv("HWLOC_SYNTHETIC", topology, 1);
  struct Restore {
    ~Restore() { ::unsetenv("HWLOC_SYNTHETIC"); }
  } restore;
  return machine_json();
}

TEST(Machine, ASyntheticOneIsReportedAsItIs) {
  const Json j = synthetic("pack:2 [numa(memory=4294967296)] l3:1(size=33554432) l2:8(size=1048576) l1d:1(size=32768) core:1 pu:2");
  EXPECT_EQ(j["packages"], 2);
  EXPECT_EQ(j["numa_nodes"], 2);
  EXPECT_EQ(j["cores"], 16);
  EXPECT_EQ(j["hardware_threads"], 32);
  EXPECT_EQ(j["memory_bytes"], 8589934592u);
  EXPECT_EQ(j["l1d_bytes"], 32768);
  EXPECT_EQ(j["l2_bytes"], 1048576);
  EXPECT_EQ(j["l3_bytes"], 33554432);
}

TEST(Machine, WhatIsNotKnownIsAbsent) {
  const Json j = synthetic("numa:1 core:3 pu:1");
  EXPECT_EQ(j["cores"], 3);
  for (const char* key : {"l1d_bytes", "l2_bytes", "l3_bytes", "cpu_model"}) EXPECT_FALSE(j.contains(key)) << key;
}

TEST(Machine, ThisOneHasCoresMemoryAndAnInstructionClass) {
  const Json j = machine_json();
  EXPECT_GE(j["hardware_threads"].get<int>(), 1);
  EXPECT_GE(j["usable_cores"].get<int>(), 1);
  EXPECT_FALSE(j["host"].get<std::string>().empty());
  EXPECT_FALSE(j["cpu_isa"].get<std::string>().empty());
}

TEST(GemmPeak, IsAPlausibleRate) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double peak = gemm_peak_flop_per_s(stream, dtype, 256, 5);
    EXPECT_GT(peak, 1e8) << "slower than 0.1 GFLOP/s";
    EXPECT_LT(peak, 1e14) << "faster than any core";
  }
}

}  // namespace
}  // namespace mt
