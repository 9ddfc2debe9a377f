#pragma once
// Newton-Schulz with plain loops in double.

#include <algorithm>
#include <cmath>
#include <vector>

namespace mt::test {

struct Matrix {
  int rows = 0, cols = 0;
  std::vector<double> v;
  Matrix(int r, int c) : rows(r), cols(c), v(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  double& at(int i, int j) { return v[static_cast<std::size_t>(i) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(j)]; }
  double at(int i, int j) const { return const_cast<Matrix*>(this)->at(i, j); }
};

inline Matrix times(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i)
    for (int k = 0; k < a.cols; ++k)
      for (int j = 0; j < b.cols; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

inline Matrix transposed(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) t.at(j, i) = a.at(i, j);
  return t;
}

inline Matrix newton_schulz_in_double(Matrix x, int steps, bool simple = false) {
  const double quintic[5][3] = {{4.0848, -6.8946, 2.9270}, {3.9505, -6.3029, 2.6377}, {3.7418, -5.5913, 2.3037},
                                {2.8769, -3.1427, 1.2046}, {2.8366, -3.0525, 1.2012}};
  const double same[3] = {3.4445, -4.7750, 2.0315};
  const bool turn = x.rows > x.cols;
  if (turn) x = transposed(x);
  double norm = 0;
  for (double e : x.v) norm += e * e;
  for (double& e : x.v) e /= std::max(std::sqrt(norm), 1e-7);
  for (int s = 0; s < steps; ++s) {
    const double* k = simple ? same : quintic[s % 5];
    const Matrix a = times(x, transposed(x)), aa = times(a, a);
    Matrix b = a;
    for (std::size_t i = 0; i < b.v.size(); ++i) b.v[i] = k[1] * a.v[i] + k[2] * aa.v[i];
    const Matrix bx = times(b, x);
    for (std::size_t i = 0; i < x.v.size(); ++i) x.v[i] = k[0] * x.v[i] + bx.v[i];
  }
  return turn ? transposed(x) : x;
}

}  // namespace mt::test
