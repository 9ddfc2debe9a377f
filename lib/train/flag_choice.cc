#include "train/flag_choice.h"

#include "base/error.h"

namespace mt {

void require_choice(const char* flag, const std::string& value, std::initializer_list<const char*> names) {
  std::string all;
  for (const char* n : names) {
    if (value == n) return;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", n);
  }
  throw Error(Code::usage, fmt::format("--{} '{}' is unknown", flag, value), "", "one of " + all);
}

}  // namespace mt
