#pragma once
// Workers that encode chunks of a source in any order, and their results in the order of the input.
//
// Memory: at most 2 workers + 2 chunks are read, encoded or waiting; besides, a worker keeps the room of a result and of a
// chunk for later, up to 8 MiB for the ids of each key and for the chunk.
// Code: data/encode_pool.cc. Tests: tests/data/encode_corpus_test.cc.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/encode_chunk.h"

namespace mt::data {

class EncodePool {
 public:
  // Starts the threads. All arguments outlive the pool.   fails  Error{device}: no more threads
  EncodePool(const ChunkOptions& options, const tokenizer::Tokenizer& tokenizer, TextSource& source, int workers);
  ~EncodePool();
  EncodePool(const EncodePool&) = delete;
  EncodePool& operator=(const EncodePool&) = delete;

  // The result of the next chunk, or nothing at the end. A failure of the source or of a worker is in the result.
  std::optional<ChunkResult> take();
  // The memory of a result that is done, for a later one, so that its pages need not come anew.
  void give_back(ChunkResult result);

 private:
  void join();
  void work();
  // The next chunk and its number; nothing when there is none, or when reading failed: then the failure is in `done_`.
  struct Task {
    TextChunk chunk;
    std::int64_t number = 0;
  };
  std::optional<Task> read(std::string room);
  std::vector<EncodedKey> spare();

  const ChunkOptions& options_;
  const tokenizer::Tokenizer& tokenizer_;
  TextSource& source_;
  const std::int64_t window_;
  std::mutex reading_, mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, ChunkResult> done_;
  std::vector<std::vector<EncodedKey>> spare_;
  std::int64_t handed_out_ = 0, taken_ = 0;
  bool end_ = false, stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mt::data
