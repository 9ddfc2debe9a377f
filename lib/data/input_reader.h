#pragma once
// Bytes of a file or a pipe, unpacked on the way if they are gzip, zstd, xz or bzip2.
//
// What is packed is told by its first bytes, not by its name; parts packed one after the other are one stream. Memory
// is that of the unpacker: 32 KiB to 1 GiB, whatever the size of the input.
// Code: data/input_reader.cc. Tests: tests/data/input_reader_test.cc.

#include <cstddef>
#include <memory>
#include <string>

namespace mt::data {

enum class Packing { none, gzip, zstd, xz, bzip2 };

class InputReader {
 public:
  // Takes over `fd` unless it is standard input; `name` goes into errors.
  //   fails  Error{io}: the first read
  InputReader(int fd, std::string name);
  ~InputReader();
  InputReader(InputReader&&) noexcept;
  InputReader& operator=(InputReader&&) noexcept;

  // Up to `size` unpacked bytes.   gives  0 at the end
  //   fails  Error{io}; Error{corrupt}: damaged or cut off, with the unpacker's words
  std::size_t read(char* to, std::size_t size);
  Packing packing() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt::data
