#pragma once
// The two tokenizers without files: a byte is an id, and text that is ids already.
//
// Code: tokenizer/byte_tokenizer.cc. Tests: tests/tokenizer/tokenizer_json_test.cc, encode_corpus_test.cc.

#include <optional>
#include <string>

#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

// ids 0-255 are the bytes, 256 ends a document: counts are known by hand. The end token's text is <|endoftext|>.
class ByteTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  static constexpr Id kEod = 256;
  explicit ByteTokenizer(bool parse_special = false) : parse_special_(parse_special) {}
  void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const override;
  void decode(std::span<const Id> ids, std::string& out) const override;
  std::int32_t vocab_size() const override { return 257; }
  std::optional<Id> eod() const override { return kEod; }
  std::optional<Id> find(std::string_view token) const override;
  std::uint64_t fingerprint() const override;

 private:
  bool parse_special_;
};

// Text is decimal ids separated by white space; the last id (vocab_size - 1) ends a document.
class NullTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  //   fails  Error{usage}: vocab_size below 1
  explicit NullTokenizer(std::int32_t vocab_size);
  //   fails  Error{data}: a word that is no id below vocab_size
  void encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const override;
  void decode(std::span<const Id> ids, std::string& out) const override;
  std::int32_t vocab_size() const override { return vocab_size_; }
  std::optional<Id> eod() const override { return vocab_size_ - 1; }
  std::optional<Id> find(std::string_view token) const override;
  std::vector<Id> special_ids() const override { return {}; }  // every id is text
  std::uint64_t fingerprint() const override;

 private:
  std::int32_t vocab_size_;
};

}  // namespace mt::tokenizer
