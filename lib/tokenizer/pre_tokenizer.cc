#include "tokenizer/pre_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "tokenizer/pre_tokenizer_steps.h"

namespace mt::tokenizer {

namespace {

using Kind = PreTokenizer::Kind;

[[noreturn]] void unknown(const std::string& what) { throw Error(Code::data, what + " is not supported"); }

//   fallback  where there is none; null: there must be one
SplitBehavior behavior_of(const JsonFields& part, const char* fallback) {
  const std::string name = part.text("behavior", fallback);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  unknown(fmt::format("{}.behavior {}", part.path(), name));
}

void read_split(const JsonFields& part, PreTokenizer::Step& step) {
  step.behavior = behavior_of(part, nullptr);
  step.invert = part.flag("invert");
  const JsonFields::Pattern pattern = part.pattern("pattern");
  step.literal = pattern.literal;
  if (step.literal.empty() && pattern.regex.empty()) part.broken("pattern", "an empty pattern");
  if (!step.literal.empty()) return;
  if (step.behavior == SplitBehavior::isolated) {
    step.pattern = SplitPattern::from_regex(pattern.regex);  // which pieces are matches does not show
  } else {
    step.regex = std::make_unique<PcrePattern>(pattern.regex);
  }
}

void read_metaspace(const JsonFields& part, PreTokenizer::Step& step) {
  step.literal = part.character("replacement");
  step.cuts = part.flag_or_null("split", true);
  const std::string scheme = part.text("prepend_scheme", "");
  const bool old_flag = part.flag_or_null("add_prefix_space", true);
  if (scheme == "first") {
    step.prepend = PreTokenizer::Prepend::first;
  } else if (scheme == "never" || (scheme.empty() && !old_flag)) {
    step.prepend = PreTokenizer::Prepend::never;
  } else if (!scheme.empty() && scheme != "always") {
    unknown(fmt::format("{}.prepend_scheme {}", part.path(), scheme));
  }
  if (!scheme.empty() && scheme != "never" && !old_flag) {
    part.broken("prepend_scheme", fmt::format("{}, and add_prefix_space is false", scheme));
  }
}

void read_fixed_length(const JsonFields& part, PreTokenizer::Step& step) {
  const std::uint64_t wanted = part.count("length").value_or(5);  // the library's default
  if (wanted < 1 || wanted > (1 << 30)) part.broken("length", fmt::format("wanted 1 to 2^30, found {}", wanted));
  step.length = static_cast<std::uint32_t>(wanted);
}

// The parts of a step by its type.   gives  false for a type it does not know
bool read_step(const JsonFields& part, const std::string& type, PreTokenizer::Step& step) {
  if (type == "Split") {
    step.kind = Kind::split;
    read_split(part, step);
  } else if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
    step.add_prefix_space = part.flag("add_prefix_space");
    part.flag("trim_offsets");
    if (part.flag("use_regex", true)) step.pattern = SplitPattern::from_regex(std::string(kGpt2Pattern));
  } else if (type == "Digits") {
    step.kind = Kind::digits;
    step.behavior = part.flag("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous;
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    read_metaspace(part, step);
  } else if (type == "Whitespace") {
    step.kind = Kind::whitespace;
  } else if (type == "WhitespaceSplit") {
    step.kind = Kind::whitespace_split;
  } else if (type == "Punctuation") {
    step.kind = Kind::punctuation;
    step.behavior = behavior_of(part, "Isolated");
  } else if (type == "BertPreTokenizer") {
    step.kind = Kind::bert;
  } else if (type == "UnicodeScripts") {
    step.kind = Kind::unicode_scripts;
  } else if (type == "CharDelimiterSplit") {
    step.kind = Kind::char_delimiter;
    step.behavior = SplitBehavior::removed;
    step.literal = part.character("delimiter");
  } else if (type == "FixedLength") {
    step.kind = Kind::fixed_length;
    read_fixed_length(part, step);
  } else {
    return false;
  }
  return true;
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& json) {
  if (!json.is_null()) add(JsonFields(json, "pre_tokenizer"));
}

void PreTokenizer::add(const JsonFields& part) {
  const std::string type = part.text("type");
  if (type == "Sequence") {
    for (const JsonFields& one : part.list("pretokenizers")) add(one);
    return;
  }
  Step step{};
  step.source = json_line(part.json());
  if (!read_step(part, type, step)) unknown(fmt::format("{} {}", part.path(), type));
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

}  // namespace mt::tokenizer
