#pragma once
// Validate a run and print what it would be: layout, groups, parameters and bytes per rank. No device, no MPI.
//
// Code: train/dry_run.cc. Tests: tests/cli/.

#include "train/training_options.h"

namespace mt {

// world 0: the product of the degrees. TSV sections on stdout, or with `json` one object. What is laid out and not trainable
// yet is accepted and named.
//   cost   of the layers of a stage for every different rank, and of what is printed
//   gives  0   fails  Error{config} with every problem
int dry_run(const TrainingOptions& options, int world, bool json);

}  // namespace mt
