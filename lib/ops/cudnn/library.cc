#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstring>
#include <string>

#include <cudnn_version.h>
#include <fmt/format.h>

// Of the runtime, what the frontend calls for attention.
#define MT_RUNTIME_FUNCTIONS(X)                                                                          \
  X(cudaDeviceGetAttribute) X(cudaGetDevice) X(cudaGetErrorString) X(cudaMemcpyAsync) X(cudaMemsetAsync) \
  X(cudaRuntimeGetVersion) X(cudaThreadExchangeStreamCaptureMode)

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend looks for its functions there
}

namespace mt::ops::cudnn {

namespace {

// Before it, backward wants lengths copied from the host, and has faults its notes name.
constexpr std::size_t kOldestVersion = 91600;

char runtime_linked_here;

std::string open() {
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  std::string why;
  void* library = nullptr;
  // Where the loader looks, then where the build found it.
  for (const std::string& place : {name, std::string(MT_CUDNN_DIRECTORY "/") + name})
    if (library == nullptr) {
      library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr && why.empty()) why = dlerror();
    }
  if (library == nullptr) return "cuDNN cannot be opened: " + why;
  const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(library, "cudnnGetVersion"));
  if (version == nullptr) return name + " is no cuDNN";
  if (version() < kOldestVersion) return fmt::format("{} is version {}, 9.16 is needed", name, version());
  cudnn_frontend::cudnn_dlhandle = library;
  return {};
}

}  // namespace

const std::string& library_fault() {
  static const std::string fault = open();
  return fault;
}

void lend_driver() {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) dlopen(MT_CUDA_STUBS "/libcuda.so", RTLD_NOW | RTLD_LOCAL);
}

// It asks for the runtimes of several versions, and wants one of them alone.
void* open_for_frontend(const char* name, int flags) {
  if (std::strncmp(name, "libcudart", 9) != 0) return dlopen(name, flags);
  return name == fmt::format("libcudart.so.{}", CUDART_VERSION / 1000) ? &runtime_linked_here : nullptr;
}

void* find_for_frontend(void* handle, const char* name) {
  if (handle != &runtime_linked_here) return dlsym(handle, name);
#define MT_FIND(function) \
  if (std::strcmp(name, #function) == 0) return reinterpret_cast<void*>(&function);
  MT_RUNTIME_FUNCTIONS(MT_FIND)
#undef MT_FIND
  return nullptr;
}

}  // namespace mt::ops::cudnn
