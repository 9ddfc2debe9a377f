#include "base/error.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include <unistd.h>

#include "base/log.h"
#include "base/printable.h"

namespace mt {

const char* code_name(Code code) {
  switch (code) {
    case Code::difference: return "difference";
    case Code::usage: return "usage";
    case Code::config: return "config";
    case Code::data: return "data";
    case Code::io: return "io";
    case Code::corrupt: return "corrupt";
    case Code::device: return "device";
    case Code::comm: return "comm";
    case Code::internal: return "internal";
    case Code::non_finite_limit: return "non_finite_limit";
    case Code::signal_saved: return "signal_saved";
    case Code::time_limit: return "time_limit";
  }
  return "unknown";
}

static std::string one_line(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = what;
  if (!where.empty()) text += ": " + where;
  if (!hint.empty()) text += " (" + hint + ")";
  return log::printable(text);
}

Error::Error(Code code, const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(one_line(what, where, hint)), code_(code), message_(what), where_(where), hint_(hint) {}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

void bug(const char* file, int line, const char* condition, const std::string& values) {
  log::line(fmt::format("bug: {}:{}: {} is false: {}", file, line, condition, values));
  std::abort();
}

}  // namespace mt
