#include "train/tp_overlap_options.h"

namespace mt {

void complete_tp_overlap(TrainingOptions& o, std::vector<Problem>& problems) {
  const TpOverlap asked = o.tp_overlap;
  o.tp_overlap = {};
  if (!o.tp_comm_overlap) return;
  if (o.parallel.tp == 1) {
    o.notices.push_back("--tp-comm-overlap without tensor parallelism does nothing and is off");
    return;
  }
  if (!o.parallel.sequence_parallel) {
    problems.push_back({"tp-comm-overlap without sequence-parallel, whose messages it is about", "--sequence-parallel"});
    return;
  }
  if (!o.fp8.format.empty() && (asked.gather || asked.sum || asked.sum_dgrad))
    o.notices.push_back("--tp-comm-overlap: products in fp8 are not cut, since one scale may be of all their rows; sums of input "
                        "gradients still go on beside weight gradients");
  o.tp_overlap = asked;
}

}  // namespace mt
