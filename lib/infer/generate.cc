#include "infer/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"

namespace mt {

std::int32_t sample(std::vector<float> logits, const SamplingOptions& o, std::uint64_t sequence,
                    std::uint64_t position) {
  MT_CHECK(!logits.empty(), "no logits");
  for (float x : logits)
    if (std::isnan(x)) throw Error(Code::data, "the model's logits are not numbers", "", "its weights may have diverged");
  if (o.temperature <= 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::size_t keep = order.size();
  if (o.top_k > 0) keep = std::min(keep, static_cast<std::size_t>(o.top_k));
  const double top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  if (keep < order.size() || o.top_p < 1)
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(), better);
  order.resize(keep);
  std::vector<double> weight;
  double total = 0;
  for (auto id : order) {
    weight.push_back(std::exp((static_cast<double>(logits[static_cast<std::size_t>(id)]) - top) / o.temperature));
    total += weight.back();
  }
  if (o.top_p < 1) {
    double sum = 0;
    std::size_t n = 0;
    while (n < weight.size() && sum < o.top_p * total) sum += weight[n++];
    weight.resize(std::max<std::size_t>(1, n));
    total = std::accumulate(weight.begin(), weight.end(), 0.0);
  }
  const auto word = philox(make_key(o.seed, Purpose::sampling, 0), static_cast<std::uint32_t>(position),
                           static_cast<std::uint32_t>(position >> 32), static_cast<std::uint32_t>(sequence),
                           static_cast<std::uint32_t>(sequence >> 32));
  double u = static_cast<double>(std::uint64_t{word[0]} << 21 | word[1] >> 11) * 0x1p-53 * total;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    u -= weight[i];
    if (u < 0) return order[i];
  }
  return order[weight.size() - 1];
}

namespace {

HostBatch batch_at(std::span<const std::int32_t> ids, std::int64_t past) {
  HostBatch b;
  b.ids.assign(ids.begin(), ids.end());
  b.ordinals.assign(ids.size(), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) b.positions.push_back(static_cast<std::int32_t>(past) + static_cast<std::int32_t>(i));
  b.cu_seqlens = {0, static_cast<std::int32_t>(ids.size())};
  return b;
}


}  // namespace

Generated generate(Session& session, const std::vector<std::int32_t>& prompt, std::int64_t max_new,
                   const SamplingOptions& sampling, std::optional<std::int32_t> stop_id, std::uint64_t sequence,
                   const std::function<void(std::int32_t)>& on_token) {
  if (prompt.empty()) throw Error(Code::data, "the prompt has no tokens", "", "give some text, or a tokenizer with an end id");
  const auto length = static_cast<std::int64_t>(prompt.size());
  const auto& model = session.model();
  for (auto id : prompt)
    if (id < 0 || id >= model.vocab_size)
      throw Error(Code::data, fmt::format("the prompt holds token {}, the model has {}", id, model.vocab_size));
  if (model.learned_positions && length + max_new > model.max_positions)
    throw Error(Code::config, fmt::format("{} prompt tokens and {} new ones are more than the model's {} positions",
                                          length, max_new, model.max_positions),
                "", length < model.max_positions ? fmt::format("--max-new-tokens {}", model.max_positions - length)
                                                 : fmt::format("a prompt of less than {} tokens", model.max_positions));
  const auto start = Clock::now();
  const int capacity = static_cast<int>(length + max_new);
  // One model for the prompt and one for single tokens; both tables of positions reach the last token.
  auto prefill = session.runner({static_cast<int>(length), 1, 1, capacity});
  auto step = session.runner({1, 1, 1, capacity});
  Arena arena(session.stream().device());
  auto caches = prefill.executor->make_caches(arena, capacity);
  Generated g;
  auto logits = prefill.executor->next_logits(batch_at(prompt, 0), caches);
  g.prefill_s = seconds_since(start);
  const auto decoding = Clock::now();
  for (std::int64_t n = 0; n < max_new; ++n) {
    const std::int32_t id = sample(std::move(logits), sampling, sequence, static_cast<std::uint64_t>(length + n));
    if (stop_id && id == *stop_id) {
      g.stopped = true;
      break;
    }
    g.ids.push_back(id);
    if (on_token) on_token(id);
    if (n + 1 < max_new) logits = step.executor->next_logits(batch_at({&id, 1}, length + n), caches);
  }
  g.decode_s = seconds_since(decoding);
  return g;
}

}  // namespace mt
