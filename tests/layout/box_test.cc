// Boxes against brute force over every element of small tensors.

#include "layout/box.h"

#include <random>

#include <gtest/gtest.h>

namespace mt {
namespace {

// Row-major index of every element of a box in a tensor of `shape`, in the box's own order.
std::vector<std::int64_t> elements_of(const Box& box, const Dims& shape) {
  std::vector<std::int64_t> out;
  Dims at(shape.size(), 0);
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) at[d] = rest % shape[d], rest /= shape[d];
    bool in = true;
    for (std::size_t d = 0; d < shape.size(); ++d)
      in = in && at[d] >= box.offset[d] && at[d] < box.offset[d] + box.extent[d];
    if (in) out.push_back(i);
  }
  return out;
}

using Random = std::mt19937;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

Dims random_shape(Random& random, std::int64_t smallest = 1) {
  Dims shape;
  const auto dims = draw(random, 0, 4);
  for (std::int64_t d = 0; d < dims; ++d) shape.push_back(draw(random, smallest, 5));
  return shape;
}

Box random_box(Random& random, const Dims& shape, std::int64_t smallest) {
  Box b;
  for (auto n : shape) {
    b.extent.push_back(draw(random, std::min(smallest, n), n));
    b.offset.push_back(draw(random, 0, n - b.extent.back()));
  }
  return b;
}

TEST(Box, TextAndSizes) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({3, 0, 2}), 0);
  EXPECT_EQ(dims_text({4096, 11008}), "[4096, 11008]");
  EXPECT_EQ(box_text({{0, 256}, {128, 256}}), "[0:128, 256:512]");
  EXPECT_EQ(box_text({{}, {128}}), "[128] at []") << "what a file says may be no box";
  EXPECT_EQ(box_text({{0, 256}, {128}}), "[128] at [0, 256]");
  EXPECT_EQ(box_text({{INT64_MAX}, {2}}), "[9223372036854775807+2]");
  EXPECT_EQ(whole({2, 3}), (Box{{0, 0}, {2, 3}}));
}

TEST(Box, InsideMeansEveryCornerIsInTheTensor) {
  EXPECT_TRUE(inside({{1, 2}, {2, 1}}, {3, 3}));
  EXPECT_TRUE(inside({{3}, {0}}, {3}));
  EXPECT_TRUE(inside({{}, {}}, {}));
  EXPECT_FALSE(inside({{1, 2}, {2, 2}}, {3, 3}));
  EXPECT_FALSE(inside({{-1}, {1}}, {3}));
  EXPECT_FALSE(inside({{0}, {-1}}, {3}));
  EXPECT_FALSE(inside({{0}, {1}}, {3, 3}));
  EXPECT_FALSE(inside({{2}, {INT64_MAX}}, {3}));  // offset + extent would overflow
}

TEST(Box, IntersectionIsTheCommonElements) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const Dims shape = random_shape(random);
    const Box a = random_box(random, shape, 0), b = random_box(random, shape, 0);
    const auto ea = elements_of(a, shape), eb = elements_of(b, shape);
    std::vector<std::int64_t> common;
    std::set_intersection(ea.begin(), ea.end(), eb.begin(), eb.end(), std::back_inserter(common));
    const auto got = intersect(a, b);
    ASSERT_EQ(got.has_value(), !common.empty()) << box_text(a) << box_text(b);
    if (got) {
      ASSERT_EQ(elements_of(*got, shape), common) << box_text(a) << box_text(b);
      ASSERT_EQ(intersect(b, a), got);
    }
  }
}

TEST(Box, PartsHoldEveryElementOnceInOrderAndNearlyEqually) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const Dims shape = random_shape(random);
    const Box box = random_box(random, shape, 0);
    const int parts = static_cast<int>(draw(random, 1, 7));
    std::vector<std::int64_t> together;
    std::int64_t least = INT64_MAX, most = 0, rows = 1;
    for (int p = 0; p < parts; ++p) {
      const Box part = part_of(box, parts, p);
      least = std::min(least, part.size());
      most = std::max(most, part.size());
      if (part.empty()) continue;
      ASSERT_TRUE(inside(part, shape));
      const auto e = elements_of(part, shape);
      together.insert(together.end(), e.begin(), e.end());
    }
    for (auto n : box.extent)
      if (n > 1) {
        rows = n;
        break;
      }
    ASSERT_EQ(together, elements_of(box, shape)) << box_text(box) << " in " << parts;
    ASSERT_LE(most - least, box.size() / rows) << "parts differ by more than one row";
  }
}

TEST(Box, AFlatRangeIsFewBoxesInOrder) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const Dims shape = random_shape(random);
    const std::int64_t n = num_elements(shape), begin = draw(random, 0, n), end = draw(random, begin, n);
    const auto boxes = boxes_of_range(shape, begin, end);
    std::vector<std::int64_t> got, want;
    for (const Box& b : boxes) {
      ASSERT_TRUE(inside(b, shape)) << box_text(b);
      const auto e = elements_of(b, shape);
      got.insert(got.end(), e.begin(), e.end());
    }
    for (auto e = begin; e < end; ++e) want.push_back(e);
    ASSERT_EQ(got, want) << dims_text(shape) << " " << begin << ":" << end;
    ASSERT_LE(boxes.size(), std::max<std::size_t>(1, 2 * shape.size() - (shape.empty() ? 0 : 1)));
  }
  EXPECT_TRUE(boxes_of_range({4, 0}, 0, 0).empty());
}

TEST(Box, RunsCopyExactlyThePartAndAreAsLongAsTheyCanBe) {
  Random random(4);
  for (int i = 0; i < 1000; ++i) {
    const Dims shape = random_shape(random);
    const Box outer = random_box(random, shape, 1);
    Box part = random_box(random, outer.extent, 0);
    for (std::size_t d = 0; d < shape.size(); ++d) part.offset[d] += outer.offset[d];
    const auto container = elements_of(outer, shape), want = part.empty() ? std::vector<std::int64_t>{} : elements_of(part, shape);
    std::vector<std::int64_t> got;
    std::int64_t last_end = -1;
    for_each_run(outer, part, [&](std::int64_t from, std::int64_t at, std::int64_t n) {
      ASSERT_EQ(at, static_cast<std::int64_t>(got.size()));
      ASSERT_GT(n, 0);
      ASSERT_NE(from, last_end) << "two runs that touch";
      last_end = from + n;
      for (std::int64_t k = 0; k < n; ++k) got.push_back(container.at(static_cast<std::size_t>(from + k)));
    });
    ASSERT_EQ(got, want) << box_text(outer) << box_text(part);
  }
}

}  // namespace
}  // namespace mt
