#pragma once
// A communicator for views of the host over one for a device's memory: what the conformance suite gives goes there, and
// results come back, so that the suite runs on NCCL as it is.

#include <cstring>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "device/host_side.h"

namespace mt::test {

// Memory of the host and its copy on the device.
class Region {
 public:
  Region(Stream& stream, std::byte* host, std::size_t bytes)
      : stream_(stream), host_(host), bytes_(bytes), there_(stream.device(), bytes) {
    upload_bytes(stream, there_.data(), host, bytes);
  }
  bool holds(const View& v) const {
    const auto* p = static_cast<const std::byte*>(v.data);
    return p >= host_ && p + v.bytes() <= host_ + bytes_;
  }
  View there(const View& v) const {
    return v.bytes() == 0 ? v : View(there_.data() + (static_cast<std::byte*>(v.data) - host_), v.dtype, v.shape);
  }
  void fetch() const {
    HostSide side(stream_, there_.data(), bytes_);
    side.fetch();
    if (bytes_ > 0) std::memcpy(host_, side.data(), bytes_);
  }

 private:
  Stream& stream_;
  std::byte* host_;
  std::size_t bytes_;
  Buffer there_;
};

class ThroughDevice final : public Communicator {
 public:
  ThroughDevice(Communicator& inner, std::unique_ptr<Communicator> owned, Device device)
      : Communicator(inner.name(), inner.world_ranks()), inner_(inner), owned_(std::move(owned)),
        stream_(std::make_shared<Stream>(device)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const CommOptions& options() const override { return inner_.options(); }

  Handle all_reduce(Stream& s, View x, Reduce op) override {
    return over(s, x, x, [&](View a, View) { return inner_.all_reduce(*stream_, a, op); });
  }
  Handle all_gather(Stream& s, View in, View out) override {
    return over(s, in, out, [&](View a, View b) { return inner_.all_gather(*stream_, a, b); });
  }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    return over(s, in, out, [&](View a, View b) { return inner_.reduce_scatter(*stream_, a, b, op); });
  }
  Handle all_to_all(Stream& s, View in, View out) override {
    return over(s, in, out, [&](View a, View b) { return inner_.all_to_all(*stream_, a, b); });
  }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override {
    return over(s, in, out, [&](View a, View b) { return inner_.all_to_all_v(*stream_, a, send_rows, b, recv_rows); });
  }
  Handle broadcast(Stream& s, View x, int root) override {
    return over(s, x, x, [&](View a, View) { return inner_.broadcast(*stream_, a, root); });
  }
  Handle send(Stream& s, View x, int peer) override {
    return over(s, x, x, [&](View a, View) { return inner_.send(*stream_, a, peer); });
  }
  Handle recv(Stream& s, View x, int peer) override {
    return over(s, x, x, [&](View a, View) { return inner_.recv(*stream_, a, peer); });
  }
  Handle barrier(Stream& s) override {
    s.synchronize();
    return inner_.barrier(*stream_);
  }
  void progress() override { inner_.progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    auto group = inner_.make_group(ranks, name);
    if (group->size() == 1) return group;
    Communicator& plain = *group;
    return std::make_unique<ThroughDevice>(plain, std::move(group), stream_->device());
  }

 private:
  struct Work final : Handle::Work {
    std::shared_ptr<Stream> stream;
    std::unique_ptr<Region> in, out;  // out null: within in
    Handle inner;
    bool fetched = false;
    void fetch() {
      if (!fetched) (out ? *out : *in).fetch();
      fetched = true;
    }
    bool test() override {
      if (!inner.test()) return false;
      return fetch(), true;
    }
    void wait() override {
      inner.wait_host();
      fetch();
    }
    void wait_on(Stream&) override {
      inner.wait(*stream);
      fetch();
    }
  };
  template <class Start>
  Handle over(Stream& s, const View& in, const View& out, const Start& start) {
    s.synchronize();
    auto work = std::make_unique<Work>();
    work->stream = stream_;
    const auto region = [&](const View& v) {
      return std::make_unique<Region>(*stream_, static_cast<std::byte*>(v.data), v.bytes());
    };
    work->in = region(in);
    if (!work->in->holds(out)) {
      work->out = region(out);
      if (work->out->holds(in)) work->in = std::move(work->out);
    }
    const Region& to = work->out ? *work->out : *work->in;
    work->inner = start(work->in->there(in), to.there(out));
    return Handle(std::move(work));
  }

  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;
  std::shared_ptr<Stream> stream_;
};

}  // namespace mt::test
