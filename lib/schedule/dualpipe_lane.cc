#include "schedule/dualpipe_lane.h"

#include <deque>

#include "base/error.h"

namespace mt {

namespace {

class Builder {
 public:
  explicit Builder(const DualPipeLane& rank) : rank_(rank) {}

  void forward(int phase) {
    const int c = chunk(phase);
    lane_.push_back({.act = Act::forward, .chunk = c, .micro_batch = number(c, forwards_[c]++)});
  }
  void backward(int phase, bool split) {
    const int c = chunk(phase);
    Step step{.act = split ? Act::backward_input : Act::backward, .chunk = c, .micro_batch = number(c, backwards_[c]++)};
    lane_.push_back(step);
    step.act = Act::backward_weight;
    if (split) waiting_.push_back(step);
  }
  void merged(int forward_phase, int backward_phase) {
    const int f = chunk(forward_phase), b = chunk(backward_phase);
    lane_.push_back({.act = Act::forward_backward,
                     .chunk = f,
                     .micro_batch = number(f, forwards_[f]++),
                     .backward_chunk = b,
                     .backward_micro_batch = number(b, backwards_[b]++)});
  }
  void weight() {
    lane_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  Lane done() {
    MT_CHECK(waiting_.empty(), "{} weight gradients are left", waiting_.size());
    return std::move(lane_);
  }

 private:
  int chunk(int phase) const { return phase ^ static_cast<int>(rank_.swapped); }
  int number(int c, int place) const { return c == 0 ? place : rank_.second_offset + place; }
  const DualPipeLane& rank_;
  Lane lane_;
  std::deque<Step> waiting_;
  int forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
};

}  // namespace

Lane dualpipe_lane(const DualPipeLane& rank) {
  const int inner = rank.depth - rank.place - 1;  // ranks between this one and the middle
  Builder b(rank);
  for (int i = 0; i < 2 * inner; ++i) b.forward(0);
  for (int i = 0; i <= rank.place; ++i) b.forward(0), b.forward(1);
  for (int i = 0; i < inner; ++i) b.backward(1, true), b.weight(), b.forward(1);
  for (int i = 0; i < rank.stream_micro_batches - 2 * rank.depth + rank.place + 1; ++i) {
    if (i == 0 && inner == 0)  // nothing to hide yet: apart, the other stream gets its gradient sooner
      b.forward(0), b.backward(1, false);
    else
      b.merged(0, 1);
    b.merged(1, 0);
  }
  for (int i = 0; i < inner; ++i) b.backward(1, false), b.merged(1, 0);
  bool split = false;
  for (int i = 0; i <= rank.place; ++i) {
    const bool half = i == (rank.place + 1) / 2;
    if (half && rank.place % 2 == 1) split = true;
    b.backward(1, split);
    if (half && rank.place % 2 == 0) split = true;
    b.backward(0, split);
  }
  for (int i = 0; i < inner; ++i) b.weight(), b.backward(0, true);
  for (int i = 0; i <= rank.place; ++i) b.weight();
  return b.done();
}

}  // namespace mt
