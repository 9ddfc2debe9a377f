#include "data/index_arrays.h"

#include <cstring>
#include <new>

#include <sys/mman.h>

#include "base/error.h"

namespace mt::data {

namespace {
constexpr std::size_t kOwnPages = std::size_t{1} << 20;
constexpr std::align_val_t kLine{64};
}  // namespace

IndexMemory::IndexMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes < kOwnPages) {
    data_ = static_cast<std::byte*>(::operator new(bytes, kLine));
    std::memset(data_, 0, bytes);
    return;
  }
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw Error(Code::device, fmt::format("no memory for {} bytes of an index over samples", bytes), "",
                "--data-cache-path keeps one copy for all ranks of a machine");
  ::madvise(map, bytes, MADV_HUGEPAGE);  // a wish
  data_ = static_cast<std::byte*>(map);
}

IndexMemory::~IndexMemory() {
  if (data_ == nullptr) return;
  if (size_ < kOwnPages) ::operator delete(data_, kLine);
  else ::munmap(data_, size_);
}

}  // namespace mt::data
