#pragma once
// Draws of numpy's legacy RandomState beyond shuffle, bit for bit: what Megatron's BERT, T5 and fill-in-middle samples
// are made with.
//
// Each takes from the stream exactly what numpy takes, so draws of different kinds may follow one another.
// Source: numpy's legacy distributions, as documented and measured (numpy 2.4).
// Code: data/numpy_draws.cc. Tests: tests/data/numpy_draws_test.cc (values from numpy).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "data/numpy_random.h"

namespace mt::data {

// random(): 53 bits, 0 <= x < 1. Two outputs of the generator.
double draw_uniform(NumpyRandomState& random);

// randint(0, most + 1): masked and rejected; no output is taken when most is 0.
std::uint32_t draw_up_to(NumpyRandomState& random, std::uint32_t most);

// binomial(1, p).   needs  0 <= p <= 1 (MT_CHECK)
bool draw_chance(NumpyRandomState& random, double p);

// geometric(p) for p < 1/3: number of trials up to the first success, from 1.
std::int64_t draw_geometric(NumpyRandomState& random, double p);

// choice(len(p), p=p): the place.   needs  p sums to 1 (MT_CHECK that it is not empty)
std::size_t draw_choice(NumpyRandomState& random, std::span<const double> p);

// sum() of a float64 array, in numpy's order of additions.   needs  up to 128 values (MT_CHECK)
double numpy_sum(std::span<const double> values);

// shuffle(list): the order shuffle() of an array takes, for any element type.
template <class T>
void shuffle_list(NumpyRandomState& random, std::vector<T>& values) {
  for (std::size_t i = values.size(); i-- > 1;)
    std::swap(values[i], values[draw_up_to(random, static_cast<std::uint32_t>(i))]);
}

}  // namespace mt::data
