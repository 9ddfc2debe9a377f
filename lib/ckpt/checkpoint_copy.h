#pragma once
// A complete checkpoint brought into another --save directory, in the steps of a save.
//
//   one:   begin_save(root, iteration)               ckpt/store.h
//   all:   copy_data_file(from, dir, file)           each file of the manifest by exactly one
//   one:   publish_copy(root, from)                  manifest, rename, then the tracker
//
// Whatever dies at whatever moment, the tracker of `root` names a complete checkpoint.
// Code: ckpt/checkpoint_copy.cc. Tests: tests/ckpt/checkpoint_copy_test.cc.

#include <atomic>
#include <filesystem>

#include "ckpt/manifest.h"

namespace mt {

// One file of checkpoint `from` into `dir`, on the disk when it returns.
//   gives  its bytes
//   fails  Error{io}; also once `cancel` is true. Error{corrupt}: its size is not what the manifest says
//   cost   one pass; 16 MiB of memory
std::uint64_t copy_data_file(const std::filesystem::path& from, const std::filesystem::path& dir, const DataFile& file,
                             const std::atomic<bool>* cancel = nullptr);

// The manifest of `from`, byte for byte, then publish() of ckpt/store.h.   fails  as read_manifest and publish
std::filesystem::path publish_copy(const std::filesystem::path& root, const std::filesystem::path& from);

}  // namespace mt
