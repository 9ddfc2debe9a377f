#include "engine/async_save.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "device/cpu/parallel.h"

namespace mt {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Where shards lie in a snapshot, and the copies that bring them there: shards that are neighbours in memory stay
// neighbours, so that a copy is long. A long one goes past the cache, which a short one does not.
struct SnapshotPlan {
  struct Run {
    const std::byte* from;
    std::size_t at, bytes;
  };
  std::vector<std::size_t> at;  // of each shard
  std::vector<Run> runs;
  std::size_t bytes = 0;
};

SnapshotPlan plan_snapshot(const std::vector<TensorShard>& shards) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (!shards[i].what.box.empty()) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::less<>()(shards[a].bytes, shards[b].bytes); });
  SnapshotPlan plan;
  plan.at.resize(shards.size());
  for (const auto i : order) {
    const std::byte* from = shards[i].bytes;
    const std::size_t size = shards[i].what.bytes();
    auto* run = plan.runs.empty() ? nullptr : &plan.runs.back();
    if (run && from == run->from + run->bytes) run->bytes += size;
    else run = &plan.runs.emplace_back(SnapshotPlan::Run{from, aligned(plan.bytes), size});
    plan.at[i] = run->at + static_cast<std::size_t>(from - run->from);
    plan.bytes = run->at + run->bytes;
  }
  return plan;
}

constexpr std::size_t kCopyBytes = std::size_t{64} << 20;  // what one thread copies at a time

}  // namespace

AsyncSaver::AsyncSaver(SaveTarget target, const TrainingState& state)
    : target_(std::move(target)), state_(state),
      snapshot_(state.stream.device(), plan_snapshot(shards_to_write(state)).bytes, Memory::pinned),
      save_(target_.root, state.stream, *state.groups.world) {
  cpu::parallel_ranges(state_.stream, static_cast<std::int64_t>(snapshot_.size()), kCopyBytes,
                       [&](std::int64_t begin, std::int64_t end) {
                         std::memset(snapshot_.data() + begin, 0, static_cast<std::size_t>(end - begin));
                       });
}

void AsyncSaver::copy_state() {
  shards_ = shards_to_write(state_);
  const auto plan = plan_snapshot(shards_);
  MT_CHECK(plan.bytes == snapshot_.size(), "{} bytes, the snapshot has {}", plan.bytes, snapshot_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].bytes = snapshot_.data() + plan.at[i];
  if (state_.stream.device().kind != DeviceKind::cpu) {
    for (const auto& r : plan.runs) copy_bytes(state_.stream, snapshot_.data() + r.at, r.from, r.bytes);
    state_.stream.synchronize();
    return;
  }
  std::vector<SnapshotPlan::Run> parts;
  for (const auto& r : plan.runs)
    for (std::size_t done = 0; done < r.bytes; done += kCopyBytes)
      parts.push_back({r.from + done, r.at + done, std::min(kCopyBytes, r.bytes - done)});
  cpu::parallel_blocks(state_.stream, static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
    const auto& p = parts[static_cast<std::size_t>(i)];
    std::memcpy(snapshot_.data() + p.at, p.from, p.bytes);
  });
}

void AsyncSaver::start(const CheckpointMeta& meta) {
  started_ = Clock::now();
  meta_ = meta;
  state_.stream.synchronize();
  save_.begin(meta.iteration);
  copy_state();
  save_.go(
      [this, rank = state_.groups.world->rank()] {
        WriteOptions options;
        options.codec = target_.codec;
        options.cancel = &save_.cancel();
        written_ = write_rank(target_.root / temporary_name(meta_.iteration), rank, shards_, options);
      },
      [this] { publish_save(target_, meta_.iteration, [this] { commit(target_.root, meta_); }); });
  stall_s_ = seconds_since(started_);
}

std::optional<SavedIteration> AsyncSaver::poll() {
  if (!save_.poll()) return std::nullopt;
  return saved();
}

std::optional<SavedIteration> AsyncSaver::finish() {
  if (!save_.finish()) return std::nullopt;
  return saved();
}

}  // namespace mt
