#include <cstring>

#include "base/error.h"
#include "comm/world.h"

namespace mt::comm {

namespace {

class Solo final : public Communicator {
 public:
  Solo(std::string name, std::vector<int> ranks, const CommOptions& options = {})
      : Communicator(std::move(name), std::move(ranks)), options_(options) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const CommOptions& options() const override { return options_; }

  Handle all_reduce(Stream&, View, Reduce) override { return {}; }
  Handle all_gather(Stream& s, View in, View out) override { return copy(s, in, out); }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce) override { return copy(s, in, out); }
  Handle all_to_all(Stream& s, View in, View out) override { return copy(s, in, out); }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t>, View out,
                      std::span<const std::int64_t>) override {
    return copy(s, in, out);
  }
  Handle broadcast(Stream&, View, int) override { return {}; }
  Handle send(Stream&, View, int peer) override { return no_peer(peer); }
  Handle recv(Stream&, View, int peer) override { return no_peer(peer); }
  Handle barrier(Stream&) override { return {}; }
  void progress() override {}
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    MT_CHECK(ranks == ranks_, "group {} of one rank", name);
    return std::make_unique<Solo>(name, ranks);
  }

 private:
  static Handle copy(Stream& stream, View in, View out) {
    MT_CHECK(in.bytes() == out.bytes(), "{} bytes into {}", in.bytes(), out.bytes());
    if (in.data != out.data) copy_bytes(stream, out.data, in.data, in.bytes());
    return {};
  }
  Handle no_peer(int peer) const {
    MT_CHECK(false, "peer {} in group {} of one rank", peer, name_);
    return {};
  }
  CommOptions options_;
};

}  // namespace

std::unique_ptr<Communicator> solo_world(const CommOptions& options) {
  return std::make_unique<Solo>("world", std::vector<int>{0}, options);
}

std::unique_ptr<Communicator> solo_group(const std::string& name, int world_rank) {
  return std::make_unique<Solo>(name, std::vector<int>{world_rank});
}

}  // namespace mt::comm
