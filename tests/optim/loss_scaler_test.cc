// Megatron's rule of the moving loss scale, step by step, by hand.

#include "optim/loss_scaler.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

class Scaler : public testing::Test {
 protected:
  LossScaler make(LossScaleOptions o, bool dynamic = true) { return LossScaler(o, dynamic, {}); }
  Stream stream;
};

TEST_F(Scaler, DoublesAfterAWindowOfFiniteSteps) {
  auto s = make({{}, 16, 1, 3, 2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(s.update(stream, true));
    EXPECT_FALSE(s.update(stream, true));
    EXPECT_EQ(s.scale(), i == 0 ? 16 : 32);
    s.update(stream, true);
    EXPECT_EQ(s.scale(), i == 0 ? 32 : 64);
    EXPECT_EQ(*s.on_device(), static_cast<float>(s.scale()));
  }
}

TEST_F(Scaler, TheFirstOverflowOnlyUsesUpHysteresisAndEveryFurtherOneHalves) {
  auto s = make({{}, 16, 1, 3, 2});
  EXPECT_TRUE(s.update(stream, false));
  EXPECT_EQ(s.scale(), 16);
  EXPECT_TRUE(s.update(stream, false));
  EXPECT_EQ(s.scale(), 8);
  s.update(stream, true);  // a finite step does not give hysteresis back
  s.update(stream, true);
  s.update(stream, false);
  EXPECT_EQ(s.scale(), 4);
  for (int i = 0; i < 3; ++i) s.update(stream, true);  // a whole window does
  EXPECT_EQ(s.scale(), 8);
  s.update(stream, false);
  EXPECT_EQ(s.scale(), 8);
  s.update(stream, false);
  EXPECT_EQ(s.scale(), 4);
  EXPECT_EQ(*s.on_device(), 4.0f);
}

TEST_F(Scaler, AnOverflowBreaksTheWindow) {
  auto s = make({{}, 16, 1, 3, 9});
  s.update(stream, true), s.update(stream, true), s.update(stream, false);
  s.update(stream, true), s.update(stream, true);
  EXPECT_EQ(s.scale(), 16);
  s.update(stream, true);
  EXPECT_EQ(s.scale(), 32);
}

TEST_F(Scaler, StopsAtItsLeastAndSaysThatNothingSmallerIsLeft) {
  auto s = make({{}, 8, 3, 100, 1});
  EXPECT_TRUE(s.update(stream, false));
  EXPECT_EQ(s.scale(), 4);
  EXPECT_TRUE(s.update(stream, false));
  EXPECT_EQ(s.scale(), 3);
  EXPECT_FALSE(s.update(stream, false));
  EXPECT_EQ(s.scale(), 3);
}

TEST_F(Scaler, AFixedOneNeverMovesAndWithoutFp16ItIsOne) {
  auto fixed = make({1000.0, 8, 1, 1, 1});
  EXPECT_FALSE(fixed.dynamic());
  EXPECT_FALSE(fixed.update(stream, false));
  fixed.update(stream, true);
  EXPECT_EQ(fixed.scale(), 1000);
  EXPECT_EQ(*fixed.on_device(), 1000.0f);
  EXPECT_EQ(make({}, false).scale(), 1);
  EXPECT_EQ(make({512.0, 8, 1, 1, 1}, false).scale(), 512);
  EXPECT_EQ(make({}).scale(), 4294967296.0) << "Megatron's start";
}

TEST_F(Scaler, ComesBackFromItsStateAtAnyPoint) {
  const LossScaleOptions o{{}, 256, 1, 4, 2};
  auto whole = make(o);
  for (int i = 0; i < 40; ++i) {
    auto again = make(o);
    again.restore(stream, whole.state(), "here");
    EXPECT_EQ(again.state(), whole.state());
    EXPECT_EQ(*again.on_device(), static_cast<float>(whole.scale()));
    const bool finite = i * 7 % 5 != 0;
    whole.update(stream, finite);
    again.update(stream, finite);
    EXPECT_EQ(again.state(), whole.state()) << i;
  }
  auto s = make(o);
  try {
    s.restore(stream, {{"scale", 1.0}}, "here");
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt);
    EXPECT_NE(std::string(e.what()).find("growth_tracker"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mt
