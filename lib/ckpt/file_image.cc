#include "ckpt/file_image.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "ckpt/safetensors.h"

namespace mt {
namespace {

// Unique inside a file and readable by other programs: a whole weight keeps its plain name.
std::string key_in_file(const TensorBox& t) {
  auto s = t.name;
  if (t.kind != "weight") s += "#" + t.kind;
  if (!(t.box == whole(t.shape))) s += "@" + box_text(t.box);
  return s;
}

}  // namespace

FileImage::FileImage(std::span<const TensorBox> boxes, const ShardFill& fill, std::uint64_t piece_bytes)
    : boxes_(boxes), fill_(fill), piece_bytes_(piece_bytes) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    MT_CHECK(inside(boxes[i].box, boxes[i].shape), "{}: box {} of shape {}", boxes[i].name, box_text(boxes[i].box),
             dims_text(boxes[i].shape));
    if (!boxes[i].box.empty() || num_elements(boxes[i].shape) == 0) order_.push_back(i);
  }
  // Wide elements first, so that every shard is aligned to its element.
  std::stable_sort(order_.begin(), order_.end(),
                   [&](auto a, auto b) { return bits_of(boxes[a].dtype) > bits_of(boxes[b].dtype); });
  std::vector<SafetensorsEntry> entries;
  for (const auto i : order_) {
    SafetensorsEntry e;
    e.name = key_in_file(boxes[i]);
    e.dtype = boxes[i].dtype;
    e.shape = boxes[i].box.extent;
    entries.push_back(std::move(e));
  }
  header_ = make_safetensors_header(entries, {{"format", "mt"}});
  for (const auto& e : entries) ends_.push_back(header_.size() + e.end);
  hashes_.resize(order_.size());
}

void FileImage::fill(std::uint64_t offset, std::byte* out, std::uint64_t size) {
  const auto end = offset + size;
  while (offset < end) {
    std::uint64_t n = 0;
    if (offset < header_.size()) {
      n = std::min<std::uint64_t>(end, header_.size()) - offset;
      std::memcpy(out, header_.data() + offset, n);
    } else {
      n = fill_chunk(offset, out, end);
    }
    offset += n;
    out += n;
  }
}

// Bytes from `offset` up to the end of the chunk, the shard or the block, whichever is first.
std::uint64_t FileImage::fill_chunk(std::uint64_t offset, std::byte* out, std::uint64_t end) {
  while (ends_[current_] <= offset) ++current_;
  const auto shard_begin = begin_of(current_), at = offset - shard_begin;
  const auto shard_bytes = ends_[current_] - shard_begin;
  const auto chunk_end = std::min((at / kChunkBytes + 1) * kChunkBytes, shard_bytes);
  const auto n = std::min({chunk_end - at, end - offset, piece_bytes_});
  fill_(order_[current_], at, at + n, out);
  if (at % kChunkBytes == 0 && at + n == chunk_end) {
    hashes_[current_].push_back(xxh3(out, n));
    return n;
  }
  if (!stream_) stream_ = std::make_unique<Xxh3Stream>();
  stream_->update(out, n);
  if (at + n == chunk_end) {
    hashes_[current_].push_back(stream_->digest());
    stream_.reset();
  }
  return n;
}

std::size_t FileImage::index_at(std::uint64_t offset) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin());
}

std::optional<FileImage::Place> FileImage::place_at(std::uint64_t offset) const {
  if (offset < header_.size() || offset >= size()) return std::nullopt;
  const auto k = index_at(offset);
  return Place{order_[k], offset - begin_of(k)};
}

FileImage::Run FileImage::run_at(std::uint64_t offset) const {
  if (offset < header_.size()) return {std::min<std::uint64_t>(header_.size() - offset, kChunkBytes), 1};
  const auto k = index_at(offset);
  const auto at = offset - begin_of(k), chunk_end = std::min((at / kChunkBytes + 1) * kChunkBytes, ends_[k] - begin_of(k));
  return {chunk_end - at, static_cast<std::size_t>(bytes_of(boxes_[order_[k]].dtype, 1))};
}

Json FileImage::table_head(int rank) const {
  return {{"format", kRankFormat}, {"rank", rank}, {"file", ""}, {"bytes", 0}, {"chunk_bytes", kChunkBytes}};
}

Json FileImage::table() const {
  // Listed as the caller gave them: the order of the model, in which "the first tensor that differs" is meant.
  std::vector<std::size_t> listed(order_.size());
  std::iota(listed.begin(), listed.end(), std::size_t{0});
  std::sort(listed.begin(), listed.end(), [&](auto a, auto b) { return order_[a] < order_[b]; });
  Json tensors = Json::array();
  for (const auto k : listed) {
    const auto& t = boxes_[order_[k]];
    std::string hashes;
    for (const auto h : hashes_[k]) hashes += hash_text(h);
    tensors.push_back({{"name", t.name},
                       {"kind", t.kind},
                       {"dtype", dtype_name(t.dtype)},
                       {"shape", t.shape},
                       {"offset", t.box.offset},
                       {"extent", t.box.extent},
                       {"begin", begin_of(k)},
                       {"end", ends_[k]},
                       {"xxh3", hashes}});
  }
  return tensors;
}

}  // namespace mt
