#pragma once
// Flags → lib's option structs, with Megatron's names; shared by the tools that take them.
//
// Each function adds one group of rows bound to the struct; the struct must outlive the parsing.
// Code: cmd/options/training_flags.cc, optimizer_flags.cc, loop_flags.cc, precision_flags.cc. Tests: tests/cli/, tests/lint (table = man
// page).

#include "base/options.h"
#include "train/training_options.h"

namespace mt::options {

void add_model(OptionTable& table, ModelOptions& model);
void add_experts(OptionTable& table, ModelOptions& model);
void add_parallel(OptionTable& table, TrainingOptions& options);
void add_batch(OptionTable& table, TrainingOptions& options);
void add_optimizer(OptionTable& table, TrainingOptions& options);
void add_update_rules(OptionTable& table, TrainingOptions& options);
void add_loop(OptionTable& table, TrainingOptions& options);
void add_telemetry(OptionTable& table, TrainingOptions& options);
void add_precision(OptionTable& table, TrainingOptions& options);
void add_recompute(OptionTable& table, TrainingOptions& options);
void add_data(OptionTable& table, DataOptions& data);
void add_checkpoint(OptionTable& table, TrainingOptions& options);
void add_run(OptionTable& table, TrainingOptions& options);

// After parsing: what was given and what follows from it (tokenizer_given, global_batch_given, resolved).
void note_given(const OptionTable& table, TrainingOptions& options);

}  // namespace mt::options
