#include "engine/async_save.h"

#include <chrono>
#include <cstring>

#include "base/log.h"
#include "device/cpu/parallel.h"
#include "engine/save_agreement.h"

namespace mt {

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::size_t snapshot_bytes(const std::vector<TensorShard>& shards) {
  std::size_t total = 0;
  for (const auto& s : shards) total += aligned(s.what.bytes());
  return total;
}

// What one thread copies at a time.
struct CopyBlock {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};
constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

}  // namespace

AsyncSaver::AsyncSaver(SaveTarget target, const TrainingState& state)
    : target_(std::move(target)), state_(state), snapshot_(Device(), snapshot_bytes(shards_to_write(state))) {
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

void AsyncSaver::copy_state(const std::vector<TensorShard>& shards) {
  std::vector<CopyBlock> blocks;
  std::byte* to = snapshot_.data();
  shards_ = shards;
  for (auto& s : shards_) {
    for (std::size_t at = 0; at < s.what.bytes(); at += kCopyBytes)
      blocks.push_back({to + at, s.bytes + at, std::min<std::size_t>(kCopyBytes, s.what.bytes() - at)});
    s.bytes = to;
    to += aligned(s.what.bytes());
  }
  MT_CHECK(to == snapshot_.data() + snapshot_.size(), "the snapshot is {} bytes", snapshot_.size());
  cpu::parallel_blocks(state_.stream, static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i) {
    const auto& b = blocks[static_cast<std::size_t>(i)];
    std::memcpy(b.to, b.from, b.bytes);
  });
}

void AsyncSaver::start(const CheckpointMeta& meta) {
  MT_CHECK(!under_way(), "iteration {} is still being saved", meta_.iteration);
  started_s_ = now_s();
  meta_ = meta;
  state_.stream.synchronize();
  Communicator& world = *state_.groups.world;
  together({target_.root, meta.iteration, state_.stream, world}, [&] {
    if (world.rank() == 0) begin_save(target_.root, meta.iteration);
  });
  copy_state(shards_to_write(state_));
  phase_ = Phase::writing;
  run([this, rank = world.rank()] {
    file_bytes_ =
        write_rank(target_.root / temporary_name(meta_.iteration), rank, shards_, WriteMode::direct, &cancel_).file_bytes;
  });
  stall_s_ = now_s() - started_s_;
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
  return SavedIteration{meta_.iteration, file_bytes_, stall_s_, now_s() - started_s_};
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
