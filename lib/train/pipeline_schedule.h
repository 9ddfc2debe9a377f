#pragma once
// The pipeline schedule of a run: by name or from a file (mt-schedule(5)), checked against what the executor walks.
//
// A V schedule decides the layout too: two chunks a rank, the second on its way back.
// Code: train/pipeline_schedule.cc. Tests: tests/train/pipeline_test.cc, tests/cli/mt-train.sh.

#include "schedule/schedule.h"
#include "train/training_options.h"

namespace mt {

// Set the name where it is not given, and chunks and V of the layout from the schedule.
//   needs  split_stages has run
//   fails  Error{usage} no such name; of a file: Error{io}, Error{corrupt}
void choose_schedule(TrainingOptions& options);

// Refuse a schedule that this run cannot walk: two copies of the weights, another number of ranks, chunks or
// micro-batches, stages elsewhere than the layout has them, acts the executor does not know.
//   needs  choose_schedule, and a layout that validate() accepts   fails  Error{config}, Error{corrupt}
void check_schedule(const TrainingOptions& options);

ScheduleSpec schedule_spec_of(const TrainingOptions& options);

// What one pipeline rank walks: its lane, with messages and recompute acts, and how many gradients it may have on their
// way at once.
struct RankWork {
  Lane lane;
  int gradient_buffers = 0;
};
RankWork work_of(const TrainingOptions& options, int pp_rank);

// What the clock says of a step whose acts take so long, from a common start of all ranks to the last one's end, with
// messages that take no time: in the unit of the durations.
double predicted_step(const TrainingOptions& options, const Durations& durations);

// The lanes of all pipeline ranks, of as many micro-batches as show what is in flight in a step: for sizes alone.
//   cost  of pp² micro-batches and virtual stages whatever the run's, unless the schedule is a file or holds all of them
std::vector<Lane> sample_lanes(const TrainingOptions& options);

}  // namespace mt
