// That cuDNN has a kernel for every attention it is sent: asked of the library itself, which wants a device's properties for
// it, and a driver or what the toolkit has in its place, but no device.
#include <gtest/gtest.h>

#include <vector>

#include <fmt/format.h>

#include "ops/cuda/sdpa_plan.h"

namespace mt::ops::cuda {

namespace {

// What the library wants to know of an H200 and a B200, under its own names.
std::string properties(int capability) {
  return fmt::format(
      R"({{"deviceName":"of a test","cudaDeviceId":0,"deviceVer":{},"driverVer":13000,"multiProcessorCount":{},)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,)"
      R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("pciDeviceId":0,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":150000000000}})",
      capability * 10, capability == 90 ? 132 : 148);
}

// As attention layers send it: q, k, v and their gradients slices of fused rows.
Sdpa sdpa(int capability, std::int64_t dim, bool backward, bool packed) {
  Sdpa s;
  s.capability = capability;
  s.backward = backward;
  s.packed = packed;
  s.batch = 4;
  s.heads = 8;
  s.groups = dim == 128 ? 2 : 8;
  s.dim = dim;
  s.queries = s.keys = 1000;
  s.scale = 0.1f;
  const std::int64_t fused = (s.heads + 2 * s.groups) * dim, plain = s.heads * dim;
  for (auto& steps : s.steps) steps = {s.queries * fused, dim, fused};
  for (int t : {kSdpaOut, kSdpaDout}) s.steps[static_cast<std::size_t>(t)] = {s.queries * plain, dim, plain};
  s.steps[kSdpaLse] = packed ? SdpaSteps{s.queries * s.heads, 1, s.heads} : SdpaSteps{s.heads * s.queries, s.queries, 1};
  return s;
}

std::string name(const Sdpa& s) {
  return fmt::format("capability {} dim {} {} {} {} keys causal {} repeats {} {}", s.capability, s.dim,
                     s.backward ? "backward" : "forward", s.packed ? "packed" : "equal", s.keys, s.causal, s.repeats,
                     dtype_name(s.dtype));
}

void expect_engines(int capability, const std::vector<std::int64_t>& dims, bool backward) {
  if (!why_no_sdpa().empty()) GTEST_SKIP() << why_no_sdpa();
  const std::string device = properties(capability);
  if (why_no_sdpa_engine(sdpa(90, 128, false, false), properties(90)).find("PREREQUISITE_MISSING") != std::string::npos)
    GTEST_SKIP() << "neither a driver nor the toolkit's stand-in for one";
  const auto expect = [&](const Sdpa& s) { EXPECT_EQ(why_no_sdpa_engine(s, device), "") << name(s); };
  for (std::int64_t dim : dims)
    for (bool packed : {false, true})
      for (bool repeats : backward ? std::vector{false, true} : std::vector{false}) {
        Sdpa s = sdpa(capability, dim, backward, packed);
        s.repeats = repeats;
        expect(s);
        s.causal = false;
        expect(s);
      }
  Sdpa s = sdpa(capability, dims[0], backward, false);
  s.dtype = DType::f16;
  expect(s);
  s.keys = 1100;  // the last query sees the last key
  expect(s);
}

}  // namespace

TEST(CudnnPlans, HopperHasForward) { expect_engines(90, {64, 72, 96, 128, 256}, false); }
TEST(CudnnPlans, HopperHasBackward) { expect_engines(90, {64, 72, 96, 128, 256}, true); }
TEST(CudnnPlans, BlackwellHasForward) { expect_engines(100, {64, 72, 96, 128}, false); }
TEST(CudnnPlans, BlackwellHasBackward) { expect_engines(100, {64, 72, 96, 128}, true); }

// The question can be answered with no: else the tests above say nothing.
TEST(CudnnPlans, WhatTheLibraryDoesNotHaveIsSaid) {
  if (!why_no_sdpa().empty()) GTEST_SKIP() << why_no_sdpa();
  EXPECT_NE(why_no_sdpa_engine(sdpa(90, 60, false, false), properties(90)), "") << "a head dim off the eights";
  EXPECT_NE(why_no_sdpa_engine(sdpa(90, 264, true, false), properties(90)), "") << "a head dim too large";
  EXPECT_NE(why_no_sdpa_engine(sdpa(100, 192, true, false), properties(100)), "") << "no backward of that on Blackwell";
}

}  // namespace mt::ops::cuda
