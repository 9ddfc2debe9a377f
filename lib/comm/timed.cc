#include "comm/timed.h"
#include "base/clock.h"
#include "comm/graph_operations.h"

namespace mt::comm {

namespace {

class Stretch {
 public:
  Stretch(const StandStillSink& sink, const std::string& group, const char* operation, std::int64_t bytes)
      : sink_(sink), group_(group), operation_(operation), bytes_(bytes), begin_(Clock::now()) {}
  Stretch(const Stretch&) = delete;
  Stretch& operator=(const Stretch&) = delete;
  ~Stretch() {
    const auto end = Clock::now();
    if (end - begin_ >= std::chrono::microseconds(1)) sink_({group_, operation_, bytes_, begin_, end});
  }

 private:
  const StandStillSink& sink_;
  const std::string& group_;
  const char* operation_;
  std::int64_t bytes_;
  Clock::time_point begin_;
};

class TimedWork final : public Handle::Work {
 public:
  TimedWork(Handle inner, const StandStillSink& sink, const std::string& group, const char* operation,
            std::int64_t bytes)
      : inner_(std::move(inner)), sink_(sink), group_(group), operation_(operation), bytes_(bytes) {}
  bool test() override { return inner_.test(); }
  void wait() override {
    const Stretch stretch(sink_, group_, operation_, bytes_);
    inner_.wait_host();
  }
  void wait_on(Stream& stream) override {
    const Stretch stretch(sink_, group_, operation_, bytes_);
    inner_.wait(stream);
  }

 private:
  Handle inner_;
  const StandStillSink& sink_;
  const std::string group_;
  const char* operation_;
  std::int64_t bytes_;
};

class Timed final : public Communicator, public GraphCapture {
 public:
  Timed(Communicator& inner, std::unique_ptr<Communicator> owned, const StandStillSink& sink)
      : Communicator(inner.name(), inner.world_ranks()), inner_(inner), owned_(std::move(owned)), sink_(sink) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const CommOptions& options() const override { return inner_.options(); }

  Handle all_reduce(Stream& s, View x, Reduce op) override {
    return told("all_reduce", x, [&] { return inner_.all_reduce(s, x, op); });
  }
  Handle all_gather(Stream& s, View in, View out) override {
    return told("all_gather", out, [&] { return inner_.all_gather(s, in, out); });
  }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    return told("reduce_scatter", in, [&] { return inner_.reduce_scatter(s, in, out, op); });
  }
  Handle all_to_all(Stream& s, View in, View out) override {
    return told("all_to_all", in, [&] { return inner_.all_to_all(s, in, out); });
  }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override {
    return told("all_to_all_v", in, [&] { return inner_.all_to_all_v(s, in, send_rows, out, recv_rows); });
  }
  Handle broadcast(Stream& s, View x, int root) override {
    return told("broadcast", x, [&] { return inner_.broadcast(s, x, root); });
  }
  Handle send(Stream& s, View x, int peer) override {
    return told("send", x, [&] { return inner_.send(s, x, peer); });
  }
  Handle recv(Stream& s, View x, int peer) override {
    return told("recv", x, [&] { return inner_.recv(s, x, peer); });
  }
  Handle barrier(Stream& s) override {
    return told("barrier", View(), [&] { return inner_.barrier(s); });
  }
  void progress() override { inner_.progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    auto group = inner_.make_group(ranks, name);
    if (group->size() == 1) return group;
    Communicator& plain = *group;
    return std::make_unique<Timed>(plain, std::move(group), sink_);
  }

  bool can_capture() const override { return graph_capture(inner_) != nullptr; }
  void begin_capture() override { graph_capture(inner_)->begin_capture(); }
  std::unique_ptr<GraphOperations> end_capture() override { return graph_capture(inner_)->end_capture(); }

 private:
  template <class Start>
  Handle told(const char* operation, View x, Start start) {
    const auto bytes = x ? static_cast<std::int64_t>(x.bytes()) : 0;
    const auto begun = [&] {
      const Stretch stretch(sink_, name(), operation, bytes);
      return start();
    };
    return Handle(std::make_unique<TimedWork>(begun(), sink_, name(), operation, bytes));
  }
  Communicator& inner_;
  std::unique_ptr<Communicator> owned_;  // a group's; the world's belongs to the caller
  const StandStillSink& sink_;
};

}  // namespace

std::unique_ptr<Communicator> timed(Communicator& inner, const StandStillSink& sink) {
  return std::make_unique<Timed>(inner, nullptr, sink);
}

}  // namespace mt::comm
