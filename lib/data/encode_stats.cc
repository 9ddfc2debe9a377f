#include "data/encode_stats.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace mt::data {

namespace {

bool longer(const LongDocument& a, const LongDocument& b) { return a.tokens > b.tokens; }

}  // namespace

void LengthStats::add(std::int64_t tokens, std::int64_t line) {
  ++documents[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens)))];
  if (longest.size() == kLongestListed && tokens <= longest.back().tokens) return;
  const LongDocument document{tokens, line, ""};
  longest.insert(std::upper_bound(longest.begin(), longest.end(), document, longer), document);
  if (longest.size() > kLongestListed) longest.pop_back();
}

void LengthStats::add(const LengthStats& later) {
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] += later.documents[i];
  text_bytes += later.text_bytes;
  longest.insert(longest.end(), later.longest.begin(), later.longest.end());
  std::stable_sort(longest.begin(), longest.end(), longer);
  if (longest.size() > kLongestListed) longest.resize(kLongestListed);
}

EncodeStats::EncodeStats(std::int32_t vocab_size, std::optional<std::int32_t> unknown)
    : counts_(static_cast<std::size_t>(vocab_size), 0), unknown_(unknown) {}

void EncodeStats::count(std::span<const std::byte> ids, TokenType type) {
  const auto count_as = [&](auto id) {
    for (std::size_t at = 0; at < ids.size(); at += sizeof id) {
      std::memcpy(&id, ids.data() + at, sizeof id);
      ++counts_[static_cast<std::size_t>(id)];
    }
  };
  if (type == TokenType::u16) count_as(std::uint16_t{0});
  else count_as(std::int32_t{0});
}

Json EncodeStats::lengths_json() const {
  Json longest = Json::array();
  for (const LongDocument& d : lengths_.longest) longest.push_back({{"tokens", d.tokens}, {"file", d.file}, {"line", d.line}});
  return {{"documents", lengths_.documents}, {"longest", longest}, {"text_bytes", lengths_.text_bytes}};
}

void EncodeStats::restore_lengths(const Json& j) {
  lengths_ = {};
  lengths_.documents = j.at("documents").get<std::array<std::int64_t, 64>>();
  lengths_.text_bytes = j.at("text_bytes").get<std::int64_t>();
  for (const Json& d : j.at("longest")) {
    lengths_.longest.push_back({d.at("tokens").get<std::int64_t>(), d.at("line").get<std::int64_t>(), d.at("file").get<std::string>()});
  }
}

Json EncodeStats::to_json() const {
  const std::int64_t tokens = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  std::vector<std::size_t> order(counts_.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t listed = std::min(kTokensListed, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(listed), order.end(), [this](std::size_t a, std::size_t b) {
    return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : a < b;
  });
  Json lengths = Json::array(), top = Json::array();
  for (std::size_t k = 0; k < lengths_.documents.size(); ++k) {
    if (lengths_.documents[k] == 0) continue;
    const std::int64_t from = k == 0 ? 0 : std::int64_t{1} << (k - 1), to = k == 0 ? 0 : 2 * (from - 1) + 1;
    lengths.push_back({{"from", from}, {"to", to}, {"documents", lengths_.documents[k]}});
  }
  for (std::size_t i = 0; i < listed && counts_[order[i]] > 0; ++i) top.push_back({{"id", order[i]}, {"count", counts_[order[i]]}});
  return {{"text_bytes", lengths_.text_bytes},
          {"bytes_per_token", tokens > 0 ? Json(static_cast<double>(lengths_.text_bytes) / static_cast<double>(tokens)) : Json()},
          {"unknown_tokens", unknown_ ? Json(counts_.at(static_cast<std::size_t>(*unknown_))) : Json()},
          {"distinct_tokens", std::count_if(counts_.begin(), counts_.end(), [](std::int64_t n) { return n > 0; })},
          {"lengths", lengths},
          {"longest", lengths_json().at("longest")},
          {"top_tokens", top}};
}

}  // namespace mt::data
