// Blends against numbers that numpy gave: tests/peers/record_orders.py prints them.

#include "data/blend.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

std::string write_file(const ScratchDirectory& dir, const std::string& name, int documents, std::int32_t id) {
  const std::string prefix = dir / name;
  IndexedWriter writer(prefix, TokenType::u16, false);
  for (int d = 0; d < documents; ++d) {
    writer.add_sequence(std::vector<std::int32_t>(20, id));
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return prefix;
}

TEST(DataPath, is_prefixes_or_weights_and_prefixes) {
  EXPECT_EQ(parse_data_path({"a"}).prefixes, std::vector<std::string>{"a"});
  EXPECT_EQ(parse_data_path({"a", "b"}).prefixes.size(), 2u);
  EXPECT_EQ(parse_data_path({"1", "2", "3"}).prefixes.size(), 3u);
  const DataPath weighted = parse_data_path({"0.3", "a", "7", "b"});
  EXPECT_EQ(weighted.prefixes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weighted.weights, (std::vector<double>{0.3, 7}));
  EXPECT_THROW(parse_data_path({"0.3", "a", "b", "c"}), Error);
  EXPECT_THROW(parse_data_path({"-1", "a"}), Error);
  EXPECT_THROW(parse_data_path({"0", "a"}), Error);
  EXPECT_THROW(parse_data_path({}), Error);
}

TEST(Split, shares_are_normalised_and_ranges_touch) {
  const auto shares = parse_split("969, 30, 1");
  EXPECT_DOUBLE_EQ(shares[0], 0.969);
  const auto ranges = split_ranges(shares, 1000);
  EXPECT_EQ(ranges[0].end, 969);
  EXPECT_EQ(ranges[1].begin, 969);
  EXPECT_EQ(ranges[1].end, 999);
  EXPECT_EQ(ranges[2].end, 1000);
  const auto halves = split_ranges(parse_split("1,1"), 5);  // 2.5 goes to the even 2
  EXPECT_EQ(halves[0].end, 2);
  EXPECT_EQ(halves[2].begin, halves[2].end);
}

TEST(Split, a_wrong_share_is_named) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a,b", "'a'"},     {"abc", "'abc'"},     {"9x,1", "'9x'"},     {"nan,1,1", "'nan'"},
      {"1,inf", "'inf'"}, {"1,-1", "'-1'"},     {"0,0", "sum to 0"},  {"", "no share"},
      {",", "no share"},  {"1,2,3,4", "three"}, {"1e400,1", "1e400"}, {"1e308,1e308", "sum to inf"}};
  for (const auto& [text, word] : rows) {
    try {
      parse_split(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage);
      EXPECT_NE(e.message().find(word), std::string::npos) << e.what();
    }
  }
  EXPECT_DOUBLE_EQ(parse_split("9.5 0.5")[0], 0.95);
}

struct Order {
  std::vector<std::int16_t> member;
  std::vector<std::int64_t> ordinal;
  explicit Order(std::int64_t size) : member(static_cast<std::size_t>(size)), ordinal(member.size()) {}
  BlendOrder places() { return {member, ordinal}; }
};

constexpr std::uint64_t kFnv = 0xcbf29ce484222325u;

std::uint64_t fnv(std::uint64_t h, std::int64_t value) {
  for (int byte = 0; byte < 8; ++byte) h = (h ^ (static_cast<std::uint64_t>(value) >> (8 * byte) & 0xff)) * 0x100000001b3u;
  return h;
}

std::uint64_t hash_of(const Order& order) {
  std::uint64_t h = kFnv;
  for (std::size_t k = 0; k < order.member.size(); ++k) h = fnv(fnv(h, order.member[k]), order.ordinal[k]);
  return h;
}

std::vector<double> many_weights(int n) {
  std::vector<double> weights;
  for (int i = 0; i < n; ++i) weights.push_back(((i * 7919) % 1009 + 1) / 997.0);
  return weights;
}

TEST(Blend, draws_the_member_furthest_behind) {
  Order a(12), b(12);
  fill_blend_order(std::vector<double>{.5, .25, .25}, a.places());
  EXPECT_EQ(a.member, (std::vector<std::int16_t>{0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0}));
  fill_blend_order(std::vector<double>{.3, .7}, b.places());
  EXPECT_EQ(b.member, (std::vector<std::int16_t>{1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(b.ordinal, (std::vector<std::int64_t>{0, 0, 1, 2, 1, 3, 4, 2, 5, 6, 3, 7}));
}

TEST(Blend, adds_weights_as_numpy_does) {
  const struct { int n; double first, last; } rows[] = {
      {3, 0x1.4fa6d7aeb597cp-11, 0x1.cd85689039b0bp-2},   {7, 0x1.702e05c0b8170p-12, 0x1.08a1142284509p-5},
      {8, 0x1.143b58c01143bp-12, 0x1.ff75e2539ff76p-3},   {9, 0x1.c8cbdcfb5f2f4p-13, 0x1.62a445d02825fp-3},
      {127, 0x1.043eb9ee688a8p-16, 0x1.cafca0ebf9603p-7}, {128, 0x1.01408f72bffd4p-16, 0x1.78d59221173bfp-7},
      {129, 0x1.fdd6593b19d1fp-17, 0x1.293d3785b4cdbp-7}, {300, 0x1.ba0fa8c500f68p-18, 0x1.2060371883a0dp-8},
      {1000, 0x1.096bdc5f408c5p-19, 0x1.0e9af7ad1ccf1p-10}, {5000, 0x1.a92742c994715p-22, 0x1.98f603fe670a0p-12}};
  for (const auto& row : rows) {
    const auto w = normalised(many_weights(row.n));
    EXPECT_EQ(w.front(), row.first) << row.n;
    EXPECT_EQ(w.back(), row.last) << row.n;
  }
}

TEST(Blend, of_many_members_has_the_order_of_the_plain_loop) {
  const struct { int members; std::int64_t samples; std::uint64_t hash; } rows[] = {
      {2, 50, 0x10437f7bed793914}, {7, 500, 0x915de91c21786f11}, {33, 2000, 0x5803f4414c89a574}, {100, 3000, 0xa76124f34a7aa277}};
  for (const auto& row : rows) {
    Order order(row.samples);
    fill_blend_order(normalised(many_weights(row.members)), order.places());
    EXPECT_EQ(hash_of(order), row.hash) << row.members;
  }
}

TEST(Blend, that_is_exhaustive_gives_every_sample_once) {
  const struct { int members; std::int64_t samples; std::uint64_t hash; } rows[] = {
      {2, 39, 0x8aa17aafc2ac9f84}, {7, 184, 0x896b11972162071b}, {40, 1050, 0xbb8b868f6e1074aa}};
  for (const auto& row : rows) {
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < row.members; ++i) sizes.push_back(i * 37 % 50 + 1);
    ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), row.samples);
    Order order(row.samples);
    fill_exhaustive_order(sizes, order.places());
    EXPECT_EQ(hash_of(order), row.hash) << row.members;
    std::vector<std::int64_t> drawn(sizes.size());
    for (std::size_t k = 0; k < order.member.size(); ++k)
      EXPECT_EQ(order.ordinal[k], drawn[static_cast<std::size_t>(order.member[k])]++);
    EXPECT_EQ(drawn, sizes);
  }
}

// Megatron's loops as they are; a member whose size is reached has no part in the second.
Order plain_order(const std::vector<double>& weights, std::int64_t size, const std::vector<std::int64_t>& sizes) {
  Order order(size);
  std::vector<std::int64_t> drawn(weights.size());
  for (std::size_t k = 0; k < order.member.size(); ++k) {
    const double x = std::max(static_cast<double>(k), 1.0);
    std::size_t most = weights.size();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!sizes.empty() && drawn[i] == sizes[i]) continue;
      const auto behind = [&](std::size_t m) { return weights[m] * x - static_cast<double>(drawn[m]); };
      if (most == weights.size() || behind(i) > behind(most)) most = i;
    }
    order.member[k] = static_cast<std::int16_t>(most);
    order.ordinal[k] = drawn[most]++;
  }
  return order;
}

TEST(Blend, of_any_weights_has_the_order_of_the_plain_loop) {
  std::mt19937 pick(11);
  for (int round = 0; round < 60; ++round) {
    const int members = round < 50 ? 1 + static_cast<int>(pick() % 200) : 3000 + static_cast<int>(pick() % 3000);
    const std::int64_t size = round < 50 ? 1500 : 200;
    std::vector<double> weights;
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < members; ++i) {
      const double u = static_cast<double>(pick() % 1000 + 1) / 1000;
      weights.push_back(round % 4 == 0 ? 1 : round % 4 == 1 ? u : round % 4 == 2 ? std::pow(u, 8) : i % 3 == 0 ? 0 : u);
      sizes.push_back(round % 3 == 0 ? 5 : 1 + static_cast<std::int64_t>(pick() % 20));
    }
    weights[0] = 0.5;
    const auto w = normalised(weights);
    Order order(size);
    fill_blend_order(w, order.places());
    const Order plain = plain_order(w, size, {});
    ASSERT_EQ(order.member, plain.member) << "round " << round;
    ASSERT_EQ(order.ordinal, plain.ordinal);
    if (members > 200) continue;
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    std::vector<double> shares;
    for (const std::int64_t n : sizes) shares.push_back(static_cast<double>(n) / static_cast<double>(all));
    Order whole(all);
    fill_exhaustive_order(sizes, whole.places());
    ASSERT_EQ(whole.member, plain_order(shares, all, sizes).member) << "round " << round;
  }
}

TEST(Blend, makes_a_surplus_of_what_it_draws) {
  const struct { std::int64_t wanted; double weight; std::int64_t drawn, made; } rows[] = {
      {1000, 0x1.3333333333333p-2, 300, 302},       {1000, 0x1.5555555555555p-2, 334, 336},
      {100, 0x1.1eb851eb851ecp-4, 8, 9},            {7, 1.0, 7, 8},
      {1000000, 0x1.f7ced916872b0p-4, 123000, 123615}, {200, 0.5, 100, 101}};
  for (const auto& row : rows) {
    const MemberSamples n = member_samples(row.wanted, row.weight, 0.005);
    EXPECT_EQ(n.drawn, row.drawn);
    EXPECT_EQ(n.made, row.made);
  }
}

// File f, whose tokens count from f·100000 on.
std::string write_counting(const ScratchDirectory& dir, int f, int documents) {
  const std::string prefix = dir / ("file" + std::to_string(f));
  IndexedWriter writer(prefix, TokenType::i32, true);
  std::int32_t next = f * 100000;
  for (int i = 0; i < documents; ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(3 + (i * 7 + f * 5) % 11));
    std::iota(ids.begin(), ids.end(), next);
    next += static_cast<std::int32_t>(ids.size());
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return prefix;
}

struct GoldenSet {
  const char* name;
  std::vector<int> files;
  std::vector<double> weights;
  std::optional<std::int64_t> wanted;
  bool own;
  const char* split;
  std::size_t part;
  std::int64_t samples;
  std::uint64_t hash;
  std::uint32_t seed = 1234;
  double surplus = 0.005;
};

std::uint64_t hash_of(const BlendedDataset& set) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(set.seq_length()) + 1);
  std::uint64_t h = kFnv;
  for (std::int64_t k = 0; k < set.size(); ++k) {
    set.fetch(k, out);
    for (const std::int32_t id : out) h = fnv(h, id);
  }
  return h;
}

TEST(Set, has_the_reference_number_of_samples_and_every_token_of_them) {
  const ScratchDirectory dir;
  const std::string prefixes[] = {write_counting(dir, 0, 40), write_counting(dir, 1, 25), write_counting(dir, 2, 60)};
  const GoldenSet rows[] = {
      {"one file", {0}, {}, 100, false, "9,1", 0, 106, 0xab28b01aad6e526e},
      {"one weighted file of a shared path", {0}, {1.0}, 200, false, "9,1", 0, 200, 0x73e8ffa6f1975d8f},
      {"one weighted file of its own", {0}, {1.0}, 200, true, "1", 0, 201, 0x29dcefdf1f5cfc4c},
      {"three weighted", {0, 1, 2}, {.2, .5, .4}, 150, false, "9,1", 0, 152, 0x4f00c20ae41bb5d6},
      {"their validation part", {0, 1, 2}, {.2, .5, .4}, 12, false, "9,1", 1, 14, 0x4055296003903d74},
      {"three unweighted", {0, 1, 2}, {}, 60, true, "1", 0, 60, 0xd8a68c757a2b9782},
      {"three exhaustive", {0, 1, 2}, {}, std::nullopt, true, "1", 0, 124, 0x6bce1f88d20426b1},
      {"a surplus", {0, 1}, {.5, .5}, 64, false, "1", 0, 64, 0xbd37df8200ba6c65, 1234, 0.25},
      {"another seed", {0, 1}, {.5, .5}, 64, false, "1", 0, 64, 0x581cebee023443ae, 99}};
  for (const bool cached : {false, true, true}) {
    TokenFiles files;
    IndexCache cache(cached ? dir / "cache" : "none");
    for (const GoldenSet& row : rows) {
      SetRequest request;
      for (const int f : row.files) request.path.prefixes.push_back(prefixes[f]);
      request.path.weights = row.weights;
      request.num_samples = row.wanted;
      request.own_path = row.own;
      request.split = row.split;
      request.part = row.part;
      request.seq_length = 8;
      request.seed = row.seed;
      request.surplus = row.surplus;
      const BlendedDataset set = build_set(request, files, cache);
      EXPECT_EQ(set.size(), row.samples) << row.name;
      EXPECT_EQ(hash_of(set), row.hash) << row.name;
    }
    EXPECT_EQ(cache.report().notices.size(), 0u);
  }
}

SetRequest request_of(std::vector<std::string> words, std::int64_t samples) {
  SetRequest request;
  request.path = parse_data_path(words);
  request.num_samples = samples;
  request.seq_length = 8;
  return request;
}

TEST(Set, of_a_blend_fetches_from_its_members_and_tells_its_plan) {
  const ScratchDirectory dir;
  TokenFiles files;
  IndexCache cache;
  const auto set = build_set(request_of({"0.3", write_file(dir, "a", 50, 1), "0.7", write_file(dir, "b", 50, 2)}, 40), files, cache);
  std::vector<std::int32_t> out(9);
  std::vector<std::int64_t> drawn(2);
  for (std::int64_t k = 0; k < set.size(); ++k) {
    set.fetch(k, out);
    EXPECT_EQ(out, std::vector<std::int32_t>(9, static_cast<std::int32_t>(set.place(k).first) + 1));
    ++drawn[set.place(k).first];
  }
  ASSERT_EQ(set.plan().size(), 2u);
  EXPECT_EQ(set.plan()[0].samples, drawn[0]);
  EXPECT_EQ(set.plan()[1].samples, drawn[1]);
  EXPECT_DOUBLE_EQ(set.plan()[1].weight, 0.7);
  EXPECT_EQ(set.plan()[0].tokens, 1000);
  EXPECT_DOUBLE_EQ(set.plan()[1].epochs, static_cast<double>(drawn[1]) * 8 / 1000);
}

TEST(Set, that_a_split_leaves_nothing_for_is_named_with_a_way_out) {
  const ScratchDirectory dir;
  TokenFiles files;
  IndexCache cache;
  auto request = request_of({write_file(dir, "a", 3, 1)}, 2);
  request.split = "9998,1,1";
  request.part = 1;
  request.name = "validation";
  try {
    build_set(request, files, cache);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(e.message().find("validation set gets 0 of 3 documents"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("--split 1,1,1"), std::string::npos) << e.what();
  }
  request.split = "1,1,1";
  EXPECT_GE(build_set(request, files, cache).size(), 2);
}

std::string refusal(const SetRequest& request) {
  TokenFiles files;
  IndexCache cache;
  try {
    build_set(request, files, cache);
  } catch (const Error& e) {
    return e.what();
  }
  return "built";
}

TEST(Set, that_cannot_be_says_what_to_change) {
  const ScratchDirectory dir;
  const std::string a = write_file(dir, "a", 50, 1), b = write_file(dir, "b", 50, 2);
  EXPECT_NE(refusal(request_of({a, b}, 1000)).find("give weights"), std::string::npos);
  auto whole = request_of({"0.5", a, "0.5", b}, 0);
  whole.num_samples.reset();
  EXPECT_NE(refusal(whole).find("leave the weights out"), std::string::npos) << refusal(whole);
  std::vector<std::string> many(kMostMembers + 1, a);
  if (many.size() % 2 == 0) many.push_back(a);
  EXPECT_NE(refusal(request_of(many, 10)).find("at most 32767"), std::string::npos);
}

// 15 samples in the shares 130 : 10 : 3 should be 14, 2 and 1 (each rounded up), the greedy order draws 15, 1 and 1.
TEST(Set, whose_blend_draws_more_than_was_made_asks_for_a_surplus) {
  const ScratchDirectory dir;
  const std::string a = write_file(dir, "a", 6, 1), b = write_file(dir, "b", 40, 2);  // 120 tokens: 14 samples
  auto request = request_of({"130", a, "10", b, "3", b}, 15);
  request.surplus = 0;
  const std::string text = refusal(request);
  EXPECT_NE(text.find("the training blend draws 15 samples where 14 were made"), std::string::npos) << text;
  EXPECT_NE(text.find("a larger --mid-level-dataset-surplus than 0"), std::string::npos) << text;
  request.surplus = 0.005;  // 15 are made of the first: a second epoch
  EXPECT_EQ(refusal(request), "built");
}

// A descriptor a set would stop at the limit of 64; a map a set would stop at 65,530.
TEST(Set, of_thousands_of_files_needs_few_descriptors) {
  const ScratchDirectory dir;
  std::vector<std::string> words;
  const std::string one = write_file(dir, "one", 4, 1);
  for (int i = 0; i < 1500; ++i) {
    const std::string name = dir / std::to_string(i);
    std::filesystem::create_hard_link(bin_path(one), bin_path(name));
    std::filesystem::create_hard_link(idx_path(one), idx_path(name));
    words.push_back(std::to_string(i % 7 + 1));
    words.push_back(name);
  }
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  TokenFiles files;
  IndexCache cache;
  const auto set = build_set(request_of(words, 20000), files, cache);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(set.num_members(), 1500u);
  std::vector<std::int32_t> out(9);
  for (std::int64_t k = 0; k < set.size(); k += 97) EXPECT_EQ(set.fetch(k, out), 9);
}

}  // namespace
}  // namespace mt::data
