#include "ckpt/rank_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/store.h"

namespace mt {

Codec codec_of(const std::string& name) {
  MT_CHECK(name == "none" || name == kPlaneCodecName, "codec '{}'", name);
  return name == "none" ? Codec::none : Codec::planes;
}

RankFile::RankFile(const fs::path& dir, int rank, std::span<const TensorBox> boxes, const ShardFill& fill,
                   const WriteOptions& options)
    : dir_(dir), rank_(rank), piece_bytes_(options.piece_bytes), image_(boxes, fill, options.piece_bytes) {
  if (image_.empty()) return;
  end_ = image_.size();
  name_ = data_file_name(rank);
  if (options.codec == Codec::none) {
    plain_ = std::make_unique<BlockStream>(dir / name_, options.mode, end_, options.block_bytes);
  } else {
    name_ += kPackedSuffix;
    packed_ = std::make_unique<PackedFileWriter>(dir / name_, options.mode, options.block_bytes);
  }
}

void RankFile::step() {
  MT_CHECK(!done(), "{} is complete", name_);
  std::uint64_t n = 0;
  if (packed_) {
    const auto run = image_.run_at(at_);
    frame_.resize(std::max<std::size_t>(frame_.size(), run.bytes));
    image_.fill(at_, frame_.data(), run.bytes);
    packed_->add({frame_.data(), run.bytes}, run.width);
    n = run.bytes;
  } else {
    const auto room = plain_->room();
    n = std::min({static_cast<std::uint64_t>(room.size()), end_ - at_, image_.run_at(at_).bytes, piece_bytes_});
    image_.fill(at_, room.data(), n);
    plain_->advance(n);
  }
  at_ += n;
}

WriteResult RankFile::finish() {
  MT_CHECK(done(), "{} is at byte {} of {}", name_, at_, end_);
  WriteResult r;
  Json table = image_.table_head(rank_);
  if (!image_.empty()) {
    r.tensor_bytes = image_.tensor_bytes();
    r.file_bytes = packed_ ? packed_->finish() : plain_->finish();
    table["file"] = name_;
    table["bytes"] = r.file_bytes;
    if (packed_) {
      table["codec"] = kPlaneCodecName;
      table["plain_bytes"] = image_.size();
    }
  }
  table["tensors"] = image_.table();
  write_file_atomic(dir_ / rank_file_name(rank_), json_line(table) + "\n");
  r.seconds = seconds_since(start_);
  return r;
}

}  // namespace mt
