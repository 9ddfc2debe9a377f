#include "schedule/passes.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "schedule/step_index.h"

namespace mt {

Schedule defer_weight_gradients(Schedule s, const std::vector<int>& delay) {
  MT_CHECK(delay.size() == s.lanes.size(), "{} delays for {} ranks", delay.size(), s.lanes.size());
  for (std::size_t r = 0; r < s.lanes.size(); ++r) {
    Lane out;
    std::deque<Step> waiting;
    for (Step step : s.lanes[r]) {
      if (step.act != Act::backward) {
        out.push_back(step);
        continue;
      }
      step.act = Act::backward_input;
      out.push_back(step);
      step.act = Act::backward_weight;
      waiting.push_back(step);
      if (static_cast<int>(waiting.size()) > delay[r]) {
        out.push_back(waiting.front());
        waiting.pop_front();
      }
    }
    out.insert(out.end(), waiting.begin(), waiting.end());
    s.lanes[r] = std::move(out);
  }
  return s;
}

Schedule split_merged(Schedule s) {
  for (Lane& lane : s.lanes) {
    Lane out;
    for (const Step& step : lane) {
      if (step.act != Act::forward_backward) {
        out.push_back(step);
        continue;
      }
      out.push_back({.act = Act::forward, .tower = step.tower, .chunk = step.chunk, .micro_batch = step.micro_batch});
      out.push_back({.act = Act::backward,
                     .tower = step.tower,
                     .chunk = step.backward_chunk,
                     .micro_batch = step.backward_micro_batch});
    }
    lane = std::move(out);
  }
  s.max_in_flight = peak_in_flight(s);
  return s;
}

Schedule insert_recompute(Schedule s, const std::vector<int>& ranks) {
  for (const int r : ranks) {
    Lane out;
    for (const Step& step : s.lanes.at(static_cast<std::size_t>(r))) {
      if (step.act == Act::backward || step.act == Act::backward_input)
        out.push_back({.act = Act::recompute, .tower = step.tower, .chunk = step.chunk, .micro_batch = step.micro_batch});
      else if (step.act == Act::forward_backward)
        out.push_back({.act = Act::recompute,
                       .tower = step.tower,
                       .chunk = step.backward_chunk,
                       .micro_batch = step.backward_micro_batch});
      out.push_back(step);
    }
    s.lanes[static_cast<std::size_t>(r)] = std::move(out);
  }
  return s;
}

int channel_of(bool gradient, int from, int to, int pp) {
  return 2 * static_cast<int>(gradient) + static_cast<int>(to != (from + 1) % pp);
}

namespace {

struct Message {
  Step receive;
  int sent_by = 0;   // step of the peer's lane that makes it
  int read_by = 0;   // step of this lane that reads it
  int post_before = 0;
};

// Results of one step that other ranks read: its forward's, its backward's.
std::vector<Step> sends_after(const Schedule& s, const StepIndex& index, int rank, const Step& step) {
  std::vector<Step> sends;
  const auto send = [&](bool gradient, int chunk, int m) {
    const int stage = index.stage(rank, chunk) + (gradient ? -1 : 1);
    if (stage < 0 || stage >= index.stages()) return;
    const int to = index.rank_of(stage, m);
    if (to == rank) return;
    sends.push_back({.act = gradient ? Act::send_gradient : Act::send_activation,
                     .tower = step.tower,
                     .chunk = chunk,
                     .micro_batch = m,
                     .peer = to,
                     .channel = channel_of(gradient, rank, to, s.pp())});
  };
  if (step.act == Act::forward || step.act == Act::forward_backward) send(false, step.chunk, step.micro_batch);
  if (step.act == Act::backward || step.act == Act::backward_input) send(true, step.chunk, step.micro_batch);
  if (step.act == Act::forward_backward) send(true, step.backward_chunk, step.backward_micro_batch);
  return sends;
}

// The messages a rank reads, by (peer, channel), in the peer's order of sends.
std::vector<std::vector<Message>> messages_to(const Schedule& s, const StepIndex& index, int rank) {
  std::vector<std::vector<Message>> by_link(static_cast<std::size_t>(4 * s.pp()));
  const Lane& lane = s.lanes[static_cast<std::size_t>(rank)];
  for (int i = 0; i < static_cast<int>(lane.size()); ++i) {
    const Step& step = lane[static_cast<std::size_t>(i)];
    for_each_input(s, index, rank, step, [&](const Input& input) {
      const Place from = input.gradient ? index.input_gradient(input.stage, input.micro_batch)
                                        : index.forward(input.stage, input.micro_batch);
      if (!from || from.rank == rank) return;
      Message message;
      const bool second = step.act == Act::forward_backward && input.gradient;
      message.receive = {.act = input.gradient ? Act::recv_gradient : Act::recv_activation,
                         .tower = step.tower,
                         .chunk = second ? step.backward_chunk : step.chunk,
                         .micro_batch = input.micro_batch,
                         .peer = from.rank,
                         .channel = channel_of(input.gradient, from.rank, rank, s.pp())};
      message.sent_by = from.step;
      message.read_by = message.post_before = i;
      by_link[static_cast<std::size_t>(from.rank * 4 + message.receive.channel)].push_back(message);
    });
  }
  for (auto& messages : by_link) {
    std::stable_sort(messages.begin(), messages.end(), [](const auto& a, const auto& b) { return a.sent_by < b.sent_by; });
    for (std::size_t k = messages.size(); k-- > 1;)
      messages[k - 1].post_before = std::min(messages[k - 1].post_before, messages[k].post_before);
  }
  return by_link;
}

}  // namespace

Schedule insert_communication(Schedule s) {
  const StepIndex index(s);
  MT_CHECK(!index.has_messages(), "schedule {} has its messages", s.name);
  std::vector<Lane> lanes;
  for (int r = 0; r < s.pp(); ++r) {
    const Lane& lane = s.lanes[static_cast<std::size_t>(r)];
    std::vector<std::vector<Step>> posts(lane.size());
    for (const auto& messages : messages_to(s, index, r))
      for (const auto& m : messages) posts[static_cast<std::size_t>(m.post_before)].push_back(m.receive);
    Lane out;
    for (std::size_t i = 0; i < lane.size(); ++i) {
      out.insert(out.end(), posts[i].begin(), posts[i].end());
      out.push_back(lane[i]);
      const auto sends = sends_after(s, index, r, lane[i]);
      out.insert(out.end(), sends.begin(), sends.end());
    }
    lanes.push_back(std::move(out));
  }
  s.lanes = std::move(lanes);
  return s;
}

Schedule overlap_p2p(Schedule s, int acts_ahead) {
  for (Lane& lane : s.lanes) {
    // Receives go in front of the act that stands `acts_ahead` acts before theirs; all shift alike, so order stays.
    std::vector<std::vector<Step>> blocks(1);  // [k]: what stands before act k, act included
    std::vector<std::vector<Step>> receives(1);
    for (const Step& step : lane) {
      if (is_recv(step.act)) {
        receives.back().push_back(step);
        continue;
      }
      blocks.back().push_back(step);
      if (is_send(step.act)) continue;
      blocks.emplace_back();
      receives.emplace_back();
    }
    Lane out;
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const std::size_t first = k == 0 ? 0 : k + static_cast<std::size_t>(acts_ahead);
      for (std::size_t j = first; j <= k + static_cast<std::size_t>(acts_ahead) && j < receives.size(); ++j)
        out.insert(out.end(), receives[j].begin(), receives[j].end());
      out.insert(out.end(), blocks[k].begin(), blocks[k].end());
    }
    lane = std::move(out);
  }
  return s;
}

}  // namespace mt
