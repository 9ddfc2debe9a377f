#include "tensor/view.h"

#include <gtest/gtest.h>

#include "tensor/tensor.h"

namespace mt {

TEST(View, IsRowMajorUnlessSliced) {
  float data[24];
  const View v(data, DType::f32, {2, 3, 4});
  EXPECT_TRUE(v.contiguous());
  EXPECT_EQ(shape_text(v.strides), "[12, 4, 1]");
  EXPECT_EQ(v.size(), 24);
  EXPECT_EQ(v.bytes(), 96u);
  EXPECT_EQ(v.dim(-1), 4);
  const View s = v.slice(1, 1, 3);
  EXPECT_EQ(s.as<float>(), data + 4);
  EXPECT_EQ(shape_text(s.shape), "[2, 2, 4]");
  EXPECT_FALSE(s.contiguous());
  EXPECT_TRUE(v.rows(1, 2).contiguous());
  EXPECT_EQ(v.rows(1, 2).as<float>(), data + 12);
  EXPECT_EQ(v.slice(-1, 2, 2).size(), 0);
}

TEST(View, ReshapesWhatIsContiguous) {
  float data[24];
  const View v(data, DType::f32, {2, 3, 4});
  EXPECT_EQ(shape_text(v.matrix().shape), "[6, 4]");
  EXPECT_EQ(shape_text(v.reshape({8, 3}).shape), "[8, 3]");
  EXPECT_EQ(shape_text(Shape{}), "[]");
  EXPECT_EQ(View(data, DType::f32, {0, 4}).matrix().dim(0), 0);
}

TEST(ViewDeathTest, MisuseIsABug) {
  float data[6];
  const View v(data, DType::f32, {2, 3});
  EXPECT_DEATH((void)v.slice(0, 1, 3), "slice");
  EXPECT_DEATH((void)v.slice(1, 0, 2).reshape({4}), "read as");
  EXPECT_DEATH((void)v.as<double>(), "read as");
}

TEST(Tensor, OwnsZeroesAndArenaViewsAreContiguous) {
  Tensor t({}, DType::bf16, {3, 5});
  EXPECT_EQ(t.bytes(), 30u);
  const View v = t;
  EXPECT_TRUE(v.contiguous());
  for (int i = 0; i < 15; ++i) EXPECT_EQ(v.as<bf16>()[i].bits, 0);
  Tensor moved = std::move(t);
  EXPECT_EQ(moved.view().data, v.data);
  Arena arena({});
  const View a = allocate(arena, DType::f32, {7}), b = allocate(arena, DType::f32, {7});
  EXPECT_TRUE(a.contiguous());
  EXPECT_EQ(static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data), 64);
}

}  // namespace mt
