// Boxes to boxes: any part of a tensor is made from its sources, and a table that forgets or repeats an element is refused.

#include "foreign/tensor_map.h"

#include <cstring>
#include <map>

#include <gtest/gtest.h>

namespace mt {
namespace {

using Values = std::map<std::string, std::vector<std::int32_t>>;

void read_from(const Values& values, const std::map<std::string, Dims>& shapes, const std::string& name, const Box& box, std::byte* out) {
  for_each_run(whole(shapes.at(name)), box, [&](std::int64_t at, std::int64_t inner, std::int64_t n) {
    std::memcpy(out + 4 * inner, values.at(name).data() + at, static_cast<std::size_t>(4 * n));
  });
}

// Rows by head: q of head 0, k of head 0, v of head 0, q of head 1 ...; a transposed matrix; an expert of a stack.
std::vector<MappedTensor> some_map() {
  MappedTensor qkv{"qkv", {12, 5}, {}};
  for (std::int64_t head = 0; head < 2; ++head)
    for (std::int64_t part = 0; part < 3; ++part)
      qkv.parts.push_back({std::string(1, "qkv"[part]), {{2 * head, 0}, {2, 5}}, {{2 * (3 * head + part), 0}, {2, 5}}});
  MappedTensor turned{"turned", {7, 3}, {{"m", {{0, 0}, {3, 7}}, {{0, 0}, {7, 3}}, true}}};
  MappedTensor e0{"e0", {4, 2}, {{"stack", {{0, 0, 0}, {1, 4, 2}}, {{0, 0}, {4, 2}}}}};
  MappedTensor e1{"e1", {2, 4}, {{"stack", {{1, 0, 0}, {1, 4, 2}}, {{0, 0}, {2, 4}}, true}}};
  return {qkv, turned, e0, e1};
}
const std::vector<NamedShape> kOurs{{"q", {4, 5}}, {"k", {4, 5}}, {"v", {4, 5}}, {"m", {3, 7}}, {"stack", {2, 4, 2}}};

TEST(TensorMap, AnyRangeIsMadeFromItsSourcesBothWays) {
  const auto map = some_map();
  ASSERT_TRUE(mapping_problems(map, kOurs).empty());
  std::map<std::string, Dims> shapes;
  Values theirs, ours;
  std::int32_t next = 0;
  for (const auto& t : map) {
    shapes[t.name] = t.shape;
    for (std::int64_t i = 0; i < num_elements(t.shape); ++i) theirs[t.name].push_back(next++);
  }
  for (const auto& o : kOurs) shapes[o.name] = o.shape;
  const auto parts = sources_of(map, kOurs);
  for (std::size_t i = 0; i < kOurs.size(); ++i) {
    const std::int64_t n = num_elements(kOurs[i].shape);
    auto& all = ours[kOurs[i].name];
    all.resize(static_cast<std::size_t>(n));
    const auto read = [&](const std::string& name, const Box& box, std::byte* out) { read_from(theirs, shapes, name, box, out); };
    fill_range(kOurs[i].shape, 0, n, parts[i], 4, read, reinterpret_cast<std::byte*>(all.data()));
    for (std::int64_t from = 0; from < n; ++from)
      for (std::int64_t to = from + 1; to <= n; ++to) {
        std::vector<std::int32_t> some(static_cast<std::size_t>(to - from));
        fill_range(kOurs[i].shape, from, to, parts[i], 4, read, reinterpret_cast<std::byte*>(some.data()));
        ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + from)) << kOurs[i].name << " " << from << ":" << to;
      }
  }
  EXPECT_EQ(ours["k"][0], 2 * 5) << "first row of k is the third of qkv";
  EXPECT_EQ(ours["v"][2 * 5 + 1], 10 * 5 + 1) << "head 1";
  EXPECT_EQ(ours["m"][1], theirs["turned"][3]) << "turned";
  EXPECT_EQ(ours["stack"][8 + 1], theirs["e1"][4]) << "turned, of a stack";
  for (const auto& t : map) {
    std::vector<std::int32_t> back(theirs[t.name].size());
    fill_range(t.shape, 0, num_elements(t.shape), sources_of(t), 4,
               [&](const std::string& name, const Box& box, std::byte* out) { read_from(ours, shapes, name, box, out); },
               reinterpret_cast<std::byte*>(back.data()));
    EXPECT_EQ(back, theirs[t.name]) << t.name;
  }
}

TEST(TensorMap, AnElementForgottenOrTwiceIsAProblemOfBothSides) {
  auto map = some_map();
  map[0].parts[1].our_box.offset[0] = 2;  // k of head 0 becomes a second one of head 1
  EXPECT_EQ(mapping_problems(map, kOurs).size(), 1u);
  map = some_map();
  map[0].parts.pop_back();
  EXPECT_EQ(mapping_problems(map, kOurs).size(), 2u);
  map = some_map();
  map.push_back({"more", {1}, {{"ghost", {{0}, {1}}, {{0}, {1}}}}});
  EXPECT_EQ(mapping_problems(map, kOurs).size(), 1u);
}

}  // namespace
}  // namespace mt
