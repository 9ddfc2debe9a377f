#include "ckpt/soundness.h"

#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/files.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"
#include "ckpt/unknown_format.h"

namespace mt {
namespace {

// The iteration that a directory's own name says, whatever links lead to it.
std::optional<std::int64_t> iteration_named(const fs::path& dir) {
  auto plain = fs::absolute(dir).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  return iteration_of(plain.filename().string());
}

Condition of_files(const fs::path& dir, const Manifest& m) {
  for (const auto& f : m.files) {
    const auto path = dir / f.name;
    if (!is_present(path)) return {Soundness::unfinished, f.name + ": " + errno_text(ENOENT)};
    std::error_code ec;
    const auto bytes = fs::file_size(path, ec);
    if (ec) throw Error(Code::io, "cannot stat: " + ec.message(), path.string());
    if (bytes != f.bytes)
      return {Soundness::unfinished, fmt::format("{}: wanted {} bytes, found {}", f.name, f.bytes, bytes)};
  }
  return {};
}

}  // namespace

std::optional<std::int64_t> iteration_of(const std::string& name) {
  if (name.rfind("iter_", 0) != 0) return std::nullopt;
  std::int64_t v = 0;
  const auto [end, ec] = std::from_chars(name.data() + 5, name.data() + name.size(), v);
  if (ec != std::errc() || end != name.data() + name.size() || v < 0) return std::nullopt;
  return iteration_name(v) == name ? std::optional(v) : std::nullopt;
}

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}

bool is_present(const fs::path& path) {
  std::error_code ec;
  const auto status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found) {
    if (fs::is_symlink(fs::symlink_status(path, ec)))
      throw Error(Code::io, "is a link to what is not there", path.string());
    return false;
  }
  if (ec) throw Error(Code::io, "cannot stat: " + ec.message(), path.string());
  return true;
}

Condition condition_of(const fs::path& dir) {
  try {
    if (!is_present(dir / kManifestName)) return {Soundness::unfinished, std::string("no ") + kManifestName};
    const auto m = read_manifest(dir);
    if (const auto own = iteration_named(dir); own && *own != m.meta.iteration)
      return {Soundness::damaged, fmt::format("its manifest is that of iteration {}", m.meta.iteration)};
    return of_files(dir, m);
  } catch (const UnknownFormat& e) {
    return {Soundness::newer, e.what()};
  } catch (const Error& e) {
    return {e.code() == Code::io ? Soundness::unreadable : Soundness::damaged, e.what()};
  }
}

Error Condition::error(const fs::path& dir, const std::string& hint) const {
  if (is == Soundness::unreadable)
    return {Code::io, problem, "", "what cannot be read is not passed over: make it readable, or name another iteration"};
  if (is == Soundness::newer)
    return {Code::corrupt, problem, "", "take the program that wrote it, or name another iteration"};
  return {Code::corrupt, "incomplete checkpoint: " + problem, dir.string(), hint};
}

}  // namespace mt
