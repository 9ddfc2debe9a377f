#include "tokenizer/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "tokenizer/cached_pieces.h"

namespace mt::tokenizer {

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;  // a space may become three bytes, places have 32 bits

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {
  added_ = AddedTokens(parts_.added, [this](const std::string& content) {
    std::string buffer, other;
    return std::string(parts_.normalizer.apply(content, buffer, other));
  });
  const auto* bpe = std::get_if<CharacterBpe>(&parts_.model);
  const bool searched = std::any_of(parts_.added.begin(), parts_.added.end(),
                                    [](const AddedToken& token) { return token.normalized; });
  if (bpe != nullptr && bpe->cuts() && !parts_.space_character.empty() && !searched) spaced_ = bpe;
  const Normalizer::Step* normal = parts_.normalizer.only_step();
  const PreTokenizer::Step* cut = parts_.pre_tokenizer.only_step();
  if (!searched && normal != nullptr && cut != nullptr && normal->kind == Normalizer::Kind::bert &&
      cut->kind == PreTokenizer::Kind::bert) {
    bert_.emplace(*normal);
  }
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
  if (spaced_ != nullptr) {
    return added_.walk(
        text, {parts_.parse_special, scratch.specials_as_text, out}, [](std::string_view segment) { return segment; },
        [&](std::string_view s, bool) { encode_spaced(s, scratch, out); });
  }
  const auto normal = [&](std::string_view segment) {
    return parts_.normalizer.apply(segment, scratch.normalized, scratch.other);
  };
  if (bert_) {
    return added_.walk(
        text, {parts_.parse_special, scratch.specials_as_text, out}, [](std::string_view segment) { return segment; },
        [&](std::string_view s, bool at_start) {
          if (!bert_->apply(s, scratch.cut)) return encode_plain(normal(s), at_start, scratch, out);
          encode_cut(scratch, out);
        });
  }
  added_.walk(
      text, {parts_.parse_special, scratch.specials_as_text, out}, normal,
      [&](std::string_view s, bool at_start) { encode_plain(s, at_start, scratch, out); });
}

// Text as it stands, unless the character itself is in it.
void PipelineTokenizer::encode_spaced(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  if (text.empty()) return;
  if (text.find(parts_.space_character) == std::string_view::npos) {
    return encode_parts(text, parts_.prepends_space, scratch, out);
  }
  encode_parts(parts_.normalizer.apply(text, scratch.normalized, scratch.other), false, scratch, out);
}

// The first part with a space in front where `spaced`, then the others; a part is what no merge leaves.
void PipelineTokenizer::encode_parts(std::string_view text, bool spaced, EncodeScratch& scratch,
                                     std::vector<Id>& out) const {
  CachedPieces pieces(scratch, out, [&](std::span<const std::string_view> some, WordsOfSymbols& ids) {
    spaced_->encode(some, scratch.misses.first, ids);
  });
  std::uint32_t lengths[kPieceBatch];
  std::size_t position = 0, done = 0;
  while (const std::size_t n = spaced_->next(text, position, lengths)) {
    std::span<const std::uint32_t> some(lengths, n);
    if (spaced) {
      scratch.other = " ";
      scratch.other += text.substr(0, some.front());
      const std::uint32_t size[] = {some.front() + 1};
      pieces.add(TouchingPieces(scratch.other.data(), size, scratch.other.data() + size[0]), 1);
      done = some.front();
      some = some.subspan(1);
      spaced = false;
    }
    pieces.add(TouchingPieces(text.data() + done, some, text.data() + text.size()), some.size());
    done = position;
  }
  pieces.finish();
}

void PipelineTokenizer::encode_plain(std::string_view text, bool at_start, EncodeScratch& scratch,
                                     std::vector<Id>& out) const {
  if (text.empty()) return;
  CutText& cut = scratch.cut;
  parts_.pre_tokenizer.apply(text, at_start, cut);
  if (const auto* bpe = std::get_if<CharacterBpe>(&parts_.model)) bpe->cut(cut.text, cut.pieces);
  encode_cut(scratch, out);
}

// The pieces of scratch.cut through the model.
void PipelineTokenizer::encode_cut(EncodeScratch& scratch, std::vector<Id>& out) const {
  const CutText& cut = scratch.cut;
  const std::span<const TextSpan> pieces = cut.pieces;
  std::visit(
      [&](const auto& model) {
        const auto miss = [&](std::span<const std::string_view> some, WordsOfSymbols& ids) {
          if constexpr (std::is_same_v<decltype(model), const CharacterBpe&>) {
            model.encode(some, scratch.misses.first, ids);
          } else if constexpr (std::is_same_v<decltype(model), const Unigram&>) {
            one_by_one([&](std::string_view piece, auto& out_ids) { model.encode(piece, scratch.unigram, out_ids); })(some, ids);
          } else {
            one_by_one([&](std::string_view piece, auto& out_ids) { model.encode(piece, out_ids); })(some, ids);
          }
        };
        CachedPieces cached(scratch, out, miss);
        for (std::size_t i = 0; i < pieces.size(); i += kPieceBatch) {
          const auto some = pieces.subspan(i, std::min(kPieceBatch, pieces.size() - i));
          cached.add(PlacedPieces(cut.text, some), some.size());
        }
        cached.finish();
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

}  // namespace mt::tokenizer
