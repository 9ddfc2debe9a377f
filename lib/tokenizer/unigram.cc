#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr double kRestartAbove = 100000.0;  // SentencePiece's

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
  }
}

template <bool single>
void Unigram::find_best(std::string_view piece, std::vector<UnigramScratch::Node>& nodes) const {
  const auto rounded = [](double score) { return single ? static_cast<double>(static_cast<float>(score)) : score; };
  const double unknown_score = single ? static_cast<double>(static_cast<float>(parts_.min_score) -
                                                            static_cast<float>(kUnknownPenalty))
                                      : parts_.min_score - kUnknownPenalty;
  nodes.assign(piece.size() + 1, {});
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
    bool has_character = false;
    std::uint32_t node = PrefixTrie::kRoot;
    for (std::size_t i = begin; i < piece.size() && trie_.step(node, piece[i]); ++i) {
      const std::int32_t id = trie_.value(node);
      if (id < 0) continue;
      double score = scores_[static_cast<std::size_t>(id)];
      if (std::isnan(score)) score = static_cast<double>(static_cast<float>(0.1 * static_cast<double>(i - begin)));
      offer(i + 1, begin, id, score + here);
      has_character |= i + 1 == next;
    }
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
  if (piece.empty()) return;
  const bool single = parts_.rounding == UnigramRounding::sentencepiece;
  single ? find_best<true>(piece, scratch.nodes) : find_best<false>(piece, scratch.nodes);
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
}

std::string Unigram::description() const {
  return fmt::format("unigram\n{} {} {}", parts_.unknown, parts_.byte_fallback, static_cast<int>(parts_.rounding));
}

}  // namespace mt::tokenizer
