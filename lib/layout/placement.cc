#include "layout/placement.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace mt {

const char* axis_name(Axis axis) {
  constexpr const char* names[] = {"tp", "cp", "dp", "pp", "etp", "ep", "edp", "kv"};
  return names[static_cast<int>(axis)];
}

int Coordinate::operator[](Axis axis) const {
  switch (axis) {
    case Axis::tp: return tp;
    case Axis::cp: return cp;
    case Axis::dp: return dp;
    case Axis::pp: return pp;
    case Axis::etp: return etp;
    case Axis::ep: return ep;
    case Axis::edp: return edp;
    case Axis::kv: break;
  }
  MT_CHECK(false, "kv is no grid axis");
  return 0;
}

namespace {

struct Digit {
  int degree;
  int Coordinate::* member;
};

// Mixed-radix digits of a rank, leftmost name of the order string fastest.
std::vector<Digit> digits(const std::string& order, const std::map<std::string, Digit>& table) {
  std::vector<Digit> out;
  for (std::size_t at = 0; at <= order.size();) {
    const auto dash = std::min(order.find('-', at), order.size());
    if (auto it = table.find(order.substr(at, dash - at)); it != table.end()) out.push_back(it->second);
    at = dash + 1;
  }
  return out;
}

void assign(const std::vector<Digit>& d, int rank, Coordinate& c) {
  for (const auto& digit : d) {
    c.*digit.member = rank % digit.degree;
    rank /= digit.degree;
  }
}

}  // namespace

Placement place(const ParallelSpec& s) {
  const auto dense = digits(s.order, {{"tp", {s.tp, &Coordinate::tp}},
                                      {"cp", {s.cp, &Coordinate::cp}},
                                      {"dp", {s.dp, &Coordinate::dp}},
                                      {"pp", {s.pp, &Coordinate::pp}}});
  const auto expert = digits(s.order, {{"tp", {s.etp, &Coordinate::etp}},
                                       {"ep", {s.ep, &Coordinate::ep}},
                                       {"dp", {s.edp(), &Coordinate::edp}},
                                       {"pp", {s.pp, &Coordinate::pp}}});
  MT_CHECK(dense.size() == 4 && expert.size() == 4, "order '{}'", s.order);
  Placement p{s, {}};
  for (int rank = 0; rank < s.world(); ++rank) {
    Coordinate c;
    assign(expert, rank, c);
    const int expert_pp = c.pp;
    assign(dense, rank, c);
    MT_CHECK(expert_pp == c.pp, "rank {}: pipeline groups of the two grids differ", rank);
    p.coordinates.push_back(c);
  }
  return p;
}

int Placement::rank_of(const Coordinate& want) const {
  for (std::size_t r = 0; r < coordinates.size(); ++r) {
    const auto& c = coordinates[r];
    if (c.tp == want.tp && c.cp == want.cp && c.dp == want.dp && c.pp == want.pp) return static_cast<int>(r);
  }
  MT_CHECK(false, "no rank at tp {} cp {} dp {} pp {}", want.tp, want.cp, want.dp, want.pp);
  return -1;
}

std::vector<std::vector<int>> groups(const Placement& placement, const std::vector<Axis>& axes) {
  const bool expert = std::any_of(axes.begin(), axes.end(), [](Axis a) {
    return a == Axis::etp || a == Axis::ep || a == Axis::edp;
  });
  const std::vector<Axis> grid = expert ? std::vector{Axis::etp, Axis::ep, Axis::edp, Axis::pp}
                                        : std::vector{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
  const ParallelSpec& s = placement.spec;
  const auto degree = [&s](Axis a) {
    const int degrees[] = {s.tp, s.cp, s.dp, s.pp, s.etp, s.ep, s.edp()};
    return static_cast<std::size_t>(degrees[static_cast<int>(a)]);
  };
  // The coordinates that a group shares, as one number; groups are met in the order of their lowest ranks.
  std::vector<std::pair<Axis, std::size_t>> shared;
  std::size_t count = 1;
  for (Axis a : grid)
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) shared.emplace_back(a, count), count *= degree(a);
  std::vector<int> group_at(count, -1);
  std::vector<std::vector<int>> out;
  for (std::size_t rank = 0; rank < placement.coordinates.size(); ++rank) {
    std::size_t key = 0;
    for (const auto& [a, stride] : shared) key += stride * static_cast<std::size_t>(placement.coordinates[rank][a]);
    if (group_at[key] < 0) {
      group_at[key] = static_cast<int>(out.size());
      out.emplace_back().reserve(placement.coordinates.size() / count);
    }
    out[static_cast<std::size_t>(group_at[key])].push_back(static_cast<int>(rank));
  }
  return out;
}

std::vector<int> group_of(const Placement& placement, const std::vector<Axis>& axes, int rank) {
  for (auto& g : groups(placement, axes))
    if (std::find(g.begin(), g.end(), rank) != g.end()) return g;
  MT_CHECK(false, "rank {} of {}", rank, placement.coordinates.size());
  return {};
}

std::vector<int> kv_group(const Placement& placement, int kv_heads, int rank) {
  const auto tp = group_of(placement, {Axis::tp}, rank);
  const int share = std::max(1, placement.spec.tp / std::max(1, kv_heads));
  const int first = placement.coordinates[static_cast<std::size_t>(rank)].tp / share * share;
  return {tp.begin() + first, tp.begin() + first + share};
}

std::vector<std::vector<int>> intra_partial(const std::vector<std::vector<int>>& groups, int instances) {
  std::vector<std::vector<int>> out;
  for (const auto& g : groups) {
    const auto n = std::ssize(g) / instances;
    for (std::ptrdiff_t i = 0; i < instances; ++i) out.emplace_back(g.begin() + i * n, g.begin() + (i + 1) * n);
  }
  return out;
}

std::vector<std::vector<int>> inter_partial(const std::vector<std::vector<int>>& groups, int instances) {
  std::vector<std::vector<int>> out;
  for (const auto& g : groups) {
    const std::size_t n = g.size() / static_cast<std::size_t>(instances);
    for (std::size_t i = 0; i < n; ++i) {
      out.emplace_back();
      for (std::size_t at = i; at < g.size(); at += n) out.back().push_back(g[at]);
    }
  }
  return out;
}

namespace {

using A = Axis;
const std::string kIntra = "intra-partial-", kInter = "inter-partial-";
const std::vector<std::pair<std::string, std::vector<A>>>& named_axes() {
  static const std::vector<std::pair<std::string, std::vector<A>>> table = {
      {"tp", {A::tp}},           {"cp", {A::cp}},
      {"dp", {A::dp}},           {"dp-cp", {A::dp, A::cp}},
      {"pp", {A::pp}},           {"tp-pp", {A::tp, A::pp}},
      {"tp-cp", {A::tp, A::cp}}, {"tp-dp-cp", {A::tp, A::dp, A::cp}},
      {"ep", {A::ep}},           {"etp", {A::etp}},
      {"edp", {A::edp}},         {"etp-ep", {A::etp, A::ep}},
  };
  return table;
}

}  // namespace

std::vector<std::string> group_names(const ParallelSpec& parallel) {
  std::vector<std::string> names;
  for (const auto& [name, axes] : named_axes()) names.push_back(name);
  if (parallel.optimizer_instances > 1)
    for (const auto& part : {kIntra, kInter}) names.insert(names.end(), {part + "dp-cp", part + "edp"});
  names.insert(names.end(), {"embedding", "position_embedding"});
  return names;
}

NamedGroups named_groups(const Placement& p, const std::string& wanted) {
  for (const auto& [name, axes] : named_axes())
    if (name == wanted) return {name, groups(p, axes)};
  for (const auto& part : {kIntra, kInter})
    if (wanted.compare(0, part.size(), part) == 0) {
      const auto wholes = named_groups(p, wanted.substr(part.size())).groups;
      return {wanted, (part == kIntra ? intra_partial : inter_partial)(wholes, p.spec.optimizer_instances)};
    }
  MT_CHECK(wanted == "embedding" || wanted == "position_embedding", "there is no group {}", wanted);
  NamedGroups out{wanted, groups(p, {A::pp})};
  for (auto& pipeline : out.groups)
    if (wanted == "position_embedding") pipeline.resize(1);
    else if (pipeline.size() > 1) pipeline = {pipeline.front(), pipeline.back()};
  return out;
}

}  // namespace mt
