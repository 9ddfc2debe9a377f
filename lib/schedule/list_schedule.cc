#include "schedule/list_schedule.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"

namespace mt {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity(), kTie = 1e-9;

// Which of some ranks can begin first, of equals the lowest: a tree of the winners of pairs.
class FirstRank {
 public:
  explicit FirstRank(std::size_t ranks) : leaves_(std::bit_ceil(ranks)), times_(leaves_, kNever), first_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) first_[leaves_ + i] = i;
    for (std::size_t i = leaves_; --i > 0;) first_[i] = winner(first_[2 * i], first_[2 * i + 1]);
  }
  void set(std::size_t rank, double time) {
    if (times_[rank] == time) return;
    times_[rank] = time;
    for (std::size_t i = (leaves_ + rank) / 2; i > 0; i /= 2) first_[i] = winner(first_[2 * i], first_[2 * i + 1]);
  }
  std::size_t rank() const { return first_[1]; }
  double time() const { return times_[first_[1]]; }

 private:
  std::size_t winner(std::size_t low, std::size_t high) const { return times_[high] < times_[low] - kTie ? high : low; }
  std::size_t leaves_;
  std::vector<double> times_;
  std::vector<std::size_t> first_;  // [1] is the root, [leaves_ + i] rank i
};

class ListScheduler {
 public:
  ListScheduler(const std::string& name, const ListProblem& p, const ListRules& rules, const ListLimit& limit)
      : p_(p), rules_(rules), limit_(limit), pp_(p.stage_of.size()), chunks_(p.stage_of[0].size()),
        m_(static_cast<std::size_t>(p.num_micro_batches)), share_(1.0 / static_cast<double>(chunks_)), first_(pp_) {
    out_.name = name;
    out_.num_micro_batches = p.num_micro_batches;
    out_.stage_of = p.stage_of;
    out_.lanes.resize(pp_);
    ranks_.resize(pp_);
    const std::size_t stages = pp_ * chunks_;
    home_.resize(stages);
    for (std::size_t r = 0; r < pp_; ++r) {
      ranks_[r].chunks.resize(chunks_);
      out_.lanes[r].reserve(3 * m_ * chunks_);
      changed_.push_back(r);
      for (std::size_t c = 0; c < chunks_; ++c) {
        home_[stage(r, c)] = r;
        for (const Act act : {Act::forward, Act::backward_input, Act::backward_weight})
          ranks_[r].least += static_cast<double>(m_) * duration(act, stage(r, c));
      }
    }
    // Sums of many times differ in their last bits.
    too_long_ = limit.makespan + kTie + 1e-12 * limit.makespan;
    as_long_ = limit.makespan - kTie + 1e-12 * limit.makespan;
    for (auto& there : there_) there.assign(stages * m_, kNever);
    for (std::size_t i = 0; i < m_; ++i) there_[0][i] = 0;
    for (const auto& l : p.durations.links)
      if (static_cast<std::size_t>(std::max(l.from, l.to)) < pp_) links_.push_back({l, 0});
  }

  std::optional<ListSchedule> run() {
    for (std::size_t left = 3 * m_ * pp_ * chunks_; left > 0; --left) {
      for (const std::size_t r : changed_) first_.set(r, earliest(r));
      changed_.clear();
      const std::size_t first = first_.rank();
      const double start = first_.time();
      MT_CHECK(start < kNever, "nothing can run; cap {}", p_.memory_cap);
      do_step(first, choose(first, start), start);
      if (least_ > too_long_ || (least_ > as_long_ && peak_ >= limit_.peak - kTie)) return std::nullopt;
    }
    double makespan = 0;
    for (const RankState& rank : ranks_) makespan = std::max(makespan, rank.time - rank.began);
    out_.max_in_flight = peak_in_flight(out_);
    return ListSchedule{std::move(out_), makespan, peak_};
  }

 private:
  struct ChunkState {
    std::size_t forwards = 0, inputs = 0, weights = 0;
  };
  struct RankState {
    double time = 0, memory = 0, idle = 0, began = 0;
    double least = 0;      // from its first step to its last, as far as is known: its work and its waits
    std::size_t done = 0;  // forwards and input gradients
    std::vector<ChunkState> chunks;
    Act last = Act::backward_input;
  };
  struct Choice {
    Act act = Act::forward;
    std::size_t chunk = 0;
  };
  struct BusyLink {
    LinkTime time;
    double free = 0;
  };

  std::size_t stage(std::size_t r, std::size_t c) const { return static_cast<std::size_t>(p_.stage_of[r][c]); }

  // When the next forward or input gradient of a chunk could start, by what it reads and memory; kNever: not now.
  double forward_at(std::size_t r, std::size_t c) const {
    const auto& rank = ranks_[r];
    const auto i = rank.chunks[c].forwards;
    // Later chunks need room too, or a full first chunk would shut out what frees it; a given order sees to that.
    const double room = rules_.order.empty() ? share_ * static_cast<double>(chunks_ - c) : share_;
    if (i == m_ || rank.memory + room > p_.memory_cap + kTie) return kNever;
    return std::max(rank.time, there_[0][stage(r, c) * m_ + i]);
  }
  double input_at(std::size_t r, std::size_t c) const {
    const auto i = ranks_[r].chunks[c].inputs;
    return i == m_ ? kNever : std::max(ranks_[r].time, there_[1][stage(r, c) * m_ + i]);
  }
  bool weight_waits(std::size_t r, std::size_t c) const {
    return ranks_[r].chunks[c].weights < ranks_[r].chunks[c].inputs;
  }
  const Step* ordered(std::size_t r) const {
    return ranks_[r].done == rules_.order[r].size() ? nullptr : &rules_.order[r][ranks_[r].done];
  }

  // When the rank's next forward or input gradient can start.
  double next_at(std::size_t r) const {
    if (!rules_.order.empty()) {
      const Step* step = ordered(r);
      if (step == nullptr) return kNever;
      const auto c = static_cast<std::size_t>(step->chunk);
      return step->act == Act::forward ? forward_at(r, c) : input_at(r, c);
    }
    double t = kNever;
    for (std::size_t c = 0; c < chunks_; ++c) t = std::min({t, forward_at(r, c), input_at(r, c)});
    return t;
  }

  // When a rank can do anything at all. A weight gradient always can, but may be held back for a short wait.
  double earliest(std::size_t r) const {
    const auto& rank = ranks_[r];
    const double next = next_at(r), wait = next - rank.time;
    bool weight = false;
    for (std::size_t c = 0; c < chunks_; ++c) weight = weight || weight_waits(r, c);
    weight = weight && wait > kTie;
    if (wait < rules_.least_gap * share_ * p_.durations.backward_weight - kTie)
      weight = weight && rules_.even_out && rank.idle + wait > most_idle_ + kTie;
    return weight ? rank.time : next;
  }

  std::optional<std::size_t> first_chunk(std::size_t r, Act act, double now) const {
    for (std::size_t k = 0; k < chunks_; ++k) {
      const bool from_the_end = rules_.late_chunk_first == (act == Act::forward);
      const std::size_t c = from_the_end ? chunks_ - 1 - k : k;
      const bool can = act == Act::forward          ? forward_at(r, c) <= now + kTie
                       : act == Act::backward_input ? input_at(r, c) <= now + kTie
                                                    : weight_waits(r, c);
      if (can) return c;
    }
    return std::nullopt;
  }

  // Act and chunk of a rank that is free now.
  Choice choose(std::size_t r, double now) const {
    const auto& rank = ranks_[r];
    if (next_at(r) > now + kTie) {
      const auto weight = first_chunk(r, Act::backward_weight, now);
      MT_CHECK(weight, "rank {} has nothing to do", r);
      return {Act::backward_weight, *weight};
    }
    if (!rules_.order.empty()) return {ordered(r)->act, static_cast<std::size_t>(ordered(r)->chunk)};
    const auto forward = first_chunk(r, Act::forward, now), input = first_chunk(r, Act::backward_input, now);
    bool warm_up = true;
    for (const auto& c : rank.chunks) warm_up = warm_up && c.inputs == 0;
    bool forward_first = rules_.steady == ListRules::Steady::forward_first ||
                         (rules_.steady == ListRules::Steady::alternate && rank.last != Act::forward);
    if (warm_up) forward_first = !(rules_.backward_ends_warm_up && input);
    if (forward && (forward_first || !input)) return {Act::forward, *forward};
    return {Act::backward_input, *input};
  }

  void arrive(bool gradient, std::size_t from_rank, std::size_t to_stage, std::size_t i, double end) {
    const std::size_t to = home_[to_stage];
    auto& there = there_[static_cast<std::size_t>(gradient)][to_stage * m_ + i];
    there = end;
    if (to != from_rank) {
      there = end + p_.durations.p2p;
      for (auto& [l, free] : links_) {
        if (static_cast<std::size_t>(l.from) != from_rank || static_cast<std::size_t>(l.to) != to) continue;
        free = std::max(end, free) + l.occupancy;
        there = free + l.latency;
      }
    }
    changed_.push_back(to);
  }

  double duration(Act act, std::size_t stage) const {
    const auto& d = p_.durations;
    const double t = act == Act::forward          ? d.forward
                     : act == Act::backward_input ? d.backward_input
                                                  : d.backward_weight;
    return share_ * t * (stage < d.stage_scale.size() ? d.stage_scale[stage] : 1.0);
  }

  void do_step(std::size_t r, const Choice& choice, double start) {
    auto& rank = ranks_[r];
    auto& chunk = rank.chunks[choice.chunk];
    const std::size_t here = stage(r, choice.chunk);
    const double end = start + duration(choice.act, here);
    std::size_t i = 0;
    if (choice.act == Act::forward) {
      i = chunk.forwards++;
      peak_ = std::max(peak_, rank.memory += share_);
      if (here + 1 < home_.size())
        arrive(false, r, here + 1, i, end);
      else
        arrive(true, r, here, i, end);
    } else if (choice.act == Act::backward_input) {
      i = chunk.inputs++;
      rank.memory -= share_ * (1 - p_.durations.kept);
      if (here > 0) arrive(true, r, here - 1, i, end);
    } else {
      i = chunk.weights++;
      rank.memory -= share_ * p_.durations.kept;
    }
    if (choice.act != Act::backward_weight) rank.last = choice.act, ++rank.done;
    if (out_.lanes[r].empty()) {
      rank.began = start;
    } else {
      most_idle_ = std::max(most_idle_, rank.idle += start - rank.time);
      rank.least += start - rank.time;
    }
    least_ = std::max(least_, rank.least);
    rank.time = end;
    changed_.push_back(r);
    out_.lanes[r].push_back(
        {.act = choice.act, .chunk = static_cast<int>(choice.chunk), .micro_batch = static_cast<int>(i)});
  }

  const ListProblem& p_;
  const ListRules& rules_;
  const ListLimit limit_;
  const std::size_t pp_, chunks_, m_;
  const double share_;
  Schedule out_;
  std::vector<RankState> ranks_;
  std::vector<std::size_t> home_;  // rank of a stage
  std::vector<double> there_[2];   // [gradient][reading stage, micro-batch]: when its input is there
  std::vector<BusyLink> links_;
  double most_idle_ = 0;  // of all ranks, since their first step
  FirstRank first_;
  std::vector<std::size_t> changed_;  // ranks whose earliest() is to be asked again
  double least_ = 0, peak_ = 0;       // of all ranks
  double too_long_ = 0, as_long_ = 0;
};

}  // namespace

std::optional<ListSchedule> list_schedule(const std::string& name, const ListProblem& problem, const ListRules& rules,
                                          const ListLimit& limit) {
  return ListScheduler(name, problem, rules, limit).run();
}

}  // namespace mt
