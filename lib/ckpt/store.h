#pragma once
// Save a checkpoint as one act, by all ranks in parallel.
//
//   rank 0:     dir = begin_save(root, iteration)      .iter_%07d.tmp/ is there and empty
//   all ranks:  write_rank(dir, rank, shards)          data_%05d.safetensors and rank_%05d.json, on the disk
//   (barrier)
//   rank 0:     commit(root, meta)                     manifest, rename to iter_%07d, then the tracker
//
// The barriers are the caller's. Whatever dies at whatever moment, the tracker `latest_checkpointed_iteration.txt` names
// a complete checkpoint: it is replaced last, after everything it speaks of has been fsynced and renamed.
// Code: ckpt/store.cc, ckpt/block_writer.cc. Tests: tests/ckpt/store_test.cc, tests/ckpt/crash_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/manifest.h"
#include "ckpt/rank_file.h"

namespace mt {

inline constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";

// Names inside a --save directory.
std::string iteration_name(std::int64_t iteration);  // "iter_0000020"
std::string temporary_name(std::int64_t iteration);  // ".iter_0000020.tmp"
std::string data_file_name(int rank);                // "data_00003.safetensors"
std::string rank_file_name(int rank);                // "rank_00003.json"

// A box and its bytes in host memory, row-major, borrowed until the call returns.
struct TensorShard {
  TensorBox what;
  const std::byte* bytes = nullptr;
};

// Make the temporary directory of a save, and `root` if need be. What a killed save of this iteration left is removed.
//   gives  its path
//   fails  Error{io}; also when `iteration` is already saved and the file system cannot swap directories, so that the
//          refusal comes before any byte is written
std::filesystem::path begin_save(const std::filesystem::path& root, std::int64_t iteration);

// Write what one rank owns: each (tensor, box) of the whole job must be written by exactly one rank.
//   needs  boxes inside their shapes; empty boxes are skipped (but for tensors that have no elements at all, which are kept)
//   gives  one file (none when there is nothing to write) and its table, both fsynced
//   fails  Error{io}; the checkpoint stays uncommitted
//   cost   every byte is copied and hashed once, and packed if asked, while earlier ones go to the disk; 16 MiB of memory,
//          30 MiB to pack
WriteResult write_rank(const std::filesystem::path& dir, int rank, std::span<const TensorShard> shards,
                       const WriteOptions& options = {});

// The same when the bytes are made on demand: `fill(shard, begin, end, out)` gives bytes [begin, end) of boxes[shard],
// in ascending order. Used to rewrite checkpoints larger than memory.
WriteResult write_rank_from(const std::filesystem::path& dir, int rank, std::span<const TensorBox> boxes,
                            const ShardFill& fill, const WriteOptions& options = {});

// Turn the temporary directory into the checkpoint `meta.iteration` and point the tracker at it.
//   needs  write_rank returned on all meta.world_size ranks
//   gives  path of iter_%07d
//   fails  Error{corrupt} when ranks' tables are missing, disagree or leave a tensor uncovered or covered twice (nothing
//          is published); Error{io}. Until the tracker is renamed the previous checkpoint stays the one it names.
//   cost   metadata only. An existing iteration is swapped out in one act and then removed.
std::filesystem::path commit(const std::filesystem::path& root, const CheckpointMeta& meta);

// The second half of commit(), for a temporary directory whose manifest is written and whose files are on the disk.
//   fails  Error{corrupt}: a file is missing or of another size than the manifest says; Error{io}
std::filesystem::path publish(const std::filesystem::path& root, const Manifest& manifest);

// A whole save by one process: begin_save, `write` into the directory it gives, commit; where any of it fails the temporary
// directory goes again and the error goes on.   gives  path of iter_%07d
std::filesystem::path save_at_once(const std::filesystem::path& root, const CheckpointMeta& meta,
                                   const std::function<void(const std::filesystem::path& dir)>& write);

// How far a rewriting is, in bytes of tensors, of how many.
using BytesDone = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Remove the temporary directory of a save that is given up. Never throws.
void abort_save(const std::filesystem::path& root, std::int64_t iteration) noexcept;

}  // namespace mt
