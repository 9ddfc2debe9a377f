#pragma once
// The arrays of an index over samples: made in this process's memory, or mapped from a file of the cache.
//
// Who reads them sees spans and does not know which. Code: data/index_arrays.cc.
// Tests: tests/data/sample_order_test.cc, tests/data/index_cache_test.cc.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/files.h"

namespace mt::data {

// Zeroed memory of one array. From a MiB on it is the system's own pages, huge ones where there are any: an exchange with
// a far place then costs one miss, not two.
class IndexMemory {
 public:
  IndexMemory() = default;
  //   fails  Error{device}: there is not so much memory
  explicit IndexMemory(std::size_t bytes);
  IndexMemory(IndexMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  IndexMemory& operator=(IndexMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~IndexMemory();

  // As an array of T.   needs  a T that memcpy may copy
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class IndexArrays {
 public:
  IndexArrays() = default;
  explicit IndexArrays(std::vector<IndexMemory> memory) : memory_(std::move(memory)) {}
  // Parts of a mapped file, each offset and bytes.   needs  them inside the file
  IndexArrays(MappedFile file, std::vector<std::pair<std::size_t, std::size_t>> parts)
      : file_(std::move(file)), parts_(std::move(parts)) {}

  std::size_t size() const { return parts_.empty() ? memory_.size() : parts_.size(); }
  bool mapped() const { return !parts_.empty(); }

  // Array i; valid as long as this or what it is moved into.   needs  i < size()
  template <class T>
  std::span<const T> array(std::size_t i) const {
    if (parts_.empty()) return memory_[i].as<T>();
    return {reinterpret_cast<const T*>(file_.data() + parts_[i].first), parts_[i].second / sizeof(T)};
  }
  std::span<const std::byte> bytes(std::size_t i) const { return array<std::byte>(i); }

 private:
  std::vector<IndexMemory> memory_;
  MappedFile file_;
  std::vector<std::pair<std::size_t, std::size_t>> parts_;
};

}  // namespace mt::data
