#pragma once
// Points of the matrix of layouts: a value for each choice, the options that mean it, and sets in which every pair of values
// meets.

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "train/tiny_run.h"

namespace mt::test {

inline constexpr const char* kSchedules[] = {"1f1b",  "gpipe", "zb-h1", "zb-h2",    "zb-1p",
                                             "zb-2p", "interleaved", "zb-v",  "dualpipe-v"};
inline constexpr int kFirstOfTwoChunks = 6;  // in kSchedules

// kModel: 0 LLaMA's shape, 1 GPT-2's with tied embeddings, 2 and 3 the same in bf16.
enum Choice : std::size_t { kPp, kSchedule, kTp, kSp, kDp, kZero, kInstances, kRecompute, kModel, kAxes };
using Point = std::array<int, kAxes>;

inline const std::array<std::vector<int>, kAxes>& choices() {
  static const std::array<std::vector<int>, kAxes> all{{{1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 2}, {0, 1}, {1, 2, 4},
                                                        {0, 1, 2, 3}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}}};
  return all;
}

inline int ranks_of(const Point& p) { return p[kPp] * p[kTp] * p[kDp]; }
inline bool is_bf16(const Point& p) { return p[kModel] >= 2; }

// Every point of the product, legal or not.
template <class Keep>
std::vector<Point> points_where(const Keep& keep) {
  std::vector<Point> out;
  Point at{};
  std::array<std::size_t, kAxes> digit{};
  for (;;) {
    for (std::size_t a = 0; a < kAxes; ++a) at[a] = choices()[a][digit[a]];
    if (keep(at)) out.push_back(at);
    std::size_t a = 0;
    while (a < kAxes && ++digit[a] == choices()[a].size()) digit[a++] = 0;
    if (a == kAxes) return out;
  }
}

inline bool has_two_chunks(const Point& p) { return p[kSchedule] >= kFirstOfTwoChunks; }

// Why it cannot run, by what the choices say; empty when it can. All of them are told at once.
//   vpp  chunks asked for
inline std::vector<std::string> reasons_against(const Point& p, int vpp) {
  std::vector<std::string> why;
  if (p[kPp] == 1 && vpp > 1)
    why.push_back("num-virtual-stages-per-pipeline-rank 2 with pipeline-model-parallel-size 1");
  if (p[kInstances] > 1 && p[kZero] == 0) why.push_back("without sharded optimizer state");
  if (p[kDp] % p[kInstances] != 0) why.push_back("is not divisible by num-distributed-optimizer-instances 2");
  return why;
}
inline std::vector<std::string> reasons_against(const Point& p) { return reasons_against(p, has_two_chunks(p) ? 2 : 1); }

// Legal, and no choice says nothing.
inline bool makes_sense(const Point& p, int most_ranks) {
  if (ranks_of(p) > most_ranks || !reasons_against(p).empty()) return false;
  if (p[kPp] == 1 && p[kSchedule] != 0) return false;
  return p[kSp] == 0 || p[kTp] > 1;
}

inline std::string name_of(const Point& p) {
  constexpr const char* recompute[] = {"", ", selective recompute", ", full recompute"};
  constexpr const char* model[] = {"untied f32", "tied f32", "untied bf16", "tied bf16"};
  return fmt::format("{}: pp {} {}, tp {}{}, dp {}, ZeRO {}{}{}", model[p[kModel]], p[kPp], kSchedules[p[kSchedule]], p[kTp],
                     p[kSp] ? " sp" : "", p[kDp], p[kZero],
                     p[kInstances] > 1 ? fmt::format(" in {} instances", p[kInstances]) : "", recompute[p[kRecompute]]);
}

inline TrainingOptions options_of(const TempDir& dir, const Point& p) {
  auto o = tiny_options(dir, p[kModel] % 2 == 0 ? "llama" : "gpt2");
  o.bf16 = is_bf16(p);
  o.model.num_layers = 8;
  if (o.deferred_stream) o.train_iters = 4;  // a second pass over what 20 steps have shown
  o.batch = {16, 1, 16};
  o.parallel.pp = p[kPp];
  o.parallel.vpp = has_two_chunks(p) ? 2 : 1;
  o.schedule = kSchedules[p[kSchedule]];
  o.parallel.tp = p[kTp];
  o.parallel.sequence_parallel = p[kSp] != 0;
  constexpr const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  o.sharding_strategy = strategies[p[kZero]];
  o.use_megatron_fsdp = p[kZero] == 3;
  o.parallel.optimizer_instances = p[kInstances];
  if (p[kRecompute] > 0) o.recompute.granularity = p[kRecompute] == 1 ? "selective" : "full";
  if (p[kRecompute] == 2) o.recompute.method = "uniform", o.recompute.num_layers = std::min(2, 8 / (p[kPp] * o.parallel.vpp));
  return o;
}

using Pair = std::array<int, 4>;  // axis, value, axis, value
inline std::set<Pair> pairs_of(const Point& p) {
  std::set<Pair> out;
  for (int a = 0; a < static_cast<int>(kAxes); ++a)
    for (int b = a + 1; b < static_cast<int>(kAxes); ++b)
      out.insert({a, p[static_cast<std::size_t>(a)], b, p[static_cast<std::size_t>(b)]});
  return out;
}

// Greedily, the point with the most pairs not yet met, fewer ranks first.
inline std::vector<Point> pairwise(const std::vector<Point>& all) {
  std::vector<std::set<Pair>> pairs;
  std::set<Pair> missing;
  for (const auto& p : all) {
    pairs.push_back(pairs_of(p));
    missing.insert(pairs.back().begin(), pairs.back().end());
  }
  std::vector<Point> out;
  while (!missing.empty()) {
    std::size_t best = 0;
    std::ptrdiff_t most = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto n = std::count_if(pairs[i].begin(), pairs[i].end(), [&](const Pair& x) { return missing.count(x) > 0; });
      if (n > most || (n == most && n > 0 && ranks_of(all[i]) < ranks_of(all[best]))) best = i, most = n;
    }
    for (const auto& pair : pairs[best]) missing.erase(pair);
    out.push_back(all[best]);
  }
  return out;
}

// A walk in which every value of every choice is followed by every value of every choice: greedily, next is the point that
// brings most successions not yet seen, fewer ranks first. Where one step brings none, the walk goes where the next can.
inline std::vector<Point> every_succession(const std::vector<Point>& all) {
  std::set<Pair> missing;
  const auto between = [](const Point& from, const Point& to) {
    std::vector<Pair> out;
    for (int a = 0; a < static_cast<int>(kAxes); ++a)
      for (int b = 0; b < static_cast<int>(kAxes); ++b)
        out.push_back({a, from[static_cast<std::size_t>(a)], b, to[static_cast<std::size_t>(b)]});
    return out;
  };
  std::set<std::pair<int, int>> values;
  for (const auto& p : all)
    for (int a = 0; a < static_cast<int>(kAxes); ++a) values.insert({a, p[static_cast<std::size_t>(a)]});
  for (const auto& [a, v] : values)
    for (const auto& [b, w] : values) missing.insert({a, v, b, w});
  const auto news = [&](const Point& from, const Point& to) {
    const auto pairs = between(from, to);
    return std::count_if(pairs.begin(), pairs.end(), [&](const Pair& x) { return missing.count(x) > 0; });
  };
  std::vector<Point> walk{all.front()};
  while (!missing.empty()) {
    const Point* best = nullptr;
    std::ptrdiff_t most = 0;
    for (const auto& p : all) {
      const auto n = news(walk.back(), p);
      if (n > most || (n == most && n > 0 && ranks_of(p) < ranks_of(*best))) best = &p, most = n;
    }
    if (best == nullptr) {  // any point that a missing succession begins with
      const Pair wanted = *missing.begin();
      const auto from = std::find_if(all.begin(), all.end(), [&](const Point& p) {
        return p[static_cast<std::size_t>(wanted[0])] == wanted[1];
      });
      best = &*from;
    }
    for (const auto& x : between(walk.back(), *best)) missing.erase(x);
    walk.push_back(*best);
  }
  return walk;
}

// A random part of them, other ones each run; MT_TEST_SEED repeats one.
inline std::vector<Point> sample_of(std::vector<Point> all, std::size_t n) {
  const char* given = std::getenv("MT_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::atoll(given)) : std::random_device{}();
  fmt::print("MT_TEST_SEED={}\n", seed);
  std::mt19937 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  if (all.size() > n) all.resize(n);
  return all;
}

}  // namespace mt::test
