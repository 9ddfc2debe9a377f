#include "foreign/source_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "layout/parallel_spec.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

constexpr std::size_t kNamed = 4;  // of many, so many are named
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
  for (const auto& t : what.map) {
    used.insert(t.name);
    const auto found = sources.find(t.name);
    if (found == sources.end()) problems.push_back(t.name + " is missing");
    else if (found->second.shape != t.shape)
      problems.push_back(fmt::format("{} has shape {}, the {} says {}", t.name, dims_text(found->second.shape), what.said_by, dims_text(t.shape)));
    else if (!is_weight(found->second.dtype))
      problems.push_back(fmt::format("{} is {}", t.name, found->second.dtype_text));
  }
  for (const auto& c : what.copies) used.insert(c.name);
  for (const auto& [name, t] : sources)
    if (used.count(name) == 0) problems.push_back(name + " is left over");
  if (!problems.empty()) return problems;  // before a byte is read
  for (const auto& c : what.copies)
    if (auto p = copy_problem(sources, c); !p.empty()) problems.push_back(std::move(p));
  return problems;
}

std::vector<TensorBox> boxes_of(const SourceTensors& sources, std::span<const NamedShape> ours,
                                const std::vector<std::vector<SourcePart>>& parts, const std::string& where) {
  std::vector<TensorBox> boxes;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto& first = parts[i].front().source;
    const DType dtype = *sources.at(first).dtype;
    for (const auto& p : parts[i])
      if (const DType other = *sources.at(p.source).dtype; other != dtype)
        refuse_all({fmt::format("{} is {} and {} is {}: they become one tensor", first, dtype_name(dtype), p.source, dtype_name(other))}, where);
    boxes.push_back({ours[i].name, "weight", dtype, ours[i].shape, whole(ours[i].shape)});
  }
  return boxes;
}

}  // namespace

void refuse_all(const std::vector<std::string>& problems, const std::string& where, const std::string& hint) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, problems.size()); ++i) text += (i > 0 ? "; " : "") + problems[i];
  if (problems.size() > kNamed) text += fmt::format("; and {} more", problems.size() - kNamed);
  throw Error(Code::config, text, where, hint);
}

void require_none_of_ours(const std::filesystem::path& dir) {
  if (std::error_code ec; !std::filesystem::exists(dir, ec)) return;
  const auto ours = [](const std::filesystem::path& at) { return detect_format(at) == CheckpointFormat::native; };
  const auto all = list_iterations(dir);
  if (ours(dir) || std::any_of(all.begin(), all.end(), [&](const IterationInfo& i) { return ours(i.dir); }))
    throw Error(Code::config, "holds checkpoints of ours, and would be of two formats at once", dir.string(), "name another --save");
}

void read_weight(const Reader& reader, const std::string& name, const Box& box, std::byte* out) {
  const auto* entry = reader.manifest().find(name, "weight");
  TensorRequest q;
  q.what = {name, "weight", entry->dtype, entry->shape, box};
  q.out = out;
  reader.read({&q, 1});
}

Converted import_tensors(const SourceTensors& sources, const NativeImport& what, const BytesDone& progress) {
  std::vector<NamedShape> ours;
  for (const auto& t : logical_tensors(what.model)) ours.push_back({t.name, t.shape});
  if (const auto problems = mapping_problems(what.map, ours); !problems.empty()) refuse_all(problems, what.from);
  if (const auto problems = source_problems(sources, what); !problems.empty())
    refuse_all(problems, what.from, fmt::format("{} and weights are of different models, or it has parts that are not converted", what.said_by));
  const auto parts = sources_of(what.map, ours);
  const auto boxes = boxes_of(sources, ours, parts, what.from);
  Converted out;
  out.tensors = sources.size();
  for (const auto& b : boxes) out.bytes += b.bytes();
  CheckpointMeta meta;
  meta.iteration = what.iteration;
  meta.consumed_samples = what.consumed_samples;
  meta.world_size = 1;
  meta.version = what.version;
  meta.specs = {{"model", to_json(what.model)},
                {"parallel", to_json(ParallelSpec{})},
                {"compute_dtype", std::string(dtype_name(boxes.front().dtype))}};
  meta.specs.update(what.specs);
  std::uint64_t done = 0;
  out.path = save_at_once(what.root, meta, [&](const std::filesystem::path& dir) {
    write_rank_from(dir, 0, boxes, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
      const auto width = static_cast<std::size_t>(bytes_of(boxes[i].dtype, 1));
      fill_range(boxes[i].shape, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), parts[i], width,
                 [&](const std::string& name, const Box& box, std::byte* at) { sources.at(name).read(box, at); }, to);
      done += end - begin;
      if (progress) progress(done, out.bytes);
    });
  });
  return out;
}

}  // namespace mt
