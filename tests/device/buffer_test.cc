#include "device/buffer.h"

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {

namespace {
bool aligned(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) % kAlign == 0; }
}  // namespace

TEST(Buffer, IsZeroFilledAlignedAndCounted) {
  const std::size_t before = live_buffer_bytes();
  for (std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{5} << 20}) {
    Buffer b({}, size);
    EXPECT_TRUE(aligned(b.data()));
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(b.data()[i], std::byte{0});
    EXPECT_EQ(live_buffer_bytes(), before + size);
    EXPECT_GE(peak_buffer_bytes(), before + size);
  }
  EXPECT_EQ(live_buffer_bytes(), before);
}

TEST(Buffer, MovingLeavesOneOwner) {
  const std::size_t before = live_buffer_bytes();
  {
    Buffer a({}, 64), b;
    std::byte* p = a.data();
    b = std::move(a);
    EXPECT_EQ(b.data(), p);
    Buffer c(std::move(b));
    EXPECT_EQ(c.data(), p);
    EXPECT_EQ(live_buffer_bytes(), before + 64);
  }
  EXPECT_EQ(live_buffer_bytes(), before);
}

TEST(Buffer, TooLargeIsADeviceErrorThatNamesTheSize) {
  try {
    Buffer b({}, std::size_t{1} << 60);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::device);
    EXPECT_NE(e.message().find("1152921504606846976"), std::string::npos) << e.what();
  }
}

TEST(Arena, PointersStayValidWhenItGrows) {
  Arena arena({}, 1024);
  EXPECT_EQ(arena.reserved(), 0u);
  std::byte* a = arena.allocate(1000);
  *a = std::byte{7};
  std::byte* b = arena.allocate(5000);
  std::byte* c = arena.allocate(10);
  EXPECT_TRUE(aligned(a) && aligned(b) && aligned(c));
  EXPECT_EQ(*a, std::byte{7});
  EXPECT_EQ(arena.used(), 1024u + 5056u + 64u);
  EXPECT_EQ(arena.high_water(), arena.used());
}

TEST(Arena, RewindingReusesTheSameMemoryInTheSameOrder) {
  Arena arena({}, 1024);
  arena.allocate(100);
  const Arena::Mark m = arena.mark();
  const std::size_t used = arena.used();
  std::byte *a = arena.allocate(700), *b = arena.allocate(700), *c = arena.allocate(3000);
  const std::size_t reserved = arena.reserved(), high = arena.high_water();
  for (int i = 0; i < 3; ++i) {
    arena.rewind(m);
    EXPECT_EQ(arena.used(), used);
    EXPECT_EQ(arena.allocate(700), a);
    EXPECT_EQ(arena.allocate(700), b);
    EXPECT_EQ(arena.allocate(3000), c);
  }
  EXPECT_EQ(arena.reserved(), reserved);
  EXPECT_EQ(arena.high_water(), high);
  arena.reset();
  EXPECT_EQ(arena.used(), 0u);
}

TEST(Arena, ScopesNest) {
  Arena arena({}, 256);
  {
    ArenaScope outer(arena);
    std::byte* a = arena.allocate(200);
    {
      ArenaScope inner(arena);
      arena.allocate(200);
    }
    EXPECT_NE(arena.allocate(8), a);
  }
  EXPECT_EQ(arena.used(), 0u);
}

TEST(ArenaDeathTest, RewindingForwardIsABug) {
  Arena arena({});
  arena.allocate(64);
  const Arena::Mark later = arena.mark();
  arena.reset();
  EXPECT_DEATH(arena.rewind(later), "rewind forward");
}

}  // namespace mt
