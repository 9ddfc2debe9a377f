#include "base/error.h"
#include "comm/communicator.h"

namespace mt {

Handle::Handle(std::unique_ptr<Work> work) : work_(std::move(work)) {}
Handle::Handle(Handle&&) noexcept = default;

Handle& Handle::operator=(Handle&& other) noexcept {
  MT_CHECK(!work_, "a communication handle is overwritten before it was waited for");
  work_ = std::move(other.work_);
  return *this;
}

Handle::~Handle() {
  // While an exception unwinds, the peers are being told anyway; aborting here would hide its message.
  MT_CHECK(!work_ || std::uncaught_exceptions() > 0, "a communication handle is dropped before it was waited for");
}

void Handle::wait(Stream& stream) {
  if (!work_) return;
  work_->wait_on(stream);
  work_.reset();
}

void Handle::wait_host() {
  if (!work_) return;
  work_->wait();
  work_.reset();
}

bool Handle::test() {
  if (work_ && !work_->test()) return false;
  work_.reset();
  return true;
}

}  // namespace mt
