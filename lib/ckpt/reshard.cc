#include "ckpt/reshard.h"

#include <map>

#include "base/error.h"

namespace mt {
namespace {

void check_cover(const Reader& source, const Resharding& to) {
  std::vector<TensorRequest> all;
  std::map<const TensorEntry*, std::vector<Box>> boxes;
  for (const auto& rank : to.owned)
    for (const auto& t : rank) {
      TensorRequest q;
      q.what = t;
      q.convert = to.convert;
      all.push_back(std::move(q));
      boxes[source.manifest().find(t.name, t.kind)].push_back(t.box);
    }
  source.check(all);
  for (const auto& t : source.manifest().tensors) {
    if (to.weights_only && t.kind != "weight") continue;
    // A tensor without elements is covered by nothing at all, but must not get lost.
    const auto problem = boxes.count(&t) == 0 ? "no rank has it" : coverage_problem(t.shape, boxes[&t]);
    if (!problem.empty())
      throw Error(Code::config, "the new layout: " + tensor_text(t.name, t.kind) + ": " + problem,
                  source.dir().string());
  }
}

}  // namespace

std::filesystem::path reshard(const Reader& source, const std::filesystem::path& root,
                              const Resharding& to, const BytesDone& progress) {
  check_cover(source, to);
  const auto& owned = to.owned;
  auto meta = source.manifest().meta;
  meta.specs = to.specs;
  meta.world_size = static_cast<int>(owned.size());
  std::error_code ec;
  if (std::filesystem::equivalent(source.dir(), root / iteration_name(meta.iteration), ec))
    throw Error(Code::config, "source and destination are the same checkpoint", source.dir().string(),
                "write to another directory");
  WriteOptions options;
  options.codec = to.codec;
  std::uint64_t done = 0, total = 0;
  for (const auto& rank : owned)
    for (const auto& b : rank) total += b.bytes();
  return save_at_once(root, meta, [&](const std::filesystem::path& dir) {
    for (std::size_t rank = 0; rank < owned.size(); ++rank) {
      const auto& boxes = owned[rank];
      write_rank_from(dir, static_cast<int>(rank), boxes,
                      [&](std::size_t shard, std::uint64_t begin, std::uint64_t end, std::byte* out) {
                        const auto& t = boxes[shard];
                        const auto elem = static_cast<std::uint64_t>(bytes_of(t.dtype, 1));
                        std::vector<TensorRequest> parts;
                        for (auto& range : boxes_of_range(t.box.extent, static_cast<std::int64_t>(begin / elem),
                                                          static_cast<std::int64_t>(end / elem))) {
                          TensorRequest q;
                          q.what = t;
                          q.convert = to.convert;
                          for (std::size_t i = 0; i < range.offset.size(); ++i) range.offset[i] += t.box.offset[i];
                          q.what.box = std::move(range);
                          q.out = out;
                          out += q.what.bytes();
                          parts.push_back(std::move(q));
                        }
                        source.read(parts);
                        done += end - begin;
                        if (progress) progress(done, total);
                      },
                      options);
    }
  });
}

std::vector<std::vector<TensorBox>> split_by_rows(const Manifest& manifest, int num_shards) {
  MT_CHECK(num_shards > 0, "{} shards", num_shards);
  std::vector<std::vector<TensorBox>> owned(static_cast<std::size_t>(num_shards));
  for (const auto& t : manifest.tensors)
    for (int i = 0; i < num_shards; ++i) {
      TensorBox b{t.name, t.kind, t.dtype, t.shape, part_of(whole(t.shape), num_shards, i)};
      const bool kept = num_elements(t.shape) == 0 ? i == 0 : !b.box.empty();
      if (num_elements(t.shape) == 0) b.box = whole(t.shape);
      if (kept)
        owned[static_cast<std::size_t>(i)].push_back(std::move(b));
    }
  return owned;
}

}  // namespace mt
