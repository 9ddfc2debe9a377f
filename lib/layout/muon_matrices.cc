#include "layout/muon_matrices.h"

#include <algorithm>
#include <numeric>

#include "layout/state_spec.h"

namespace mt {

namespace {

constexpr std::int64_t kLine = 16;  // f32 elements of a cache line

std::int64_t line(std::int64_t n) { return (n + kLine - 1) / kLine * kLine; }

// Multiplications of a step of the iteration.
double work(const MuonMatrix& m) {
  const double small = static_cast<double>(std::min(m.rows, m.cols)), large = static_cast<double>(std::max(m.rows, m.cols));
  return small * small * (2 * large + small);
}

MuonMatrix matrix_of(const ParamSpec& spec, int param, int first, int last, bool whole) {
  MuonMatrix m;
  m.param = param;
  m.first_piece = first;
  m.last_piece = last;
  const std::int64_t width = spec.shape[1];
  m.begin = m.end = spec.pieces[static_cast<std::size_t>(first)].local.offset[0] * width;
  for (int i = first; i < last; ++i) {
    const auto& piece = spec.pieces[static_cast<std::size_t>(i)];
    m.end += piece.local.size();
    m.rows += whole ? piece.shape[0] : piece.local.extent[0];
    m.cols = whole ? piece.shape[1] : width;
  }
  return m;
}

}  // namespace

std::vector<MuonMatrix> muon_matrices(const std::vector<ParamSpec>& specs, const MuonSharing& sharing) {
  std::vector<MuonMatrix> out;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (!is_layer_matrix(specs[p])) continue;
    const int pieces = static_cast<int>(specs[p].pieces.size());
    const bool apart = sharing.split_qkv && specs[p].name.ends_with("linear_qkv.weight");
    for (int i = 0; i < pieces; i += apart ? 1 : pieces)
      out.push_back(matrix_of(specs[p], static_cast<int>(p), i, apart ? i + 1 : pieces, sharing.whole));
  }
  std::vector<std::size_t> order(out.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work(out[a]) > work(out[b]); });
  std::vector<double> load(static_cast<std::size_t>(sharing.ranks()));
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += work(out[i]);
    out[i].owner = static_cast<int>(least - load.begin());
  }
  return out;
}

std::int64_t newton_schulz_scratch(std::int64_t rows, std::int64_t cols) {
  const std::int64_t small = std::min(rows, cols);
  return line(rows * cols) + 2 * line(small * small) + 4 * kLine;
}

std::int64_t muon_buffer_elements(const std::vector<MuonMatrix>& matrices, const MuonSharing& sharing, int rank,
                                  std::int64_t mine) {
  std::int64_t gathered = 0, largest = 0;
  for (const auto& m : matrices) {
    if (sharing.ranks() > 1 && m.owner != rank) continue;
    gathered += (m.end - m.begin) * (sharing.whole ? sharing.tp : 1);
    largest = std::max(largest, line(m.size()) + newton_schulz_scratch(m.rows, m.cols));
  }
  return largest + (sharing.ranks() > 1 ? line(mine) + line(gathered) : 0);
}

}  // namespace mt
