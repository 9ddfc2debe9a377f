#pragma once
// Options that may differ between two starts of a run without being refused, yet must not differ unnoticed.
//
// Code: train/remembered_options.cc. Tests: tests/train/resume_test.cc.

#include <string>
#include <vector>

#include "base/json.h"
#include "train/training_options.h"

namespace mt {

// By flag; kept in a checkpoint's training state.
Json remembered_options(const TrainingOptions& options);
// A line for each flag whose value is another now, with both: "--seq-length is 32, the checkpoint's run had 16".
// Flags that one side does not know are left out: a checkpoint of another version.
std::vector<std::string> option_changes(const Json& stored, const Json& now);

}  // namespace mt
