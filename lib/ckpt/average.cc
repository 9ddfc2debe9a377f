#include "ckpt/average.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ckpt/tensor_scan.h"

namespace mt {

namespace {

bool has_masters(const Reader& r) {
  const auto& all = r.manifest().tensors;
  return std::any_of(all.begin(), all.end(), [](const TensorEntry& t) { return t.kind == "master"; });
}

bool is_averaged(const std::string& kind, bool masters) { return kind == "weight" || (masters && kind == "master"); }

void require_same(const Reader& first, const Reader& other, bool masters) {
  const auto differ = [&](const std::string& what) {
    throw Error(Code::config, what, other.dir().string(), "average checkpoints of one model: mt-ckpt info");
  };
  if (first.manifest().meta.specs.value("model", Json()) != other.manifest().meta.specs.value("model", Json()))
    differ("is of another model than " + first.dir().string());
  for (const auto* pair : {&first, &other}) {
    const Reader& a = *pair;
    const Reader& b = pair == &first ? other : first;
    for (const auto& t : a.manifest().tensors) {
      if (!is_averaged(t.kind, masters)) continue;
      const auto* same = b.manifest().find(t.name, t.kind);
      if (same == nullptr) differ(tensor_text(t.name, t.kind) + " is only in " + a.dir().string());
      if (same->shape != t.shape || same->dtype != t.dtype)
        differ(fmt::format("{}: {} {} and {} {}", tensor_text(t.name, t.kind), dtype_name(t.dtype), dims_text(t.shape),
                           dtype_name(same->dtype), dims_text(same->shape)));
    }
  }
}

void store_element(DType t, double v, std::byte* at) {
  const auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  if (t == DType::f64) return put(v);
  if (t == DType::f32) return put(static_cast<float>(v));
  if (t == DType::bf16) return put(to_bf16(static_cast<float>(v)));
  MT_CHECK(t == DType::f16, "mean in {}", dtype_name(t));
  put(to_f16(static_cast<float>(v)));
}

// Bytes [begin, end) of a box, from the mean of what the sources hold under `kind`.
void fill_mean(const std::vector<const Reader*>& sources, const TensorBox& box, const std::string& kind,
               std::int64_t begin, std::int64_t end, std::byte* out) {
  std::vector<double> sum(static_cast<std::size_t>(end - begin));
  for (const Reader* source : sources) {
    const TensorEntry& t = *source->manifest().find(box.name, kind);
    std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(t.dtype, end - begin)));
    std::vector<TensorRequest> parts;
    std::byte* to = bytes.data();
    for (auto& range : boxes_of_range(box.shape, begin, end)) {
      TensorRequest q;
      q.what = {t.name, t.kind, t.dtype, t.shape, std::move(range)};
      q.out = to;
      to += q.what.bytes();
      parts.push_back(std::move(q));
    }
    source->read(parts);
    const auto width = static_cast<std::size_t>(bytes_of(t.dtype, 1));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += element_value(t.dtype, bytes.data() + i * width);
  }
  const auto width = static_cast<std::size_t>(bytes_of(box.dtype, 1));
  for (std::size_t i = 0; i < sum.size(); ++i)
    store_element(box.dtype, sum[i] / static_cast<double>(sources.size()), out + i * width);
}

}  // namespace

std::filesystem::path average_checkpoints(const std::vector<const Reader*>& sources, const std::filesystem::path& root,
                                          const BytesDone& progress) {
  MT_CHECK(!sources.empty(), "no checkpoints");
  const bool masters = std::all_of(sources.begin(), sources.end(), [](const Reader* r) { return has_masters(*r); });
  for (const Reader* r : sources) require_same(*sources.front(), *r, masters);
  const auto iteration_less = [](const Reader* a, const Reader* b) {
    return a->manifest().meta.iteration < b->manifest().meta.iteration;
  };
  auto meta = (*std::max_element(sources.begin(), sources.end(), iteration_less))->manifest().meta;
  meta.world_size = 1;
  std::vector<TensorBox> boxes;
  for (const auto& t : sources.front()->manifest().tensors) {
    if (!is_averaged(t.kind, masters)) continue;
    if (t.dtype != DType::f64 && !convertible(t.dtype, DType::f32))
      throw Error(Code::config, fmt::format("{} is {}: no mean is stored in that", tensor_text(t.name, t.kind), dtype_name(t.dtype)),
                  sources.front()->dir().string());
    boxes.push_back({t.name, t.kind, t.dtype, t.shape, whole(t.shape)});
  }
  std::uint64_t done = 0, total = 0;
  for (const auto& b : boxes) total += b.bytes();
  return save_at_once(root, meta, [&](const std::filesystem::path& dir) {
    write_rank_from(dir, 0, boxes, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* out) {
      const auto width = static_cast<std::uint64_t>(bytes_of(boxes[i].dtype, 1));
      const bool from_master = masters && sources.front()->manifest().find(boxes[i].name, "master") != nullptr;
      fill_mean(sources, boxes[i], from_master ? "master" : boxes[i].kind, static_cast<std::int64_t>(begin / width),
                static_cast<std::int64_t>(end / width), out);
      done += end - begin;
      if (progress) progress(done, total);
    });
  });
}

}  // namespace mt
