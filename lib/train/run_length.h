#pragma once
// How long a run is and what its learning-rate curve is cut from: steps or samples, through the batch-size schedule.
//
// Code: train/run_length.cc. Tests: tests/train/batch_schedule_test.cc.

#include <vector>

#include "layout/validate.h"
#include "train/training_options.h"

namespace mt {

// Fill batch_schedule, and train_iters where the length is given in samples; what clashes goes to `problems`, what is
// converted to options.notices.   needs  the global batch and dp are known
void complete_run_length(TrainingOptions& options, std::vector<Problem>& problems);

}  // namespace mt
