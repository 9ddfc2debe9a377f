#include "layout/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "layout/not_computed.h"
#include "layout/param_spec.h"
#include "layout/pipeline_split.h"

namespace mt {

std::string nearest_divisors(std::int64_t n, std::int64_t wanted) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= std::abs(n) && d <= 1'000'000; ++d) {
    if (n % d != 0) continue;
    if (d <= wanted) below = d;
    if (d >= wanted && above == 0) above = d;
  }
  if (below == 0) return fmt::format("{}", above);
  if (above == 0 || above == below) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, above);
}

namespace {

// Steps of a lane and losses are held for every one of them.
constexpr std::int64_t kMostMicroBatches = 1'000'000;

std::string nearest_multiples(std::int64_t of, std::int64_t wanted) {
  const std::int64_t below = wanted / of * of, above = below + of;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

constexpr int kMaxWorld = 1'000'000;
constexpr std::int64_t kMostWidth = INT32_MAX;  // of a product: its sides are ints of the matrix library

class Checker {
 public:
  std::vector<Problem> problems;

  void add(std::string what, std::string nearest) { problems.push_back({std::move(what), std::move(nearest)}); }

  // a must be a multiple of b; suggests another b.
  bool divides(const char* a_name, std::int64_t a, const char* b_name, std::int64_t b) {
    if (b > 0 && a % b == 0) return true;
    if (b > 0)
      add(fmt::format("{} {} is not divisible by {} {}", a_name, a, b_name, b),
          fmt::format("{} {}, or {} {}", b_name, nearest_divisors(a, b), a_name, nearest_multiples(b, a)));
    return false;
  }
  bool positive(const char* name, std::int64_t v) {
    if (v > 0) return true;
    add(fmt::format("{} is {}, must be at least 1", name, v), fmt::format("{} 1", name));
    return false;
  }
};

void check_model(Checker& c, const ModelSpec& m, const ParallelSpec& p) {
  c.positive("hidden-size", m.hidden);
  c.positive("vocab-size", m.vocab_size);
  c.positive("make-vocab-size-divisible-by", m.vocab_divisor);
  c.positive("num-layers", m.num_layers());
  if (m.mtp_layers < 0 || m.mtp_layers > 1000) c.add(fmt::format("mtp-num-layers is {}", m.mtp_layers), "mtp-num-layers 1");
  const double ranks = 1.0 * p.tp * p.cp * p.pp * p.dp;
  if (ranks > kMaxWorld)
    c.add(fmt::format("{} ranks are more than {}", ranks, kMaxWorld), fmt::format("world size {}", kMaxWorld));
  std::set<RowKind> seen;  // rows of a kind are alike today: the first of each, in whatever layer, speaks for all
  for (const auto& row : m.decoder().rows) {
    if (!seen.insert(row.kind).second) continue;
    if (row.kind == RowKind::attention) {
      const auto& a = row.attention;
      if (!c.positive("num-attention-heads", a.heads) || !c.positive("num-query-groups", a.kv_heads)) return;
      if (a.head_dim == m.hidden / a.heads)  // not by kv-channels, which may be anything
        c.divides("hidden-size", m.hidden, "num-attention-heads", a.heads);
      // The widest product has q, k and v in one.
      if (c.positive("kv-channels", a.head_dim) && (std::int64_t{a.heads} + 2 * std::int64_t{a.kv_heads}) * a.head_dim > kMostWidth)
        c.add(fmt::format("num-attention-heads {} and num-query-groups {} with kv-channels {} are more than {} features",
                          a.heads, a.kv_heads, a.head_dim, kMostWidth),
              fmt::format("kv-channels {}", std::max<std::int64_t>(1, kMostWidth / (std::int64_t{a.heads} + 2 * std::int64_t{a.kv_heads}))));
      if (a.rotary.on && !a.latent.on() && a.head_dim % 2 != 0)
        c.add(fmt::format("kv-channels {} is odd, rotary positions need pairs", a.head_dim),
              fmt::format("kv-channels {} or {}", a.head_dim - 1, a.head_dim + 1));
      c.divides("num-attention-heads", a.heads, "num-query-groups", a.kv_heads);
      if (p.tp < 1) continue;
      c.divides("num-attention-heads", a.heads, "tensor-model-parallel-size", p.tp);
      // With a key/value head for each head the line above has said it.
      if (a.kv_heads != a.heads && a.kv_heads % p.tp != 0 && p.tp % a.kv_heads != 0)
        c.add(fmt::format("num-query-groups {} is neither a multiple nor a divisor of tensor-model-parallel-size {}",
                          a.kv_heads, p.tp),
              fmt::format("tensor-model-parallel-size {}", nearest_divisors(a.kv_heads, p.tp)));
    } else if (row.kind == RowKind::ffn && c.positive("ffn-hidden-size", row.ffn.ffn_hidden) && p.tp > 0) {
      c.divides("ffn-hidden-size", row.ffn.ffn_hidden, "tensor-model-parallel-size", p.tp);
    }
  }
}

void check_experts(Checker& c, const ModelSpec& m, const ParallelSpec& p, const Limits& limits) {
  const auto& rows = m.decoder().rows;
  const auto row = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.kind == RowKind::moe; });
  if (row == rows.end()) {
    if (p.ep > 1 && p.ep <= limits.max_ep)
      c.add(fmt::format("expert-model-parallel-size {} without experts", p.ep), fmt::format("num-experts {}", p.ep));
    return;
  }
  const MoeSpec& moe = row->moe;
  if (moe.experts > limits.max_experts)
    c.add(fmt::format("num-experts {} is more than this program runs, {}", moe.experts, limits.max_experts),
          "--dry-run, or no --num-experts");
  c.divides("num-experts", moe.experts, "expert-model-parallel-size", p.ep);
  if (c.positive("moe-ffn-hidden-size", row->ffn.ffn_hidden))
    c.divides("moe-ffn-hidden-size", row->ffn.ffn_hidden, "expert-tensor-parallel-size", p.etp);
  if (moe.topk < 1 || moe.topk > moe.experts)
    c.add(fmt::format("moe-router-topk {} is not in 1 to num-experts {}", moe.topk, moe.experts),
          fmt::format("moe-router-topk {}", std::clamp(moe.topk, 1, moe.experts)));
  if (moe.shared_hidden > 0)
    c.divides("moe-shared-expert-intermediate-size", moe.shared_hidden, "tensor-model-parallel-size", p.tp);
  if (row->ffn.bias) c.add("num-experts with biases in linear layers", "--disable-bias-linear");
  if (p.ep > 1 && p.tp > 1 && !p.sequence_parallel)
    c.add(fmt::format("expert-model-parallel-size {} with tensor-model-parallel-size {} and whole sequences", p.ep, p.tp),
          "--sequence-parallel");
}

void check_batch(Checker& c, const ModelSpec& m, const ParallelSpec& p, const BatchSpec& b) {
  if (!c.positive("seq-length", b.seq_length) || !c.positive("micro-batch-size", b.micro_batch) ||
      !c.positive("global-batch-size", b.global_batch))
    return;
  if (std::int64_t{b.seq_length} * b.micro_batch > INT32_MAX)
    c.add(fmt::format("seq-length {} times micro-batch-size {} is more than 2^31 tokens", b.seq_length, b.micro_batch),
          fmt::format("micro-batch-size {}", std::max<std::int64_t>(1, INT32_MAX / b.seq_length)));
  if (m.learned_positions && m.max_positions < b.seq_length)
    c.add(fmt::format("max-position-embeddings {} is less than seq-length {}", m.max_positions, b.seq_length),
          fmt::format("max-position-embeddings {}", b.seq_length));
  if (p.sequence_parallel && p.tp > 0)
    c.divides("seq-length", b.seq_length, "tensor-model-parallel-size (sequence parallel)", p.tp);
  if (p.cp > 1) c.divides("seq-length", b.seq_length, "2·context-parallel-size", 2 * std::int64_t{p.cp});
  if (p.dp < 1) return;
  const std::int64_t unit = std::int64_t{b.micro_batch} * p.dp;
  if (b.global_batch / unit > kMostMicroBatches)
    c.add(fmt::format("global-batch-size {} is {} micro-batches a step, more than {}", b.global_batch,
                      b.global_batch / unit, kMostMicroBatches),
          fmt::format("global-batch-size {}", unit * kMostMicroBatches));
  if (b.global_batch % unit == 0) return;
  std::string near = fmt::format("global-batch-size {}", nearest_multiples(unit, b.global_batch));
  if (b.global_batch % p.dp == 0)
    near += fmt::format(", or micro-batch-size {}", nearest_divisors(b.global_batch / p.dp, b.micro_batch));
  c.add(fmt::format("global-batch-size {} is not divisible by micro-batch-size·data-parallel-size {}", b.global_batch,
                    unit),
        near);
}

// Bytes of states are counted in 64 bits, some tens of bytes a parameter.
void check_size(Checker& c, const ModelSpec& m) {
  constexpr double kMost = 1e15;
  double all = 0;
  for (const auto& t : logical_tensors(m)) {
    double n = 1;
    for (const auto d : t.shape) n *= static_cast<double>(d);
    all += n;
  }
  if (all > kMost) c.add(fmt::format("the model has {:.3g} parameters, more than {:.0e}", all, kMost), "smaller sizes");
}

}  // namespace

std::optional<Problem> order_problem(const ParallelSpec& p) {
  const std::map<std::string, std::pair<int, int>> degrees{  // in the dense and the expert grid
      {"tp", {p.tp, p.etp}}, {"cp", {p.cp, 1}}, {"ep", {1, p.ep}}, {"dp", {p.dp, p.edp()}}, {"pp", {p.pp, p.pp}}};
  const std::string usual = ParallelSpec{}.order;
  std::set<std::string> seen;
  std::int64_t dense = 1, expert = 1;
  std::optional<Problem> clash;
  for (std::size_t at = 0; at <= p.order.size();) {
    const auto dash = std::min(p.order.find('-', at), p.order.size());
    const std::string name = p.order.substr(at, dash - at);
    at = dash + 1;
    const auto it = degrees.find(name);
    if (it == degrees.end() || !seen.insert(name).second)
      return Problem{fmt::format("rank-order '{}': '{}' is {}", p.order, name,
                                 it == degrees.end() ? "no axis" : "there twice"), "rank-order " + usual};
    if (name == "pp" && p.pp > 1 && dense != expert && p.world() % (p.etp * p.ep * p.pp) == 0)
      clash = Problem{fmt::format("rank-order '{}': pipeline ranks are {} apart for dense layers and {} for experts",
                                  p.order, dense, expert), "pp last, as in rank-order " + usual};
    dense *= it->second.first;
    expert *= it->second.second;
  }
  if (seen.size() != degrees.size())
    return Problem{fmt::format("rank-order '{}' names {} of {} axes", p.order, seen.size(), degrees.size()),
                   "rank-order " + usual};
  return clash;
}

namespace {

void check_stages(Checker& c, const ModelSpec& m, const ParallelSpec& p) {
  const int layers = m.num_layers();
  const std::int64_t all = std::int64_t{p.pp} * p.vpp;
  if (all > kMostStages)
    return c.add(fmt::format("pp·vpp {} is more than {} stages", all, kMostStages), fmt::format("pp·vpp {}", kMostStages));
  const int stages = static_cast<int>(all);
  if (p.stage_layers.empty()) {
    if (p.pp == 1 || c.divides("num-layers", layers, "pp·vpp", stages) || layers < stages) return;
    c.problems.back().nearest += fmt::format(", or --pipeline-model-parallel-layout '{}'",
                                             pipeline_layout_text(nearly_even_split(layers, stages)));
    return;
  }
  std::int64_t sum = 0;
  for (const int n : p.stage_layers) sum += n < 0 ? layers + 1 : n;
  if (std::ssize(p.stage_layers) != stages)
    c.add(fmt::format("layers are listed for {} stages, pp·vpp is {}", p.stage_layers.size(), stages),
          fmt::format("pp·vpp {}", p.stage_layers.size()));
  else if (sum != layers)
    c.add(fmt::format("stages hold {} layers, num-layers is {}", sum, layers), fmt::format("num-layers {}", sum));
}

// Every instance holds all shards once: of dense parameters over dp·cp, of experts over edp.
void check_instances(Checker& c, const ParallelSpec& p) {
  const char* name = "num-distributed-optimizer-instances";
  if (!c.positive(name, p.optimizer_instances) || p.optimizer_instances == 1) return;
  const std::int64_t ranks = std::int64_t{p.dp} * p.cp;
  if (c.divides("data-parallel-size·context-parallel-size", ranks, name, p.optimizer_instances) && p.edp() != ranks)
    c.divides("expert-data-parallel size", p.edp(), name, p.optimizer_instances);
  if (p.zero_stage == 0)
    c.add(fmt::format("{} {} without sharded optimizer state", name, p.optimizer_instances),
          "--use-distributed-optimizer, or " + std::string(name) + " 1");
}

// One degree that would make the layout fill the world, for each axis where there is one; or another world.
std::string nearest_worlds(const ParallelSpec& p, int world) {
  const std::int64_t product = std::int64_t{p.tp} * p.cp * p.pp * p.dp;
  std::string all;
  for (const auto& [name, degree] : {std::pair{"data-parallel-size", p.dp},
                                     {"context-parallel-size", p.cp},
                                     {"pipeline-model-parallel-size", p.pp},
                                     {"tensor-model-parallel-size", p.tp}}) {
    const std::int64_t others = product / degree;
    const bool is_dp = degree == p.dp && all.empty();
    if (world % others == 0 && (is_dp || degree > 1)) all += fmt::format("{} {}, or ", name, world / others);
  }
  return all + fmt::format("world size {}", product);
}

void check_degrees(Checker& c, const ModelSpec& m, const ParallelSpec& p, const Limits& limits) {
  const std::pair<const char*, int> degrees[] = {{"tensor-model-parallel-size", p.tp},
                                                 {"context-parallel-size", p.cp},
                                                 {"pipeline-model-parallel-size", p.pp},
                                                 {"data-parallel-size", p.dp},
                                                 {"expert-model-parallel-size", p.ep},
                                                 {"expert-tensor-parallel-size", p.etp},
                                                 {"num-virtual-stages-per-pipeline-rank", p.vpp}};
  bool ok = true;
  for (const auto& [name, degree] : degrees) ok &= c.positive(name, degree);
  if (!ok || 1.0 * p.tp * p.cp * p.pp * p.dp > kMaxWorld || 1.0 * p.ep * p.etp * p.pp > kMaxWorld) return;
  const std::int64_t model_ranks = std::int64_t{p.tp} * p.cp * p.pp, ranks = model_ranks * p.dp;
  if (limits.world > 0) {
    if (c.divides("world size", limits.world, "tp·cp·pp", model_ranks) && ranks != limits.world)
      c.add(fmt::format("world size {} is not tp·cp·pp·dp = {}·{}·{}·{} = {}", limits.world, p.tp, p.cp, p.pp, p.dp, ranks),
            nearest_worlds(p, limits.world));
  }
  if (p.ep > 1 || p.etp != p.tp)
    c.divides("world size", limits.world > 0 ? limits.world : ranks, "etp·ep·pp", std::int64_t{p.etp} * p.ep * p.pp);
  if (auto problem = order_problem(p)) c.problems.push_back(std::move(*problem));
  if (p.vpp > 1 && p.pp == 1)
    c.add(fmt::format("num-virtual-stages-per-pipeline-rank {} with pipeline-model-parallel-size 1", p.vpp),
          "num-virtual-stages-per-pipeline-rank 1, or pipeline-model-parallel-size 2");
  check_stages(c, m, p);
  const auto at_most = [&](const char* name, int v, int most) {
    if (v > most)
      c.add(fmt::format("{} {} is more than this program runs, {}", name, v, most), fmt::format("{} {}", name, most));
  };
  at_most("pipeline-model-parallel-size", p.pp, limits.max_pp);
  at_most("context-parallel-size", p.cp, limits.max_cp);
  at_most("expert-model-parallel-size", p.ep, limits.max_ep);
  if (p.etp != p.tp) at_most("expert-tensor-parallel-size", p.etp, limits.max_etp);
  at_most("ZeRO stage", p.zero_stage, limits.max_zero_stage);
  check_instances(c, p);
}

}  // namespace

std::vector<Problem> validate(const ModelSpec& m, const ParallelSpec& p, const BatchSpec& b, const Limits& limits,
                              int precision_flags) {
  Checker c;
  check_degrees(c, m, p, limits);
  if (const auto features = not_computed(m); !limits.any_model && !features.empty())
    c.add(fmt::format("the model has {}, which no run computes", features), "mt-ckpt and mt-reshard, which store, cut and convert it");
  check_model(c, m, p);
  check_experts(c, m, p, limits);
  check_batch(c, m, p, b);
  if (c.problems.empty()) check_size(c, m);
  if (precision_flags > 1)
    c.add(fmt::format("{} half precisions given, fp16 and bf16, at most 1", precision_flags), "--bf16 alone");
  if (limits.vocab_of_data && *limits.vocab_of_data > m.vocab_size)
    c.add(fmt::format("vocab-size {} is less than largest token id + 1 = {} of the data", m.vocab_size,
                      *limits.vocab_of_data),
          fmt::format("vocab-size {}", *limits.vocab_of_data));
  return c.problems;
}

void require_valid(const std::vector<Problem>& problems) {
  if (problems.empty()) return;
  std::string text = fmt::format("{} problem{}", problems.size(), problems.size() == 1 ? "" : "s");
  for (const auto& p : problems) text += fmt::format("\n  {}; try {}", p.what, p.nearest);
  throw Error(Code::config, text);
}

}  // namespace mt
