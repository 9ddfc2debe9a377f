#include "train/rank_memory.h"

#include <algorithm>

#include "data/blend.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

// Validation while training, or the test set at its end.
bool scores(const TrainingOptions& o) {
  if (o.eval_interval > 0 && (o.eval_iters > 0 || o.full_validation)) return true;
  if (o.eval_iters == 0 || o.data.mock_data) return false;
  return o.data.train_path.empty() ? data::parse_split(o.data.split)[2] > 0 : !o.data.test_path.empty();
}

bool holds_head(const TrainingOptions& o, const ModelSpec& model, const Coordinate& at) {
  for (int c = 0; c < o.parallel.vpp; ++c)
    if (stage_content(model, o.parallel, at.pp, c).head) return true;
  return false;
}

}  // namespace

MemoryPlan rank_memory(const TrainingOptions& o, const ModelSpec& model, const Coordinate& at, const Lane& lane) {
  MemoryPlan plan = plan_memory(model, o.parallel, o.batch, at, o.state(), lane, o.host_layers);
  // Losses leave graphs by way of one place.
  if (o.graph_warmup > 0 && holds_head(o, model, at)) plan.other_bytes += bytes_of(DType::f32, o.batch.tokens_per_micro_batch());
  if (scores(o)) plan.scratch_bytes = std::max(plan.scratch_bytes, plan.forward_only_scratch_bytes);
  return plan;
}

}  // namespace mt
