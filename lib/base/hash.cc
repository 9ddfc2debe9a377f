#include "base/hash.h"

#include <new>

#include <fmt/format.h>
#include <xxhash.h>
#ifdef XXHASH_DISPATCH  // CMake found the library's run-time choice of SSE2, AVX2 or AVX-512: 3 to 10 times the plain call
#include <xxh_x86dispatch.h>  // after xxhash.h: it renames the calls
#endif

namespace mt {

std::uint64_t xxh3(const void* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

struct Xxh3Stream::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {}
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(const void* bytes, std::size_t size) { XXH3_64bits_update(state_->xxh, bytes, size); }
std::uint64_t Xxh3Stream::digest() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace mt
