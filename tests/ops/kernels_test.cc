#include "ops/kernels.h"

#include <cstring>

#include <gtest/gtest.h>

#include "device/test_device.h"
#include "ops/cpu/vector/vector.h"

namespace mt::ops {

template <class Table>
int null_slots(const Table& table) {
  using Slot = void (*)();
  static_assert(sizeof(Table) % sizeof(Slot) == 0);
  Slot slots[sizeof(Table) / sizeof(Slot)];
  std::memcpy(slots, &table, sizeof table);
  int null = 0;
  for (Slot s : slots) null += s == nullptr;
  return null;
}

TEST(Kernels, EveryBackendFillsEverySlot) {
  EXPECT_EQ(null_slots(kernels(DeviceKind::cpu)), 0);
  EXPECT_EQ(null_slots(kernels(test::test_device().kind)), 0);
#if defined(__x86_64__)
  EXPECT_EQ(null_slots(cpu::avx2::kVector), 0);
  EXPECT_EQ(null_slots(cpu::avx512::kVector), 0);
#endif
  EXPECT_EQ(null_slots(cpu::generic::kVector), 0);
}

}  // namespace mt::ops
