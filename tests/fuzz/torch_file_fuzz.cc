// Files of torch.save, and the metadata of torch_dist: what opens can be read from the first element to the last, inside the file.

#include <vector>

#include "base/error.h"
#include "foreign/torch_dist.h"
#include "foreign/torch_file.h"
#include "fuzz/fuzz_scratch.h"

namespace mt::fuzz {

namespace {

constexpr std::int64_t kMost = 1 << 16;  // elements read of one tensor: a view may repeat one element without end

void read_all(const TorchFile& file, const PickleValue& value) {
  for (const auto& t : tensors_of(file, value).tensors) {
    if (num_elements(t.tensor.shape) > kMost) continue;
    std::vector<std::byte> out(static_cast<std::size_t>(num_elements(t.tensor.shape)) * t.tensor.element_bytes);
    file.read(t.tensor, whole(t.tensor.shape), out.data());
  }
}

}  // namespace

void torch_file(Bytes input) {
  try {
    const TorchFile file(std::as_bytes(input), "fuzz");
    if (const auto t = file.tensor(file.root())) MT_CHECK(!t->dtype_text.empty(), "a tensor without a dtype");
    read_all(file, file.root());
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
  }
}

void torch_metadata(Bytes input) {
  static const ScratchDirectory dir;
  if (input.empty()) return;
  const std::vector<std::uint8_t> data(std::size_t{input[0]} * 16, 'P');
  put(dir, "__0_0.distcp", data);
  put(dir, ".metadata", input.subspan(1));
  try {
    const TorchDist dist(dir / "");
    for (const auto& [name, t] : dist.tensors()) {
      if (!t.dtype || num_elements(t.shape) > kMost) continue;
      std::vector<std::byte> out(static_cast<std::size_t>(bytes_of(*t.dtype, num_elements(t.shape))));
      dist.read(name, whole(t.shape), out.data());
    }
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
  }
}

}  // namespace mt::fuzz
