#pragma once
// TensorBoard event files: records of a protobuf each, framed with masked CRC-32C as TensorFlow frames them.
//
//   record  length (u64), masked crc of it (u32), bytes, masked crc of them (u32); little endian
//   mask    rotate right by 15, add 0xa282ead8
// Code: train/tensorboard.cc. Tests: tests/train/tensorboard_test.cc.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace mt {

// Castagnoli's CRC of the bytes; of "123456789" it is 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

class TensorboardWriter {
 public:
  // A new file events.out.tfevents.… in `directory`, which is made.   fails  Error{io}
  explicit TensorboardWriter(const std::filesystem::path& directory);

  // One number of a curve. Nothing is lost by a kill but what this process has not flushed.   fails  Error{io}
  void scalar(const std::string& tag, double value, std::int64_t step);
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace mt
