#include "ops/cuda/cublaslt.h"

#if !defined(MT_CUDA_EMULATED)
#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "base/error.h"
#endif

namespace mt::ops::cuda {

#if defined(MT_CUDA_EMULATED)

const CublasLt& cublas_lt() {
#define MT_VALUE(name) &::name,
  static const CublasLt functions{MT_CUBLASLT_FUNCTIONS(MT_VALUE)};
#undef MT_VALUE
  return functions;
}

#else

namespace {

CublasLt open() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = nullptr;
  std::string why;
  // Where the loader looks, then where the build found it.
  for (const std::string& place : {name, std::string(MT_CUBLASLT_DIRECTORY "/") + name})
    if (library == nullptr) {
      library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr && why.empty()) why = dlerror();
    }
  if (library == nullptr)
    throw Error(Code::device, "cuBLASLt cannot be opened: " + why, name,
                "install CUDA's libraries, or name their directory in LD_LIBRARY_PATH");
  CublasLt found;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr)
      throw Error(Code::device, std::string("cuBLASLt has no ") + symbol, name,
                  "install the version that mt was built with");
  };
#define MT_FIND(symbol) find(found.symbol, #symbol);
  MT_CUBLASLT_FUNCTIONS(MT_FIND)
#undef MT_FIND
  return found;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt functions = open();
  return functions;
}

#endif

}  // namespace mt::ops::cuda
