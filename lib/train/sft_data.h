#pragma once
// The sets of a fine-tuning run: chat JSON lines instead of token files, in the same --data-path forms and splits.
//
// A set is split by lines. A blend of several files draws by its weights, without them by their samples; no file ends.
// Code: train/sft_data.cc. Tests: tests/train/sample_kinds_test.cc, tests/cli/mt-train-samples.sh.

#include "train/run_data.h"

namespace mt {

// Open the files, check every line, and make the sets that are needed.
//   fails  Error{config}: no tokenizer, an unknown prompt format, a set without lines; Error{io}, Error{data} from the
//          files. Fetching: Error{data} for an id that the vocabulary does not have
RunData open_sft_data(const TrainingOptions& options, std::int64_t vocab_size);

}  // namespace mt
