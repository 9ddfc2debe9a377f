#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

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

BlendedDataset::BlendedDataset(std::vector<GptDataset> members, IndexArrays order, std::vector<MemberPlan> plan)
    : members_(std::move(members)), order_(std::move(order)), blended_(order_.size() > 0), plan_(std::move(plan)) {
  MT_CHECK(!members_.empty() && (members_.size() == 1 || blended_), "{} members", members_.size());
  if (!blended_) return;
  member_ = order_.array<std::int16_t>(0);
  ordinal_ = order_.array<std::int64_t>(1);
}

std::pair<std::size_t, std::int64_t> BlendedDataset::place(std::int64_t k) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  if (!blended_) return {0, k};
  const auto i = static_cast<std::size_t>(k);
  return {static_cast<std::size_t>(member_[i]), ordinal_[i]};
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

TokenFiles::File& TokenFiles::file(const std::string& prefix) {
  File& f = files_[prefix];
  if (!f.tokens) f.tokens = std::make_unique<IndexedDataset>(prefix);
  return f;
}

const IndexedDataset& TokenFiles::open(const std::string& prefix) { return *file(prefix).tokens; }

const std::string& TokenFiles::content(const std::string& prefix) {
  File& f = file(prefix);
  if (f.content.empty()) f.content = f.tokens->content_text();
  return f.content;
}

namespace {

// A split that would get nothing: say what would give it one sequence.
[[noreturn]] void empty_split(const SetRequest& request, std::int64_t sequences, const std::string& prefix) {
  const std::string works = sequences >= 3 ? fmt::format("--split {},1,1 gives each set one or more", sequences - 2)
                                           : std::string("more documents");
  throw Error(Code::config,
              fmt::format("the {} set gets 0 of {} documents{}", request.name, sequences,
                          request.own_path ? "" : " under --split " + request.split),
              prefix, request.own_path ? "a file with documents" : request.name == "training" ? works : works + "; or turn the evaluation off (--eval-iters 0)");
}

// The documents of a member that are this set's.   fails  Error{config}: none
SequenceRange member_range(const SetRequest& request, const IndexedDataset& tokens) {
  const SequenceRange range = split_ranges(parse_split(request.split), tokens.num_sequences())[request.part];
  if (range.begin >= range.end) empty_split(request, tokens.num_sequences(), tokens.prefix());
  return range;
}

// How many samples are made of member i.   weights: normalised, or none
GptDatasetOptions member_options(const SetRequest& request, const std::vector<double>& weights, std::size_t i) {
  GptDatasetOptions options;
  options.seq_length = request.seq_length;
  options.seed = request.seed;
  if (!weights.empty())
    options.num_samples = std::max<std::int64_t>(member_samples(*request.num_samples, weights[i], request.surplus).made, 1);
  else if (request.path.prefixes.size() == 1) options.num_samples = request.num_samples.value_or(0);
  return options;
}

// A blend while it is put together.
struct Blend {
  std::vector<GptDataset> members;
  std::vector<MemberPlan> plan;
  std::vector<double> weights;
  std::int64_t size = 0, available = 0;
};

void add_member(const SetRequest& request, std::size_t i, TokenFiles& files, IndexCache& cache, Blend& blend) {
  const std::string& prefix = request.path.prefixes[i];
  const IndexedDataset& tokens = files.open(prefix);
  const SequenceRange range = member_range(request, tokens);
  const GptDatasetOptions options = member_options(request, blend.weights, i);
  if (!blend.weights.empty()) blend.size += member_samples(*request.num_samples, blend.weights[i], request.surplus).drawn;
  blend.members.emplace_back(tokens, range, options, cache, cache.off() ? std::string() : files.content(prefix));
  const GptDataset& made = blend.members.back();
  blend.available += made.size();
  MemberPlan plan;
  plan.prefix = tokens.prefix();
  plan.made = made.size();
  plan.sequences = range.end - range.begin;
  plan.tokens = made.counts().tokens_per_epoch;
  blend.plan.push_back(std::move(plan));
}

IndexArrays order_of(const SetRequest& request, const Blend& blend, IndexCache& cache) {
  const auto size = static_cast<std::size_t>(blend.size);
  IndexKey key;
  key.name = "blend";
  key.beside = fs::path(blend.plan.front().prefix).parent_path();
  key.array_bytes = {2 * size, 8 * size};
  std::vector<std::int64_t> sizes;
  for (const GptDataset& m : blend.members) sizes.push_back(m.size());
  const bool exhaustive = !request.num_samples;
  key.text = json_line({{"order", exhaustive ? "exhaustive blend" : "blend"},
                        {"members", sizes.size()},
                        {"samples", blend.size},
                        {"of", hash_text(exhaustive ? xxh3(sizes.data(), 8 * sizes.size())
                                                    : xxh3(blend.weights.data(), 8 * blend.weights.size()))}});
  return cache.get(key, [&] {
    std::vector<IndexMemory> memory;
    memory.emplace_back(2 * size);
    memory.emplace_back(8 * size);
    const BlendOrder order{memory[0].as<std::int16_t>(), memory[1].as<std::int64_t>()};
    if (exhaustive) fill_exhaustive_order(sizes, order);
    else fill_blend_order(blend.weights, order);
    return IndexArrays(std::move(memory));
  });
}

// What the order draws of each member, which must be there.
void count_draws(const SetRequest& request, std::span<const std::int16_t> order, Blend& blend) {
  for (const std::int16_t m : order) ++blend.plan[static_cast<std::size_t>(m)].samples;
  for (const MemberPlan& m : blend.plan)
    if (m.samples > m.made)
      throw Error(Code::config,
                  fmt::format("the {} blend draws {} samples where {} were made", request.name, m.samples, m.made),
                  m.prefix, fmt::format("a larger --mid-level-dataset-surplus than {}", request.surplus));
}

void fill_shares(const SetRequest& request, Blend& blend) {
  std::int64_t all = 0;
  for (const MemberPlan& m : blend.plan) all += m.samples;
  for (std::size_t i = 0; i < blend.plan.size(); ++i) {
    MemberPlan& m = blend.plan[i];
    m.weight = blend.weights.empty() ? static_cast<double>(m.samples) / static_cast<double>(std::max<std::int64_t>(all, 1))
                                     : blend.weights[i];
    m.epochs = static_cast<double>(m.samples) * static_cast<double>(request.seq_length) /
               static_cast<double>(std::max<std::int64_t>(m.tokens, 1));
  }
}

// Whether weights decide.   fails  Error{config}: too many members; weights of a set that is read whole
bool is_weighted(const SetRequest& request) {
  const std::size_t n = request.path.prefixes.size();
  if (n > kMostMembers)
    throw Error(Code::config, fmt::format("a blend of {} token files: at most {}", n, kMostMembers), "",
                "join some of them with mt-preprocess merge");
  // A file for this set alone is read as it is; a weight on it, as anywhere, has nothing to be weighed against.
  const bool weighted = !request.path.weights.empty() && !(request.own_path && n == 1);
  if (weighted && !request.num_samples)
    throw Error(Code::config, fmt::format("the {} set is read whole, weights would read some files less", request.name),
                "--full-validation", "leave the weights out, or --full-validation");
  return weighted;
}

// An unweighted blend reads every file once at most.
void require_enough(const SetRequest& request, std::int64_t size) {
  if (request.num_samples && size < *request.num_samples)
    throw Error(Code::config,
                fmt::format("{} {} samples are wanted, one epoch of the files gives {}", *request.num_samples,
                            request.name, size),
                "--data-path", "give weights (WEIGHT PREFIX ...) to read files more than once");
}

}  // namespace

std::vector<ExpectedMember> expected_plan(const SetRequest& request, TokenFiles& files) {
  const bool weighted = is_weighted(request);
  const std::vector<double> weights = weighted ? normalised(request.path.weights) : std::vector<double>();
  std::vector<ExpectedMember> plan;
  std::int64_t available = 0;
  for (const std::string& prefix : request.path.prefixes) {
    const IndexedDataset& tokens = files.open(prefix);
    const SequenceRange range = member_range(request, tokens);
    ExpectedMember m;
    m.prefix = tokens.prefix();
    m.type = tokens.type_name();
    m.documents = range.end - range.begin;
    const GptDatasetOptions options = member_options(request, weights, plan.size());
    const SampleCounts counts = count_samples(SequenceLengths(tokens), range, options, m.prefix);
    m.tokens = counts.tokens_per_epoch;
    m.made = counts.samples;
    available += m.made;
    if (weighted) m.samples = member_samples(*request.num_samples, weights[plan.size()], request.surplus).drawn;
    else m.samples = request.path.prefixes.size() == 1 ? request.num_samples.value_or(m.made) : m.made;
    plan.push_back(std::move(m));
  }
  if (plan.size() == 1 || weighted) return plan;
  require_enough(request, available);
  for (ExpectedMember& m : plan)
    if (request.num_samples)
      m.samples = std::llround(static_cast<double>(m.samples) * static_cast<double>(*request.num_samples) /
                               static_cast<double>(std::max<std::int64_t>(available, 1)));
  return plan;
}

BlendedDataset build_set(const SetRequest& request, TokenFiles& files, IndexCache& cache) {
  const std::size_t n = request.path.prefixes.size();
  const bool weighted = is_weighted(request);
  Blend blend;
  if (weighted) blend.weights = normalised(request.path.weights);
  for (std::size_t i = 0; i < n; ++i) add_member(request, i, files, cache, blend);
  if (n == 1 && !weighted) {
    blend.plan[0].samples = request.num_samples.value_or(blend.available);
    fill_shares(request, blend);
    return BlendedDataset(std::move(blend.members), {}, std::move(blend.plan));
  }
  if (weighted) {
    blend.weights = normalised(blend.weights);  // Megatron does it twice, and the last bit may move
  } else {
    blend.size = request.num_samples ? std::min(*request.num_samples, blend.available) : blend.available;
    std::vector<double> sizes;
    for (const GptDataset& m : blend.members) sizes.push_back(static_cast<double>(m.size()));
    blend.weights = normalised(sizes);
  }
  IndexArrays order = order_of(request, blend, cache);
  count_draws(request, order.array<std::int16_t>(0), blend);
  require_enough(request, blend.size);
  fill_shares(request, blend);
  return BlendedDataset(std::move(blend.members), std::move(order), std::move(blend.plan));
}

}  // namespace mt::data
