#pragma once
// BertNormalizer and BertPreTokenizer in one pass: what BERT's words are, without a copy of the text a step.
//
// Every code point becomes what it becomes alone (dropped, a space, lower case without its accents, apart), read from a
// table. One case needs its neighbours, marks that stay and have an order; text with such a mark is left to the steps.
// Code: tokenizer/bert_words.cc. Tests: tests/tokenizer/piece_models_test.cc (against the steps), peer_vectors_test.cc.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/cut_text.h"
#include "tokenizer/normalizer.h"

namespace mt::tokenizer {

class BertWords {
 public:
  //   needs  a step of kind bert
  //   cost   a few milliseconds, 64 KiB
  explicit BertWords(const Normalizer::Step& step);

  // Cut.text and cut.pieces become the words.   needs  valid UTF-8 below 1 GiB
  //   gives  false where the steps have to do it; `cut` is then in disorder
  //   cost   about 1 GB/s for ASCII (blocks of 64 bytes), 0.2 for the rest
  bool apply(std::string_view text, CutText& cut) const;

 private:
  enum class Fate : std::uint8_t { word, apart, space, drop, change, order };
  struct Writer;
  Fate fate_of(std::uint32_t code_point) const;
  void change(std::uint32_t code_point, Writer& out) const;
  std::size_t add_ascii(const char* s, std::size_t size, Writer& out) const;

  bool clean_text_, chinese_, strip_accents_, lowercase_;
  std::vector<Fate> fates_;  // by code point, of the basic plane
};

}  // namespace mt::tokenizer
