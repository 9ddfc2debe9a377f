#include "infer/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mt {

namespace {

double ratio_exp(double nll, std::int64_t n) { return n > 0 ? std::exp(nll / static_cast<double>(n)) : NAN; }

}  // namespace

double Perplexity::token_ppl() const { return ratio_exp(nll, tokens); }
double Perplexity::word_ppl() const { return ratio_exp(nll, words); }
double Perplexity::byte_ppl() const { return ratio_exp(nll, bytes); }
double Perplexity::bits_per_byte() const {
  return bytes > 0 ? nll / (static_cast<double>(bytes) * std::log(2.0)) : NAN;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t n = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    n += !space && !inside;
    inside = !space;
  }
  return n;
}

namespace {

// Inputs and targets of one window; targets before `first_counted` were counted by an earlier one.
struct Window {
  const std::vector<std::int32_t>* sequence;  // start id and tokens
  std::int64_t begin, length, first_counted;
};

std::vector<Window> windows_of(const std::vector<std::int32_t>& sequence, std::int64_t window, std::int64_t stride) {
  std::vector<Window> out;
  const std::int64_t targets = static_cast<std::int64_t>(sequence.size()) - 1;
  for (std::int64_t counted = 0; counted < targets;) {
    const std::int64_t end = out.empty() ? std::min(window, targets) : std::min(counted + stride, targets);
    const std::int64_t begin = std::max<std::int64_t>(0, end - window);
    out.push_back({&sequence, begin, end - begin, counted - begin});
    counted = end;
  }
  return out;
}

HostBatch batch_of(const std::vector<Window>& windows, std::size_t first, const BatchSpec& spec) {
  HostBatch b;
  b.cu_seqlens.push_back(0);
  for (int i = 0; i < spec.micro_batch; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i);
    for (std::int64_t t = 0; t < spec.seq_length; ++t) {
      const bool real = at < windows.size() && t < windows[at].length;
      const auto& w = windows[std::min(at, windows.size() - 1)];
      const auto place = static_cast<std::size_t>(w.begin + t);
      b.ids.push_back(real ? (*w.sequence)[place] : 0);
      b.labels.push_back(real ? (*w.sequence)[place + 1] : 0);
      b.mask.push_back(real && t >= w.first_counted ? 1.0f : 0.0f);
      b.ordinals.push_back(static_cast<std::int64_t>(at));
      b.positions.push_back(static_cast<std::int32_t>(t));
    }
    b.cu_seqlens.push_back((i + 1) * spec.seq_length);
  }
  return b;
}

// Start id and tokens of each document, and their counts into `p`.
std::vector<std::vector<std::int32_t>> sequences_of(const std::vector<ScoredDocument>& documents,
                                                    std::optional<std::int32_t> start_id, std::int64_t vocab_size,
                                                    Perplexity& p) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (const auto& d : documents) {
    std::vector<std::int32_t> s;
    if (start_id) s.push_back(*start_id);
    s.insert(s.end(), d.tokens.begin(), d.tokens.end());
    if (!start_id && !s.empty()) ++p.unscored_tokens;
    p.words += d.words;
    p.bytes += d.bytes;
    ++p.documents;
    for (auto id : s)
      if (id < 0 || id >= vocab_size)
        throw Error(Code::data, fmt::format("document {} holds token {}, the model has {}", p.documents, id, vocab_size), "",
                    "score with the tokenizer the model was trained with");
    sequences.push_back(std::move(s));
  }
  return sequences;
}

}  // namespace

Perplexity perplexity(Session& session, const std::vector<ScoredDocument>& documents,
                      const PerplexityOptions& options) {
  Perplexity p;
  const int positions = session.model().learned_positions ? session.model().max_positions : 0;
  p.window = options.window > 0 ? options.window : std::max(session.model().max_positions, 1);
  if (options.window == 0 && session.model().max_positions == 0) p.window = 1024;
  if (positions > 0 && p.window > positions)
    throw Error(Code::config, fmt::format("window {} is more than the model's {} positions", p.window, positions), "",
                fmt::format("--window {}", positions));
  p.stride = options.stride > 0 ? options.stride : std::max(1, p.window / 2);
  if (p.stride > p.window)
    throw Error(Code::config, fmt::format("stride {} is more than the window {}", p.stride, p.window), "",
                fmt::format("--stride {}", p.window));
  if (options.micro_batch < 1)
    throw Error(Code::config, fmt::format("micro-batch {} is less than 1", options.micro_batch), "", "--micro-batch-size 1");
  const auto sequences = sequences_of(documents, options.start_id, session.model().vocab_size, p);
  std::size_t longest = 2;
  for (const auto& s : sequences) longest = std::max(longest, s.size());
  p.window = static_cast<int>(std::min(static_cast<std::size_t>(p.window), longest - 1));
  p.stride = std::min(p.stride, p.window);
  std::vector<Window> windows;
  for (const auto& s : sequences) {
    if (s.empty()) continue;
    const auto w = windows_of(s, p.window, p.stride);
    windows.insert(windows.end(), w.begin(), w.end());
  }
  if (windows.empty()) throw Error(Code::data, "nothing to score: no document has a token with context");
  p.windows = static_cast<std::int64_t>(windows.size());

  auto& dp = *session.groups().dp;
  const auto share = (p.windows + dp.size() - 1) / dp.size();
  const int micro_batch = static_cast<int>(std::min<std::int64_t>(options.micro_batch, share));
  const BatchSpec spec{p.window, micro_batch, micro_batch * dp.size()};
  auto runner = session.runner(spec);
  double sums[2] = {0, 0};
  const auto step = static_cast<std::size_t>(spec.micro_batch);
  for (std::size_t at = step * static_cast<std::size_t>(dp.rank()); at < windows.size();
       at += step * static_cast<std::size_t>(dp.size())) {
    const HostBatch batch = batch_of(windows, at, spec);
    const auto loss = runner.executor->score(batch);
    for (std::size_t t = 0; t < loss.size(); ++t)
      if (batch.mask[t] != 0) sums[0] += static_cast<double>(loss[t]), sums[1] += 1;
  }
  dp.all_reduce(session.stream(), View(sums, DType::f64, {2}), Reduce::sum).wait_host();
  p.nll = sums[0];
  p.tokens = static_cast<std::int64_t>(sums[1]);
  return p;
}

}  // namespace mt
