#pragma once
// Where in the lanes each act of each stage and micro-batch stands. Internal to lib/schedule.

#include <vector>

#include "schedule/schedule.h"

namespace mt {

struct Place {
  int rank = -1, step = -1;
  explicit operator bool() const { return rank >= 0; }
};

class StepIndex {
 public:
  // needs  chunks and micro-batches of all steps are within the schedule's numbers
  explicit StepIndex(const Schedule& schedule);

  int stages() const { return stages_; }
  int stage(int rank, int chunk) const {
    return s_.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }
  // Rank that holds a stage of the copy a micro-batch runs through.
  int rank_of(int stage, int micro_batch) const;
  // First step that does it: forward alone or merged; backward, input gradient alone, or merged; weight gradient.
  Place forward(int stage, int micro_batch) const { return forward_[at(stage, micro_batch)]; }
  Place input_gradient(int stage, int micro_batch) const { return input_[at(stage, micro_batch)]; }
  bool has_messages() const { return has_messages_; }

 private:
  std::size_t at(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(s_.num_micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }
  const Schedule& s_;
  int stages_;
  bool has_messages_ = false;
  std::vector<int> rank_of_;  // [copy][stage]
  std::vector<Place> forward_, input_;
};

// What an act of a rank reads: of `micro_batch` at `stage`, the result of the stage before (its forward) or after (its
// input gradient). A merged step reads two.
struct Input {
  bool gradient = false;
  int stage = 0, micro_batch = 0;  // of the producer
};
// gives  up to two inputs that come from another stage, through `each(const Input&)`
template <class Each>
void for_each_input(const Schedule& s, const StepIndex& index, int rank, const Step& step, Each each) {
  const auto forward = [&](int chunk, int m) {
    if (const int stage = index.stage(rank, chunk); stage > 0) each(Input{false, stage - 1, m});
  };
  const auto backward = [&](int chunk, int m) {
    if (const int stage = index.stage(rank, chunk); stage + 1 < s.stages()) each(Input{true, stage + 1, m});
  };
  switch (step.act) {
    case Act::forward: forward(step.chunk, step.micro_batch); break;
    case Act::backward:
    case Act::backward_input: backward(step.chunk, step.micro_batch); break;
    case Act::forward_backward:
      forward(step.chunk, step.micro_batch);
      backward(step.backward_chunk, step.backward_micro_batch);
      break;
    default: break;
  }
}

}  // namespace mt
