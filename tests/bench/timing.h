#pragma once
// Clock and median of the benchmarks that compare whole runs.

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace mt::test {

inline double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace mt::test
