#include "data/fim.h"

#include <algorithm>

#include "base/error.h"
#include "data/numpy_draws.h"
#include "tokenizer/unicode.h"

namespace mt::data {

namespace {

Id token_of(const tokenizer::Tokenizer& tokenizer, const std::string& token, const char* flag) {
  if (const std::optional<Id> id = tokenizer.find(token)) return *id;
  throw Error(Code::data, fmt::format("the tokenizer has no token '{}'", token), flag,
              "name the token it has for this, or add one");
}

void check_rate(double rate, const char* flag) {
  if (!(rate >= 0 && rate <= 1)) throw Error(Code::config, fmt::format("{}: wanted 0 to 1", rate), flag);
}

// Bytes of the longest valid beginning of a character at text[0], 1 if the first byte begins none.
std::size_t broken_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t wanted = first >= 0xF0 && first <= 0xF4   ? 4
                             : first >= 0xE0 && first <= 0xEF ? 3
                             : first >= 0xC2 && first <= 0xDF ? 2
                                                              : 1;
  std::size_t i = 1;
  for (; i < wanted && i < text.size(); ++i) {
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;
    if (i == 1 && first == 0xED) high = 0x9F;
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;
    if (byte(i) < low || byte(i) > high) break;
  }
  return i;
}

// Where each character begins, and the end.
std::vector<std::size_t> character_places(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) places.push_back(i);
  places.push_back(text.size());
  return places;
}

}  // namespace

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t bad = tokenizer::find_invalid_utf8(text);
    if (bad == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, bad));
    tokenizer::append_utf8(0xFFFD, out);
    text.remove_prefix(bad + broken_length(text.substr(bad)));
  }
}

struct FimTransform::Work {
  explicit Work(std::uint32_t seed) : random(seed) {}
  NumpyRandomState random;
  tokenizer::EncodeScratch scratch;
  std::vector<Id> out;
};

FimTransform::FimTransform(const FimOptions& options, const tokenizer::Tokenizer& tokenizer, std::uint32_t seed)
    : options_(options), tokenizer_(&tokenizer), seed_(seed) {
  check_rate(options.rate, "--fim-rate");
  check_rate(options.spm_rate, "--fim-spm-rate");
  if (options.fragment_rate) check_rate(*options.fragment_rate, "--fim-fragment-rate");
  if (options.split_sample.has_value() != options.fragment_rate.has_value()) {
    throw Error(Code::config, "one is given without the other", "--fim-split-sample, --fim-fragment-rate",
                "a token to split at, and the share of fragments to change");
  }
  prefix_ = token_of(tokenizer, options.prefix_token, "--fim-prefix-token");
  middle_ = token_of(tokenizer, options.middle_token, "--fim-middle-token");
  suffix_ = token_of(tokenizer, options.suffix_token, "--fim-suffix-token");
  pad_ = token_of(tokenizer, options.pad_token, "--fim-pad-token");
  eod_ = token_of(tokenizer, options.eod_token, "--fim-eod-token");
  if (options.split_sample) split_ = token_of(tokenizer, *options.split_sample, "--fim-split-sample");
  special_ = tokenizer.special_ids();
}

void FimTransform::change(Work& work, std::span<const Id> ids, double rate) const {
  const auto keep = [&] { work.out.insert(work.out.end(), ids.begin(), ids.end()); };
  if (!draw_chance(work.random, rate)) return keep();
  std::vector<Id> plain;
  for (const Id id : ids)
    if (!std::binary_search(special_.begin(), special_.end(), id)) plain.push_back(id);
  const std::string text = replace_invalid_utf8(tokenizer_->decode(plain));
  if (options_.no_prefix && text.starts_with(*options_.no_prefix)) return keep();
  const std::vector<std::size_t> places = character_places(text);
  const auto most = static_cast<std::uint32_t>(places.size() - 1);
  std::uint32_t first = draw_up_to(work.random, most), second = draw_up_to(work.random, most);
  if (first > second) std::swap(first, second);
  const std::string_view all = text;
  const std::string_view prefix = all.substr(0, places[first]), suffix = all.substr(places[second]),
                         middle = all.substr(places[first], places[second] - places[first]);
  const auto put = [&](std::string_view part) { tokenizer_->encode(part, work.scratch, work.out); };
  work.out.push_back(prefix_);
  if (draw_chance(work.random, options_.spm_rate)) {
    work.out.push_back(suffix_);
    put(suffix);
    work.out.push_back(middle_);
    put(prefix);
  } else {
    put(prefix);
    work.out.push_back(suffix_);
    put(suffix);
    work.out.push_back(middle_);
  }
  put(middle);
}

void FimTransform::change_stretch(Work& work, std::span<const Id> stretch) const {
  if (!split_ || std::find(stretch.begin(), stretch.end(), *split_) == stretch.end())
    return change(work, stretch, options_.rate);
  if (!draw_chance(work.random, options_.rate)) {
    work.out.insert(work.out.end(), stretch.begin(), stretch.end());
    return;
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < stretch.size(); ++i) {
    if (stretch[i] != *split_) continue;
    if (i > begin) {  // an empty fragment goes with its token
      change(work, stretch.subspan(begin, i - begin), *options_.fragment_rate);
      work.out.push_back(*split_);
    }
    begin = i + 1;
  }
  change(work, stretch.subspan(begin), *options_.fragment_rate);
}

std::int64_t FimTransform::apply(std::int64_t ordinal, std::span<Id> tokens, std::int64_t num_real) const {
  MT_CHECK(num_real >= 0 && static_cast<std::size_t>(num_real) <= tokens.size(), "{} of {} tokens", num_real,
           tokens.size());
  if (num_real == 0) return 0;
  Work work(static_cast<std::uint32_t>(seed_ + static_cast<std::uint64_t>(ordinal)));
  const std::span<const Id> sample = tokens.first(static_cast<std::size_t>(num_real));
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    if (sample[i] != eod_) continue;
    if (i > begin) {  // an empty stretch goes with its end token
      change_stretch(work, sample.subspan(begin, i - begin));
      work.out.push_back(eod_);
    }
    begin = i + 1;
  }
  change_stretch(work, sample.subspan(begin));
  const std::size_t kept = std::min(work.out.size(), sample.size());
  std::copy_n(work.out.begin(), kept, tokens.begin());
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.begin() + static_cast<std::ptrdiff_t>(num_real),
            pad_);
  return static_cast<std::int64_t>(kept);
}

}  // namespace mt::data
