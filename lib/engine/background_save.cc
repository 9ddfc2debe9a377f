#include "engine/background_save.h"

#include "base/log.h"
#include "ckpt/store.h"
#include "engine/save_agreement.h"

namespace mt {

BackgroundSave::BackgroundSave(std::filesystem::path root, Stream& stream, Communicator& world)
    : root_(std::move(root)), stream_(stream), world_(world) {}

BackgroundSave::~BackgroundSave() {
  cancel_ = true;
  if (thread_.joinable()) thread_.join();
  if (under_way() && world_.rank() == 0)
    log::warn("the save of iteration {} to {} was under way and is given up", iteration_, root_.string());
}

void BackgroundSave::run(const std::function<void()>& act) {
  if (thread_.joinable()) thread_.join();
  failure_.reset();
  done_ = false;
  thread_ = std::thread([this, act] {
    failure_ = error_of(act, root_);
    done_ = true;
  });
}

void BackgroundSave::begin(std::int64_t iteration) {
  MT_CHECK(!under_way(), "iteration {} is still being saved", iteration_);
  iteration_ = iteration;
  together({root_, iteration, stream_, world_}, [&] {
    if (world_.rank() == 0) begin_save(root_, iteration);
  });
}

void BackgroundSave::go(std::function<void()> write, std::function<void()> publish) {
  phase_ = Phase::writing;
  publish_ = std::move(publish);
  run(write);
}

bool BackgroundSave::poll() {
  if (!under_way()) return false;
  const bool done = done_;
  std::int64_t flags[2] = {done && failure_ ? 1 : 0, done ? 0 : 1};
  world_.all_reduce(stream_, View(flags, DType::i64, {2}), Reduce::max).wait_host();
  if (flags[0] != 0) {
    cancel_ = true;
    if (thread_.joinable()) thread_.join();
    cancel_ = false;
    phase_ = Phase::idle;
    // A rank that only broke off has no news; the one that failed says why.
    give_up_together({root_, iteration_, stream_, world_}, done ? failure_ : std::nullopt);
  }
  if (flags[1] != 0) return false;
  if (phase_ == Phase::writing) {
    phase_ = Phase::publishing;
    if (world_.rank() == 0) run(publish_);
    return false;
  }
  phase_ = Phase::idle;
  return true;
}

bool BackgroundSave::finish() {
  while (under_way()) {
    if (thread_.joinable()) thread_.join();
    if (poll()) return true;
  }
  return false;
}

}  // namespace mt
