#pragma once
// What the driver's management library (NVML, opened at run time) says of the devices without starting work on one.
//
// Code: device/cuda/driver_view.cu. Tests: none here: a machine without a driver has no such library.

#include <optional>
#include <string>

#include "device/backend.h"

namespace mt::cuda {

// "driver 580.82, 8 devices"; empty where the library is not there.
std::string driver_text();

// Of the device at this PCI address; nothing where the library is not there or does not know it.
std::optional<DeviceMemory> driver_memory(const char* pci_bus_id);

}  // namespace mt::cuda
