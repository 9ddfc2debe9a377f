#pragma once
// Flags that say which token files a run reads and in what blend; for mt-train, and for mt-preprocess index, which makes
// the orders of its samples without a device.
//
// Code: cmd/options/data_flags.cc. Tests: tests/cli/, tests/lint (table = man page).

#include "base/options.h"
#include "data/run_sets.h"

namespace mt::options {

void add_sets(OptionTable& table, data::SetOptions& sets);

}  // namespace mt::options
