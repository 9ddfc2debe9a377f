#pragma once
// How much aligned memory (what the CPU kernels' scratch is made of) this program held at once.

#include <cstddef>

namespace mt::test {

// Forget the peak so far: it becomes what is held now, and scratch_peak() counts from there.
void scratch_peak_reset();
std::size_t scratch_peak();

}  // namespace mt::test
