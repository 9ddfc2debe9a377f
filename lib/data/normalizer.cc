#include "data/normalizer.h"

#include <utility>

#include "base/error.h"

namespace mt::data {

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

bool flag_or(const Json& json, const char* key, bool fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text_of(const Json& json, const char* key, const std::string& type) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    throw Error(Code::corrupt, fmt::format("normalizer {} without '{}'", type, key));
  }
  return found->get<std::string>();
}

void read_replace(const Json& json, Normalizer::Step& step) {
  const auto pattern = json.find("pattern");
  const bool object = pattern != json.end() && pattern->is_object();
  if (object && pattern->contains("String")) {
    step.pattern = text_of(*pattern, "String", "Replace");
    if (step.pattern.empty()) throw Error(Code::corrupt, "normalizer Replace with an empty pattern");
  } else if (object && pattern->contains("Regex")) {
    step.regex = std::make_unique<PcrePattern>(text_of(*pattern, "Regex", "Replace"));
  } else {
    throw Error(Code::corrupt, "normalizer Replace without a pattern");
  }
  step.content = text_of(json, "content", "Replace");
}

void read_bert(const Json& json, Normalizer::Step& step) {
  step.clean_text = flag_or(json, "clean_text", true);
  step.chinese = flag_or(json, "handle_chinese_chars", true);
  step.lowercase = flag_or(json, "lowercase", true);
  step.strip_accents = flag_or(json, "strip_accents", step.lowercase);
}

}  // namespace

Normalizer::Normalizer(const Json& json) {
  if (!json.is_null()) add(json);
}

void Normalizer::add(const Json& json) {
  const std::string type = json.is_object() && json.contains("type") && json.at("type").is_string()
                               ? json.at("type").get<std::string>()
                               : "";
  if (type == "Sequence") {
    const auto list = json.find("normalizers");
    if (list == json.end() || !list->is_array()) throw Error(Code::corrupt, "normalizer Sequence without 'normalizers'");
    for (const Json& one : *list) add(one);
    return;
  }
  Step step{};
  step.source = json_line(json);
  for (const Plain& plain : kPlain) {
    if (plain.type != type) continue;
    step.kind = plain.kind;
    steps_.push_back(std::move(step));
    return;
  }
  if (type == "Strip") {
    step.kind = Kind::strip;
    step.left = flag_or(json, "strip_left", true);
    step.right = flag_or(json, "strip_right", true);
  } else if (type == "Prepend") {
    step.kind = Kind::prepend;
    step.content = text_of(json, "prepend", type);
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    read_replace(json, step);
  } else if (type == "Precompiled") {
    step.kind = Kind::precompiled;
    const auto map = json.find("precompiled_charsmap");
    if (map != json.end() && map->is_null()) return;  // an empty map changes nothing
    step.map = CharsMap(decode_base64(text_of(json, "precompiled_charsmap", type)));
    if (step.map.empty()) return;
  } else if (type == "BertNormalizer" || type == "Bert") {
    step.kind = Kind::bert;
    read_bert(json, step);
  } else {
    throw Error(Code::data, fmt::format("normalizer {} is not supported", type.empty() ? json_line(json) : type));
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

}  // namespace mt::data
