#pragma once
// Bytes of a file or a pipe, unpacked on the way if they are gzip, zstd, xz or bzip2.
//
// What is packed is told by its first bytes, not by its name; parts packed one after the other are one stream. Memory
// is that of the unpacker: 32 KiB to 1 GiB, whatever the size of the input.
// Code: data/input_reader.cc. Tests: tests/data/input_reader_test.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mt::data {

enum class Packing { none, gzip, zstd, xz, bzip2 };

// What the first bytes of a file are; none: not packed, or too few to say (gzip 3, zstd 4, xz 6, bzip2 10).
Packing packing_of(std::string_view head);
// "gzip", "zstd", "xz", "bzip2", "none": also the name of the program.
const char* packing_name(Packing packing);

class InputReader {
 public:
  // Takes over `fd` unless it is standard input; `name` goes into errors.
  //   stop   where it is given and becomes other than 0, waiting for a pipe ends with Error{io}, here and in read()
  //   fails  Error{io}: the first read; Error{corrupt}: all there is is the beginning of a packed file's first bytes
  InputReader(int fd, std::string name, const std::atomic<int>* stop = nullptr);
  ~InputReader();
  InputReader(InputReader&&) noexcept;
  InputReader& operator=(InputReader&&) noexcept;

  // Up to `size` unpacked bytes.   gives  0 at the end
  //   fails  Error{io}; Error{corrupt}: damaged or cut off, with the unpacker's words
  std::size_t read(char* to, std::size_t size);
  // Go on behind the next `bytes` unpacked ones: a seek where it is a plain file, else they are read.
  //   gives  false: there are not as many
  [[nodiscard]] bool skip(std::uint64_t bytes);
  Packing packing() const;
  // Bytes of the file itself that are used so far, packed as they are.
  std::uint64_t used() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt::data
