#include "engine/checkpoint.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/iterations.h"
#include "ckpt/owned_boxes.h"
#include "engine/save_agreement.h"

namespace mt {

namespace {

std::vector<StateKind> kinds_of(const StateSpec& state, const ParamSpec& spec) {
  std::vector<StateKind> k{{"weight", state.compute}};
  if (state.own_master()) k.push_back({"master", DType::f32});
  for (const auto& moment : state_kinds(state, spec)) k.push_back(moment);
  return k;
}

std::vector<OwnedBox> boxes_of_state(const std::vector<ParamSpec>& specs, const ShardPlan& plan, const ParallelSpec& parallel,
                                     const Coordinate& at, const StateSpec& state) {
  return owned_boxes(specs, plan, parallel, at, [&](const ParamSpec& spec, const Piece&) { return kinds_of(state, spec); });
}

// Scales of moments: one rank of a pipeline stage writes them, all have them.
std::vector<TensorBox> scale_boxes(const std::vector<ParamSpec>& specs, const StateSpec& state, const Coordinate& at) {
  std::vector<TensorBox> out;
  if (at.tp + at.cp + at.dp > 0) return out;
  for (const auto& spec : specs)
    if (!spec.tie_copy)
      for (const auto& piece : spec.pieces)
        for (const auto& kind : scale_kinds(state)) out.push_back({piece.name, kind, DType::f32, {1}, whole({1})});
  return out;
}

View state_of(const ParameterStore& store, const Optimizer& optimizer, std::size_t shard, const std::string& kind) {
  return kind == "weight" ? store.shard_weight(shard) : optimizer.shard_state(shard, kind);
}

std::byte* address(const View& flat, std::int64_t at) {
  return static_cast<std::byte*>(flat.data) + bytes_of(flat.dtype, at);
}

// A request for every box of every shard and kind; `where` gives a shard's view, or an empty one when only checking.
std::vector<TensorRequest> requests(const Reader& reader, const std::vector<ParamSpec>& specs, const ShardPlan& plan,
                                    const std::function<std::vector<StateKind>(const ParamSpec&)>& kinds,
                                    const std::function<View(std::size_t, const std::string&)>& where) {
  std::vector<TensorRequest> out;
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const OwnedRange& shard = plan.shards[i];
    const auto& spec = specs[static_cast<std::size_t>(shard.param)];
    for (const auto& piece : spec.pieces)
      for (const auto& [kind, dtype] : kinds(spec)) {
        const bool from_weight = std::string(kind) == "master" && !reader.manifest().find(piece.name, "master");
        const std::string stored = from_weight ? "weight" : kind;
        const View v = where(i, kind);
        for (auto& part : boxes_in_range(spec, piece, shard.begin, shard.end))
          out.push_back({{piece.name, stored, dtype, piece.shape, std::move(part.box)},
                         v ? address(v, part.at - shard.begin) : nullptr, 0,
                         stored == "weight" || !is_scaled(dtype)});
      }
  }
  return out;
}

constexpr std::size_t kStagedBytes = std::size_t{256} << 20;  // pinned memory of a load, unless one box needs more

// Read into memory of the stream's device, through pinned memory where that is not the host's.
void read_to_device(const Reader& reader, Stream& stream, std::vector<TensorRequest> requests) {
  stream.synchronize();
  if (stream.device().kind == DeviceKind::cpu) return reader.read(requests);
  const auto padded = [](const TensorRequest& r) { return (r.what.bytes() + kAlign - 1) / kAlign * kAlign; };
  for (std::size_t first = 0; first < requests.size();) {
    std::size_t end = first, bytes = 0;
    while (end < requests.size() && (end == first || bytes + padded(requests[end]) <= kStagedBytes))
      bytes += padded(requests[end++]);
    const Buffer staged(stream.device(), bytes, Memory::pinned);
    std::vector<TensorRequest> part(requests.begin() + static_cast<std::ptrdiff_t>(first),
                                    requests.begin() + static_cast<std::ptrdiff_t>(end));
    std::size_t at = 0;
    for (auto& r : part) {
      r.out = staged.data() + at;
      at += padded(r);
    }
    reader.read(part);
    for (std::size_t i = first; i < end; ++i)
      copy_bytes(stream, requests[i].out, part[i - first].out, requests[i].what.bytes());
    stream.synchronize();
    first = end;
  }
}

// What a parameter is filled with.
std::function<std::vector<StateKind>(const ParamSpec&)> load_kinds(LoadWhat what, const StateSpec& state) {
  return [=](const ParamSpec& spec) {
    std::vector<StateKind> k{{"master", DType::f32}};
    if (what == LoadWhat::everything)
      for (const auto& moment : state_kinds(state, spec)) k.push_back(moment);
    return k;
  };
}

void require_same_rule(const Reader& reader, const StateSpec& state) {
  const Json& specs = reader.manifest().meta.specs;
  const std::string stored = specs.is_object() ? specs.value("optimizer", "adam") : "adam", mine = state_name(state);
  if (stored != mine)
    throw Error(Code::config, fmt::format("the checkpoint holds the state of {}, this run's optimizer is {}", stored, mine),
                reader.dir().string(), "the optimizer it was saved with, or --no-load-optim to start without its state");
}

// A scaled moment means nothing without its scale, so it is loaded as it was stored or not at all; f32 and bf16 become
// each other.
void require_same_moments(const Reader& reader, const StateSpec& state) {
  if (state.rule != UpdateRule::adam) return;
  for (const auto& [kind, mine] : {std::pair{"exp_avg", state.exp_avg}, {"exp_avg_sq", state.exp_avg_sq}})
    for (const auto& t : reader.manifest().tensors) {
      if (t.kind != kind) continue;
      if (t.dtype != mine && (is_scaled(t.dtype) || is_scaled(mine)))
        throw Error(Code::config, fmt::format("the checkpoint keeps {} in {}, this run in {}", kind, dtype_name(t.dtype),
                                              dtype_name(mine)),
                    reader.dir().string(), "the dtype it was saved with, or --no-load-optim to start without moments");
      break;
    }
}

// Of every piece this rank has part in.
std::vector<TensorRequest> scale_requests(const std::vector<ParamSpec>& specs, const StateSpec& state,
                                          const Optimizer* optimizer) {
  std::vector<TensorRequest> out;
  if (optimizer != nullptr) {
    for (const auto& s : optimizer->scales())
      out.push_back({{s.name, s.kind, DType::f32, {1}, whole({1})}, reinterpret_cast<std::byte*>(s.value), 0, false});
    return out;
  }
  for (const auto& spec : specs)
    for (const auto& piece : spec.pieces)
      for (const auto& kind : scale_kinds(state))
        out.push_back({{piece.name, kind, DType::f32, {1}, whole({1})}, nullptr, 0, false});
  return out;
}

void require_same_tensors(const Reader& reader, const ModelSpec& model) {
  std::set<std::string> wanted;
  for (const auto& t : logical_tensors(model)) wanted.insert(t.name);
  for (const auto& t : reader.manifest().tensors)
    if (t.kind == "weight" && wanted.count(t.name) == 0)
      throw Error(Code::config, fmt::format("the checkpoint holds {} {}, which this model does not have", t.name,
                                            dims_text(t.shape)),
                  reader.dir().string(), "compare the model flags with `mt-ckpt info`");
}

}  // namespace

std::vector<TensorBox> boxes_to_write(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate,
                                      const StateSpec& state) {
  const auto specs = param_specs(model, parallel, coordinate);
  std::vector<TensorBox> out;
  for (auto& o : boxes_of_state(specs, plan_shards(specs, shard_spec(parallel, coordinate)), parallel, coordinate, state))
    out.push_back(std::move(o.what));
  for (auto& box : scale_boxes(specs, state, coordinate)) out.push_back(std::move(box));
  return out;
}

std::uint64_t bytes_to_write(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate,
                             const StateSpec& state) {
  std::uint64_t bytes = 0;
  for (const auto& b : boxes_to_write(model, parallel, coordinate, state)) bytes += b.bytes();
  return bytes;
}

void check_loadable(const Reader& reader, const ModelSpec& model, const std::vector<ParamSpec>& specs,
                    LoadWhat what, const StateSpec& state) {
  require_same_tensors(reader, model);
  if (what == LoadWhat::everything) {
    const auto& stored = reader.manifest().tensors;
    const bool keeps = std::any_of(specs.begin(), specs.end(), [&](const ParamSpec& s) { return !state_kinds(state, s).empty(); });
    if (keeps && std::all_of(stored.begin(), stored.end(), [](const TensorEntry& t) { return t.kind == "weight"; }))
      throw Error(Code::config, "the checkpoint holds weights alone", reader.dir().string(),
                  "--no-load-optim goes on without the optimizer's state, --finetune starts a run from them");
    require_same_rule(reader, state);
    require_same_moments(reader, state);
    reader.check(scale_requests(specs, state, nullptr));
  }
  reader.check(requests(reader, specs, plan_shards(specs, {}), load_kinds(what, state),
                        [](std::size_t, const std::string&) { return View(); }));
}

void load_training(const Reader& reader, Stream& stream, const Groups& groups, ParameterStore& store,
                   Optimizer& optimizer, LoadWhat what) {
  read_to_device(reader, stream,
                 requests(reader, store.specs(), store.plan(), load_kinds(what, optimizer.state_spec()),
                          [&](std::size_t i, const std::string& kind) { return state_of(store, optimizer, i, kind); }));
  if (what == LoadWhat::everything)
    read_to_device(reader, stream, scale_requests(store.specs(), optimizer.state_spec(), &optimizer));
  optimizer.publish(stream, groups);
}

void load_weights(const Reader& reader, Stream& stream, ParameterStore& store) {
  read_to_device(reader, stream,
                 requests(reader, store.specs(), store.plan(),
                          [&](const ParamSpec&) { return std::vector<StateKind>{{"weight", store.compute_dtype()}}; },
                          [&](std::size_t i, const std::string&) { return store.shard_weight(i); }));
}

std::vector<TensorShard> shards_to_write(const TrainingState& state) {
  const auto& [stream, groups, store, optimizer] = state;
  std::vector<TensorShard> shards;
  for (const auto& o :
       boxes_of_state(store.specs(), store.plan(), groups.placement.spec, groups.coordinate, optimizer.state_spec()))
    shards.push_back({o.what, address(state_of(store, optimizer, o.shard, o.what.kind), o.at)});
  if (groups.coordinate.tp + groups.coordinate.cp + groups.coordinate.dp == 0)
    for (const auto& s : optimizer.scales())
      if (!s.tie_copy)
        shards.push_back({{s.name, s.kind, DType::f32, {1}, whole({1})}, reinterpret_cast<const std::byte*>(s.value)});
  return shards;
}

void publish_save(const SaveTarget& target, std::int64_t iteration, const std::function<void()>& publish) {
  std::optional<std::int64_t> before;
  try {
    before = read_tracker(target.root);
  } catch (const Error&) {  // it is replaced
  }
  publish();
  try {
    if (const auto gone = drop_superseded(target.root, before, iteration, target.retain_interval))
      log::info("removed {}", gone->string());
  } catch (const Error& e) {
    log::warn("{}", e.what());
  }
}

namespace {

// write_rank() of bytes that lie in memory of the stream's device.
WriteResult write_from_device(const std::filesystem::path& dir, int rank, const std::vector<TensorShard>& shards,
                              Stream& stream, const WriteOptions& options) {
  if (stream.device().kind == DeviceKind::cpu) return write_rank(dir, rank, shards, options);
  std::vector<TensorBox> boxes;
  for (const auto& s : shards) boxes.push_back(s.what);
  const ShardFill fill = [&](std::size_t shard, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    copy_bytes(stream, out, shards[shard].bytes + begin, static_cast<std::size_t>(end - begin));
    stream.synchronize();
  };
  return write_rank_from(dir, rank, boxes, fill, options);
}

}  // namespace

WriteResult save_training(const SaveTarget& target, const CheckpointMeta& meta, const TrainingState& state) {
  state.stream.synchronize();
  Communicator& world = *state.groups.world;
  const auto shards = shards_to_write(state);
  const bool first = world.rank() == 0;
  WriteResult written;
  const SaveAttempt save{target.root, meta.iteration, state.stream, world};
  together(save, [&] {
    if (first) begin_save(target.root, meta.iteration);
  });
  together(save, [&] {
    WriteOptions options;
    options.codec = target.codec;
    written = write_from_device(target.root / temporary_name(meta.iteration), world.rank(), shards, state.stream, options);
  });
  together(save, [&] {
    if (first) publish_save(target, meta.iteration, [&] { commit(target.root, meta); });
  });
  return written;
}

}  // namespace mt
