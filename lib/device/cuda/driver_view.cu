#include "device/cuda/driver_view.h"

#include <dlfcn.h>

namespace mt::cuda {

namespace {

// As the library's header declares them; every call gives 0 when it went well.
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Library {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  bool there = false;
};

template <class F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

Library open() {
  Library l;
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  l.there = handle != nullptr && find(handle, "nvmlInit_v2", l.init) &&
            find(handle, "nvmlSystemGetDriverVersion", l.driver_version) &&
            find(handle, "nvmlDeviceGetCount_v2", l.count) &&
            find(handle, "nvmlDeviceGetHandleByPciBusId_v2", l.by_bus) &&
            find(handle, "nvmlDeviceGetMemoryInfo", l.memory) && l.init() == 0;
  return l;
}

// Never closed: it is asked until the process ends.
const Library& library() {
  static const Library l = open();
  return l;
}

}  // namespace

std::string driver_text() {
  const Library& l = library();
  char version[96] = "";
  unsigned devices = 0;
  if (!l.there || l.driver_version(version, sizeof version) != 0 || l.count(&devices) != 0) return "";
  return std::string("driver ") + version + ", " + std::to_string(devices) + (devices == 1 ? " device" : " devices");
}

std::optional<DeviceMemory> driver_memory(const char* pci_bus_id) {
  const Library& l = library();
  void* device = nullptr;
  MemoryInfo info{};
  if (!l.there || l.by_bus(pci_bus_id, &device) != 0 || l.memory(device, &info) != 0) return std::nullopt;
  return DeviceMemory{static_cast<std::size_t>(info.free), static_cast<std::size_t>(info.total)};
}

}  // namespace mt::cuda
