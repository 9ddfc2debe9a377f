#pragma once
// The device that tests run on: MT_TEST_DEVICE=cpu (default) or cuda. Data of tests lies where the host may touch it.

#include <cstdlib>
#include <string_view>

#include "device/buffer.h"

namespace mt::test {

inline Device test_device() {
  const char* text = std::getenv("MT_TEST_DEVICE");
  return {text && std::string_view(text) == "cuda" ? DeviceKind::cuda : DeviceKind::cpu, 0};
}

inline const char* device_name() { return test_device().kind == DeviceKind::cpu ? "cpu" : "cuda"; }

inline bool on_cpu() { return test_device().kind == DeviceKind::cpu; }

}  // namespace mt::test
