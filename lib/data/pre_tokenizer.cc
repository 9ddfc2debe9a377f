#include "data/pre_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "data/pre_tokenizer_steps.h"

namespace mt::data {

namespace {

using Kind = PreTokenizer::Kind;

bool flag_or(const Json& json, const char* key, bool fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text_or(const Json& json, const char* key, const std::string& fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

[[noreturn]] void unknown(const std::string& what) { throw Error(Code::data, what + " is not supported"); }

SplitBehavior behavior_of(const Json& json, const char* fallback) {
  const std::string name = text_or(json, "behavior", fallback);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  unknown(fmt::format("split behavior {}", name));
}

void read_split(const Json& json, PreTokenizer::Step& step) {
  step.behavior = behavior_of(json, "Isolated");
  step.invert = flag_or(json, "invert", false);
  const auto pattern = json.find("pattern");
  const bool object = pattern != json.end() && pattern->is_object();
  step.literal = object ? text_or(*pattern, "String", "") : "";
  const std::string regex = object ? text_or(*pattern, "Regex", "") : "";
  if (step.literal.empty() && regex.empty()) throw Error(Code::corrupt, "pre-tokenizer Split with an empty pattern");
  if (!step.literal.empty()) return;
  if (step.behavior == SplitBehavior::isolated) {
    step.pattern = SplitPattern::from_regex(regex);  // which pieces are matches does not show
  } else {
    step.regex = std::make_unique<PcrePattern>(regex);
  }
}

void read_metaspace(const Json& json, PreTokenizer::Step& step) {
  step.literal = text_or(json, "replacement", "\xE2\x96\x81");
  if (step.literal.empty()) throw Error(Code::corrupt, "pre-tokenizer Metaspace with an empty replacement");
  step.cuts = flag_or(json, "split", true);
  const std::string scheme = text_or(json, "prepend_scheme", "");
  const bool old_flag = flag_or(json, "add_prefix_space", true);
  if (scheme == "first") {
    step.prepend = PreTokenizer::Prepend::first;
  } else if (scheme == "never" || (scheme.empty() && !old_flag)) {
    step.prepend = PreTokenizer::Prepend::never;
  } else if (!scheme.empty() && scheme != "always") {
    unknown(fmt::format("Metaspace prepend_scheme {}", scheme));
  }
  if (!scheme.empty() && scheme != "never" && !old_flag) {
    throw Error(Code::corrupt, fmt::format("Metaspace: add_prefix_space is false, prepend_scheme is {}", scheme));
  }
}

// The parts of a step by its type.   gives  false for a type it does not know
bool read_step(const Json& json, const std::string& type, PreTokenizer::Step& step) {
  if (type == "Split") {
    step.kind = Kind::split;
    read_split(json, step);
  } else if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
    step.add_prefix_space = flag_or(json, "add_prefix_space", true);
    if (flag_or(json, "use_regex", true)) step.pattern = SplitPattern::from_regex(std::string(kGpt2Pattern));
  } else if (type == "Digits") {
    step.kind = Kind::digits;
    step.behavior =
        flag_or(json, "individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous;
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    read_metaspace(json, step);
  } else if (type == "Whitespace") {
    step.kind = Kind::whitespace;
  } else if (type == "WhitespaceSplit") {
    step.kind = Kind::whitespace_split;
  } else if (type == "Punctuation") {
    step.kind = Kind::punctuation;
    step.behavior = behavior_of(json, "Isolated");
  } else if (type == "BertPreTokenizer") {
    step.kind = Kind::bert;
  } else if (type == "CharDelimiterSplit") {
    step.kind = Kind::char_delimiter;
    step.behavior = SplitBehavior::removed;
    step.literal = text_or(json, "delimiter", "");
    if (step.literal.empty()) throw Error(Code::corrupt, "pre-tokenizer CharDelimiterSplit without a delimiter");
  } else if (type == "FixedLength") {
    step.kind = Kind::fixed_length;
    const auto length = json.find("length");
    const bool whole = length != json.end() && length->is_number_integer();
    const auto wanted = whole ? length->get<std::int64_t>() : 5;  // the library's default
    if (wanted < 1 || wanted > (1 << 30)) throw Error(Code::corrupt, fmt::format("FixedLength of {}", wanted));
    step.length = static_cast<std::uint32_t>(wanted);
  } else {
    return false;
  }
  return true;
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& json) {
  if (!json.is_null()) add(json);
}

void PreTokenizer::add(const Json& json) {
  const std::string type = json.is_object() ? text_or(json, "type", "") : "";
  if (type == "Sequence") {
    const auto list = json.find("pretokenizers");
    if (list == json.end() || !list->is_array()) {
      throw Error(Code::corrupt, "pre-tokenizer Sequence without 'pretokenizers'");
    }
    for (const Json& one : *list) add(one);
    return;
  }
  Step step{};
  step.source = json_line(json);
  if (!read_step(json, type, step)) unknown(fmt::format("pre-tokenizer {}", type.empty() ? json_line(json) : type));
  steps_.push_back(std::move(step));
}

void PreTokenizer::apply(std::string_view text, bool at_start, CutText& cut) const {
  cut.text = text;
  cut.pieces.clear();
  if (!text.empty()) cut.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  for (const Step& step : steps_) {
    cut.other_pieces.clear();
    const bool rewrites = step.kind == Kind::metaspace || step.kind == Kind::byte_level;
    if (rewrites) cut.other.clear();
    for (const TextSpan& piece : cut.pieces) cut_piece(step, cut.text, piece, at_start, cut);
    if (rewrites) {
      cut.rewritten.swap(cut.other);
      cut.text = cut.rewritten;
    }
    cut.pieces.swap(cut.other_pieces);
  }
}

std::string PreTokenizer::description() const {
  std::string all;
  for (const Step& step : steps_) all += step.source + "\n";
  return all;
}

}  // namespace mt::data
