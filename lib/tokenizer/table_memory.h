#pragma once
// Zeroed memory for hash tables: on cache lines, and in huge pages where it is large.
//
// A table of megabytes that is looked up at random places spends its time on address translation; a huge page is one entry
// for 2 MiB. Where the system has none to give, small pages do the same, slower.
// Code: tokenizer/table_memory.cc. Tests: tests/tokenizer/word_cache_test.cc.

#include <cstddef>

namespace mt::tokenizer {

class TableMemory {
 public:
  TableMemory() = default;
  //   fails  std::bad_alloc   cost  from 2 MiB on pages come when first touched
  explicit TableMemory(std::size_t bytes);
  TableMemory(TableMemory&& other) noexcept;
  TableMemory& operator=(TableMemory&& other) noexcept;
  ~TableMemory();

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t mapped_ = 0;  // bytes of a mapping; 0: of the heap
};

}  // namespace mt::tokenizer
