#include "ckpt/checkpoint_copy.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/block_writer.h"
#include "ckpt/store.h"

namespace mt {

std::uint64_t copy_data_file(const fs::path& from, const fs::path& dir, const DataFile& file, const std::atomic<bool>* cancel) {
  const auto path = from / file.name;
  std::filebuf in;
  if (!in.open(path, std::ios::in | std::ios::binary)) throw Error(Code::io, "cannot be opened", path.string());
  BlockStream out(dir / file.name, WriteMode::direct, file.bytes);
  std::uint64_t done = 0;
  while (done < file.bytes) {
    if (cancel && *cancel) throw Error(Code::io, "given up", (dir / file.name).string());
    const auto room = out.room();
    const auto wanted = std::min<std::uint64_t>(room.size(), file.bytes - done);
    const auto got = in.sgetn(reinterpret_cast<char*>(room.data()), static_cast<std::streamsize>(wanted));
    if (got <= 0) throw Error(Code::corrupt, fmt::format("ends after {} of {} bytes", done, file.bytes), path.string());
    out.advance(static_cast<std::uint64_t>(got));
    done += static_cast<std::uint64_t>(got);
  }
  if (in.sgetc() != std::filebuf::traits_type::eof())
    throw Error(Code::corrupt, fmt::format("is longer than {} bytes", file.bytes), path.string());
  return out.finish();
}

fs::path publish_copy(const fs::path& root, const fs::path& from) {
  const auto text = read_file(from / kManifestName);
  const Manifest m = parse_manifest(text, (from / kManifestName).string());
  const auto dir = root / temporary_name(m.meta.iteration);
  write_file_atomic(dir / kManifestName, text);
  fsync_directory(dir);
  return publish(root, m);
}

}  // namespace mt
