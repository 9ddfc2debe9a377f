#include "layout/pipeline_split.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::size_t kMostLetters = 100'000;

// Expands repeats; letters are E, t, m, L and '|'.
class LayoutReader {
 public:
  explicit LayoutReader(const std::string& text) : text_(text) {}

  std::string read() {
    std::string all = sequence(0);
    if (at_ < text_.size()) fail("')' closes nothing");
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::config,
                fmt::format("pipeline-model-parallel-layout '{}', character {}: {}", text_, at_ + 1, what), "",
                "letters E, t and L, stages parted by |, repeats as t*3 and (tt|)*2");
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string sequence(int depth) {
    std::string out;
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) {
      out += repeated(atom(depth));
      if (out.size() > kMostLetters) fail(fmt::format("more than {} letters", kMostLetters));
    }
    return out;
  }

  std::string atom(int depth) {
    const char c = text_[at_];
    if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
      ++at_;
      return {c};
    }
    if (c != '(') fail(c == '*' ? "'*' repeats nothing" : fmt::format("'{}' is no letter of a layout", c));
    if (depth > 100) fail("too many parentheses");
    ++at_;
    std::string inner = sequence(depth + 1);
    if (at_ >= text_.size()) fail("'(' is not closed");
    ++at_;
    return inner;
  }

  std::string repeated(std::string what) {
    skip();
    if (at_ >= text_.size() || text_[at_] != '*') return what;
    ++at_;
    skip();
    std::size_t times = 0;
    const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), times);
    if (code != std::errc()) fail("a number must follow '*'");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (times > kMostLetters || times * what.size() > kMostLetters)
      fail(fmt::format("more than {} letters", kMostLetters));
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += what;
    return out;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

std::string letters(int layers) {
  return layers <= 2 ? std::string(static_cast<std::size_t>(layers), 't') : fmt::format("t*{}", layers);
}

std::string near_text(std::int64_t wanted, std::int64_t below, std::int64_t above) {
  if (below > 0 && below != wanted && above != below) return fmt::format("{} or {}", below, above);
  return fmt::format("{}", above);
}

// Fills a spec's stages from one of the flags' forms; clashes go to `problems`.
struct Splitter {
  const PipelineSplit& split;
  int num_layers;
  ParallelSpec& p;
  std::vector<Problem> problems = {};
  int vpp = 1;
  std::vector<int> stages = {};

  void add(std::string what, std::string nearest) { problems.push_back({std::move(what), std::move(nearest)}); }
  std::string offer(int count) const {
    if (num_layers < count) return fmt::format("num-layers {}", count);
    return fmt::format("--pipeline-model-parallel-layout '{}'",
                       pipeline_layout_text(nearly_even_split(num_layers, count)));
  }

  void from_layout();
  void from_ends();
  void from_counted();
  void virtual_stages();
};

void Splitter::from_layout() {
  std::vector<LayoutStage> list;
  try {
    list = parse_pipeline_layout(split.layout);
  } catch (const Error& e) {
    return add(e.message(), e.hint());
  }
  const auto count = static_cast<int>(list.size());
  int layers = 0, multi_token = 0, embeddings = 0, losses = 0;
  for (const auto& s : list) {
    stages.push_back(s.layers);
    layers += s.layers, multi_token += s.multi_token, embeddings += s.embedding, losses += s.loss;
  }
  const std::string name = fmt::format("pipeline-model-parallel-layout '{}'", split.layout);
  if (count % p.pp != 0)
    add(fmt::format("{} has {} stages, no multiple of pipeline-model-parallel-size {}", name, count, p.pp),
        fmt::format("{} stages", near_text(count, count / p.pp * p.pp, (count / p.pp + 1) * p.pp)));
  vpp = std::max(1, count / p.pp);
  if (count % p.pp == 0 && p.vpp != 1 && p.vpp != vpp)
    add(fmt::format("{} has {} stages, {} for each of {} pipeline ranks, and virtual stages are said to be {}", name,
                    count, vpp, p.pp, p.vpp),
        fmt::format("num-virtual-stages-per-pipeline-rank {}, or none", vpp));
  if (embeddings != 1 || losses != 1 || !list.front().embedding || !list.back().loss)
    add(fmt::format("{} must hold one E, at its beginning, and one L, at its end", name), offer(count));
  if (layers != num_layers)
    add(fmt::format("{} has {} layers (letters t), num-layers is {}", name, layers, num_layers),
        fmt::format("num-layers {}, or {}", layers, offer(count % p.pp == 0 ? count : p.pp)));
  if (multi_token > 0)
    add(fmt::format("{} holds {} multi-token prediction layers (letters m), which this program does not have", name,
                    multi_token), "the same without m");
}

void Splitter::from_ends() {
  const auto name = [](const char* end) { return fmt::format("decoder-{}-pipeline-num-layers", end); };
  for (const auto& [end, n] : {std::pair{"first", split.first_layers}, {"last", split.last_layers}}) {
    if (!n) continue;
    if (*n < 0 || *n > num_layers)
      return add(fmt::format("{} {} is not in 0 to num-layers {}", name(end), *n, num_layers),
                 fmt::format("{} {}", name(end), std::max(1, num_layers / p.pp)));
    if (*n % vpp != 0)
      return add(fmt::format("{} {} is not divisible by num-virtual-stages-per-pipeline-rank {}", name(end), *n, vpp),
                 fmt::format("{} {}", name(end), near_text(*n, *n / vpp * vpp, (*n / vpp + 1) * vpp)));
  }
  if (p.pp == 1)
    return add(fmt::format("{} with pipeline-model-parallel-size 1", name(split.first_layers ? "first" : "last")),
               "pipeline-model-parallel-size 2, or none");
  const int first = split.first_layers.value_or(0), last = split.last_layers.value_or(0);
  const int others = p.pp - int{split.first_layers.has_value()} - int{split.last_layers.has_value()};
  const int rest = num_layers - first - last;
  const int unit = others * vpp;
  if (rest < 0 || (others == 0 ? rest != 0 : rest % unit != 0)) {
    // The end that is given (the last, when both are) makes up for it.
    const bool move_last = split.last_layers.has_value();
    const int kept = move_last ? first : 0, now = move_last ? last : first;
    std::string legal;
    for (int step = 0; step <= num_layers && legal.empty(); ++step)
      for (const int n : {now - step, now + step}) {
        const int left = num_layers - kept - n;
        if (n < 0 || n % vpp != 0 || left < 0 || (others == 0 ? left != 0 : left % unit != 0)) continue;
        if (!legal.empty() && step == 0) break;
        legal += fmt::format("{}{}", legal.empty() ? "" : " or ", n);
      }
    return add(fmt::format("num-layers {} less first {} and last {} is {}, which {} other pipeline ranks of {} virtual "
                           "stage{} cannot share evenly", num_layers, first, last, rest, others, vpp, vpp == 1 ? "" : "s"),
               (legal.empty() ? std::string() : fmt::format("{} {}, or ", name(move_last ? "last" : "first"), legal)) +
                   offer(p.pp * vpp));
  }
  for (int v = 0; v < vpp; ++v)
    for (int r = 0; r < p.pp; ++r)
      stages.push_back(r == 0 && split.first_layers         ? first / vpp
                       : r == p.pp - 1 && split.last_layers ? last / vpp
                                                            : rest / unit);
}

void Splitter::from_counted() {
  const int counted = int{split.count_embedding} + int{split.count_loss};
  if ((num_layers + counted) % (p.pp * vpp) != 0) {
    const int unit = p.pp * vpp, below = (num_layers + counted) / unit * unit - counted;
    return add(fmt::format("num-layers {} and {} counted for embedding and loss are not divisible by pp·vpp {}", num_layers,
                           counted, unit),
               fmt::format("num-layers {}, or {}", near_text(num_layers, below, below + unit), offer(unit)));
  }
  stages.assign(static_cast<std::size_t>(p.pp * vpp), (num_layers + counted) / (p.pp * vpp));
  stages.front() -= int{split.count_embedding};
  stages.back() -= int{split.count_loss};
}

// The number of virtual stages, from either of its spellings.
void Splitter::virtual_stages() {
  vpp = p.vpp;
  if (!split.layers_per_virtual_stage) return;
  const int each = *split.layers_per_virtual_stage;
  const int all = num_layers + int{split.count_embedding} + int{split.count_loss};
  const std::string name = fmt::format("num-layers-per-virtual-pipeline-stage {}", each);
  if (p.vpp != 1) return add(name + fmt::format(" and num-virtual-stages-per-pipeline-rank {}", p.vpp), "one of them");
  if (split.first_layers || split.last_layers)
    return add(name + " with a first or last stage of its own size", "num-virtual-stages-per-pipeline-rank");
  if (each < 1) return add(name + ", must be at least 1", "num-layers-per-virtual-pipeline-stage 1");
  if (all % p.pp != 0)
    return add(fmt::format("{}: {} layers are not divisible by pipeline-model-parallel-size {}", name, all, p.pp),
               fmt::format("pipeline-model-parallel-size {}, or {}", nearest_divisors(all, p.pp), offer(p.pp)));
  if (all / p.pp % each != 0)
    return add(fmt::format("{} does not divide the {} layers of a pipeline rank", name, all / p.pp),
               fmt::format("num-layers-per-virtual-pipeline-stage {}", nearest_divisors(all / p.pp, each)));
  vpp = all / p.pp / each;
}

}  // namespace

std::vector<LayoutStage> parse_pipeline_layout(const std::string& text) {
  std::vector<LayoutStage> stages(1);
  for (const char c : LayoutReader(text).read()) {
    LayoutStage& s = stages.back();
    if (s.loss)
      throw Error(Code::config, fmt::format("pipeline-model-parallel-layout '{}': L must stand at the end, once", text), "",
                  "a layout as Et|t|tL");
    switch (c) {
      case '|': stages.emplace_back(); break;
      case 't': ++s.layers; break;
      case 'm': ++s.multi_token; break;
      case 'E':
        if (s.embedding || s.layers > 0 || stages.size() > 1)
          throw Error(Code::config, fmt::format("pipeline-model-parallel-layout '{}': E must stand at the beginning, once", text), "",
                      "a layout as Et|t|tL");
        s.embedding = true;
        break;
      default: s.loss = true;
    }
  }
  return stages;
}

std::string pipeline_layout_text(const std::vector<int>& stages) {
  std::string out = "E";
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t run = i;
    while (run + 1 < stages.size() && stages[run] == stages[i]) ++run;  // the last stage has no '|' and stays out
    if (i > 0 && run - i > 1) out += fmt::format("({}|)*{}", letters(stages[i]), run - i);
    else if (i + 1 == stages.size()) return out + letters(stages[i]) + "L";
    else run = i + 1, out += letters(stages[i]) + "|";
    i = run;
  }
  return out + "L";
}

std::vector<int> nearly_even_split(int num_layers, int stages) {
  std::vector<int> out(static_cast<std::size_t>(stages), num_layers / stages);
  int more = num_layers % stages;
  for (int s = stages > 2 ? 1 : 0; more > 0; s = (s + 1) % stages, --more) ++out[static_cast<std::size_t>(s)];
  return out;
}

std::vector<Problem> split_stages(const PipelineSplit& split, int num_layers, ParallelSpec& parallel) {
  if (split == PipelineSplit{} || parallel.pp < 1 || parallel.vpp < 1 || num_layers < 1) return {};
  if (std::int64_t{parallel.pp} * parallel.vpp > kMostStages) return {};
  Splitter s{split, num_layers, parallel};
  const bool ends = split.first_layers || split.last_layers, counted = split.count_embedding || split.count_loss;
  if (int{ends} + int{counted} + int{!split.layout.empty()} > 1)
    s.add("a layout string, layers of the first or last stage, and a counted embedding or loss exclude each other",
          "one of them");
  else if (!split.layout.empty() && split.layers_per_virtual_stage)
    s.add("pipeline-model-parallel-layout and num-layers-per-virtual-pipeline-stage exclude each other", "one of them");
  if (s.problems.empty()) s.virtual_stages();
  if (!s.problems.empty()) return s.problems;
  if (!split.layout.empty()) s.from_layout();
  else if (ends) s.from_ends();
  else if (counted) s.from_counted();
  if (!s.problems.empty()) return s.problems;
  parallel.vpp = s.vpp;
  const bool even = std::all_of(s.stages.begin(), s.stages.end(), [&](int n) { return n == s.stages[0]; });
  parallel.stage_layers = even ? std::vector<int>{} : s.stages;
  return {};
}

std::vector<int> layers_of_stages(const ParallelSpec& p, int num_layers) {
  if (!p.stage_layers.empty()) return p.stage_layers;
  const int stages = p.pp * p.vpp;
  std::vector<int> out;
  for (std::int64_t s = 0; s < stages; ++s)
    out.push_back(static_cast<int>(num_layers * (s + 1) / stages - num_layers * s / stages));
  return out;
}

std::vector<StageRow> stage_map(const ParallelSpec& p, int num_layers) {
  std::vector<StageRow> out;
  int first = 0;
  for (const int n : layers_of_stages(p, num_layers)) {
    const auto s = static_cast<int>(out.size());
    std::string holds = s == 0 ? "embedding" : "";
    const auto also = [&holds](const std::string& more) { holds += (holds.empty() ? "" : ", ") + more; };
    if (n == 1) also(fmt::format("layer {}", first));
    if (n > 1) also(fmt::format("layers {}-{}", first, first + n - 1));
    if (s + 1 == p.pp * p.vpp) also("output");
    out.push_back({s, p.pp_rank_of_stage(s), s / p.pp, first, n, holds.empty() ? "nothing" : holds});
    first += n;
  }
  return out;
}

}  // namespace mt
