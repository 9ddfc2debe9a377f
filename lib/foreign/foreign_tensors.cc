#include "foreign/foreign_tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "ckpt/tensor_scan.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

constexpr std::int64_t kPiece = 1 << 20;

bool is_weight(const std::optional<DType>& t) { return t && (*t == DType::f32 || *t == DType::bf16 || *t == DType::f16 || *t == DType::f64); }

// Why a copy is none, or "".
std::string copy_problem(const SourceTensors& sources, const TensorCopy& copy) {
  const auto a = sources.find(copy.name), b = sources.find(copy.of);
  if (a == sources.end()) return copy.name + " is missing";
  if (b == sources.end()) return "";  // said of itself
  if (a->second.dtype_text != b->second.dtype_text || !a->second.dtype) return fmt::format("{} is {} and {} is {}", copy.name, a->second.dtype_text, copy.of, b->second.dtype_text);
  if (!inside(copy.box, a->second.shape) || !inside(copy.of_box, b->second.shape) || copy.box.extent != copy.of_box.extent)
    return fmt::format("{} has shape {} and {} {}: no copy", copy.name, dims_text(a->second.shape), copy.of, dims_text(b->second.shape));
  const auto width = static_cast<std::size_t>(bytes_of(*a->second.dtype, 1));
  const int parts = static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(copy.box.extent.empty() ? 1 : copy.box.extent[0],
                                                                                      copy.box.size() / kPiece)));
  std::vector<std::byte> x, y;
  for (int i = 0; i < parts; ++i) {
    const Box mine = part_of(copy.box, parts, i), theirs = part_of(copy.of_box, parts, i);
    x.resize(static_cast<std::size_t>(mine.size()) * width);
    y.resize(x.size());
    a->second.read(mine, x.data());
    b->second.read(theirs, y.data());
    if (x != y) return fmt::format("{} and {} should be copies and differ", copy.name, copy.of);
  }
  return "";
}

std::vector<std::string> source_problems(const SourceTensors& sources, const NativeImport& what) {
  std::vector<std::string> problems;
  std::set<std::string> used;
  const auto look_at = [&](const MappedTensor& t) {
    used.insert(t.name);
    const auto found = sources.find(t.name);
    if (found == sources.end()) problems.push_back(t.name + " is missing");
    else if (found->second.shape != t.shape)
      problems.push_back(fmt::format("{} has shape {}, the {} says {}", t.name, dims_text(found->second.shape), what.said_by, dims_text(t.shape)));
    else if (!is_weight(found->second.dtype))
      problems.push_back(fmt::format("{} is {}", t.name, found->second.dtype_text));
  };
  for (const auto& t : what.map) look_at(t);
  for (const auto& s : what.states)
    for (const auto& t : s.map) look_at(t);
  for (const auto& c : what.copies) used.insert(c.name);
  for (const auto& [name, t] : sources)
    if (used.count(name) == 0) problems.push_back(name + " is left over");
  if (!problems.empty()) return problems;  // before a byte is read
  for (const auto& c : what.copies)
    if (auto p = copy_problem(sources, c); !p.empty()) problems.push_back(std::move(p));
  return problems;
}

// f32 in place to a narrower dtype; as many elements.
void round_to(DType dtype, std::vector<std::byte>& elements) {
  if (dtype != DType::bf16 && dtype != DType::f16) return;  // never equal then
  const std::size_t n = elements.size() / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) {
    float v = 0;
    std::memcpy(&v, elements.data() + i * sizeof v, sizeof v);
    const std::uint16_t narrow = dtype == DType::bf16 ? std::bit_cast<std::uint16_t>(to_bf16(v)) : std::bit_cast<std::uint16_t>(to_f16(v));
    std::memcpy(elements.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
  elements.resize(n * sizeof(std::uint16_t));
}

}  // namespace

ForeignTensors::ForeignTensors(const SourceTensors& sources, const NativeImport& what) : sources_(sources), from_(what.from) {
  for (const auto& tower : what.model.towers)
    for (const auto& row : tower.rows)
      if (row.kind == RowKind::moe && (row.moe.topk < 1 || row.moe.topk > row.moe.experts))
        throw Error(Code::config, fmt::format("a token visits {} of {} experts", row.moe.topk, row.moe.experts), from_);
  std::vector<NamedShape> ours;
  for (const auto& t : logical_tensors(what.model)) ours.push_back({t.name, t.shape});
  if (const auto problems = mapping_problems(what.map, ours); !problems.empty()) refuse_all(problems, from_);
  for (const auto& s : what.states)
    if (const auto problems = mapping_problems(s.map, ours); !problems.empty()) refuse_all(problems, from_);
  if (const auto problems = source_problems(sources, what); !problems.empty())
    refuse_all(problems, from_, fmt::format("{} and weights are of different models, or it has parts that are not converted", what.said_by));
  std::vector<TensorBox> all;
  add("weight", what.map, ours, all);
  for (const auto& s : what.states)
    if (s.kept) add(s.kind, s.map, ours, all);
  set_tensors(std::move(all));
  for (const auto& s : what.states)
    if (s.rounds) require_rounding(s, ours);
}

void ForeignTensors::require_rounding(const StateMap& state, const std::vector<NamedShape>& ours) const {
  const auto parts = sources_of(state.map, ours);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < ours.size(); ++i) {  // weights are the first
    for (const auto& p : parts[i])
      if (sources_.at(p.source).dtype != DType::f32) refuse_all({p.source + " is " + sources_.at(p.source).dtype_text + ", not f32"}, from_);
    const TensorBox& weight = tensors()[i];
    scan_tensor(*this, weight, weight.box, [&](const Box& box, const std::byte* elements) {
      bytes.resize(static_cast<std::size_t>(box.size()) * sizeof(float));
      fill_box(box, parts[i], sizeof(float), [&](const std::string& name, const Box& part, std::byte* at) { sources_.at(name).read(part, at); }, bytes.data());
      if (weight.dtype != DType::f32) round_to(weight.dtype, bytes);
      if (std::memcmp(bytes.data(), elements, bytes.size()) != 0)
        throw Error(Code::config, fmt::format("{} does not round to its weight: the files hold it for another parameter, or in another order", tensor_text(weight.name, state.kind)), from_,
                    kWithoutState);
    });
  }
}

void ForeignTensors::add(const std::string& kind, const std::vector<MappedTensor>& map, const std::vector<NamedShape>& ours, std::vector<TensorBox>& all) {
  auto parts = sources_of(map, ours);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto& first = parts[i].front().source;
    const DType dtype = *sources_.at(first).dtype;
    for (const auto& p : parts[i])
      if (const DType other = *sources_.at(p.source).dtype; other != dtype)
        refuse_all({fmt::format("{} is {} and {} is {}: they become one tensor", first, dtype_name(dtype), p.source, dtype_name(other))}, from_);
    all.push_back({ours[i].name, kind, dtype, ours[i].shape, whole(ours[i].shape)});
    parts_.push_back(std::move(parts[i]));
  }
}

void ForeignTensors::read(const TensorBox& tensor, const Box& box, std::byte* out) const {
  const auto i = static_cast<std::size_t>(&tensor - tensors().data());
  MT_CHECK(i < parts_.size(), "{} is of another source", tensor.name);
  fill_box(box, parts_[i], static_cast<std::size_t>(bytes_of(tensor.dtype, 1)),
           [&](const std::string& name, const Box& part, std::byte* at) { sources_.at(name).read(part, at); }, out);
}

void ForeignTensors::read_range(std::size_t i, std::int64_t begin, std::int64_t end, std::byte* out) const {
  const TensorBox& t = tensors()[i];
  fill_range(t.shape, begin, end, parts_[i], static_cast<std::size_t>(bytes_of(t.dtype, 1)),
             [&](const std::string& name, const Box& part, std::byte* at) { sources_.at(name).read(part, at); }, out);
}

}  // namespace mt
