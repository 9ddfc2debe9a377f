#pragma once
// What a rank computes on: the host's cores, or one accelerator.
//
// Code: device/device.cc. Tests: tests/device/.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mt {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// "cpu", "cuda:0"
std::string device_text(Device device);

// The device that a rank computes on: "cpu", or "cuda": the one of its place among the ranks of its host; where there are
// more ranks than devices, ranks share them.
//   fails  Error{device} with the reason where there is none; Error{usage} for another name
Device device_of_rank(const std::string& name, int local_rank);

// Bytes a rank there may use, with all others that are on it.
std::size_t memory_bytes(Device device);
// False where kernels of the device are run by something that stands for it: nothing to take the time of.
bool has_speed(Device device);

// Highest instruction class the CPU kernels may use. Fixed by the first call: the processor's own, lowered by
// MT_MAX_CPU_ISA = SSE41 | AVX2 | AVX512 | AVX512_BF16 (the twin of DNNL_MAX_CPU_ISA, same meaning).
enum class CpuIsa : std::uint8_t { sse41, avx2, avx512, avx512_bf16 };
CpuIsa cpu_isa();
const char* cpu_isa_name(CpuIsa isa);

// Cores this process may run on (its affinity mask), at least 1.
int usable_cores();

// Threads of one rank: `wanted` when above 0, else OMP_NUM_THREADS, else the cores shared among the ranks of this host.
//   ranks  of the job; MPI_LOCALNRANKS, where the launcher says it, counts those of this host
int threads_per_rank(int wanted, int ranks);

}  // namespace mt
