#include "foreign/source_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "foreign/foreign_tensors.h"
#include "layout/parallel_spec.h"

namespace mt {

namespace {

constexpr std::size_t kNamed = 4;  // of many, so many are named

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
  const ForeignTensors tensors(sources, what);
  const auto& boxes = tensors.tensors();
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
  meta.training = what.training;
  std::uint64_t done = 0;
  out.path = save_at_once(what.root, meta, [&](const std::filesystem::path& dir) {
    write_rank_from(dir, 0, boxes, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
      const auto width = static_cast<std::uint64_t>(bytes_of(boxes[i].dtype, 1));
      tensors.read_range(i, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), to);
      done += end - begin;
      if (progress) progress(done, out.bytes);
    });
  });
  return out;
}

Converted import_model(ForeignModel model, const ModelImport& what, const BytesDone& progress) {
  model.what.root = what.root;
  model.what.version = what.version;
  model.what.iteration = what.iteration;
  Converted out = import_tensors(model.tensors, model.what, progress);
  out.tensors = model.num_tensors;
  out.notices = model.notices;
  return out;
}

}  // namespace mt
