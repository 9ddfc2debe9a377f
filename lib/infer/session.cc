#include "infer/session.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/iterations.h"
#include "comm/device_world.h"
#include "comm/world.h"
#include "engine/checkpoint.h"
#include "layout/validate.h"

namespace mt {

namespace {

DType stored_dtype(const CheckpointMeta& meta, const std::string& where) {
  const auto d = parse_dtype(json_field<std::string>(meta.specs, "compute_dtype", where));
  if (!d) throw Error(Code::corrupt, "compute_dtype is no dtype", where);
  return *d;
}

}  // namespace

Session::Session(Communicator& job, const SessionOptions& o)
    : device_(device_of_rank(o.device, comm::local_rank(job))),
      stream_(device_, threads_per_rank(o.threads, job.size())),
      there_(comm::device_world(job, device_)) {
  Communicator& world = there_ ? *there_ : job;
  const Resolved found = resolve(o.load, o.ckpt_step);
  if (world.rank() == 0)
    for (const auto& line : found.ignored) log::warn("{}", line);
  dir_ = found.dir;
  const Reader reader(dir_);
  meta_ = reader.manifest().meta;
  const std::string where = dir_.string();
  model_ = model_from_json(json_field<Json>(meta_.specs, "model", where), where);
  ParallelSpec parallel;
  parallel.tp = o.tp;
  parallel.dp = std::max(1, world.size() / std::max(1, o.tp));
  Limits limits;
  limits.world = world.size();
  require_valid(validate(model_, parallel, {1, 1, parallel.dp}, limits, 0));
  const Placement placement = place(parallel);
  const auto specs = param_specs(model_, parallel, placement.coordinates[static_cast<std::size_t>(world.rank())]);
  check_loadable(reader, model_, specs, LoadWhat::weights);
  groups_ = make_groups(world, placement, kv_heads_of(model_));
  store_ = std::make_unique<ParameterStore>(specs, o.compute.value_or(stored_dtype(meta_, where)), device_,
                                            ParameterStore::Gradients::absent);
  load_weights(reader, stream_, *store_);
}

Session::Runner Session::runner(const BatchSpec& batch) {
  Runner r;
  r.model = std::make_unique<Model>(model_, batch, groups_, *store_, 0, device_);
  r.executor = std::make_unique<Executor>(ExecutorParts{stream_, groups_, *store_, 0}, *r.model, batch, device_);
  return r;
}

}  // namespace mt
