// GGUF files: what opens can be read from the first element to the last, inside the file.

#include <vector>

#include "base/error.h"
#include "foreign/gguf_file.h"
#include "fuzz/targets.h"

namespace mt::fuzz {

void gguf(Bytes input) {
  try {
    const GgufFile file(std::as_bytes(input), "fuzz");
    for (const auto& [name, t] : file.tensors()) {
      if (!t.dtype) continue;
      std::vector<std::byte> out(static_cast<std::size_t>(bytes_of(*t.dtype, num_elements(t.shape))));
      file.read(name, whole(t.shape), out.data());
    }
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
  }
}

}  // namespace mt::fuzz
