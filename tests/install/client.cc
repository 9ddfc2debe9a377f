// A stranger's program against the installed library.
#include <cstdio>

#include "base/dtype.h"
#include "base/hash.h"

int main() {
  std::printf("%s %s\n", mt::hash_text(mt::xxh3("")).c_str(), mt::parse_dtype("bf16") ? "bf16" : "?");
  return 0;
}
