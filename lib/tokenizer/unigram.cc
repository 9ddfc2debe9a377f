#include "tokenizer/unigram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "tokenizer/unicode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::tokenizer {

namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr double kRestartAbove = 100000.0;  // SentencePiece's
constexpr std::size_t kWordsAtOnce = 128;
constexpr std::size_t kMostCached = 48;  // bytes: longer words are seldom certain, and seldom seen again
constexpr double kRounding = 1.0 / 256;     // of one addition in single precision, below 2^17
constexpr std::string_view kWordStart = "\xE2\x96\x81";

// Whether a token holds a space behind something else.
bool goes_over_a_word(std::string_view token) {
  for (std::size_t hit = token.find(kWordStart); hit != std::string_view::npos; hit = token.find(kWordStart, hit + 1)) {
    if (hit > 0 && (hit < kWordStart.size() || token.substr(hit - kWordStart.size(), kWordStart.size()) != kWordStart)) return true;
  }
  return false;
}

PrefixTrie build_trie(const std::vector<UnigramParts::Piece>& pieces) {
  std::vector<PrefixTrie::Key> keys;
  keys.reserve(pieces.size());
  for (std::size_t id = pieces.size(); id-- > 0;) {  // of equal pieces the last counts
    keys.emplace_back(pieces[id].text, static_cast<std::int32_t>(id));
  }
  return PrefixTrie(std::move(keys));
}

}  // namespace

Unigram::Unigram(UnigramParts parts) : parts_(std::move(parts)), trie_(build_trie(parts_.pieces)) {
  if (parts_.unknown >= static_cast<std::int32_t>(parts_.pieces.size())) {
    throw Error(Code::corrupt,
                fmt::format("the unknown id {} is outside the vocabulary of {}", parts_.unknown, parts_.pieces.size()));
  }
  for (const UnigramParts::Piece& piece : parts_.pieces) {
    if (!std::isfinite(piece.score)) {
      throw Error(Code::corrupt, fmt::format("the score of '{}' is no number", piece.text));
    }
    scores_.push_back(piece.user_defined ? std::numeric_limits<double>::quiet_NaN() : piece.score);
    largest_step_ = std::max(largest_step_, std::abs(piece.score));
  }
  largest_step_ = std::max(largest_step_, std::abs(parts_.min_score) + kUnknownPenalty);
  words_stand_apart_ = parts_.rounding == UnigramRounding::sentencepiece && trie_.find(kWordStart) >= 0 &&
                       std::none_of(parts_.pieces.begin(), parts_.pieces.end(),
                                    [](const UnigramParts::Piece& piece) { return goes_over_a_word(piece.text); });
}

// Show offer(end, id) the tokens that begin at `begin`, whose character ends at `next`.   gives  whether that is a token
template <class Offer>
bool Unigram::tokens_at(std::string_view text, std::size_t begin, std::size_t next, const Offer& offer) const {
  bool has_character = false;
  std::uint32_t node = PrefixTrie::kRoot;
  for (std::size_t i = begin; i < text.size() && trie_.step(node, text[i]); ++i) {
    const std::int32_t id = trie_.value(node);
    if (id < 0) continue;
    offer(i + 1, id);
    has_character |= i + 1 == next;
  }
  return has_character;
}

template <bool single>
void Unigram::find_best(std::string_view piece, double start, std::vector<UnigramScratch::Node>& nodes) const {
  const auto rounded = [](double score) { return single ? static_cast<double>(static_cast<float>(score)) : score; };
  const double unknown_score = single ? static_cast<double>(static_cast<float>(parts_.min_score) -
                                                            static_cast<float>(kUnknownPenalty))
                                      : parts_.min_score - kUnknownPenalty;
  nodes.assign(piece.size() + 1, {});
  nodes.front().score = start;
  std::size_t frontier = 0;  // the last place that was reached
  const auto offer = [&nodes, &frontier, rounded](std::size_t end, std::size_t begin, std::int32_t id, double score) {
    UnigramScratch::Node& node = nodes[end];
    frontier = std::max(frontier, end);
    score = rounded(score);
    if (node.begin >= 0 && score <= node.score) return;
    node = {score, static_cast<std::int32_t>(begin), id};
  };
  for (std::size_t begin = 0; begin < piece.size();) {
    if (single && std::abs(nodes[begin].score) > kRestartAbove) {  // scores begin anew, so that small ones still count
      const double offset = nodes[begin].score;
      for (std::size_t i = begin; i <= frontier; ++i) {
        if (i == begin || nodes[i].begin >= 0) nodes[i].score = rounded(nodes[i].score - offset);
      }
    }
    const double here = nodes[begin].score;
    const std::size_t next = begin + decode_utf8(piece.data() + begin).size;
    const bool has_character = tokens_at(piece, begin, next, [&](std::size_t end, std::int32_t id) {
      double score = scores_[static_cast<std::size_t>(id)];
      if (std::isnan(score)) score = static_cast<double>(static_cast<float>(0.1 * static_cast<double>(end - 1 - begin)));
      offer(end, begin, id, score + here);
    });
    if (!has_character) offer(next, begin, parts_.unknown, unknown_score + here);
    begin = next;
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (parts_.byte_fallback && std::all_of(text.begin(), text.end(), [this](char b) {
        return parts_.byte_ids[static_cast<unsigned char>(b)] >= 0;
      })) {
    for (const char b : text) ids.push_back(parts_.byte_ids[static_cast<unsigned char>(b)]);
    return;
  }
  if (parts_.unknown < 0) {
    throw Error(Code::data, fmt::format("'{}' has no token, and the tokenizer no unknown token", text.substr(0, 40)));
  }
  ids.push_back(parts_.unknown);
}

void Unigram::encode(std::string_view piece, UnigramScratch& scratch, std::vector<std::int32_t>& ids) const {
  encode_from(0, piece, scratch, ids);
}

// From the score at which the piece begins.   gives  the one at which it ends
double Unigram::encode_from(double start, std::string_view piece, UnigramScratch& scratch,
                            std::vector<std::int32_t>& ids) const {
  if (piece.empty()) return start;
  const bool single = parts_.rounding == UnigramRounding::sentencepiece;
  single ? find_best<true>(piece, start, scratch.nodes) : find_best<false>(piece, start, scratch.nodes);
  const double score = scratch.nodes.back().score;
  // Backwards over the best cuts, then turned: nodes[k] = k-th token of the way, unknown ones in a row joined.
  std::vector<UnigramScratch::Node>& nodes = scratch.nodes;
  std::size_t count = 0, place = nodes.size();
  for (auto end = static_cast<std::int32_t>(piece.size()); end > 0;) {
    const UnigramScratch::Node node = nodes[static_cast<std::size_t>(end)];
    // Tokens are at most as many as bytes still ahead of `end`, so writing from the back overwrites nothing needed.
    if (count > 0 && node.id == parts_.unknown && nodes[place].id == parts_.unknown) {
      nodes[place].begin = node.begin;
    } else {
      nodes[--place] = node;
      ++count;
    }
    end = node.begin;
  }
  for (std::size_t k = place; k < nodes.size(); ++k) {
    if (nodes[k].id != parts_.unknown) {
      ids.push_back(nodes[k].id);
      continue;
    }
    const auto begin = static_cast<std::size_t>(nodes[k].begin);
    const std::size_t end = k + 1 < nodes.size() ? static_cast<std::size_t>(nodes[k + 1].begin) : piece.size();
    add_unknown(piece.substr(begin, end - begin), ids);
  }
  return score;
}

// Whether the best cut of a word is the same at whatever score it begins, and holds ordinary tokens alone. Scratch.nodes
// has it then.
bool Unigram::is_certain(std::string_view word, UnigramScratch& scratch) const {
  std::vector<UnigramScratch::Node>& nodes = scratch.nodes;
  nodes.assign(word.size() + 1, {});
  scratch.seconds.assign(word.size() + 1, -std::numeric_limits<double>::infinity());
  int characters = 0;
  for (std::size_t begin = 0; begin < word.size(); ++characters) {
    const double here = nodes[begin].score;
    bool user_defined = false;
    const auto offer = [&](std::size_t end, std::int32_t id) {
      const double score = scores_[static_cast<std::size_t>(id)] + here;
      user_defined |= std::isnan(score);
      UnigramScratch::Node& node = nodes[end];
      double& second = scratch.seconds[end];
      if (node.begin >= 0 && score <= node.score) {
        second = std::max(second, score);
        return;
      }
      if (node.begin >= 0) second = node.score;
      node = {score, static_cast<std::int32_t>(begin), id};
    };
    const std::size_t next = begin + decode_utf8(word.data() + begin).size;
    if (!tokens_at(word, begin, next, offer) || user_defined) return false;
    begin = next;
  }
  // Two ways to a place, each rounded once a character at most.
  const double enough = 2 * kRounding * (characters + 1);
  for (auto end = static_cast<std::int32_t>(word.size()); end > 0; end = nodes[static_cast<std::size_t>(end)].begin) {
    const auto place = static_cast<std::size_t>(end);
    if (nodes[place].score - scratch.seconds[place] < enough) return false;
  }
  return true;
}

// What the caches keep of a word: its ids, or none where they have to be worked out each time.
std::span<const std::int32_t> Unigram::ids_to_keep(std::string_view word, UnigramScratch& scratch) const {
  std::vector<std::int32_t>& ids = scratch.word;
  ids.clear();
  if (!is_certain(word, scratch)) return {};
  for (auto end = static_cast<std::int32_t>(word.size()); end > 0; end = scratch.nodes[static_cast<std::size_t>(end)].begin) {
    ids.push_back(scratch.nodes[static_cast<std::size_t>(end)].id);
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

// A word from the score at which it begins; `known`: its ids, if they are certain.   gives  the score at which it ends
double Unigram::encode_word(double start, std::string_view word, std::span<const std::int32_t> known,
                            UnigramScratch& scratch, std::vector<std::int32_t>& ids) const {
  const bool may_restart = std::abs(start) + largest_step_ * static_cast<double>(word.size()) >= kRestartAbove;
  if (known.empty() || may_restart) return encode_from(start, word, scratch, ids);
  double score = start;
  for (const std::int32_t id : known) {
    score = static_cast<double>(static_cast<float>(scores_[static_cast<std::size_t>(id)] + score));
  }
  ids.insert(ids.end(), known.begin(), known.end());
  return score;
}

namespace {

// Lengths of the next words from `position` on, at most lengths.size() of them, as SplitPattern::next gives pieces.
std::size_t next_words(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) {
  std::size_t n = 0, begin = position, at = position;
  const auto is_start = [text](std::size_t i) { return text.substr(i, kWordStart.size()) == kWordStart; };
  const auto put = [&](std::size_t end) {  // unless the character before is one too
    if (end == begin || (end >= begin + kWordStart.size() && is_start(end - kWordStart.size()))) return;
    lengths[n++] = static_cast<std::uint32_t>(end - begin);
    begin = end;
  };
#if defined(__SSE2__)
  // Places are taken from masks of sixteen bytes, which reach two further.
  for (; n + 16 <= lengths.size() && text.size() - at >= 18; at += 16) {
    const auto equal = [&](std::size_t k) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at + k));
      return _mm_cmpeq_epi8(v, _mm_set1_epi8(kWordStart[k]));
    };
    const __m128i all = _mm_and_si128(equal(2), _mm_and_si128(equal(1), equal(0)));
    for (auto bits = static_cast<std::uint32_t>(_mm_movemask_epi8(all)); bits != 0; bits &= bits - 1) {
      put(at + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }
#endif
  for (; n < lengths.size() && at < text.size(); ++at) {
    if (is_start(at)) put(at);
  }
  if (at == text.size() && n < lengths.size() && begin < at) {
    lengths[n++] = static_cast<std::uint32_t>(at - begin);
    begin = at;
  }
  position = begin;
  return n;
}

}  // namespace

double Unigram::encode_words(std::string_view text, std::span<const std::uint32_t> lengths, double score,
                             UnigramCaches caches, std::vector<std::int32_t>& ids) const {
  std::uint64_t hashes[kWordsAtOnce];
  WordCache::Key keys[kWordsAtOnce];
  std::size_t begin = 0;
  for (std::size_t k = 0; k < lengths.size(); begin += lengths[k++]) {
    const std::string_view word = text.substr(begin, lengths[k]);
    if (word.size() <= WordCache::kMaxKeyBytes) {
      keys[k] = text.size() - begin >= 16 ? WordCache::key_of_readable(word.data(), word.size())
                                          : WordCache::key_of(word.data(), word.size());
      hashes[k] = WordCache::hash_of(keys[k]);
      caches.words.prefetch(hashes[k]);
    } else if (word.size() <= kMostCached) {
      hashes[k] = LongWordCache::hash_of(word);
      caches.long_words.prefetch(hashes[k]);
    }
  }
  begin = 0;
  for (std::size_t k = 0; k < lengths.size(); begin += lengths[k++]) {
    const std::string_view word = text.substr(begin, lengths[k]);
    std::span<const std::int32_t> known;
    if (word.size() <= WordCache::kMaxKeyBytes) {
      const WordCache::Entry* entry = caches.words.find(keys[k], hashes[k]);
      known = entry != nullptr ? caches.words.ids(*entry) : ids_to_keep(word, caches.scratch);
      if (entry == nullptr) caches.words.insert(keys[k], hashes[k], known);
    } else if (word.size() <= kMostCached) {
      const LongWordCache::Entry* entry = caches.long_words.find(word, hashes[k]);
      known = entry != nullptr ? caches.long_words.ids(*entry) : ids_to_keep(word, caches.scratch);
      if (entry == nullptr) caches.long_words.insert(word, hashes[k], known);
    }
    score = encode_word(score, word, known, caches.scratch, ids);
  }
  return score;
}

void Unigram::encode_words(std::string_view text, UnigramCaches caches, std::vector<std::int32_t>& ids) const {
  double score = 0;
  std::uint32_t lengths[kWordsAtOnce];
  std::size_t position = 0, done = 0;
  while (const std::size_t n = next_words(text, position, lengths)) {
    score = encode_words(text.substr(done), {lengths, n}, score, caches, ids);
    done = position;
  }
}

std::string Unigram::description() const {
  return fmt::format("unigram\n{} {} {}", parts_.unknown, parts_.byte_fallback, static_cast<int>(parts_.rounding));
}

}  // namespace mt::tokenizer
