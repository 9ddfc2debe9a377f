#pragma once
// Flags of Megatron's tools/preprocess_data.py that are no options here: taken with a line that says why there is nothing to
// do, or refused with the reason and what to take instead. man/mt-preprocess.1 lists them.
//
// Code: cmd/mt-preprocess/megatron_habits.cc. Tests: tests/cli/mt-preprocess-habits.sh.

#include "base/options.h"

namespace mt::preprocess {

// Hidden rows for them.
//   needs  all other rows are in the table, which outlives the parse
//   fails  at the parse: Error{config} for a refused one
void add_megatron_habits(OptionTable& table);

}  // namespace mt::preprocess
