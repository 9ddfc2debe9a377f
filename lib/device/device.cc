#include "device/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "device/backend.h"

namespace mt {

std::string device_text(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

Device device_of_rank(const std::string& name, int local_rank) {
  if (name == "cpu") return {};
  if (name != "cuda") throw Error(Code::usage, fmt::format("'{}' is no device", name), "", "use cpu or cuda");
  const int there = cuda_backend().count();
  if (there == 0)
    throw Error(Code::device, "no CUDA device: " + cuda_backend().why_none(), "", "use --device cpu");
  return {DeviceKind::cuda, local_rank % there};
}

std::size_t memory_bytes(Device device) {
  if (device.kind != DeviceKind::cpu) return cuda_backend().memory(device.index).total;
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

bool has_speed(Device device) { return device.kind == DeviceKind::cpu || !cuda_backend().emulated; }

const char* cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::sse41: return "SSE41";
    case CpuIsa::avx2: return "AVX2";
    case CpuIsa::avx512: return "AVX512";
    case CpuIsa::avx512_bf16: return "AVX512_BF16";
  }
  return "?";
}

namespace {

CpuIsa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuIsa::sse41;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CpuIsa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? CpuIsa::avx512_bf16 : CpuIsa::avx512;
#else
  return CpuIsa::sse41;
#endif
}

CpuIsa chosen() {
  const CpuIsa own = detect();
  const char* text = std::getenv("MT_MAX_CPU_ISA");
  if (text == nullptr || *text == '\0') return own;
  for (CpuIsa isa : {CpuIsa::sse41, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16})
    if (std::strcmp(text, cpu_isa_name(isa)) == 0) return isa < own ? isa : own;
  throw Error(Code::usage, fmt::format("'{}' is no instruction class", text), "MT_MAX_CPU_ISA",
              "use SSE41, AVX2, AVX512 or AVX512_BF16");
}

}  // namespace

CpuIsa cpu_isa() {
  static const CpuIsa isa = chosen();
  return isa;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n < 1 ? 1 : n;
}

int threads_per_rank(int wanted, int ranks) {
  if (wanted > 0) return wanted;
  if (const char* omp = std::getenv("OMP_NUM_THREADS"); omp && std::atoi(omp) > 0) return std::atoi(omp);
  const char* local = std::getenv("MPI_LOCALNRANKS");
  const int ranks_here = local && std::atoi(local) > 0 ? std::atoi(local) : ranks;
  return std::max(1, usable_cores() / std::max(1, ranks_here));
}

}  // namespace mt
