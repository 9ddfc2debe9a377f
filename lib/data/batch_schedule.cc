#include "data/batch_schedule.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"

namespace mt::data {

namespace {

constexpr std::int64_t kMostIncrements = 100'000;  // each is a part of the list

}  // namespace

std::string BatchSchedule::ramp_up_problem(const std::vector<std::int64_t>& w, int full) {
  if (w.size() != 3) return fmt::format("rampup-batch-size wants START INCREMENT SAMPLES, found {} numbers", w.size());
  if (w[0] < 1 || w[1] < 1 || w[2] < 0)
    return fmt::format("rampup-batch-size {} {} {}: start and increment must be 1 or more, samples 0 or more", w[0], w[1],
                       w[2]);
  if (w[2] > kMostSamples) return fmt::format("rampup-batch-size: {} samples are more than {}", w[2], kMostSamples);
  if (w[0] > full) return fmt::format("rampup-batch-size starts at {}, above global-batch-size {}", w[0], full);
  if ((full - w[0]) % w[1] != 0)
    return fmt::format("rampup-batch-size: from {} to global-batch-size {} is no multiple of the increment {}", w[0], full,
                       w[1]);
  if ((full - w[0]) / w[1] > kMostIncrements)
    return fmt::format("rampup-batch-size: {} increments are more than {}", (full - w[0]) / w[1], kMostIncrements);
  return "";
}

BatchSchedule BatchSchedule::ramp_up(const std::vector<std::int64_t>& w, int full) {
  MT_CHECK(ramp_up_problem(w, full).empty(), "{}", ramp_up_problem(w, full));
  BatchSchedule s(static_cast<int>(w[0]));
  const std::int64_t increments = (full - w[0]) / w[1];
  if (increments == 0 || w[2] == 0) return BatchSchedule(full);
  const double each = static_cast<double>(w[2]) / static_cast<double>(increments);
  for (std::int64_t k = 1; k <= increments; ++k) {
    // The first sample count whose quotient by `each`, in double as Megatron divides, is k or more.
    auto from = static_cast<std::int64_t>(static_cast<double>(k) * each);
    while (static_cast<double>(from) / each >= static_cast<double>(k) && from > 0) --from;
    while (static_cast<double>(from) / each < static_cast<double>(k)) ++from;
    s.parts_.push_back({from, static_cast<int>(w[0] + k * w[1])});
  }
  return s;
}

namespace {

// A whole number with K, M, B or T behind it; −1: it is none, or too large to count.
std::int64_t tokens_of(const std::string& text) {
  char* end = nullptr;
  double n = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || std::isspace(static_cast<unsigned char>(text[0])) != 0) return -1;
  const std::string unit(end);
  const struct { const char* name; double size; } units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  for (const auto& u : units) {
    if (unit != u.name) continue;
    n *= u.size;
    const bool counts = n >= 0 && n <= static_cast<double>(BatchSchedule::kMostSamples) && n == std::floor(n);
    return counts ? static_cast<std::int64_t>(n) : -1;
  }
  return -1;
}

}  // namespace

BatchSchedule::Steps BatchSchedule::read_steps(const std::vector<std::string>& words, int seq_length) {
  std::string text;
  for (const auto& w : words) text += w + " ";
  std::istringstream in(text);
  Steps steps;
  std::int64_t before = -1;
  for (std::string word; in >> word;) {
    const auto colon = word.find(':');
    const std::string size = colon == std::string::npos ? "" : word.substr(colon + 1);
    const std::int64_t tokens = tokens_of(word.substr(0, colon));
    char* end = nullptr;
    const long long batch = std::strtoll(size.c_str(), &end, 10);
    if (tokens < 0 || size.empty() || *end != '\0' || batch < 1 || batch > INT_MAX)
      steps.problem = fmt::format("step-batch-size-schedule: '{}' is no TOKENS:SAMPLES", word);
    else if (steps.parts.empty() && tokens != 0)
      steps.problem = fmt::format("step-batch-size-schedule begins at {} tokens, not at 0", tokens);
    else if (tokens <= before)
      steps.problem = fmt::format("step-batch-size-schedule: {} tokens do not come behind {}", tokens, before);
    if (!steps.problem.empty()) return steps;
    before = tokens;
    const std::int64_t from = (tokens + seq_length - 1) / seq_length;
    // Of thresholds within one sample the last counts.
    if (!steps.parts.empty() && steps.parts.back().first == from) steps.parts.pop_back();
    steps.parts.emplace_back(from, static_cast<int>(batch));
  }
  if (steps.parts.empty()) steps.problem = "step-batch-size-schedule is empty";
  return steps;
}

int BatchSchedule::Steps::largest() const {
  int largest = 1;
  for (const auto& [from, size] : parts) largest = std::max(largest, size);
  return largest;
}

BatchSchedule BatchSchedule::of_steps(const Steps& steps) {
  MT_CHECK(steps.problem.empty(), "{}", steps.problem);
  BatchSchedule s;
  for (const auto& [from, batch] : steps.parts) s.parts_.push_back({from, batch});
  return s;
}

int BatchSchedule::at(std::int64_t consumed) const {
  int batch = parts_.front().batch;
  for (const auto& part : parts_)
    if (consumed >= part.from) batch = part.batch;
  return batch;
}

namespace {

constexpr std::int64_t kNoEnd = INT64_MAX;

}  // namespace

std::int64_t BatchSchedule::samples_after(std::int64_t iterations) const {
  std::int64_t consumed = 0;
  for (std::size_t i = 0; i < parts_.size() && iterations > 0; ++i) {
    const std::int64_t end = i + 1 < parts_.size() ? parts_[i + 1].from : kNoEnd, batch = parts_[i].batch;
    if (consumed >= end) continue;
    const std::int64_t here = end == kNoEnd ? iterations : std::min(iterations, (end - consumed + batch - 1) / batch);
    consumed += here * batch;
    iterations -= here;
  }
  return consumed;
}

std::int64_t BatchSchedule::iterations_within(std::int64_t samples) const {
  std::int64_t consumed = 0, iterations = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::int64_t end = i + 1 < parts_.size() ? parts_[i + 1].from : kNoEnd, batch = parts_[i].batch;
    if (consumed >= end) continue;
    const std::int64_t fit = (samples - consumed) / batch;
    const std::int64_t here = end == kNoEnd ? fit : std::min(fit, (end - consumed + batch - 1) / batch);
    consumed += here * batch;
    iterations += here;
    if (here == fit && end != kNoEnd && consumed < end) break;
  }
  return iterations;
}

std::vector<int> BatchSchedule::sizes() const {
  std::vector<int> all;
  for (const auto& part : parts_) all.push_back(part.batch);
  return all;
}

}  // namespace mt::data
