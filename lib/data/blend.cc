#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace mt::data {

namespace {

std::optional<double> as_number(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0') return std::nullopt;
  return value;
}

}  // namespace

DataPath parse_data_path(const std::vector<std::string>& words) {
  if (words.empty()) throw Error(Code::usage, "no token file given", "--data-path",
                                 "--data-path PREFIX, --train-data-path PREFIX, or --mock-data");
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < words.size(); i += 2) numbers += as_number(words[i]) ? 1 : 0;
  if (words.size() % 2 == 1 || numbers == 0) return {words, {}};
  if (numbers != words.size() / 2) {
    throw Error(Code::usage,
                fmt::format("{} of {} words at even places are numbers: wanted all (weights) or none", numbers,
                            words.size() / 2),
                "--data-path", "write WEIGHT PREFIX WEIGHT PREFIX ...");
  }
  DataPath path;
  double sum = 0;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    path.weights.push_back(*as_number(words[i]));
    path.prefixes.push_back(words[i + 1]);
    if (!(path.weights.back() >= 0) || !std::isfinite(path.weights.back())) {
      throw Error(Code::usage, fmt::format("weight {}: wanted 0 or more", words[i]), "--data-path");
    }
    sum += path.weights.back();
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw Error(Code::usage, fmt::format("the weights sum to {}: wanted a number above 0", sum), "--data-path");
  }
  return path;
}

std::array<double, 3> parse_split(const std::string& text) {
  constexpr const char* kBetween = ", \t";
  constexpr const char* kHint = "up to three shares such as 969,30,1";
  std::array<double, 3> shares{};
  std::size_t found = 0;
  for (std::size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::optional<double> share = as_number(word);
    if (!share) throw Error(Code::usage, fmt::format("'{}' in '{}' is no number", word, text), "--split", kHint);
    if (!std::isfinite(*share) || *share < 0) {
      throw Error(Code::usage, fmt::format("'{}' in '{}': wanted 0 or more", word, text), "--split", kHint);
    }
    if (found == 3) throw Error(Code::usage, fmt::format("'{}': more than three shares", text), "--split", kHint);
    shares[found++] = *share;
    begin = text.find_first_not_of(kBetween, end);
  }
  if (found == 0) throw Error(Code::usage, fmt::format("'{}': no share given", text), "--split", kHint);
  const double sum = shares[0] + shares[1] + shares[2];
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw Error(Code::usage, fmt::format("'{}': the shares sum to {}", text, sum), "--split", kHint);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

std::array<SequenceRange, 3> split_ranges(const std::array<double, 3>& shares, std::int64_t num_sequences) {
  std::array<SequenceRange, 3> ranges;
  double low = 0;
  const auto place = [num_sequences](double x) {
    return static_cast<std::int64_t>(std::nearbyint(x * static_cast<double>(num_sequences)));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const double high = low + shares[i];
    ranges[i] = {place(low), std::min(place(high), num_sequences)};
    low = high;
  }
  return ranges;
}

BlendOrder blend_order(std::span<const double> weights, std::int64_t size) {
  MT_CHECK(!weights.empty() && weights.size() < 32767, "{} members", weights.size());
  BlendOrder order;
  order.member.reserve(static_cast<std::size_t>(size));
  order.ordinal.reserve(static_cast<std::size_t>(size));
  std::vector<std::int64_t> drawn(weights.size());
  for (std::int64_t k = 0; k < size; ++k) {
    const double x = static_cast<double>(std::max<std::int64_t>(k, 1));
    std::size_t most = 0;
    double largest = weights[0] * x - static_cast<double>(drawn[0]);
    for (std::size_t i = 1; i < weights.size(); ++i) {
      const double behind = weights[i] * x - static_cast<double>(drawn[i]);
      if (behind > largest) {
        largest = behind;
        most = i;
      }
    }
    order.member.push_back(static_cast<std::int16_t>(most));
    order.ordinal.push_back(drawn[most]++);
  }
  return order;
}

BlendedDataset::BlendedDataset(std::vector<GptDataset> members, BlendOrder order)
    : members_(std::move(members)), order_(std::move(order)) {
  MT_CHECK(!members_.empty() && (members_.size() == 1 || !order_.member.empty()), "{} members", members_.size());
}

std::int64_t BlendedDataset::size() const {
  return order_.member.empty() ? members_.front().size() : static_cast<std::int64_t>(order_.member.size());
}

std::pair<std::size_t, std::int64_t> BlendedDataset::place(std::int64_t k) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  if (order_.member.empty()) return {0, k};
  const auto i = static_cast<std::size_t>(k);
  return {static_cast<std::size_t>(order_.member[i]), order_.ordinal[i]};
}

std::int64_t BlendedDataset::fetch(std::int64_t k, std::span<std::int32_t> out) const {
  const auto [member, ordinal] = place(k);
  return members_[member].fetch(ordinal, out);
}

std::int64_t BlendedDataset::fetch(std::int64_t k, std::span<std::int32_t> out,
                                   std::vector<std::int32_t>& document_starts) const {
  const auto [member, ordinal] = place(k);
  return members_[member].fetch(ordinal, out, document_starts);
}

namespace {

constexpr const char* kSplitNames[] = {"training", "validation", "test"};

// A split that would get nothing: say what would give it one sequence.
[[noreturn]] void empty_split(const SplitsRequest& request, std::size_t split, std::int64_t sequences,
                              const std::string& prefix) {
  const std::string works = sequences >= 3 ? fmt::format("--split {},1,1 gives each set one or more", sequences - 2)
                                           : std::string("more documents");
  throw Error(
      Code::config,
      fmt::format("the {} set gets 0 of {} documents under --split {}", kSplitNames[split], sequences, request.split),
      prefix, works + "; or turn the evaluation off (--eval-iters 0)");
}

std::optional<BlendedDataset> build_split(const SplitsRequest& request, std::size_t split,
                                          const std::vector<std::unique_ptr<IndexedDataset>>& files) {
  const std::int64_t wanted = request.num_samples[split];
  if (wanted <= 0) return std::nullopt;
  const std::array<double, 3> shares = parse_split(request.split);
  const std::size_t n = files.size();
  std::vector<double> weights = request.path.weights;
  const bool weighted = !weights.empty();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= sum;
  std::vector<GptDataset> members;
  std::int64_t blend_size = 0, available = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const SequenceRange range = split_ranges(shares, files[i]->num_sequences())[split];
    if (range.begin >= range.end) empty_split(request, split, files[i]->num_sequences(), files[i]->prefix());
    GptDatasetOptions options;
    options.seq_length = request.seq_length;
    options.seed = request.seed;
    options.num_samples = wanted;
    if (n > 1 && weighted) {  // half a percent more than the share, as Megatron draws
      const double target = std::ceil(static_cast<double>(wanted) * weights[i]);
      options.num_samples = static_cast<std::int64_t>(std::ceil(target * 1.005));
      blend_size += static_cast<std::int64_t>(target);
      if (options.num_samples == 0) options.num_samples = 1;
    } else if (n > 1) {
      options.num_samples = 0;  // one epoch each
    }
    members.emplace_back(*files[i], range, options);
    available += members.back().size();
  }
  if (n == 1) return BlendedDataset(std::move(members), {});
  if (!weighted) {
    for (const GptDataset& m : members)
      weights.push_back(static_cast<double>(m.size()) / static_cast<double>(available));
    blend_size = std::min(wanted, available);
  }
  BlendOrder order = blend_order(weights, blend_size);
  std::vector<std::int64_t> drawn(n);
  for (const std::int16_t m : order.member) ++drawn[static_cast<std::size_t>(m)];
  for (std::size_t i = 0; i < n; ++i) {
    if (drawn[i] > members[i].size()) {
      throw Error(Code::data, fmt::format("the blend draws {} samples of {}", drawn[i], members[i].size()),
                  files[i]->prefix(), "fewer samples, or other weights");
    }
  }
  if (blend_size < wanted) {
    throw Error(Code::config,
                fmt::format("{} {} samples are wanted, one epoch of the files gives {}", wanted, kSplitNames[split],
                            blend_size),
                "--data-path", "give weights (WEIGHT PREFIX ...) to read files more than once");
  }
  return BlendedDataset(std::move(members), std::move(order));
}

}  // namespace

Splits build_splits(const SplitsRequest& request) {
  Splits splits;
  for (const std::string& prefix : request.path.prefixes)
    splits.files.push_back(std::make_unique<IndexedDataset>(prefix));
  splits.train = build_split(request, 0, splits.files);
  splits.valid = build_split(request, 1, splits.files);
  splits.test = build_split(request, 2, splits.files);
  return splits;
}

}  // namespace mt::data
