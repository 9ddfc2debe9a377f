#pragma once
// The commands of mt-topo that have a file of their own.

#include <functional>

#include "base/cli.h"

namespace mt {

std::function<int()> schedule_command(OptionTable& table, const cli::Shared& shared);

}  // namespace mt
