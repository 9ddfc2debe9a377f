#include "data/masked_dataset.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "data/numpy_draws.h"

namespace mt::data {

namespace {

constexpr std::int32_t kLongSentence = 512;
constexpr double kGeometric = 0.2;

std::int32_t draw_target(std::int32_t ratio, std::int32_t most, std::mt19937& random) {
  if (ratio == 0) return most;
  const auto drawn = static_cast<std::uint32_t>(random());
  if (drawn % static_cast<std::uint32_t>(ratio) != 0) return most;
  return static_cast<std::int32_t>(2 + drawn % static_cast<std::uint32_t>(most - 1));
}

// The samples of one document.
void cut_document(std::int64_t first, std::int64_t end, std::span<const std::int32_t> lengths,
                  const SentenceRunOptions& o, std::int32_t ratio, std::mt19937& random,
                  std::vector<SentenceRun>& runs) {
  std::int64_t left = end - first;
  if (left < o.min_sentences) return;
  const auto of = [&](std::int64_t s) { return lengths[static_cast<std::size_t>(s)]; };
  if (left > 1)
    for (std::int64_t s = first; s < end; ++s)
      if (of(s) > kLongSentence) return;
  std::int32_t target = draw_target(ratio, o.max_length, random);
  std::int64_t tokens = 0, sentences = 0;
  for (std::int64_t s = first, start = first; s < end; ++s) {
    tokens += of(s);
    ++sentences;
    --left;
    const bool full = tokens >= target && left > 1 && sentences >= o.min_sentences;
    if (!full && left != 0) continue;
    runs.push_back({start, s + 1, target});
    start = s + 1;
    target = draw_target(ratio, o.max_length, random);
    tokens = sentences = 0;
  }
}

}  // namespace

std::vector<SentenceRun> build_sentence_runs(std::span<const std::int64_t> document_bounds,
                                             std::span<const std::int32_t> lengths, const SentenceRunOptions& o) {
  MT_CHECK(o.max_length >= 2 && o.short_seq_prob >= 0 && o.short_seq_prob <= 1 && !document_bounds.empty(),
           "max_length {} short_seq_prob {}", o.max_length, o.short_seq_prob);
  const auto ratio =
      o.short_seq_prob > 0 ? static_cast<std::int32_t>(std::round(1.0 / o.short_seq_prob)) : std::int32_t{0};
  std::mt19937 random(o.seed);
  std::vector<SentenceRun> runs;
  do {
    const std::size_t before = runs.size();
    for (std::size_t d = 0; d + 1 < document_bounds.size(); ++d)
      cut_document(document_bounds[d], document_bounds[d + 1], lengths, o, ratio, random, runs);
    if (runs.size() == before) break;  // nothing will ever come
  } while (static_cast<std::int64_t>(runs.size()) < o.num_samples);
  std::mt19937_64 shuffle(std::uint64_t{o.seed} + 1);
  for (std::size_t i = runs.size(); i-- > 1;) std::swap(runs[i], runs[static_cast<std::size_t>(shuffle() % (i + 1))]);
  return runs;
}

std::vector<SentenceRun> build_sentence_runs(const IndexedDataset& tokens, SequenceRange documents,
                                             const SentenceRunOptions& options) {
  std::vector<std::int64_t> bounds;
  for (std::int64_t d = documents.begin; d <= documents.end; ++d) bounds.push_back(tokens.document_begin(d));
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(tokens.num_sequences()));
  for (std::int64_t s = 0; s < tokens.num_sequences(); ++s) lengths.push_back(tokens.length(s));
  auto runs = build_sentence_runs(bounds, lengths, options);
  if (runs.empty())
    throw Error(Code::data,
                fmt::format("none of {} documents has {} or more sentences of up to {} tokens",
                            documents.end - documents.begin, options.min_sentences, kLongSentence),
                tokens.prefix(), "a sentence is a sequence: encode lists of strings");
  return runs;
}

WordPieces word_pieces_of(const tokenizer::Tokenizer& tokenizer, int sentinels) {
  const auto find = [&](std::initializer_list<const char*> names) {
    std::optional<Id> id;
    for (const char* name : names)
      if (!id) id = tokenizer.find(name);
    if (!id)
      throw Error(Code::data, fmt::format("the tokenizer has no token {}", *names.begin()), "", "a vocabulary of BERT");
    return *id;
  };
  WordPieces w;
  w.cls = find({"[CLS]", "<s>"});
  w.sep = find({"[SEP]", "</s>"});
  w.mask = find({"[MASK]", "<mask>"});
  w.pad = find({"[PAD]", "<pad>"});
  w.bos = w.cls;
  w.eos = w.sep;
  for (Id id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view spelling = tokenizer.spelling(id);
    w.continues.push_back(spelling.starts_with("##") ? 1 : 0);
    if (!spelling.empty()) w.ids.push_back(id);
  }
  Id next = tokenizer.vocab_size();
  for (int i = 0; i < sentinels; ++i) {
    const std::optional<Id> own = tokenizer.find(fmt::format("<extra_id_{}>", i));
    if (!own) w.ids.push_back(next);
    w.sentinels.push_back(own ? *own : next++);
  }
  return w;
}

namespace {

// Places of words, or of pieces.
std::vector<std::vector<std::int32_t>> candidates_of(std::span<const Id> ids, const WordPieces& pieces,
                                                     bool whole_words) {
  std::vector<std::vector<std::int32_t>> words;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Id id = ids[i];
    if (id == pieces.cls || id == pieces.sep) continue;
    MT_CHECK(id >= 0 && static_cast<std::size_t>(id) < pieces.continues.size(), "id {} of {}", id,
             pieces.continues.size());
    const bool goes_on = pieces.continues[static_cast<std::size_t>(id)] != 0;
    if (!goes_on || !whole_words || words.empty()) words.emplace_back();
    words.back().push_back(static_cast<std::int32_t>(i));
  }
  return words;
}

std::vector<double> ngram_shares(const MaskingOptions& o) {
  std::vector<double> p;
  for (int n = 1; n <= o.max_ngram; ++n) p.push_back(1.0 / n);
  for (int again = 0; again < 2; ++again) {  // Megatron divides once for all n-grams, once for those of a candidate
    const double sum = numpy_sum(p);
    for (double& x : p) x /= sum;
    if (again == 0 && o.longer_ngrams) std::reverse(p.begin(), p.end());
  }
  return p;
}

Id in_place_of(Id id, const WordPieces& pieces, const MaskingOptions& o, NumpyRandomState& random) {
  if (o.always_mask || draw_uniform(random) < 0.8) return pieces.mask;
  if (draw_uniform(random) < 0.5) return id;
  return pieces.ids[draw_up_to(random, static_cast<std::uint32_t>(pieces.ids.size() - 1))];
}

}  // namespace

Masked mask_tokens(std::span<const Id> ids, std::int32_t target, const WordPieces& pieces, const MaskingOptions& o,
                   NumpyRandomState& random) {
  MT_CHECK(o.max_ngram >= 1 && o.max_ngram <= 128 && !pieces.ids.empty(), "max_ngram {}", o.max_ngram);
  const auto words = candidates_of(ids, pieces, o.whole_words);
  const double most = std::min(o.mask_prob * target,
                               std::max(1.0, std::nearbyint(static_cast<double>(ids.size()) * o.mask_prob)));
  const std::vector<double> shares = ngram_shares(o);
  std::vector<std::size_t> order(words.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  shuffle_list(random, order);
  Masked masked{{ids.begin(), ids.end()}, {}, {}, {}};
  std::vector<char> taken(ids.size(), 0);
  std::size_t count = 0;
  for (const std::size_t first : order) {
    if (static_cast<double>(count) >= most) break;
    auto n = static_cast<std::size_t>(
        o.geometric ? std::min<std::int64_t>(draw_geometric(random, kGeometric), o.max_ngram)
                    : static_cast<std::int64_t>(draw_choice(random, shares)) + 1);
    std::vector<std::int32_t> places;
    for (; n > 0; --n) {  // the longest n-gram from here that leaves no more than is wanted
      places.clear();
      for (std::size_t w = first; w < std::min(words.size(), first + n); ++w)
        places.insert(places.end(), words[w].begin(), words[w].end());
      if (most >= static_cast<double>(count + places.size())) break;
    }
    if (n == 0) continue;
    const auto is_taken = [&](std::int32_t p) { return taken[static_cast<std::size_t>(p)] != 0; };
    if (std::any_of(places.begin(), places.end(), is_taken)) continue;
    for (const std::int32_t place : places) {
      const auto p = static_cast<std::size_t>(place);
      taken[p] = 1;
      masked.ids[p] = in_place_of(ids[p], pieces, o, random);
    }
    count += places.size();
    masked.spans.push_back(std::move(places));
  }
  shuffle_list(random, order);  // Megatron's second draw, whose order only swapping would read
  for (std::size_t p = 0; p < taken.size(); ++p) {
    if (taken[p] == 0) continue;
    masked.places.push_back(static_cast<std::int32_t>(p));
    masked.labels.push_back(ids[p]);
  }
  std::sort(masked.spans.begin(), masked.spans.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  return masked;
}

}  // namespace mt::data
