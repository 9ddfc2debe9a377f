#include "data/index_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace mt::data {

namespace {

constexpr std::array<char, 8> kMagic{'M', 'T', 'I', 'N', 'D', 'E', 'X', '1'};
constexpr std::size_t kAlign = 64;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t file_bytes = 0;
  std::uint64_t hash = 0;  // XXH3 of all that follows the header
  std::uint32_t key_bytes = 0, num_arrays = 0;
  std::array<std::byte, 32> zero{};
};
static_assert(sizeof(Header) == kAlign);

std::size_t aligned(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Where the parts of a file of this key are. Behind the header: sizes of the arrays, the key, then each array on a line.
struct Places {
  std::size_t key = 0, bytes = 0;
  std::vector<std::pair<std::size_t, std::size_t>> arrays;
};

Places places_of(const IndexKey& key) {
  Places p;
  p.key = sizeof(Header) + sizeof(std::uint64_t) * key.array_bytes.size();
  p.bytes = aligned(p.key + key.text.size());
  for (const std::uint64_t bytes : key.array_bytes) {
    p.arrays.emplace_back(p.bytes, static_cast<std::size_t>(bytes));
    p.bytes = aligned(p.bytes + static_cast<std::size_t>(bytes));
  }
  return p;
}

// What is wrong with a file that should hold `key`, or empty.
std::string fault_of(const MappedFile& file, const IndexKey& key) {
  const Places places = places_of(key);
  Header h;
  if (file.size() < sizeof h) return fmt::format("{} bytes are no header", file.size());
  std::memcpy(&h, file.data(), sizeof h);
  if (h.magic != kMagic) return "it does not begin as an index";
  if (h.file_bytes != file.size()) return fmt::format("{} bytes of {}", file.size(), h.file_bytes);
  if (h.key_bytes != key.text.size() || h.num_arrays != key.array_bytes.size() || places.bytes != file.size() ||
      std::memcmp(file.data() + sizeof h, key.array_bytes.data(), places.key - sizeof h) != 0 ||
      std::memcmp(file.data() + places.key, key.text.data(), key.text.size()) != 0)
    return "it is of another key";
  if (xxh3(file.data() + sizeof h, file.size() - sizeof h) != h.hash) return "its content is not what was written";
  return "";
}

}  // namespace

std::string IndexCache::Report::text() const {
  const int all = hits + waited + built + in_memory;
  if (all == 0 || in_memory == all) return "";
  std::string where;
  for (const std::string& d : directories) where += (where.empty() ? "" : ", ") + d;
  if (directories.size() > 3) where = fmt::format("{} directories", directories.size());
  std::string what;
  const auto add = [&](int n, const std::string& words) {
    if (n > 0) what += fmt::format("{}{} {}", what.empty() ? "" : ", ", n, words);
  };
  if (hits == all) return fmt::format("index cache: hit ({} of {}) in {}", hits, all, where);
  add(hits, "hit");
  add(waited, "made by another process meanwhile");
  add(built, fmt::format("built in {:.2f} s", build_s));
  add(in_memory, "kept in memory");
  return fmt::format("index cache: {} in {}", what, where);
}

IndexArrays IndexCache::build_and_count(const std::function<IndexArrays()>& build) {
  const auto start = Clock::now();
  IndexArrays arrays = build();
  report_.build_s += seconds_since(start);
  return arrays;
}

bool IndexCache::map(const fs::path& path, const IndexKey& key, IndexArrays& arrays, bool told) {
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  try {
    MappedFile file(path);
    const std::string fault = fault_of(file, key);
    if (!fault.empty()) {
      if (told) report_.notices.push_back(fmt::format("{} is made again: {}", path.string(), fault));
      return false;
    }
    arrays = IndexArrays(std::move(file), places_of(key).arrays);
    return true;
  } catch (const Error& e) {
    if (told) report_.notices.push_back(fmt::format("an index is not read: {}", e.what()));
    return false;
  }
}

void IndexCache::write(const fs::path& path, const IndexKey& key, const IndexArrays& arrays) {
  const Places places = places_of(key);
  Header h;
  h.file_bytes = places.bytes;
  h.key_bytes = static_cast<std::uint32_t>(key.text.size());
  h.num_arrays = static_cast<std::uint32_t>(key.array_bytes.size());
  OutputFile out(path);
  Xxh3Stream hash;
  const std::array<std::byte, kAlign> zero{};
  const auto put = [&](const void* bytes, std::size_t size) {
    out.write(bytes, size);
    hash.update(bytes, size);
  };
  const auto pad = [&] { put(zero.data(), aligned(out.size()) - static_cast<std::size_t>(out.size())); };
  out.write(&h, sizeof h);
  put(key.array_bytes.data(), sizeof(std::uint64_t) * key.array_bytes.size());
  put(key.text.data(), key.text.size());
  pad();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto bytes = arrays.bytes(i);
    MT_CHECK(bytes.size() == key.array_bytes[i], "array {} of {}: {} bytes, {} said", i, key.name, bytes.size(),
             key.array_bytes[i]);
    put(bytes.data(), bytes.size());
    pad();
  }
  h.hash = hash.digest();
  out.write_at(0, &h, sizeof h);
  out.commit();
}

// Under the lock of `path` nobody writes it, so what lies beside it half written is of a process that was killed.
void IndexCache::remove_stale(const fs::path& path) {
  const fs::path directory = path.parent_path();
  std::error_code error;
  const auto [found, fresh] = stale_.try_emplace(directory);
  if (fresh)
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      const std::size_t at = name.rfind(".tmp.");
      if (at != std::string::npos) found->second.emplace(name.substr(0, at), entry->path());
    }
  const auto [first, last] = found->second.equal_range(path.filename().string());
  for (auto i = first; i != last; ++i)
    if (fs::remove(i->second, error) && !error) log::detail("removed {}, left by a process that was killed", i->second.string());
  found->second.erase(first, last);
}

std::optional<FileLock> IndexCache::lock_or_map(const fs::path& path, const IndexKey& key, IndexArrays& arrays) {
  fs::path lock_path = path;
  lock_path += ".lock";
  bool told = false;
  for (const auto start = Clock::now();;) {
    if (auto lock = FileLock::try_lock(lock_path, true)) return lock;
    if (!told && seconds_since(start) > 5) {
      log::info("waiting for another process that makes {}", path.string());
      told = true;
    }
    // Small orders of many files are there soon, large ones are not asked for all the time.
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(seconds_since(start) / 4, 2e-4, 0.1)));
    if (map(path, key, arrays, false)) return std::nullopt;
  }
}

IndexArrays IndexCache::get(const IndexKey& key, const std::function<IndexArrays()>& build) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t n : key.array_bytes) bytes += n;
  report_.bytes += bytes;
  const auto in_memory = [&] {
    ++report_.in_memory;
    return build_and_count(build);
  };
  if (off() || (directory_.empty() && bytes < kWorthStoring)) return in_memory();
  const fs::path directory = directory_.empty() ? key.beside / "cache" : fs::path(directory_);
  const fs::path path = directory / fmt::format("{}-{}.order", key.name, hash_text(xxh3(key.text)));
  IndexArrays arrays;
  const auto mapped = [&](int& counter) {
    ++counter;
    report_.directories.insert(directory.string());
    return std::move(arrays);
  };
  if (map(path, key, arrays)) return mapped(report_.hits);
  if (refused_) return in_memory();
  const auto refused = [&](const Error& e) {
    refused_ = true;
    report_.notices.push_back(fmt::format("orders of samples are kept in memory, not in the cache: {}", e.what()));
  };
  enum class Step { locking, building, writing } step = Step::locking;
  try {
    fs::create_directories(directory);
    const std::optional<FileLock> lock = lock_or_map(path, key, arrays);
    if (!lock || map(path, key, arrays, false)) return mapped(report_.waited);
    fs::remove(path);  // damaged: those who wait need not read it over and over
    remove_stale(path);
    step = Step::building;
    arrays = build_and_count(build);
    step = Step::writing;
    write(path, key, arrays);
    MappedFile file(path);
    arrays = IndexArrays(std::move(file), places_of(key).arrays);
    return mapped(report_.built);
  } catch (const Error& e) {
    if (step == Step::building) throw;
    refused(e);
  } catch (const fs::filesystem_error& e) {
    refused(Error(Code::io, "cannot make the directory: " + e.code().message(), directory.string()));
  }
  if (step == Step::locking) return in_memory();
  ++report_.in_memory;
  return arrays;
}

}  // namespace mt::data
