#include "data/encode_pool.h"

#include <system_error>

#include "base/error.h"

namespace mt::data {

namespace {
constexpr std::size_t kMostSpareBytes = std::size_t{8} << 20;  // of one key, or of a chunk: rare giants are given up
}

EncodePool::EncodePool(const ChunkOptions& options, const tokenizer::Tokenizer& tokenizer, TextSource& source, int workers)
    : options_(options), tokenizer_(tokenizer), source_(source), window_(2 * workers + 2) {
  try {
    for (int w = 0; w < workers; ++w) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    join();
    throw Error(Code::device, fmt::format("cannot start thread {}: {}", started + 1, error.code().message()), "--workers",
                "fewer workers");
  }
}

EncodePool::~EncodePool() { join(); }

std::optional<ChunkResult> EncodePool::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_.count(taken_) > 0 || (end_ && taken_ == handed_out_); });
  const auto found = done_.find(taken_);
  if (found == done_.end()) return std::nullopt;
  ChunkResult result = std::move(found->second);
  done_.erase(found);
  ++taken_;
  changed_.notify_all();
  return result;
}

void EncodePool::give_back(ChunkResult result) {
  for (const EncodedKey& key : result.keys) {
    if (key.ids.capacity() > kMostSpareBytes) return;
  }
  const std::lock_guard lock(mutex_);
  if (spare_.size() < threads_.size()) spare_.push_back(std::move(result.keys));
}

std::vector<EncodedKey> EncodePool::spare() {
  const std::lock_guard lock(mutex_);
  std::vector<EncodedKey> keys;
  if (spare_.empty()) return keys;
  keys = std::move(spare_.back());
  spare_.pop_back();
  return keys;
}

void EncodePool::join() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

std::optional<EncodePool::Task> EncodePool::read(std::string room) {
  const std::lock_guard reading(reading_);  // chunks leave the source in order
  Task task;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || end_ || handed_out_ - taken_ < window_; });
    if (stop_ || end_) return std::nullopt;
    task.number = handed_out_;
  }
  std::optional<TextChunk> chunk;
  ChunkResult failed;
  try {
    chunk = source_.next(std::move(room));
  } catch (...) {
    failed.failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (chunk || failed.failure) ++handed_out_;
  if (failed.failure) done_.emplace(task.number, std::move(failed));
  if (!chunk) {
    end_ = true;
    changed_.notify_all();
    return std::nullopt;
  }
  task.chunk = std::move(*chunk);
  return task;
}

void EncodePool::work() {
  std::optional<ChunkEncoder> encoder;  // made where its failure can be handed over
  std::string room;  // of the chunk before
  while (std::optional<Task> task = read(std::move(room))) {
    ChunkResult result;
    try {
      if (!encoder) encoder.emplace(options_, tokenizer_);
      result = encoder->encode(task->chunk, spare());
    } catch (...) {
      result.failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      done_.emplace(task->number, std::move(result));
    }
    room = std::move(task->chunk.storage);
    if (room.capacity() > kMostSpareBytes) std::string().swap(room);  // an assignment keeps the room
    changed_.notify_all();
  }
}

}  // namespace mt::data
