#include "train/rank_memory.h"

#include <algorithm>

#include "data/blend.h"

namespace mt {

namespace {

// Validation while training, or the test set at its end.
bool scores(const TrainingOptions& o) {
  if (o.eval_interval > 0 && (o.eval_iters > 0 || o.full_validation)) return true;
  if (o.eval_iters == 0 || o.data.mock_data) return false;
  return o.data.train_path.empty() ? data::parse_split(o.data.split)[2] > 0 : !o.data.test_path.empty();
}

}  // namespace

MemoryPlan rank_memory(const TrainingOptions& o, const ModelSpec& model, const Coordinate& at, const Lane& lane) {
  MemoryPlan plan = plan_memory(model, o.parallel, o.batch, at, o.state(), lane, o.host_layers);
  if (scores(o)) plan.scratch_bytes = std::max(plan.scratch_bytes, plan.forward_only_scratch_bytes);
  return plan;
}

}  // namespace mt
