// .idx files: what opens can be read from the first token to the last, inside .bin.

#include <algorithm>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "fuzz/fuzz_scratch.h"

namespace mt::fuzz {

void token_index(Bytes input) {
  static const ScratchDirectory dir;
  if (input.size() < 2) return;
  std::vector<std::uint8_t> bin((input[0] | input[1] << 8) % 4096);
  for (std::size_t i = 0; i < bin.size(); ++i) bin[i] = static_cast<std::uint8_t>(i * 37);
  put(dir, "x.bin", bin);
  put(dir, "x.idx", input.subspan(2));
  try {
    const data::IndexedDataset set(dir / "x");
    std::int64_t tokens = 0, sequences = 0;
    for (std::int64_t d = 0; d < set.num_documents(); ++d) {
      for (std::int64_t s = set.document_begin(d); s < set.document_end(d); ++s, ++sequences) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(set.length(s)));
        set.read(s, 0, ids);
        if (ids.size() > 1) set.read(s, 1, std::span(ids).subspan(1));
        tokens += set.length(s);
      }
    }
    MT_CHECK(sequences == set.num_sequences() && tokens == set.num_tokens(), "{} of {} sequences, {} of {} tokens",
             sequences, set.num_sequences(), tokens, set.num_tokens());
    set.origin();
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
  }
}

}  // namespace mt::fuzz
