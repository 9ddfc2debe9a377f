#include "tokenizer/byte_tokenizer.h"

#include <charconv>

#include "base/error.h"
#include "base/hash.h"

namespace mt::tokenizer {

namespace {

constexpr std::string_view kEodText = "<|endoftext|>";

[[noreturn]] void no_such_id(Id id, Id size) {
  throw Error(Code::data, fmt::format("id {} is no token of this tokenizer (vocabulary size {})", id, size), "",
              "use the tokenizer that wrote the file");
}

}  // namespace

void ByteTokenizer::encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  const auto append = [&out](std::string_view bytes) {
    const std::size_t old = out.size();
    out.resize(old + bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) out[old + i] = static_cast<unsigned char>(bytes[i]);
  };
  std::size_t done = 0;
  for (std::size_t hit = text.find(kEodText); hit != std::string_view::npos;
       hit = text.find(kEodText, hit + kEodText.size())) {
    if (!parse_special_) {
      ++scratch.specials_as_text;
      continue;
    }
    append(text.substr(done, hit - done));
    out.push_back(kEod);
    done = hit + kEodText.size();
  }
  append(text.substr(done));
}

void ByteTokenizer::decode(std::span<const Id> ids, std::string& out) const {
  for (const Id id : ids) {
    if (id == kEod) {
      out += kEodText;
    } else if (id >= 0 && id < kEod) {
      out.push_back(static_cast<char>(id));
    } else {
      no_such_id(id, vocab_size());
    }
  }
}

std::optional<Id> ByteTokenizer::find(std::string_view token) const {
  if (token == kEodText) return kEod;
  if (token.size() == 1) return static_cast<unsigned char>(token[0]);
  return std::nullopt;
}

std::uint64_t ByteTokenizer::fingerprint() const { return xxh3("byte-tokenizer"); }

NullTokenizer::NullTokenizer(std::int32_t vocab_size) : vocab_size_(vocab_size) {
  if (vocab_size < 1) {
    throw Error(Code::usage, fmt::format("NullTokenizer with a vocabulary of {}: wanted 1 or more", vocab_size),
                "--vocab-size");
  }
}

void NullTokenizer::encode(std::string_view text, EncodeScratch&, std::vector<Id>& out) const {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  for (std::size_t i = text.find_first_not_of(kBlank); i != std::string_view::npos;
       i = text.find_first_not_of(kBlank, i)) {
    const std::size_t end = std::min(text.find_first_of(kBlank, i), text.size());
    const std::string_view word = text.substr(i, end - i);
    Id id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0 || id >= vocab_size_) {
      throw Error(Code::data, fmt::format("'{}' is no id from 0 to {}", word.substr(0, 40), vocab_size_ - 1));
    }
    out.push_back(id);
    i = end;
  }
}

void NullTokenizer::decode(std::span<const Id> ids, std::string& out) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size_) no_such_id(ids[i], vocab_size_);
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : " ", ids[i]);
  }
}

std::optional<Id> NullTokenizer::find(std::string_view token) const {
  Id id = -1;
  const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), id);
  if (error != std::errc() || stop != token.data() + token.size() || id < 0 || id >= vocab_size_) return std::nullopt;
  return id;
}

std::uint64_t NullTokenizer::fingerprint() const { return xxh3(fmt::format("null-tokenizer {}", vocab_size_)); }

}  // namespace mt::tokenizer
