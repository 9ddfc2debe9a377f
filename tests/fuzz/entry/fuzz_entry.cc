// libFuzzer's way into one target; MT_FUZZ_TARGET is its name.

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mt::fuzz::MT_FUZZ_TARGET({data, size});
  return 0;
}
