#pragma once
// A world in which something happens between two agreements of the ranks.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace mt::test {

// Forwards to a world, and calls `strike` after the n-th all-reduce: a save is three agreements.
class Interrupted final : public Communicator {
 public:
  Interrupted(Communicator& inner, int after, std::function<void()> strike)
      : Communicator(inner.name(), inner.world_ranks()), inner_(inner), left_(after), strike_(std::move(strike)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const CommOptions& options() const override { return inner_.options(); }
  Handle all_reduce(Stream& s, View x, Reduce op) override {
    inner_.all_reduce(s, x, op).wait_host();
    if (--left_ == 0) strike_();
    return {};
  }
  Handle all_gather(Stream& s, View in, View out) override { return inner_.all_gather(s, in, out); }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override { return inner_.reduce_scatter(s, in, out, op); }
  Handle all_to_all(Stream& s, View in, View out) override { return inner_.all_to_all(s, in, out); }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> a, View out,
                      std::span<const std::int64_t> b) override {
    return inner_.all_to_all_v(s, in, a, out, b);
  }
  Handle broadcast(Stream& s, View x, int root) override { return inner_.broadcast(s, x, root); }
  Handle send(Stream& s, View x, int peer) override { return inner_.send(s, x, peer); }
  Handle recv(Stream& s, View x, int peer) override { return inner_.recv(s, x, peer); }
  Handle barrier(Stream& s) override { return inner_.barrier(s); }
  void progress() override { inner_.progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    return inner_.make_group(ranks, name);
  }

 private:
  Communicator& inner_;
  int left_;
  std::function<void()> strike_;
};

}  // namespace mt::test
