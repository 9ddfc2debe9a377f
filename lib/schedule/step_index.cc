#include "schedule/step_index.h"

namespace mt {

StepIndex::StepIndex(const Schedule& s) : s_(s), stages_(s.stages()) {
  const auto cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(s.num_micro_batches);
  forward_.resize(cells);
  input_.resize(cells);
  rank_of_.assign(static_cast<std::size_t>(stages_ * s.copies), 0);
  for (int r = 0; r < s.pp(); ++r) {
    for (int c = 0; c < s.chunks(); ++c)
      rank_of_[static_cast<std::size_t>((c % s.copies) * stages_ + stage(r, c))] = r;
    const Lane& lane = s.lanes[static_cast<std::size_t>(r)];
    const auto note = [&](std::vector<Place>& where, int chunk, int m, int step) {
      if (auto& place = where[at(stage(r, chunk), m)]; !place) place = {r, step};
    };
    for (int i = 0; i < static_cast<int>(lane.size()); ++i) {
      const Step& step = lane[static_cast<std::size_t>(i)];
      has_messages_ = has_messages_ || is_send(step.act) || is_recv(step.act);
      if (step.act == Act::forward || step.act == Act::forward_backward) note(forward_, step.chunk, step.micro_batch, i);
      if (step.act == Act::backward || step.act == Act::backward_input) note(input_, step.chunk, step.micro_batch, i);
      if (step.act == Act::forward_backward) note(input_, step.backward_chunk, step.backward_micro_batch, i);
    }
  }
}

int StepIndex::rank_of(int stage, int micro_batch) const {
  return rank_of_[static_cast<std::size_t>(s_.copy_of(micro_batch) * stages_ + stage)];
}

}  // namespace mt
