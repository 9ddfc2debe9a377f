#include "schedule/clock.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"
#include "schedule/step_index.h"

namespace mt {

namespace {

class Clock {
 public:
  Clock(const Schedule& s, const Durations& d)
      : s_(s), d_(d), index_(s), share_(static_cast<double>(s.copies) / std::max(1, s.chunks())) {
    for (const Lane& lane : s.lanes) out_.times.emplace_back(lane.size(), StepTime{0, -1});
    next_.assign(s.lanes.size(), 0);
    free_.assign(s.lanes.size(), 0.0);
    arrived_[0].assign(cells(), -1.0);
    arrived_[1].assign(cells(), -1.0);
    const auto ranks = static_cast<std::size_t>(s.pp());
    link_free_.assign(ranks * ranks, 0.0);
    latency_.assign(ranks * ranks, d.p2p);
    occupancy_.assign(ranks * ranks, 0.0);
    for (const auto& l : d.links) {
      if (l.from >= s.pp() || l.to >= s.pp()) continue;
      latency_[link(l.from, l.to)] = l.latency;
      occupancy_[link(l.from, l.to)] = l.occupancy;
    }
  }

  LaneTimes run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < s_.pp(); ++r)
        while (advance(r)) moved = true;
    }
    for (int r = 0; r < s_.pp(); ++r) {
      const Lane& lane = s_.lanes[at(r)];
      if (next_[at(r)] == lane.size()) continue;
      const Step& step = lane[next_[at(r)]];
      out_.stuck.push_back(fmt::format("rank {}: {} of chunk {} micro-batch {} waits for ever", r, act_name(step.act),
                                       step.chunk, step.micro_batch));
    }
    return std::move(out_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t cells() const { return at(s_.stages()) * at(s_.num_micro_batches); }
  std::size_t cell(int stage, int m) const { return at(stage) * at(s_.num_micro_batches) + at(m); }
  std::size_t link(int from, int to) const { return at(from) * at(s_.pp()) + at(to); }

  double duration(int rank, const Step& step) const {
    const auto scaled = [&](int chunk, double t) {
      const int stage = index_.stage(rank, chunk);
      return share_ * t * (at(stage) < d_.stage_scale.size() ? d_.stage_scale[at(stage)] : 1.0);
    };
    const double whole = d_.backward_input + d_.backward_weight;
    switch (step.act) {
      case Act::forward: return scaled(step.chunk, d_.forward);
      case Act::backward: return scaled(step.chunk, whole);
      case Act::backward_input: return scaled(step.chunk, d_.backward_input);
      case Act::backward_weight: return scaled(step.chunk, d_.backward_weight);
      case Act::recompute: return scaled(step.chunk, d_.recompute);
      case Act::forward_backward:
        if (d_.forward_backward >= 0) return scaled(step.chunk, d_.forward_backward);
        return scaled(step.chunk, d_.forward) + scaled(step.backward_chunk, whole);
      default: return 0;
    }
  }

  // When what a step reads is there, or negative when that is not known yet.
  double ready(int rank, const Step& step) const {
    double t = free_[at(rank)];
    bool known = true;
    const auto need = [&](const Input& input) {
      // The stage's own forward comes first on its rank, which the lane's order shows; only other stages are asked.
      const double a = arrived_[at(input.gradient)][cell(input.stage, input.micro_batch)];
      if (a < 0) known = false;
      t = std::max(t, a);
    };
    for_each_input(s_, index_, rank, step, need);
    if (step.act == Act::recompute && !d_.early_recompute) {
      const int stage = index_.stage(rank, step.chunk);
      if (stage + 1 < s_.stages()) need({true, stage + 1, step.micro_batch});
    }
    return known ? t : -1;
  }

  struct Channel {
    std::deque<double> sent, posted;                 // times without a partner yet
    std::deque<std::pair<bool, std::size_t>> cells;  // what the next receives bring: gradient, cell
  };

  // A message goes when it is sent and its receive is posted.
  void pair_up(int from, int to, Channel& c) {
    while (!c.sent.empty() && !c.posted.empty()) {
      auto& busy = link_free_[link(from, to)];
      const double start = std::max({c.sent.front(), c.posted.front(), busy});
      busy = start + occupancy_[link(from, to)];
      arrived_[at(c.cells.front().first)][c.cells.front().second] = busy + latency_[link(from, to)];
      c.sent.pop_front();
      c.posted.pop_front();
      c.cells.pop_front();
    }
  }

  void message(int rank, const Step& step, double now) {
    const bool send = is_send(step.act), gradient = step.act == Act::send_gradient || step.act == Act::recv_gradient;
    const int from = send ? rank : step.peer, to = send ? step.peer : rank;
    Channel& c = channels_[{from, to, step.channel}];
    if (send) {
      c.sent.push_back(now);
    } else {
      c.posted.push_back(now);
      c.cells.emplace_back(gradient, cell(index_.stage(rank, step.chunk) + (gradient ? 1 : -1), step.micro_batch));
    }
    pair_up(from, to, c);
  }

  // The result of a stage is there for the next one: at once on its rank, else after the link's time.
  void hand_over(int rank, bool gradient, int chunk, int m, double now) {
    const int stage = index_.stage(rank, chunk), reader = stage + (gradient ? -1 : 1);
    if (reader < 0 || reader >= s_.stages()) return;
    auto& there = arrived_[at(gradient)][cell(stage, m)];
    const int to = index_.rank_of(reader, m);
    if (to == rank) {
      there = now;
    } else if (!index_.has_messages()) {
      auto& busy = link_free_[link(rank, to)];
      busy = std::max(now, busy) + occupancy_[link(rank, to)];
      there = busy + latency_[link(rank, to)];
    }
  }

  bool advance(int r) {
    const Lane& lane = s_.lanes[at(r)];
    auto& next = next_[at(r)];
    if (next == lane.size()) return false;
    const Step& step = lane[next];
    const double start = ready(r, step);
    if (start < 0) return false;
    const double end = start + duration(r, step);
    out_.times[at(r)][next++] = {start, end};
    free_[at(r)] = end;
    if (is_send(step.act) || is_recv(step.act)) message(r, step, end);
    if (step.act == Act::forward || step.act == Act::forward_backward)
      hand_over(r, false, step.chunk, step.micro_batch, end);
    if (step.act == Act::backward || step.act == Act::backward_input)
      hand_over(r, true, step.chunk, step.micro_batch, end);
    if (step.act == Act::forward_backward) hand_over(r, true, step.backward_chunk, step.backward_micro_batch, end);
    return true;
  }

  const Schedule& s_;
  const Durations& d_;
  const StepIndex index_;
  const double share_;
  LaneTimes out_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::vector<double> arrived_[2];  // [gradient][producing stage, micro-batch]: when its reader has it
  std::vector<double> link_free_, latency_, occupancy_;
  std::map<std::tuple<int, int, int>, Channel> channels_;
};

double peak_activations(const Schedule& s, const Lane& lane, double kept) {
  const double share = static_cast<double>(s.copies) / std::max(1, s.chunks());
  double now = 0, peak = 0;
  for (const Step& step : lane) {
    if (step.act == Act::forward || step.act == Act::forward_backward) peak = std::max(peak, now += share);
    if (step.act == Act::backward || step.act == Act::forward_backward) now -= share;
    if (step.act == Act::backward_input) now -= share * (1 - kept);
    if (step.act == Act::backward_weight) now -= share * kept;
  }
  return peak;
}

}  // namespace

LaneTimes run_clock(const Schedule& schedule, const Durations& durations) { return Clock(schedule, durations).run(); }

ScheduleReport report_of(const Schedule& s, const Durations& d) {
  const LaneTimes line = run_clock(s, d);
  ScheduleReport out;
  for (std::size_t r = 0; r < s.lanes.size(); ++r) {
    double busy = 0, first = -1, last = 0;
    for (std::size_t i = 0; i < s.lanes[r].size(); ++i) {
      const StepTime& t = line.times[r][i];
      if (is_send(s.lanes[r][i].act) || is_recv(s.lanes[r][i].act)) continue;
      busy += t.end - t.start;
      if (first < 0) first = t.start;
      last = std::max(last, t.end);
    }
    out.busy.push_back(busy);
    out.work = std::max(out.work, busy);
    out.makespan = std::max(out.makespan, last - std::max(first, 0.0));
    out.finish = std::max(out.finish, last);
    out.peak_activations.push_back(peak_activations(s, s.lanes[r], d.kept));
  }
  out.bubble = out.makespan > 0 ? 1 - out.work / out.makespan : 0;
  out.bubble_over_ideal = out.work > 0 ? out.makespan / out.work - 1 : 0;
  out.peak_in_flight = peak_in_flight(s);
  return out;
}

Json to_json(const ScheduleReport& r) {
  return {{"makespan", r.makespan},
          {"finish", r.finish},
          {"work", r.work},
          {"bubble", r.bubble},
          {"bubble_over_ideal", r.bubble_over_ideal},
          {"peak_in_flight", r.peak_in_flight},
          {"peak_activations", r.peak_activations},
          {"busy", r.busy}};
}

}  // namespace mt
