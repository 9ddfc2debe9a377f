// What stands for cuDNN where it is not built.
#include "base/error.h"
#include "ops/cuda/sdpa_plan.h"

namespace mt::ops::cuda {

const std::string& why_no_sdpa() {
  static const std::string why = "this build has no cuDNN";
  return why;
}

std::string sdpa_library() { return "no cuDNN"; }

std::unique_ptr<SdpaPlan> make_sdpa_plan(const Sdpa&, std::string& why) {
  why = why_no_sdpa();
  return nullptr;
}

std::string why_no_sdpa_engine(const Sdpa&, const std::string&) { return why_no_sdpa(); }

}  // namespace mt::ops::cuda
