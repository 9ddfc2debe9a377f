#include "data/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "data/cached_pieces.h"

namespace mt::data {

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;  // a space may become three bytes, places have 32 bits

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {
  added_ = AddedTokens(parts_.added, [this](const std::string& content) {
    std::string buffer, other;
    return std::string(parts_.normalizer.apply(content, buffer, other));
  });
  fingerprint_ = hash_parts();
}

std::uint64_t PipelineTokenizer::hash_parts() const {
  Xxh3Stream hash;
  const auto number = [&hash](std::uint64_t n) { hash.update(&n, sizeof n); };
  const auto text = [&](std::string_view s) {
    number(s.size());
    hash.update(s.data(), s.size());
  };
  text(std::visit([](const auto& model) { return model.description(); }, parts_.model));
  for (Id id = 0; id < parts_.tokens.size(); ++id) text(parts_.tokens.has(id) ? parts_.tokens.token(id) : "\xFF(gap)");
  if (const auto* bpe = std::get_if<CharacterBpe>(&parts_.model)) {
    for (const Merge& m : bpe->parts().merges) {
      const std::int32_t row[3] = {m.left, m.right, m.result};
      hash.update(row, sizeof row);
    }
  }
  if (const auto* unigram = std::get_if<Unigram>(&parts_.model)) {
    for (const UnigramParts::Piece& piece : unigram->parts().pieces) hash.update(&piece.score, sizeof piece.score);
  }
  text(parts_.normalizer.description());
  text(parts_.pre_tokenizer.description());
  for (const AddedToken& t : parts_.added) {
    text(t.content);
    number(static_cast<std::uint64_t>(t.id));
    number((t.special ? 1u : 0u) | (t.normalized ? 2u : 0u) | (t.lstrip ? 4u : 0u) | (t.rstrip ? 8u : 0u) |
           (t.single_word ? 16u : 0u));
  }
  return hash.digest();
}

void PipelineTokenizer::encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  if (text.size() > kMaxText) {
    throw Error(Code::data, fmt::format("a document of {} bytes: wanted up to 1 GiB", text.size()));
  }
  added_.walk(
      text, {parts_.parse_special, scratch.specials_as_text, out},
      [&](std::string_view segment) { return parts_.normalizer.apply(segment, scratch.normalized, scratch.other); },
      [&](std::string_view s, bool at_start) { encode_plain(s, at_start, scratch, out); });
}

void PipelineTokenizer::encode_plain(std::string_view text, bool at_start, EncodeScratch& scratch,
                                     std::vector<Id>& out) const {
  if (text.empty()) return;
  CutText& cut = scratch.cut;
  parts_.pre_tokenizer.apply(text, at_start, cut);
  if (const auto* bpe = std::get_if<CharacterBpe>(&parts_.model)) bpe->cut(cut.text, cut.pieces, cut.other_pieces);
  const std::span<const TextSpan> pieces = cut.pieces;
  std::visit(
      [&](const auto& model) {
        const auto miss = [&](std::string_view piece, std::vector<Id>& ids) {
          if constexpr (std::is_same_v<decltype(model), const Unigram&>) {
            model.encode(piece, scratch.unigram, ids);
          } else {
            model.encode(piece, ids);
          }
        };
        for (std::size_t i = 0; i < pieces.size(); i += kPieceBatch) {
          const auto some = pieces.subspan(i, std::min(kPieceBatch, pieces.size() - i));
          encode_cached(PlacedPieces(cut.text.data(), some), some.size(), scratch, out, miss);
        }
      },
      parts_.model);
}

void PipelineTokenizer::decode(std::span<const Id> ids, std::string& out) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const Id id : ids) {
    std::string token;
    parts_.tokens.decode({&id, 1}, token);
    tokens.push_back(std::move(token));
  }
  parts_.decoder.decode(tokens, out);
}

}  // namespace mt::data
