#include "tokenizer/normalizer.h"

#include <utility>

#include "base/error.h"

namespace mt::tokenizer {

namespace {

using Kind = Normalizer::Kind;

struct Plain {
  std::string_view type;
  Kind kind;
};
// Kinds without parts.
constexpr Plain kPlain[] = {{"NFC", Kind::nfc},
                            {"NFD", Kind::nfd},
                            {"NFKC", Kind::nfkc},
                            {"NFKD", Kind::nfkd},
                            {"Lowercase", Kind::lowercase},
                            {"StripAccents", Kind::strip_accents},
                            {"Nmt", Kind::nmt},
                            {"ByteLevel", Kind::byte_level}};

void read_replace(const JsonFields& part, Normalizer::Step& step) {
  const JsonFields::Pattern pattern = part.pattern("pattern");
  step.pattern = pattern.literal;
  if (pattern.is_regex) {
    step.regex = std::make_unique<PcrePattern>(pattern.regex);
  } else if (step.pattern.empty()) {
    part.broken("pattern.String", "an empty pattern");
  }
  step.content = part.text("content");
}

void read_bert(const JsonFields& part, Normalizer::Step& step) {
  step.clean_text = part.flag("clean_text");
  step.chinese = part.flag("handle_chinese_chars");
  step.lowercase = part.flag("lowercase");
  step.strip_accents = part.flag_or_null("strip_accents", step.lowercase);
}

}  // namespace

Normalizer::Normalizer(const Json& json) {
  if (!json.is_null()) add(JsonFields(json, "normalizer"));
}

void Normalizer::add(const JsonFields& part) {
  const std::string type = part.text("type");
  if (type == "Sequence") {
    for (const JsonFields& one : part.list("normalizers")) add(one);
    return;
  }
  Step step{};
  step.source = json_line(part.json());
  for (const Plain& plain : kPlain) {
    if (plain.type != type) continue;
    step.kind = plain.kind;
    steps_.push_back(std::move(step));
    return;
  }
  if (type == "Strip") {
    step.kind = Kind::strip;
    step.left = part.flag("strip_left");
    step.right = part.flag("strip_right");
  } else if (type == "Prepend") {
    step.kind = Kind::prepend;
    step.content = part.text("prepend");
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    read_replace(part, step);
  } else if (type == "Precompiled") {
    step.kind = Kind::precompiled;
    const auto map = part.json().find("precompiled_charsmap");
    if (map != part.json().end() && map->is_null()) return;  // an empty map changes nothing
    step.map = CharsMap(decode_base64(part.text("precompiled_charsmap")));
    if (step.map.empty()) return;
  } else if (type == "BertNormalizer" || type == "Bert") {
    step.kind = Kind::bert;
    read_bert(part, step);
  } else {
    throw Error(Code::data, fmt::format("{} {} is not supported", part.path(), type));
  }
  steps_.push_back(std::move(step));
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer, std::string& other) const {
  for (const Step& step : steps_) {
    other.clear();
    apply_step(step, text, other);
    buffer.swap(other);
    text = buffer;
  }
  return text;
}

std::string Normalizer::description() const {
  std::string all;
  for (const Step& step : steps_) all += step.source + "\n";
  return all;
}

std::string decode_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int have = 0;
  std::size_t digits = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    ++digits;
    if (c == '=') {
      ++padding;
      continue;
    }
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0 || padding > 0) throw Error(Code::corrupt, fmt::format("byte 0x{:02x} in base64 text", c & 0xFF));
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFFFFF;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes.push_back(static_cast<char>(bits >> have & 0xFF));
  }
  if (padding > 2 || (digits - padding) % 4 == 1 || (padding > 0 && digits % 4 != 0)) {
    throw Error(Code::corrupt, fmt::format("base64 text of {} digits", digits));
  }
  return bytes;
}

}  // namespace mt::tokenizer
