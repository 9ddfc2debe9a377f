#include "ckpt/packed_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace mt {
namespace {

constexpr std::string_view kMagic = "MTPACK1\n";
constexpr std::uint64_t kTrailerBytes = 32, kMostIndexBytes = 1u << 30;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T take(std::string_view& in) {
  T value;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}
std::span<const std::byte> bytes_of_text(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void read_at(int fd, const std::string& path, std::uint64_t at, std::byte* out, std::uint64_t size) {
  while (size > 0) {
    const auto n = ::pread(fd, out, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), path);
    if (n == 0) throw Error(Code::corrupt, fmt::format("ends at byte {}, wanted {}", at, at + size), path);
    at += static_cast<std::uint64_t>(n);
    out += n;
    size -= static_cast<std::uint64_t>(n);
  }
}

}  // namespace

PackedFileWriter::PackedFileWriter(const std::filesystem::path& path, WriteMode mode, std::uint64_t block_bytes)
    : out_(path, mode, 0, block_bytes) {
  out_.append(bytes_of_text(kMagic));
  at_ = kMagic.size();
}

void PackedFileWriter::add(std::span<const std::byte> plain, std::size_t width) {
  MT_CHECK(plain.size() <= kMostFrameBytes, "a frame of {} bytes", plain.size());
  const auto stored = codec_.pack(plain, width, sizes_);
  out_.append(stored);
  at_ += stored.size();
  ++num_frames_;
  append(index_, static_cast<std::uint8_t>(width));
  append(index_, static_cast<std::uint32_t>(plain.size()));
  for (const auto n : sizes_) append(index_, n);
}

std::uint64_t PackedFileWriter::finish() {
  const auto index_bytes = index_.size();
  const auto hash = xxh3(index_.data(), index_.size());
  append(index_, at_);
  append(index_, num_frames_);
  append(index_, hash);
  index_ += kMagic;
  out_.append(bytes_of_text(index_));
  MT_CHECK(index_.size() == index_bytes + kTrailerBytes, "a trailer of {} bytes", index_.size() - index_bytes);
  return out_.finish();
}

PackedFile::PackedFile(int fd, std::uint64_t file_bytes, std::string path) : fd_(fd), path_(std::move(path)) {
  const auto broken = [&](const std::string& what) { throw Error(Code::corrupt, what, path_); };
  if (file_bytes < kMagic.size() + kTrailerBytes) broken("too short to be a packed file");
  std::string trailer(kTrailerBytes, '\0');
  read_at(fd_, path_, file_bytes - kTrailerBytes, reinterpret_cast<std::byte*>(trailer.data()), kTrailerBytes);
  std::string_view rest = trailer;
  const auto index_at = take<std::uint64_t>(rest), num_frames = take<std::uint64_t>(rest), hash = take<std::uint64_t>(rest);
  if (rest != kMagic) broken("does not end as a packed file does");
  if (index_at < kMagic.size() || index_at > file_bytes - kTrailerBytes) broken("its index lies outside the file");
  if (file_bytes - index_at > kMostIndexBytes) broken("its index is longer than any file's");
  std::string index(file_bytes - kTrailerBytes - index_at, '\0');
  read_at(fd_, path_, index_at, reinterpret_cast<std::byte*>(index.data()), index.size());
  if (xxh3(index.data(), index.size()) != hash) broken("its index is not what was saved");
  parse_index(index, num_frames, index_at);
}

void PackedFile::parse_index(std::string_view index, std::uint64_t num_frames, std::uint64_t index_at) {
  const auto broken = [&](const std::string& what) { throw Error(Code::corrupt, "its index: " + what, path_); };
  if (num_frames > index.size() / 9) broken("fewer bytes than frames need");
  frames_.reserve(num_frames);
  std::uint64_t stored = kMagic.size();
  for (std::uint64_t i = 0; i < num_frames; ++i) {
    Frame f;
    if (index.size() < 5) broken("ends early");
    f.width = take<std::uint8_t>(index);
    f.plain_bytes = take<std::uint32_t>(index);
    if (f.width == 0 || f.width > kMostPlanes || (f.width & (f.width - 1)) != 0 || f.plain_bytes % f.width != 0 ||
        f.plain_bytes > kMostFrameBytes)
      broken(fmt::format("frame {} of {} bytes in {} planes", i, f.plain_bytes, f.width));
    if (index.size() < 4u * f.width) broken("ends early");
    f.plain = plain_bytes_;
    f.stored = stored;
    f.first_size = sizes_.size();
    std::uint64_t sum = 0;
    for (int p = 0; p < f.width; ++p) {
      sizes_.push_back(take<std::uint32_t>(index));
      if (sizes_.back() > f.plain_bytes / f.width) broken(fmt::format("frame {} has too long a plane", i));
      sum += sizes_.back();
    }
    f.stored_bytes = static_cast<std::uint32_t>(sum);
    stored += sum;
    plain_bytes_ += f.plain_bytes;
    if (f.plain_bytes > 0) frames_.push_back(f);
  }
  if (!index.empty()) broken("bytes are left over");
  if (stored != index_at) broken(fmt::format("frames end at byte {}, the index begins at {}", stored, index_at));
}

void PackedFile::unpack(const Frame& f, std::span<std::byte> out) {
  if (stored_.size() < f.stored_bytes) stored_.resize(f.stored_bytes);
  read_at(fd_, path_, f.stored, stored_.data(), f.stored_bytes);
  const auto problem = codec_.unpack({stored_.data(), f.stored_bytes}, std::span(sizes_).subspan(f.first_size, f.width), out);
  if (!problem.empty())
    throw Error(Code::corrupt, fmt::format("bytes {}:{} do not unpack: {}", f.stored, f.stored + f.stored_bytes, problem),
                path_);
}

void PackedFile::read(std::uint64_t begin, std::uint64_t end, std::byte* out) {
  if (begin == end) return;
  MT_CHECK(begin < end && end <= plain_bytes_, "bytes {}:{} of {}", begin, end, plain_bytes_);
  auto f = std::upper_bound(frames_.begin(), frames_.end(), begin, [](auto at, const Frame& x) { return at < x.plain; }) - 1;
  for (; begin < end; ++f) {
    const auto frame_end = f->plain + f->plain_bytes;
    const auto n = std::min(end, frame_end) - begin;
    if (n == f->plain_bytes && kept_frame_ != &*f) {
      unpack(*f, {out, n});
    } else {
      if (kept_frame_ != &*f) {
        kept_frame_ = nullptr;
        kept_.resize(std::max<std::size_t>(kept_.size(), f->plain_bytes));
        unpack(*f, {kept_.data(), f->plain_bytes});
        kept_frame_ = &*f;
      }
      std::memcpy(out, kept_.data() + (begin - f->plain), n);
    }
    begin += n;
    out += n;
  }
}

}  // namespace mt
