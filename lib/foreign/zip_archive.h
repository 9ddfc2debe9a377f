#pragma once
// Where the entries of a zip archive lie, for archives that store their entries uncompressed, as torch writes them.
//
// The central directory at the end says what there is; local headers must agree with it. Archives beyond 4 GiB (zip64) are
// read, and so is one that is a part of a larger file.
// Code: foreign/zip_archive.cc. Tests: tests/foreign/zip_archive_test.cc; fuzzed by tests/fuzz/torch_file_fuzz.cc.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mt {

// begin, end  bytes of its content, from the start of the archive
struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0, end = 0;
  std::uint32_t crc = 0;
  std::uint64_t size() const { return end - begin; }
};

// True for bytes that begin as an archive does.
bool begins_as_zip(std::span<const std::byte> bytes);

// The entries, in the order of the directory.
//   needs  all bytes of the archive and no others: what was appended makes it damaged
//   fails  Error{corrupt}: no directory at the end, entries that leave the archive, overlap, have the same name, are
//          compressed or encrypted, or whose local header says otherwise
//   cost   the directory and a local header an entry; contents are not read
std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> bytes, const std::string& where);

// CRC-32 as archives have it, continued from `so_far` (0 at first).
std::uint32_t zip_crc(std::uint32_t so_far, std::span<const std::byte> bytes);

}  // namespace mt
