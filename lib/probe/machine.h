#pragma once
// What the machine is made of, by hwloc: packages, cores, caches, memory, instruction class.
//
// Code: probe/machine.cc. Tests: tests/probe/machine_test.cc (a synthetic machine through HWLOC_SYNTHETIC).

#include "base/json.h"

namespace mt {

// host, packages, numa_nodes, cores, hardware_threads, usable_cores, memory_bytes, l1d/l2/l3_bytes (of one cache),
// cpu_isa, cpu_model; a fact hwloc does not know is absent.
//   fails  Error{device} when hwloc cannot read the machine
Json machine_json();

}  // namespace mt
