#include "foreign/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "ckpt/manifest.h"

namespace mt {

namespace {

// The box of the source that has the elements of `inside`, a box of the part's target.
Box source_box(const SourcePart& part, const Box& inside) {
  const auto n = part.target.extent.size(), m = part.box.extent.size();
  Box out = part.box;
  for (std::size_t i = 0; i < std::min(n, m); ++i) {  // from the last dimension on
    const std::size_t t = n - 1 - i;
    std::size_t s = m - 1 - i;
    if (part.transposed && i < 2) s = m - 2 + i;
    out.offset[s] = part.box.offset[s] + inside.offset[t] - part.target.offset[t];
    out.extent[s] = inside.extent[t];
  }
  return out;
}

// Rows and columns of the last two dimensions swapped.
void transpose(const std::byte* from, std::int64_t rows, std::int64_t columns, std::size_t width, std::byte* to) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (std::int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
          std::memcpy(to + static_cast<std::size_t>(c * rows + r) * width, from + static_cast<std::size_t>(r * columns + c) * width, width);
}

void add_problem(std::vector<std::string>& out, const std::string& name, const Dims& shape, const std::vector<Box>& boxes) {
  const auto text = boxes.empty() ? std::string("nothing stands for it") : coverage_problem(shape, boxes);
  if (!text.empty()) out.push_back(name + ": " + text);
}

}  // namespace

std::vector<std::string> mapping_problems(std::span<const MappedTensor> map, std::span<const NamedShape> ours) {
  std::vector<std::string> out;
  std::map<std::string, std::vector<Box>> mine;
  for (const auto& t : map) {
    std::vector<Box> theirs = t.padding;
    for (const auto& p : t.parts) {
      mine[p.ours].push_back(p.our_box);
      theirs.push_back(p.their_box);
    }
    add_problem(out, t.name, t.shape, theirs);
  }
  for (const auto& t : ours) {
    add_problem(out, t.name, t.shape, mine[t.name]);
    mine.erase(t.name);
  }
  for (const auto& [name, boxes] : mine) out.push_back(name + ": the model has no such tensor");
  return out;
}

std::vector<SourcePart> sources_of(const MappedTensor& theirs) {
  std::vector<SourcePart> out;
  for (const auto& p : theirs.parts) out.push_back({p.their_box, p.ours, p.our_box, p.transposed});
  for (const auto& b : theirs.padding) out.push_back({b, "", b, false});
  return out;
}

std::vector<std::vector<SourcePart>> sources_of(std::span<const MappedTensor> map, std::span<const NamedShape> ours) {
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < ours.size(); ++i) place[ours[i].name] = i;
  std::vector<std::vector<SourcePart>> out(ours.size());
  for (const auto& t : map)
    for (const auto& p : t.parts) out[place.at(p.ours)].push_back({p.our_box, t.name, p.their_box, p.transposed});
  return out;
}

void fill_box(const Box& box, std::span<const SourcePart> parts, std::size_t width, const ReadBox& read, std::byte* out) {
  std::vector<std::byte> bytes, turned;
  for (const SourcePart& part : parts) {
    const auto both = intersect(box, part.target);
    if (!both || both->empty()) continue;
    const Box from = source_box(part, *both);
    MT_CHECK(from.size() == both->size(), "{} elements for {}", from.size(), both->size());
    const auto n = static_cast<std::size_t>(both->size()) * width;
    bytes.resize(n);
    if (part.source.empty()) std::fill(bytes.begin(), bytes.end(), std::byte{0});
    else read(part.source, from, bytes.data());
    const std::byte* source = bytes.data();
    if (part.transposed) {
      const auto d = from.extent.size();
      turned.resize(n);
      transpose(bytes.data(), from.extent[d - 2], from.extent[d - 1], width, turned.data());
      source = turned.data();
    }
    for_each_run(box, *both, [&](std::int64_t at, std::int64_t inner, std::int64_t count) {
      std::memcpy(out + static_cast<std::size_t>(at) * width, source + static_cast<std::size_t>(inner) * width,
                  static_cast<std::size_t>(count) * width);
    });
  }
}

void fill_range(const Dims& shape, std::int64_t begin, std::int64_t end, std::span<const SourcePart> parts,
                std::size_t width, const ReadBox& read, std::byte* out) {
  for (const Box& box : boxes_of_range(shape, begin, end)) {
    fill_box(box, parts, width, read, out);
    out += static_cast<std::size_t>(box.size()) * width;
  }
}

std::string of_layer(std::string text, int layer) {
  if (const auto at = text.find("{L}"); at != std::string::npos) text.replace(at, 3, std::to_string(layer));
  return text;
}

}  // namespace mt
