#include "comm/staged.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/error.h"
#include "comm/world.h"
#include "device/buffer.h"
#include "device/message_stream.h"

namespace mt::comm {

namespace {

// Pinned memory of one rank, taken and given back.
class Pool {
 public:
  explicit Pool(Device device) : device_(device), own_(message_stream(device)) {}

  struct Slot {
    Buffer buffer;
    Event last_use;
    bool taken = false;
  };
  Slot* take(std::size_t bytes) {
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    for (auto& s : slots_)
      if (!s->taken && s->buffer.size() == size && s->last_use.done()) return s->taken = true, s.get();
    slots_.push_back(std::make_unique<Slot>(Slot{Buffer(device_, size, Memory::pinned), {}, true}));
    return slots_.back().get();
  }
  Stream& own_stream() { return own_; }
  Stream& host() { return host_; }

 private:
  Device device_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Stream own_, host_;
};

// A view of the device and its copy in pinned memory.
class Copy {
 public:
  Copy() = default;
  Copy(const std::shared_ptr<Pool>& pool, const View& there) : pool_(pool), there_(there) {
    MT_CHECK(there.contiguous(), "a strided view of {}", shape_text(there.shape));
    here_ = there;
    if (there.bytes() == 0) return;
    slot_ = pool->take(there.bytes());
    here_ = View(slot_->buffer.data(), there.dtype, there.shape);
  }
  Copy(Copy&& o) noexcept { swap(o); }
  Copy& operator=(Copy&& o) noexcept { return swap(o), *this; }
  ~Copy() {
    if (slot_) slot_->taken = false;
  }
  const View& here() const { return here_; }
  void out(Stream& stream) const {
    if (slot_) copy_bytes(stream, here_.data, there_.data, there_.bytes());
  }
  void back(Stream& stream) {
    if (!slot_) return;
    copy_bytes(stream, there_.data, here_.data, there_.bytes());
    slot_->last_use = stream.record();
  }

 private:
  void swap(Copy& o) noexcept {
    std::swap(pool_, o.pool_);
    std::swap(slot_, o.slot_);
    std::swap(there_, o.there_);
    std::swap(here_, o.here_);
  }
  std::shared_ptr<Pool> pool_;
  Pool::Slot* slot_ = nullptr;
  View there_, here_;
};

class StagedWork final : public Handle::Work {
 public:
  //   before  what the copy back comes after
  StagedWork(std::shared_ptr<Pool> pool, Handle inner, Copy in, Copy out, Event before)
      : pool_(std::move(pool)), inner_(std::move(inner)), in_(std::move(in)), out_(std::move(out)),
        before_(std::move(before)) {}
  bool test() override {
    if (!copied_) {
      if (!inner_.test()) return false;
      copy(pool_->own_stream());
    }
    return arrived_.done();
  }
  void wait() override {
    inner_.wait_host();
    if (!copied_) copy(pool_->own_stream());
    arrived_.synchronize();
  }
  void wait_on(Stream& stream) override {
    inner_.wait_host();
    if (!copied_) copy(stream);
    stream.wait(arrived_);
  }

 private:
  void copy(Stream& stream) {
    stream.wait(before_);
    out_.back(stream);
    arrived_ = stream.record();
    copied_ = true;
  }
  std::shared_ptr<Pool> pool_;
  Handle inner_;
  Copy in_, out_;
  bool copied_ = false;
  Event before_, arrived_;
};

class Staged final : public Communicator {
 public:
  Staged(Communicator& inner, std::unique_ptr<Communicator> owned, std::shared_ptr<Pool> pool)
      : Communicator(inner.name(), inner.world_ranks()), inner_(inner), owned_(std::move(owned)), pool_(std::move(pool)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const CommOptions& options() const override { return inner_.options(); }

  Handle all_reduce(Stream& s, View x, Reduce op) override {
    Copy both(pool_, x);
    bring(s, both);
    Handle h = inner_.all_reduce(pool_->host(), both.here(), op);
    return work(std::move(h), {}, std::move(both));
  }
  Handle all_gather(Stream& s, View in, View out) override {
    return apart(s, in, out, [&](Stream& host, View a, View b) { return inner_.all_gather(host, a, b); });
  }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    return apart(s, in, out, [&](Stream& host, View a, View b) { return inner_.reduce_scatter(host, a, b, op); });
  }
  Handle all_to_all(Stream& s, View in, View out) override {
    return apart(s, in, out, [&](Stream& host, View a, View b) { return inner_.all_to_all(host, a, b); });
  }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override {
    return apart(s, in, out, [&](Stream& host, View a, View b) {
      return inner_.all_to_all_v(host, a, send_rows, b, recv_rows);
    });
  }
  Handle broadcast(Stream& s, View x, int root) override {
    Copy both(pool_, x);
    bring(s, both);
    Handle h = inner_.broadcast(pool_->host(), both.here(), root);
    return work(std::move(h), {}, std::move(both));
  }
  Handle send(Stream& s, View x, int peer) override {
    Copy in(pool_, x);
    bring(s, in);
    Handle h = inner_.send(pool_->host(), in.here(), peer);
    return work(std::move(h), std::move(in), {});
  }
  Handle recv(Stream& s, View x, int peer) override {
    Copy out(pool_, x);
    Handle h = inner_.recv(pool_->host(), out.here(), peer);
    return work(std::move(h), {}, std::move(out), s.record());
  }
  Handle barrier(Stream& s) override {
    s.synchronize();
    return inner_.barrier(pool_->host());
  }
  void progress() override { inner_.progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    if (ranks.size() == 1) return solo_group(name, ranks[0]);
    auto group = inner_.make_group(ranks, name);
    Communicator& plain = *group;
    return std::make_unique<Staged>(plain, std::move(group), pool_);
  }

 private:
  static void bring(Stream& stream, const Copy& in) {
    in.out(stream);
    stream.synchronize();
  }
  Handle work(Handle inner, Copy in, Copy out, Event before = {}) const {
    return Handle(std::make_unique<StagedWork>(pool_, std::move(inner), std::move(in), std::move(out), std::move(before)));
  }
  template <class Start>
  Handle apart(Stream& stream, const View& in, const View& out, const Start& start) {
    Copy from(pool_, in), to(pool_, out);
    bring(stream, from);
    Handle h = start(pool_->host(), from.here(), to.here());
    return work(std::move(h), std::move(from), std::move(to));
  }

  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;  // a group's; the world's belongs to the caller
  std::shared_ptr<Pool> pool_;
};

}  // namespace

std::unique_ptr<Communicator> staged(Communicator& inner, Device device) {
  return std::make_unique<Staged>(inner, nullptr, std::make_shared<Pool>(device));
}

}  // namespace mt::comm
