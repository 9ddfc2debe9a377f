#pragma once
// A manifest of a format_version this program does not know: not damage, and nothing to judge by. Thrown by
// parse_manifest; an Error{corrupt} for all who do not ask.

#include "base/error.h"

namespace mt {

class UnknownFormat : public Error {
 public:
  using Error::Error;
};

}  // namespace mt
