#include "data/input_reader.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"

namespace mt::data {

Packing packing_of(std::string_view head) {
  const auto starts = [head](std::string_view magic) { return head.starts_with(magic); };
  if (starts({"\x1F\x8B\x08", 3})) return Packing::gzip;
  if (starts({"\x28\xB5\x2F\xFD", 4})) return Packing::zstd;
  const bool skippable = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18";
  if (skippable) return Packing::zstd;
  if (starts({"\xFD" "7zXZ\0", 6})) return Packing::xz;
  if (head.size() >= 10 && starts("BZh") && head[3] >= '1' && head[3] <= '9') {
    const std::string_view block = head.substr(4, 6);  // of a block, or of the end where there is none
    if (block == "1AY&SY" || block == "\x17\x72\x45\x38\x50\x90") return Packing::bzip2;
  }
  return Packing::none;
}

const char* packing_name(Packing packing) {
  constexpr const char* kNames[] = {"none", "gzip", "zstd", "xz", "bzip2"};
  return kNames[static_cast<int>(packing)];
}

namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr int kLook_ms = 200;  // how often who waits for a pipe looks whether to stop
constexpr std::uint64_t kXzMemory = std::uint64_t{1} << 30;

// All there is, and only the beginning of the bytes that packed files begin with; no text begins so (bzip2's would).
bool is_cut_magic(std::string_view all) {
  for (const std::string_view magic : {std::string_view("\x1F\x8B\x08", 3), std::string_view("\x28\xB5\x2F\xFD", 4),
                                       std::string_view("\xFD" "7zXZ\0", 6)}) {
    if (all.size() >= 2 && all.size() < magic.size() && magic.starts_with(all)) return true;
  }
  return false;
}

// What an unpacker did with a stretch of input.
struct Step {
  std::size_t taken = 0, given = 0;
  bool part_ends = false;  // one packed part is complete
};

class Gzip {
 public:
  Gzip() {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw Error(Code::device, "zlib: no memory");
  }
  ~Gzip() { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  Step step(std::string_view in, char* to, std::size_t size) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1u << 30));
    const uInt out = stream_.avail_out;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      throw Error(Code::corrupt, fmt::format("gzip: {}", stream_.msg != nullptr ? stream_.msg : "damaged"));
    }
    return {in.size() - stream_.avail_in, out - stream_.avail_out, status == Z_STREAM_END};
  }
  void restart() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

class Zstd {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw Error(Code::device, "zstd: no memory");
  }
  ~Zstd() { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  Step step(std::string_view in, char* to, std::size_t size) {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer into{to, size, 0};
    const std::size_t status = ZSTD_decompressStream(stream_, &into, &from);
    if (ZSTD_isError(status) != 0) throw Error(Code::corrupt, fmt::format("zstd: {}", ZSTD_getErrorName(status)));
    return {from.pos, into.pos, status == 0};
  }
  void restart() { ZSTD_initDStream(stream_); }

 private:
  ZSTD_DStream* stream_;
};

class Xz {
 public:
  Xz() { start(); }
  ~Xz() { lzma_end(&stream_); }
  Xz(const Xz&) = delete;
  Xz& operator=(const Xz&) = delete;
  Step step(std::string_view in, char* to, std::size_t size) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(to);
    stream_.avail_out = size;
    const lzma_ret status = lzma_code(&stream_, LZMA_RUN);
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR) {
      throw Error(Code::corrupt, status == LZMA_MEMLIMIT_ERROR ? "xz: needs more than 1 GiB to unpack"
                                                               : fmt::format("xz: damaged ({})", static_cast<int>(status)));
    }
    return {in.size() - stream_.avail_in, size - stream_.avail_out, status == LZMA_STREAM_END};
  }
  void restart() {
    lzma_end(&stream_);
    start();
  }

 private:
  void start() {
    stream_ = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream_, kXzMemory, 0) != LZMA_OK) throw Error(Code::device, "xz: no memory");
  }
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Bzip2 {
 public:
  Bzip2() { start(); }
  ~Bzip2() { BZ2_bzDecompressEnd(&stream_); }
  Bzip2(const Bzip2&) = delete;
  Bzip2& operator=(const Bzip2&) = delete;
  Step step(std::string_view in, char* to, std::size_t size) {
    stream_.next_in = const_cast<char*>(in.data());
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = to;
    stream_.avail_out = static_cast<unsigned>(std::min<std::size_t>(size, 1u << 30));
    const unsigned out = stream_.avail_out;
    const int status = BZ2_bzDecompress(&stream_);
    if (status != BZ_OK && status != BZ_STREAM_END) {
      throw Error(Code::corrupt, fmt::format("bzip2: damaged ({})", status));
    }
    return {in.size() - stream_.avail_in, out - stream_.avail_out, status == BZ_STREAM_END};
  }
  void restart() {
    BZ2_bzDecompressEnd(&stream_);
    start();
  }

 private:
  void start() {
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw Error(Code::device, "bzip2: no memory");
  }
  bz_stream stream_{};
};

}  // namespace

struct InputReader::State {
  int fd;
  std::string name;
  std::vector<char> buffer = std::vector<char>(kBuffer);
  std::size_t begin = 0, end = 0;  // of what is read and not used
  std::uint64_t taken = 0;         // bytes read from fd
  bool at_end = false;
  const std::atomic<int>* stop = nullptr;  // null where nothing has to be waited for
  bool between_parts = false;  // a packed part is complete, the next has not begun
  Packing packing = Packing::none;
  std::unique_ptr<Gzip> gzip;
  std::unique_ptr<Zstd> zstd;
  std::unique_ptr<Xz> xz;
  std::unique_ptr<Bzip2> bzip2;

  std::string_view rest() const { return {buffer.data() + begin, end - begin}; }

  ssize_t read_file(char* to, std::size_t size) {
    for (pollfd ready{fd, POLLIN, 0}; stop != nullptr;) {
      if (*stop != 0) throw Error(Code::io, "a signal ended the reading", name);
      const int n = ::poll(&ready, 1, kLook_ms);
      if (n > 0 || (n < 0 && errno != EINTR)) break;
    }
    return ::read(fd, to, size);
  }

  // Read more behind what is there.
  void fill() {
    if (begin > 0) std::memmove(buffer.data(), buffer.data() + begin, end - begin);
    end -= begin;
    begin = 0;
    while (!at_end && end < buffer.size()) {
      const ssize_t n = read_file(buffer.data() + end, buffer.size() - end);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), name);
      at_end = n == 0;
      end += static_cast<std::size_t>(n);
      taken += static_cast<std::size_t>(n);
      if (end >= 16) return;  // enough to tell what it is; a pipe is not waited for
    }
  }

  Step step(char* to, std::size_t size) {
    switch (packing) {
      case Packing::gzip: return gzip->step(rest(), to, size);
      case Packing::zstd: return zstd->step(rest(), to, size);
      case Packing::xz: return xz->step(rest(), to, size);
      default: return bzip2->step(rest(), to, size);
    }
  }
  void restart() {
    if (gzip) gzip->restart();
    if (zstd) zstd->restart();
    if (xz) xz->restart();
    if (bzip2) bzip2->restart();
  }

  // Between two parts: go on to the next, past zeros that pad a file.   gives  false at the end
  bool next_part() {
    for (;;) {
      while (begin < end && buffer[begin] == '\0') ++begin;
      if (end - begin < 16 && !at_end) {
        fill();
        continue;
      }
      if (begin == end) return false;
      if (packing_of(rest()) != packing) throw Error(Code::corrupt, "bytes that are not packed follow packed ones");
      restart();
      between_parts = false;
      return true;
    }
  }

  std::size_t unpack(char* to, std::size_t size) {
    for (;;) {
      if (between_parts && !next_part()) return 0;
      if (begin == end && !at_end) fill();
      const bool had_all = at_end;
      const Step did = step(to, size);
      begin += did.taken;
      between_parts = did.part_ends;
      if (did.given > 0) return did.given;
      if (did.part_ends || did.taken > 0) continue;
      if (had_all) throw Error(Code::corrupt, "cut off: the packed data do not end");
      const std::size_t had = end - begin;
      fill();
      if (end - begin == had && !at_end) throw Error(Code::corrupt, "damaged: the unpacker does not go on");
    }
  }
};

InputReader::InputReader(int fd, std::string name, const std::atomic<int>* stop) : state_(std::make_unique<State>()) {
  state_->fd = fd;
  state_->name = std::move(name);
  struct stat st {};
  if (::fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) state_->stop = stop;
  state_->fill();
  state_->packing = packing_of(state_->rest());
  if (state_->at_end && is_cut_magic(state_->rest())) {
    if (fd > STDIN_FILENO) ::close(fd);
    throw Error(Code::corrupt, fmt::format("cut off: {} bytes, the beginning of a packed file", state_->rest().size()),
                state_->name);
  }
  switch (state_->packing) {
    case Packing::gzip: state_->gzip = std::make_unique<Gzip>(); break;
    case Packing::zstd: state_->zstd = std::make_unique<Zstd>(); break;
    case Packing::xz: state_->xz = std::make_unique<Xz>(); break;
    case Packing::bzip2: state_->bzip2 = std::make_unique<Bzip2>(); break;
    case Packing::none: break;
  }
}

InputReader::~InputReader() {
  if (state_ && state_->fd > STDIN_FILENO) ::close(state_->fd);
}
InputReader::InputReader(InputReader&&) noexcept = default;
InputReader& InputReader::operator=(InputReader&& other) noexcept {
  if (state_ && state_->fd > STDIN_FILENO) ::close(state_->fd);
  state_ = std::move(other.state_);
  return *this;
}

Packing InputReader::packing() const { return state_->packing; }

std::uint64_t InputReader::used() const { return state_->taken - (state_->end - state_->begin); }

bool InputReader::skip(std::uint64_t bytes) {
  State& s = *state_;
  struct stat st {};
  if (s.packing == Packing::none && ::fstat(s.fd, &st) == 0 && S_ISREG(st.st_mode)) {
    const std::uint64_t to = used() + bytes;
    if (to > static_cast<std::uint64_t>(st.st_size)) return false;
    if (::lseek(s.fd, static_cast<off_t>(to), SEEK_SET) < 0) throw Error(Code::io, "cannot seek: " + errno_text(errno), s.name);
    s.begin = s.end = 0;
    s.at_end = false;
    s.taken = to;
    return true;
  }
  std::vector<char> block(std::min<std::uint64_t>(bytes, kBuffer));
  while (bytes > 0) {
    const std::size_t n = read(block.data(), std::min<std::uint64_t>(bytes, block.size()));
    if (n == 0) return false;
    bytes -= n;
  }
  return true;
}

std::size_t InputReader::read(char* to, std::size_t size) {
  State& s = *state_;
  if (size == 0) return 0;
  if (s.packing != Packing::none) {
    try {
      return s.unpack(to, size);
    } catch (const Error& error) {
      if (!error.where().empty()) throw;
      throw Error(error.code(), error.message(), s.name);
    }
  }
  if (s.begin < s.end) {
    const std::size_t n = std::min(size, s.end - s.begin);
    std::memcpy(to, s.buffer.data() + s.begin, n);
    s.begin += n;
    return n;
  }
  for (;;) {
    const ssize_t n = s.at_end ? 0 : s.read_file(to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), s.name);
    s.taken += static_cast<std::size_t>(n);
    return static_cast<std::size_t>(n);
  }
}

}  // namespace mt::data
