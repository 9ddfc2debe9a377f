#include "tokenizer/table_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace mt::tokenizer {

namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A mapping that begins on a huge page: more is mapped, and what is around goes again.
void* map_aligned(std::size_t bytes) {
  const std::size_t all = bytes + kHugePage;
  void* mapping = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(mapping);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, kHugePage - before);
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // a wish
  return begin + before;
}

}  // namespace

TableMemory::TableMemory(std::size_t bytes) {
  if (bytes >= kHugePage) {
    mapped_ = rounded(bytes, kHugePage);
    data_ = map_aligned(mapped_);
    return;
  }
  const std::size_t size = rounded(bytes, kLine);
  data_ = std::aligned_alloc(kLine, size);
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, size);
}

TableMemory::TableMemory(TableMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), mapped_(std::exchange(other.mapped_, 0)) {}

TableMemory& TableMemory::operator=(TableMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

TableMemory::~TableMemory() {
  if (mapped_ > 0) ::munmap(data_, mapped_);
  else std::free(data_);
}

}  // namespace mt::tokenizer
