#include "tokenizer/token_decoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/byte_level_bpe.h"

namespace mt::tokenizer {

namespace {

using Kind = TokenDecoder::Kind;
using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view pattern, std::string_view content) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t hit; (hit = text.find(pattern, done)) != std::string::npos; done = hit + pattern.size()) {
    out.append(text, done, hit - done);
    out += content;
  }
  if (done == 0) return;
  out.append(text, done);
  text = std::move(out);
}

// The spaces that English text does not have, as the library takes them out.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},    {" !", "!"},    {" ,", ","},    {" ' ", "'"},  {" n't", "n't"},
      {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},  {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [pattern, content] : kRules) replace_all(text, pattern, content);
}

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// "<0xHH>" as its byte, or -1.
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void replace(const TokenDecoder::Step& step, std::string& token) {
  if (!step.regex) return replace_all(token, step.pattern, step.content);
  std::vector<TextSpan> matches;
  step.regex->find_all(token, matches);
  for (std::size_t i = matches.size(); i-- > 0;) {
    token.replace(matches[i].begin, matches[i].end - matches[i].begin, step.content);
  }
}

void strip(const TokenDecoder::Step& step, std::string& token) {
  if (step.content.empty()) return;
  const std::size_t size = step.content.size();
  for (std::size_t i = 0; i < step.start && token.starts_with(step.content); ++i) token.erase(0, size);
  for (std::size_t i = 0; i < step.stop && token.ends_with(step.content); ++i) token.erase(token.size() - size);
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

void word_piece(const TokenDecoder::Step& step, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0) {
      if (!step.content.empty() && token.starts_with(step.content)) {
        token.erase(0, step.content.size());
      } else {
        token.insert(0, " ");
      }
    }
    if (step.flag) clean_up(token);
  }
}

void ctc(const TokenDecoder::Step& step, Tokens& tokens) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_all(token, step.content, "");
    if (!step.flag) continue;
    clean_up(token);
    replace_all(token, step.delimiter, " ");
  }
}

void apply(const TokenDecoder::Step& step, Tokens& tokens) {
  switch (step.kind) {
    case Kind::byte_level:
      for (std::string& token : tokens) token = bytes_of_token(token);
      return fuse(tokens);
    case Kind::byte_fallback:
      for (std::string& token : tokens) {
        if (const int byte = byte_of(token); byte >= 0) token.assign(1, static_cast<char>(byte));
      }
      return;
    case Kind::metaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], step.content, i == 0 && step.flag ? "" : " ");
      return;
    case Kind::replace:
      for (std::string& token : tokens) replace(step, token);
      return;
    case Kind::fuse: return fuse(tokens);
    case Kind::strip:
      for (std::string& token : tokens) strip(step, token);
      return;
    case Kind::word_piece: return word_piece(step, tokens);
    case Kind::bpe:
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        replace_all(tokens[i], step.content, i + 1 < tokens.size() ? " " : "");
      }
      return;
    case Kind::ctc: return ctc(step, tokens);
  }
}

void read_replace(const JsonFields& part, TokenDecoder::Step& step) {
  const JsonFields::Pattern pattern = part.pattern("pattern");
  step.pattern = pattern.literal;
  step.content = part.text("content");
  if (!step.pattern.empty()) return;
  if (pattern.regex.empty()) part.broken("pattern", "an empty pattern");
  step.regex = std::make_unique<PcrePattern>(pattern.regex);
}

void read_metaspace(const JsonFields& part, TokenDecoder::Step& step) {
  step.kind = Kind::metaspace;
  step.content = part.character("replacement");
  part.flag_or_null("split", true);
  const bool old_flag = part.flag_or_null("add_prefix_space", true);
  step.flag = part.text("prepend_scheme", old_flag ? "always" : "never") != "never";
}

}  // namespace

TokenDecoder::TokenDecoder(const Json& json) {
  if (!json.is_null()) add(JsonFields(json, "decoder"));
}

void TokenDecoder::add(const JsonFields& part) {
  const std::string type = part.text("type");
  if (type == "Sequence") {
    for (const JsonFields& one : part.list("decoders")) add(one);
    return;
  }
  Step step{};
  if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
    for (const char* key : {"add_prefix_space", "trim_offsets"}) part.flag(key);
    part.flag("use_regex", true);
  } else if (type == "ByteFallback") {
    step.kind = Kind::byte_fallback;
  } else if (type == "Metaspace") {
    read_metaspace(part, step);
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    read_replace(part, step);
  } else if (type == "Fuse") {
    step.kind = Kind::fuse;
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    step.content = part.character("content");
    step.start = part.needed_count("start");
    step.stop = part.needed_count("stop");
  } else if (type == "WordPiece") {
    step.kind = Kind::word_piece;
    step.content = part.text("prefix");
    step.flag = part.flag("cleanup");
  } else if (type == "BPEDecoder") {
    step.kind = Kind::bpe;
    step.content = part.text("suffix");
  } else if (type == "CTC") {
    step.kind = Kind::ctc;
    step.content = part.text("pad_token");
    step.delimiter = part.text("word_delimiter_token");
    step.flag = part.flag("cleanup");
  } else {
    throw Error(Code::data, fmt::format("{} {} is not supported", part.path(), type));
  }
  if (step.content.empty() && (step.kind == Kind::bpe || step.kind == Kind::ctc)) {
    part.broken(step.kind == Kind::bpe ? "suffix" : "pad_token", "an empty string to look for");
  }
  steps_.push_back(std::move(step));
}

void TokenDecoder::decode(Tokens& tokens, std::string& out) const {
  for (const Step& step : steps_) apply(step, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && steps_.empty()) out += ' ';
    out += tokens[i];
  }
}

}  // namespace mt::tokenizer
