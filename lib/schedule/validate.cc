#include <map>
#include <tuple>

#include <fmt/format.h>

#include "schedule/clock.h"
#include "schedule/schedule.h"
#include "schedule/step_index.h"

namespace mt {

namespace {

using Faults = std::vector<std::string>;

std::string fault_of(int rank, const Step& s, const std::string& what) {
  return fmt::format("rank {}: {} of chunk {} micro-batch {}: {}", rank, act_name(s.act), s.chunk, s.micro_batch, what);
}

// Shape of the schedule and range of every number in it; the other checks index by them.
Faults range_faults(const Schedule& s) {
  if (s.lanes.empty() || s.lanes.size() != s.stage_of.size() || s.lanes.size() != s.max_in_flight.size())
    return {"lanes, stage_of and max_in_flight differ in length, or there is no rank"};
  for (const auto& stages : s.stage_of)
    if (stages.empty() || static_cast<int>(stages.size()) != s.chunks())
      return {"every rank must hold the same number of chunks, at least one"};
  if (s.copies < 1 || s.chunks() % s.copies != 0 || s.num_micro_batches < 1)
    return {"copies must divide the chunks of a rank, and there must be micro-batches"};
  // Tables below have a cell for every stage and micro-batch; a few steps of a huge schedule should not fill memory.
  std::size_t steps = 0;
  for (const Lane& lane : s.lanes) steps += lane.size();
  if (static_cast<std::size_t>(s.stages()) * static_cast<std::size_t>(s.num_micro_batches) > 8 * steps + 4096)
    return {fmt::format("{} steps cannot be {} micro-batches through {} stages", steps, s.num_micro_batches, s.stages())};
  Faults faults;
  std::map<std::pair<int, int>, int> held;  // (copy, stage)
  for (int r = 0; r < s.pp(); ++r)
    for (int c = 0; c < s.chunks(); ++c) {
      const int stage = s.stage_of[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
      if (stage < 0 || stage >= s.stages())
        faults.push_back(fmt::format("rank {}: chunk {} is stage {}, of {}", r, c, stage, s.stages()));
      else if (++held[{c % s.copies, stage}] > 1)
        faults.push_back(fmt::format("rank {}: chunk {}: stage {} is held twice", r, c, stage));
    }
  for (int r = 0; r < s.pp(); ++r)
    for (const Step& step : s.lanes[static_cast<std::size_t>(r)]) {
      const auto check = [&](int chunk, int m) {
        if (chunk < 0 || chunk >= s.chunks() || m < 0 || m >= s.num_micro_batches)
          faults.push_back(fault_of(r, step, fmt::format("there are {} chunks and {} micro-batches", s.chunks(),
                                                         s.num_micro_batches)));
        else if (s.copy_of(m) != chunk % s.copies)
          faults.push_back(fault_of(r, step, "the micro-batch belongs to the other copy of the weights"));
      };
      if (step.act == Act::collective) continue;
      check(step.chunk, step.micro_batch);
      if (step.act == Act::forward_backward) check(step.backward_chunk, step.backward_micro_batch);
      if ((is_send(step.act) || is_recv(step.act)) && (step.peer < 0 || step.peer >= s.pp() || step.peer == r))
        faults.push_back(fault_of(r, step, fmt::format("peer {} of {} ranks", step.peer, s.pp())));
    }
  return faults;
}

// One lane for itself: what must come before what, exactly once.
class LaneChecker {
 public:
  LaneChecker(Faults& faults, const Schedule& s, int rank)
      : faults_(faults), s_(s), rank_(rank), bound_(s.max_in_flight[static_cast<std::size_t>(rank)]),
        seen_(static_cast<std::size_t>(s.chunks()) * static_cast<std::size_t>(s.num_micro_batches)),
        last_weight_(static_cast<std::size_t>(s.chunks()), -1) {}

  void step(const Step& s) {
    auto& p = at(s.chunk, s.micro_batch);
    switch (s.act) {
      case Act::forward: forward(s, p); break;
      case Act::backward: input(s, p), weight(s, p, s.chunk, s.micro_batch); break;
      case Act::backward_input: input(s, p); break;
      case Act::backward_weight: weight(s, p, s.chunk, s.micro_batch); break;
      case Act::forward_backward: {
        forward(s, p);
        auto& q = at(s.backward_chunk, s.backward_micro_batch);
        if (&p == &q) fault(s, "merged with its own backward");
        input(s, q), weight(s, q, s.backward_chunk, s.backward_micro_batch);
        break;
      }
      case Act::recompute:
        if (!p.forward || p.input) fault(s, "not between forward and backward");
        break;
      default: break;
    }
  }

  void end() {
    for (int c = 0; c < s_.chunks(); ++c)
      for (int m = 0; m < s_.num_micro_batches; ++m) {
        if (s_.copy_of(m) != c % s_.copies) continue;
        if (const auto& p = at(c, m); !p.forward || !p.input || !p.weight)
          faults_.push_back(fmt::format("rank {}: chunk {} micro-batch {} is not finished", rank_, c, m));
      }
  }

 private:
  struct Progress {
    bool forward = false, input = false, weight = false;
  };
  Progress& at(int chunk, int m) {
    return seen_[static_cast<std::size_t>(chunk) * static_cast<std::size_t>(s_.num_micro_batches) +
                 static_cast<std::size_t>(m)];
  }
  void fault(const Step& s, const std::string& what) { faults_.push_back(fault_of(rank_, s, what)); }
  void forward(const Step& s, Progress& p) {
    if (p.forward) fault(s, "forward twice");
    p.forward = true;
    if (++in_flight_ > bound_) fault(s, fmt::format("{} in flight, bound {}", in_flight_, bound_));
  }
  void input(const Step& s, Progress& p) {
    if (!p.forward) fault(s, "backward before forward");
    if (p.input) fault(s, "backward twice");
    p.input = true;
    --in_flight_;
  }
  void weight(const Step& s, Progress& p, int chunk, int m) {
    if (!p.input) fault(s, "weight gradient before input gradient");
    if (p.weight) fault(s, "weight gradient twice");
    p.weight = true;
    if (auto& last = last_weight_[static_cast<std::size_t>(chunk)]; m < last)
      fault(s, fmt::format("weight gradient after that of micro-batch {}", last));
    else
      last = m;
  }

  Faults& faults_;
  const Schedule& s_;
  int rank_, bound_, in_flight_ = 0;
  std::vector<Progress> seen_;
  std::vector<int> last_weight_;
};

// What a message carries: result of a stage for a micro-batch.
struct Cargo {
  bool gradient = false;
  int stage = 0, micro_batch = 0;
  bool operator==(const Cargo&) const = default;
};

class MessageChecker {
 public:
  MessageChecker(Faults& faults, const Schedule& s, const StepIndex& index) : faults_(faults), s_(s), index_(index) {}

  void run() {
    for (int r = 0; r < s_.pp(); ++r) {
      const Lane& lane = s_.lanes[static_cast<std::size_t>(r)];
      for (int i = 0; i < static_cast<int>(lane.size()); ++i) step(r, i, lane[static_cast<std::size_t>(i)]);
    }
    for (const auto& [channel, sent] : sent_) compare(channel, sent, posted_[channel]);
    for (const auto& [channel, posted] : posted_)
      if (sent_.find(channel) == sent_.end()) compare(channel, {}, posted);
    count_missing_sends();
  }

 private:
  using Channel = std::tuple<int, int, int>;  // from, to, channel
  static std::string text(const Cargo& c) {
    return fmt::format("{} of stage {} micro-batch {}", c.gradient ? "gradient" : "activation", c.stage, c.micro_batch);
  }

  void step(int r, int i, const Step& step) {
    const int stage = index_.stage(r, step.chunk);
    if (is_send(step.act)) {
      const bool gradient = step.act == Act::send_gradient;
      const Place made = gradient ? index_.input_gradient(stage, step.micro_batch) : index_.forward(stage, step.micro_batch);
      if (!made || made.rank != r || made.step > i) faults_.push_back(fault_of(r, step, "sent before it is made"));
      const int reader = stage + (gradient ? -1 : 1);
      if (reader < 0 || reader >= s_.stages() || index_.rank_of(reader, step.micro_batch) != step.peer)
        faults_.push_back(fault_of(r, step, fmt::format("rank {} does not read it", step.peer)));
      sent_[{r, step.peer, step.channel}].push_back({gradient, stage, step.micro_batch});
    } else if (is_recv(step.act)) {
      const bool gradient = step.act == Act::recv_gradient;
      const Cargo cargo{gradient, stage + (gradient ? 1 : -1), step.micro_batch};
      if (posted_at_.count(key(cargo)) > 0) faults_.push_back(fault_of(r, step, "received twice"));
      posted_at_[key(cargo)] = i;
      posted_[{step.peer, r, step.channel}].push_back(cargo);
    }
    for_each_input(s_, index_, r, step, [&](const Input& input) {
      if (index_.rank_of(input.stage, input.micro_batch) == r) return;
      if (posted_at_.count(key({input.gradient, input.stage, input.micro_batch})) == 0)
        faults_.push_back(fault_of(r, step, "no receive is posted for what it reads"));
    });
  }

  std::tuple<bool, int, int> key(const Cargo& c) const { return {c.gradient, c.stage, c.micro_batch}; }

  void compare(const Channel& channel, const std::vector<Cargo>& sent, const std::vector<Cargo>& posted) {
    const auto [from, to, number] = channel;
    const std::string where = fmt::format("channel {} from rank {} to {}", number, from, to);
    for (std::size_t k = 0; k < sent.size() && k < posted.size(); ++k) {
      if (sent[k] == posted[k]) continue;
      faults_.push_back(fmt::format("{}: message {} is the {}, received as the {}", where, k, text(sent[k]), text(posted[k])));
      break;
    }
    if (sent.size() != posted.size())
      faults_.push_back(fmt::format("{}: {} sends, {} receives", where, sent.size(), posted.size()));
  }

  // A message that is sent and received by nobody's act is caught above; one that is needed twice cannot be.
  void count_missing_sends() {
    std::size_t sends = 0, needed = 0;
    for (const auto& [channel, sent] : sent_) sends += sent.size();
    for (int stage = 0; stage + 1 < s_.stages(); ++stage)
      for (int m = 0; m < s_.num_micro_batches; ++m)
        if (index_.rank_of(stage, m) != index_.rank_of(stage + 1, m)) needed += 2;
    if (sends != needed) faults_.push_back(fmt::format("{} messages are sent, {} are needed", sends, needed));
  }

  Faults& faults_;
  const Schedule& s_;
  const StepIndex& index_;
  std::map<Channel, std::vector<Cargo>> sent_, posted_;
  std::map<std::tuple<bool, int, int>, int> posted_at_;
};

}  // namespace

std::vector<std::string> faults_of(const Schedule& s) {
  Faults faults = range_faults(s);
  if (!faults.empty()) return faults;
  for (int r = 0; r < s.pp(); ++r) {
    LaneChecker checker(faults, s, r);
    for (const Step& step : s.lanes[static_cast<std::size_t>(r)])
      if (step.act != Act::collective) checker.step(step);
    checker.end();
  }
  const StepIndex index(s);
  if (index.has_messages()) MessageChecker(faults, s, index).run();
  const auto timeline = run_clock(s, Durations{});
  faults.insert(faults.end(), timeline.stuck.begin(), timeline.stuck.end());
  return faults;
}

}  // namespace mt
