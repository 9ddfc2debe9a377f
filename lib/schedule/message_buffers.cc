#include "schedule/message_buffers.h"

#include <map>
#include <tuple>

namespace mt {

namespace {

struct Link {
  int sent = 0, posted = 0;
};

struct Message {
  Link* link;
  int ordinal;
};

// One run of all lanes, each as far as it comes.
class Run {
 public:
  Run(const Schedule& s, int buffers) : s_(s), buffers_(buffers), ranks_(s.lanes.size()) {
    for (int r = 0; r < s.pp(); ++r)
      for (const Step& step : s.lanes[static_cast<std::size_t>(r)])
        if (step.act == Act::send_gradient) ++rank(r).to_send[{step.chunk, step.micro_batch}];
  }
  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < s_.pp(); ++r) {
        const Lane& lane = s_.lanes[static_cast<std::size_t>(r)];
        while (rank(r).at < lane.size() && step(r, lane[rank(r).at])) ++rank(r).at, moved = true;
      }
    }
    for (int r = 0; r < s_.pp(); ++r)
      if (rank(r).at < s_.lanes[static_cast<std::size_t>(r)].size()) return false;
    return true;
  }

 private:
  using Work = std::pair<int, int>;  // chunk, micro-batch
  struct Rank {
    std::size_t at = 0;
    std::map<Work, int> to_send;
    std::map<std::pair<bool, Work>, Message> arriving;
    std::vector<Message> gradients;
    int made = 0;
  };
  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  bool step(int r, const Step& s) {
    Rank& me = rank(r);
    const Work work{s.chunk, s.micro_batch};
    if (is_recv(s.act)) {
      Link& link = links_[{s.peer, r, s.channel}];
      me.arriving[{s.act == Act::recv_gradient, work}] = {&link, link.posted++};
      return true;
    }
    if (is_send(s.act)) {
      Link& link = links_[{r, s.peer, s.channel}];
      if (s.act == Act::send_gradient) me.gradients.push_back({&link, link.sent});
      ++link.sent;
      return true;
    }
    const bool backward = s.act == Act::backward || s.act == Act::backward_input;
    if (s.act != Act::forward && !backward) return true;
    const auto input = me.arriving.find({backward, work});
    if (input != me.arriving.end() && input->second.link->sent <= input->second.ordinal) return false;
    if (!backward || me.to_send.count(work) == 0) return true;
    if (const int oldest = me.made - buffers_; oldest >= 0) {
      const Message& m = me.gradients[static_cast<std::size_t>(oldest)];
      if (m.link->posted <= m.ordinal) return false;
    }
    ++me.made;
    return true;
  }

  const Schedule& s_;
  int buffers_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, int>, Link> links_;
};

}  // namespace

int gradient_buffers(const Schedule& schedule) {
  const int all = schedule.num_micro_batches * schedule.chunks();
  for (int n = 2; n < all; ++n)
    if (Run(schedule, n).ends()) return n;
  return std::max(2, all);
}

}  // namespace mt
