#pragma once
// A tokenizer turns text into ids and back; every kind stands behind this one seam.
//
// A Tokenizer is immutable after construction and may be used by any number of threads at once. What a thread needs to
// be fast (its word cache and buffers) lives in an EncodeScratch that the caller owns: one per thread and tokenizer.
//
// Kinds (Megatron's --tokenizer-type): HuggingFaceTokenizer (tokenizer.json), SFTTokenizer (the same, special strings
// parsed), GPT2BPETokenizer (vocab.json + merges.txt), BertWordPieceLowerCase and BertWordPieceCase (vocab.txt),
// SentencePieceTokenizer, GPTSentencePieceTokenizer and Llama2Tokenizer (a SentencePiece .model, all the same),
// TikTokenizer (tokens by rank: .tiktoken, JSON lists, Tekken), ByteTokenizer (a byte is an id, end id 256),
// NullTokenizer (text is integers).
// Code: tokenizer/tokenizer.cc and one file a kind. Tests: tests/tokenizer/tokenizer_json_test.cc, golden_tokenizers_test.cc.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/cut_text.h"
#include "tokenizer/long_word_cache.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_cache.h"

namespace mt::tokenizer {

using Id = std::int32_t;

// Pieces a batch found no ids of, and what became of them.
struct MissScratch {
  std::vector<std::string_view> pieces;
  WordsOfSymbols ids;      // of the pieces
  std::vector<Id> spilled;  // ids of known pieces that have many
  // Byte-level BPE: the parts of pieces, those of them that are merged, and what that gave.
  struct Part {
    std::string_view text;
    WordCache::Key key;
    std::uint64_t hash;
    std::int32_t id;  // where it is known; else below 0
    bool cached, last;  // looked up among words; of its piece
  };
  std::vector<Part> parts;
  std::vector<std::string_view> words;
  WordsOfSymbols first, merged;
};

// What one thread keeps between calls of encode. Never share one between threads or between two tokenizers.
struct EncodeScratch {
  WordCache words;                     // ids of pieces already seen, of up to 15 bytes
  LongWordCache long_words;            // and of longer ones
  std::string normalized, other;       // the text after normalisation, and a step of it
  CutText cut;                         // the text at hand and its pieces
  UnigramScratch unigram;              // best cuts so far
  std::vector<std::uint32_t> lengths;  // pieces of the batch at hand, in bytes
  MissScratch misses;                  // pieces that are new
  std::int64_t specials_as_text = 0;   // special strings met in text and left as plain text, summed over calls
};

// Ids that a tokenizer puts around each text of its own accord: the start token of LLaMA, [CLS] and [SEP] of BERT.
struct Surround {
  std::vector<Id> before, after;
  bool empty() const { return before.empty() && after.empty(); }
  friend bool operator==(const Surround&, const Surround&) = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Append the ids of `text` to `out`. Special strings are plain text unless the tokenizer was made with
  // parse_special; added tokens that are not special always match. Nothing is added before or after.
  //   needs  valid UTF-8 (text sources check it); ByteTokenizer takes any bytes
  //   gives  at most one id a byte for byte-level kinds
  //   fails  Error{data}: a byte without a token, NullTokenizer: a word that is no id. `out` may hold part of the text
  //   cost   no allocation a piece once the cache is warm
  virtual void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const = 0;

  // Append the text of `ids` to `out`, byte for byte: a cut-off character stays cut off. What normalisation changed
  // stays changed; a space that was put before the text is taken away again where the decoder says so.
  //   fails  Error{data}: an id outside the vocabulary
  virtual void decode(std::span<const Id> ids, std::string& out) const = 0;

  // Largest id plus one, added tokens included: the true vocabulary, before any padding.
  virtual std::int32_t vocab_size() const = 0;

  // The id that ends a document, or nothing; see require_eod.
  virtual std::optional<Id> eod() const = 0;

  // The id that stands for text without a token, where the kind has one.
  virtual std::optional<Id> unknown() const { return std::nullopt; }

  // The id of a token by its spelling, and back: as the file writes it, of byte-level kinds its bytes. Nothing, and "",
  // where there is no such token.
  virtual std::optional<Id> find(std::string_view token) const;
  virtual std::string_view spelling(Id id) const;
  // The control tokens, ascending: what encode makes of text under parse_special alone.
  virtual std::vector<Id> special_ids() const;

  // What belongs around a text; encode leaves it to the caller. Part of no fingerprint.
  virtual const Surround& surround() const;

  // 64-bit hash of everything that decides ids (vocabulary, merges, split, normaliser, added tokens), the same on
  // every machine and whichever file format it was read from. The end id is not part of it.
  virtual std::uint64_t fingerprint() const = 0;

  // Convenience for a few strings: own scratch, own vector. encode_alone puts surround() around it.
  std::vector<Id> encode(std::string_view text) const;
  std::vector<Id> encode_alone(std::string_view text) const;
  std::string decode(std::span<const Id> ids) const;
};

// What the tokenizer flags say.
struct TokenizerSpec {
  std::string type = "HuggingFaceTokenizer";
  std::filesystem::path model;           // --tokenizer-model: the file or the directory that holds it
  std::filesystem::path vocab_file;      // --vocab-file, GPT2BPETokenizer, BertWordPiece...
  std::filesystem::path merge_file;      // --merge-file, GPT2BPETokenizer
  std::optional<std::string> eod_token;  // --eod-token
  std::int32_t vocab_size = 0;           // --vocab-size, NullTokenizer, TikTokenizer
  std::string tiktoken_pattern;          // --tiktoken-pattern, TikTokenizer
  std::int32_t tiktoken_num_special_tokens = 1000;  // --tiktoken-num-special-tokens, TikTokenizer
  bool parse_special = false;            // --parse-special
  bool include_special = true;           // not --tokenizer-hf-no-include-special-tokens: surround() as the file says
};

// The kinds, as written after --tokenizer-type.
std::span<const std::string_view> tokenizer_types();

// Read and build.
//   fails  Error{usage}: unknown type, a flag of the type missing; Error{io}, Error{corrupt}: the files;
//          Error{data}: a part of tokenizer.json this build does not know, an --eod-token that is no token
//   cost   0.05-0.3 s for a vocabulary of 50,000-150,000
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec);

// The end id. Rule: --eod-token, else eos_token of tokenizer_config.json beside the file, else the only one present of
// <|endoftext|>, <|end_of_text|>, </s>.
//   fails  Error{data} naming --eod-token
Id require_eod(const Tokenizer& tokenizer);

}  // namespace mt::tokenizer
