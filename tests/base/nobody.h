#pragma once
// Root passes every check of permissions; for the life of this object the whole process is nobody instead. Whose files
// are to be reached then must be given away first.

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace mt::test {

class Nobody {
 public:
  explicit Nobody(const std::filesystem::path& owned) {
    if (::geteuid() != 0) return;
    was_root_ = give(owned);
    for (const auto& e : std::filesystem::recursive_directory_iterator(owned)) was_root_ = give(e.path()) && was_root_;
    was_root_ = ::seteuid(65534) == 0 && was_root_;
  }
  ~Nobody() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  static bool give(const std::filesystem::path& p) { return ::lchown(p.c_str(), 65534, 65534) == 0; }
  bool was_root_ = false;
};

}  // namespace mt::test
