#include "train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>

#include "base/error.h"
#include "registry/event_log.h"

namespace mt {

namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_varint(std::string& out, std::uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7f) | 0x80);
  out += static_cast<char>(v);
}

// Protobuf fields: key = number << 3 | wire type (0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes).
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<std::uint64_t>(field << 3 | 2));
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_head(std::int64_t step) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string e(1, '\x09');  // wall_time = 1
  put(e, std::bit_cast<std::uint64_t>(now));
  e += '\x10';  // step = 2
  put_varint(e, static_cast<std::uint64_t>(step));
  return e;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t c = 0xffffffffu;
  for (const char b : bytes) c = (c >> 8) ^ kTable[(c ^ static_cast<unsigned char>(b)) & 0xff];
  return ~c;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory) {
  std::error_code ec;
  std::filesystem::create_directories(directory, ec);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (int n = 0; !file_; ++n) {
    path_ = directory / fmt::format("events.out.tfevents.{}.{}.{}.{}", seconds, host_name(), ::getpid(), n);
    file_.reset(std::fopen(path_.c_str(), "wbx"));
    if (!file_ && errno != EEXIST) throw Error(Code::io, "cannot write: " + errno_text(errno), path_.string());
  }
  std::string first = event_head(0);
  put_bytes(first, 3, "brain.Event:2");  // file_version
  record(first);
  flush();
}

void TensorboardWriter::scalar(const std::string& tag, double value, std::int64_t step) {
  std::string v;
  put_bytes(v, 1, tag);
  v += '\x15';  // simple_value = 2
  put(v, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary, event = event_head(step);
  put_bytes(summary, 1, v);
  put_bytes(event, 5, summary);
  record(event);
}

void TensorboardWriter::record(const std::string& event) {
  std::string out;
  put(out, static_cast<std::uint64_t>(event.size()));
  put(out, masked(crc32c(out)));
  out += event;
  put(out, masked(crc32c(event)));
  if (std::fwrite(out.data(), 1, out.size(), file_.get()) != out.size())
    throw Error(Code::io, "cannot write: " + errno_text(errno), path_.string());
}

void TensorboardWriter::flush() {
  if (std::fflush(file_.get()) != 0) throw Error(Code::io, "cannot write: " + errno_text(errno), path_.string());
}

}  // namespace mt
