#include "engine/async_save.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/log.h"
#include "device/cpu/parallel.h"
#include "engine/save_agreement.h"

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
    : target_(std::move(target)), state_(state), snapshot_(Device(), plan_snapshot(shards_to_write(state)).bytes) {
  cpu::parallel_ranges(state_.stream, static_cast<std::int64_t>(snapshot_.size()), kCopyBytes,
                       [&](std::int64_t begin, std::int64_t end) {
                         std::memset(snapshot_.data() + begin, 0, static_cast<std::size_t>(end - begin));
                       });
}

AsyncSaver::~AsyncSaver() {
  cancel_ = true;
  if (thread_.joinable()) thread_.join();
  if (phase_ != Phase::idle && state_.groups.world->rank() == 0)
    log::warn("the save of iteration {} was under way and is given up", meta_.iteration);
}

void AsyncSaver::run(const std::function<void()>& act) {
  if (thread_.joinable()) thread_.join();
  failure_.reset();
  done_ = false;
  thread_ = std::thread([this, act] {
    failure_ = error_of(act, target_.root);
    done_ = true;
  });
}

void AsyncSaver::copy_state() {
  shards_ = shards_to_write(state_);
  const auto plan = plan_snapshot(shards_);
  MT_CHECK(plan.bytes == snapshot_.size(), "{} bytes, the snapshot has {}", plan.bytes, snapshot_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) shards_[i].bytes = snapshot_.data() + plan.at[i];
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
  MT_CHECK(!under_way(), "iteration {} is still being saved", meta_.iteration);
  started_ = Clock::now();
  meta_ = meta;
  state_.stream.synchronize();
  Communicator& world = *state_.groups.world;
  together({target_.root, meta.iteration, state_.stream, world}, [&] {
    if (world.rank() == 0) begin_save(target_.root, meta.iteration);
  });
  copy_state();
  phase_ = Phase::writing;
  run([this, rank = world.rank()] {
    WriteOptions options;
    options.codec = target_.codec;
    options.cancel = &cancel_;
    written_ = write_rank(target_.root / temporary_name(meta_.iteration), rank, shards_, options);
  });
  stall_s_ = seconds_since(started_);
}

std::optional<SavedIteration> AsyncSaver::poll() {
  if (!under_way()) return std::nullopt;
  Communicator& world = *state_.groups.world;
  const bool done = done_;
  std::int64_t flags[2] = {done && failure_ ? 1 : 0, done ? 0 : 1};
  world.all_reduce(state_.stream, View(flags, DType::i64, {2}), Reduce::max).wait_host();
  if (flags[0] != 0) {
    cancel_ = true;
    if (thread_.joinable()) thread_.join();
    cancel_ = false;
    phase_ = Phase::idle;
    // A rank that only broke off has no news; the one that failed says why.
    give_up_together({target_.root, meta_.iteration, state_.stream, world}, done ? failure_ : std::nullopt);
  }
  if (flags[1] != 0) return std::nullopt;
  if (phase_ == Phase::writing) {
    phase_ = Phase::committing;
    if (world.rank() == 0) run([this] { publish_save(target_, meta_); });
    return std::nullopt;
  }
  phase_ = Phase::idle;
  return SavedIteration{meta_.iteration, written_, stall_s_, seconds_since(started_)};
}

std::optional<SavedIteration> AsyncSaver::finish() {
  std::optional<SavedIteration> saved;
  while (under_way() && !saved) {
    if (thread_.joinable()) thread_.join();
    saved = poll();
  }
  return saved;
}

}  // namespace mt
