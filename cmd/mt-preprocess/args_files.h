#pragma once
// --args-file for commands that take some flags of a training: of a script or a list of flags those that the command has.
//
// Code: cmd/mt-preprocess/args_files.cc. Tests: tests/cli/mt-preprocess-samples.sh, index-cache.sh.

#include <string>

#include "base/options.h"

namespace mt::preprocess {

// Add the row, and read files where they stand in the command line. Flags of a file that the table does not have are
// left aside and counted, the first ones named; on the command line itself they are refused, all of them by name.
//   needs  all other rows are in the table; `file` outlives it
void take_args_files(OptionTable& table, std::string& file);

}  // namespace mt::preprocess
