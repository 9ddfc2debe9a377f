#include "comm/nccl/library.h"

#if !defined(MT_CUDA_EMULATED)
#include <dlfcn.h>
#endif

#include "base/error.h"
#include "comm/world.h"

namespace mt::comm::nccl {

namespace {

struct Opened {
  Library functions;
  std::string fault;
};

#if defined(MT_CUDA_EMULATED)

Opened open() {
  Opened o;
  if (started_by_mpi()) o.fault = "the emulated NCCL knows threads of one process alone";
#define MT_NCCL_TAKE(name) o.functions.name = &::name;
  MT_NCCL_FUNCTIONS(MT_NCCL_TAKE)
#undef MT_NCCL_TAKE
  return o;
}

#else

constexpr int kOldestVersion = NCCL_VERSION(2, 18, 0);
constexpr const char* kName = "libnccl.so.2";

template <class F>
bool find(void* handle, const char* name, F*& function, std::string& fault) {
  function = reinterpret_cast<F*>(dlsym(handle, name));
  if (!function && fault.empty()) fault = std::string(kName) + " has no " + name;
  return function != nullptr;
}

Opened open() {
  Opened o;
  void* handle = nullptr;
  std::string why;
  // Where the loader looks, then where the build found it.
  for (const std::string& place : {std::string(kName), std::string(MT_NCCL_DIRECTORY "/") + kName})
    if (!handle) {
      handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle && why.empty()) why = dlerror();
    }
  if (!handle) {
    o.fault = "NCCL cannot be opened: " + why;
    return o;
  }
#define MT_NCCL_FIND(name) find(handle, #name, o.functions.name, o.fault);
  MT_NCCL_FUNCTIONS(MT_NCCL_FIND)
#undef MT_NCCL_FIND
  int version = 0;
  if (o.fault.empty() && (o.functions.ncclGetVersion(&version) != ncclSuccess || version < kOldestVersion))
    o.fault = fmt::format("{} is version {}, 2.18 is needed", kName, version);
  return o;
}

#endif

const Opened& opened() {
  static const Opened o = open();
  return o;
}

}  // namespace

const std::string& library_fault() { return opened().fault; }

const Library& library() {
  const Opened& o = opened();
  if (!o.fault.empty())
    throw Error(Code::comm, o.fault, "nccl", "install NCCL 2.18 or newer, name its directory in LD_LIBRARY_PATH, or use mpi");
  return o.functions;
}

}  // namespace mt::comm::nccl
