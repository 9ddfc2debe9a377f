#include "data/encode_corpus.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/output_check.h"

namespace mt::data {

namespace {

// What one chunk gives one key's token file.
struct Encoded {
  std::vector<std::byte> ids;
  std::vector<std::int32_t> lengths, document_sequences;
  std::int64_t empty_documents = 0;
};

struct Fault {
  std::string reason, where;
  std::string raw;
  std::string hint;
};

struct ChunkResult {
  std::vector<Encoded> keys;
  std::vector<Fault> faults;
  std::int64_t documents = 0, blank_lines = 0, specials_as_text = 0, bytes = 0;
  std::exception_ptr failure;
};

void pack(std::span<const Id> ids, TokenType type, std::vector<std::byte>& out) {
  const std::size_t old = out.size(), width = static_cast<std::size_t>(bytes_of(type));
  out.resize(old + ids.size() * width);
  std::byte* to = out.data() + old;
  if (type == TokenType::i32) {
    if (!ids.empty()) std::memcpy(to, ids.data(), ids.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto narrow = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(to + 2 * i, &narrow, 2);
  }
}

// One worker's state: everything a chunk needs, kept from chunk to chunk.
class ChunkEncoder {
 public:
  ChunkEncoder(const EncodeJob& job, const Tokenizer& tokenizer, TokenType type)
      : job_(job), tokenizer_(tokenizer), around_(tokenizer.surround()), type_(type), reader_(job.keys) {
    if (job.append_eod) eod_ = require_eod(tokenizer);
  }

  ChunkResult encode(const TextChunk& chunk) {
    ChunkResult result;
    result.keys.resize(job_.keys.size());
    result.bytes = static_cast<std::int64_t>(chunk.size);
    const std::int64_t blank_before = reader_.blank_lines(), specials_before = scratch_.specials_as_text;
    reader_.start(chunk);
    for (RecordReader::Step step = reader_.next(); step != RecordReader::Step::end; step = reader_.next()) {
      const bool taken = step == RecordReader::Step::record && encode_record(result);
      if (taken) {
        ++result.documents;
        continue;
      }
      const BadRecord& fault = reader_.fault();
      const std::string reason = step == RecordReader::Step::record ? token_fault_ : fault.reason;
      const std::int64_t column = step == RecordReader::Step::record ? 0 : fault.column;
      std::string where = fmt::format("{}:{}", chunk.file, fault.line);
      if (column > 0) where += fmt::format(":{}", column);
      const bool keep_raw = !job_.rejects.empty() && step != RecordReader::Step::record;
      result.faults.push_back({reason, where, keep_raw ? std::string(fault.raw) : std::string(),
                               step == RecordReader::Step::record ? "" : fault.hint("--json-keys")});
      if (job_.on_bad == OnBadRecord::stop) break;
    }
    result.blank_lines = reader_.blank_lines() - blank_before;
    result.specials_as_text = scratch_.specials_as_text - specials_before;
    return result;
  }

 private:
  // False: a text the tokenizer refused (token_fault_ says why); nothing of the record is kept.
  bool encode_record(ChunkResult& result) {
    ids_.clear();
    lengths_.clear();
    per_key_.clear();
    for (const std::vector<std::string_view>& texts : reader_.values()) {
      const std::size_t first = lengths_.size();
      for (const std::string_view text : texts) {
        const std::size_t old = ids_.size();
        ids_.insert(ids_.end(), around_.before.begin(), around_.before.end());
        try {
          tokenizer_.encode(text, scratch_, ids_);
        } catch (const Error& error) {
          if (error.code() != Code::data) throw;
          token_fault_ = error.message();
          return false;
        }
        ids_.insert(ids_.end(), around_.after.begin(), around_.after.end());
        if (ids_.size() - old >= std::size_t{0x7FFFFFFF}) {
          token_fault_ = fmt::format("a sequence of {} tokens: wanted below 2^31", ids_.size() - old);
          return false;
        }
        if (ids_.size() > old) lengths_.push_back(static_cast<std::int32_t>(ids_.size() - old));
      }
      if (eod_ && lengths_.size() > first) {
        ids_.push_back(*eod_);
        ++lengths_.back();
      }
      per_key_.push_back(static_cast<std::int32_t>(lengths_.size() - first));
    }
    std::size_t sequence = 0, token = 0;
    for (std::size_t k = 0; k < per_key_.size(); ++k) {
      Encoded& out = result.keys[k];
      std::size_t tokens = 0;
      for (std::int32_t i = 0; i < per_key_[k]; ++i) {
        out.lengths.push_back(lengths_[sequence]);
        tokens += static_cast<std::size_t>(lengths_[sequence++]);
      }
      pack(std::span<const Id>(ids_).subspan(token, tokens), type_, out.ids);
      token += tokens;
      out.document_sequences.push_back(per_key_[k]);
      out.empty_documents += per_key_[k] == 0 ? 1 : 0;
    }
    return true;
  }

  const EncodeJob& job_;
  const Tokenizer& tokenizer_;
  const Surround& around_;
  TokenType type_;
  RecordReader reader_;
  std::optional<Id> eod_;
  EncodeScratch scratch_;
  std::vector<Id> ids_;
  std::vector<std::int32_t> lengths_, per_key_;
  std::string token_fault_;
};

// Workers take chunks in turn and leave results by number; the owner takes them in order.
class Pool {
 public:
  Pool(const EncodeJob& job, const Tokenizer& tokenizer, TokenType type, TextSource& source)
      : source_(source), window_(2 * job.workers + 2) {
    try {
      for (int w = 0; w < job.workers; ++w) {
        threads_.emplace_back([this, &job, &tokenizer, type] { work(job, tokenizer, type); });
      }
    } catch (const std::system_error& error) {
      const std::size_t started = threads_.size();
      join();
      throw Error(Code::device, fmt::format("cannot start thread {}: {}", started + 1, error.code().message()),
                  "--workers", "fewer workers");
    }
  }
  ~Pool() { join(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The result of the next chunk, or nothing at the end.
  std::optional<ChunkResult> take() {
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

 private:
  void join() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

  void work(const EncodeJob& job, const Tokenizer& tokenizer, TokenType type) {
    std::optional<ChunkEncoder> encoder;  // made where its failure can be handed over
    for (;;) {
      std::optional<TextChunk> chunk;
      std::int64_t number = 0;
      ChunkResult result;
      {
        const std::lock_guard reading(reading_);  // chunks leave the source in order
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stop_ || end_ || handed_out_ - taken_ < window_; });
          if (stop_ || end_) return;
          number = handed_out_;
        }
        try {
          chunk = source_.next();
        } catch (...) {
          result.failure = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        if (chunk || result.failure) ++handed_out_;
        if (!chunk) end_ = true;
      }
      if (chunk) {
        try {
          if (!encoder) encoder.emplace(job, tokenizer, type);
          result = encoder->encode(*chunk);
        } catch (...) {
          result.failure = std::current_exception();
        }
      }
      {
        const std::lock_guard lock(mutex_);
        if (chunk || result.failure) done_.emplace(number, std::move(result));
      }
      changed_.notify_all();
    }
  }

  TextSource& source_;
  const std::int64_t window_;
  std::mutex reading_, mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, ChunkResult> done_;
  std::int64_t handed_out_ = 0, taken_ = 0;
  bool end_ = false, stop_ = false;
  std::vector<std::thread> threads_;
};

// The caller's side: everything that must happen in the order of the input.
class Committer {
 public:
  Committer(const EncodeJob& job, TokenType type, EncodeReport& report) : job_(job), report_(report) {
    if (!job.rejects.empty()) rejects_.emplace(job.rejects);
    for (const std::string& key : job.keys) {
      report.prefixes.push_back(key_prefix(job.output_prefix, key));
      writers_.push_back(std::make_unique<IndexedWriter>(report.prefixes.back(), type, job.force));
    }
  }

  void take(ChunkResult& result) {
    if (result.failure) std::rethrow_exception(result.failure);
    for (const Fault& fault : result.faults) {
      if (job_.on_bad == OnBadRecord::stop) {
        throw Error(Code::data, fault.reason, fault.where,
                    fault.hint.empty() ? "--on-error skip leaves such records out and counts them" : fault.hint);
      }
      if (rejects_ && !fault.raw.empty()) {
        rejects_->write(fault.raw.data(), fault.raw.size());
        rejects_->write("\n", 1);
      }
      if (++report_.skipped_records > job_.max_bad && job_.max_bad >= 0) {
        throw Error(
            Code::data,
            fmt::format("bad record {}, over the limit of {}: {}", report_.skipped_records, job_.max_bad, fault.reason),
            fault.where);
      }
    }
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      const Encoded& encoded = result.keys[k];
      writers_[k]->add_packed(encoded.ids, encoded.lengths, encoded.document_sequences);
      report_.empty_documents += encoded.empty_documents;
    }
    report_.documents += result.documents;
    report_.blank_lines += result.blank_lines;
    report_.specials_as_text += result.specials_as_text;
    report_.input_bytes += result.bytes;
  }

  void finish(const Tokenizer& tokenizer) {
    if (report_.documents == 0) {
      throw Error(Code::data,
                  fmt::format("no documents in the input ({} bytes, {} blank lines, {} skipped records)",
                              report_.input_bytes, report_.blank_lines, report_.skipped_records),
                  job_.source.inputs.front());
    }
    TokenFileOrigin origin;
    origin.tokenizer_type = job_.tokenizer_type;
    origin.fingerprint = hash_text(tokenizer.fingerprint());
    origin.vocab_size = tokenizer.vocab_size();
    origin.eod = tokenizer.eod();
    origin.eod_appended = job_.append_eod;
    origin.before = tokenizer.surround().before;
    origin.after = tokenizer.surround().after;
    report_.sequences = writers_.front()->num_sequences();
    report_.tokens = writers_.front()->num_tokens();
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      if (writers_[k]->num_tokens() > 0) continue;
      log::warn("{}: no token in {} documents, every '{}' is empty; nothing can be trained on it", report_.prefixes[k],
                report_.documents, job_.keys[k]);
    }
    if (rejects_) {
      rejects_->finish();
      if (job_.force) rejects_->publish();
      else publish_new(*rejects_, job_.rejects);
    }
    for (const auto& writer : writers_) writer->commit(origin);
  }

 private:
  const EncodeJob& job_;
  EncodeReport& report_;
  std::optional<OutputFile> rejects_;
  std::vector<std::unique_ptr<IndexedWriter>> writers_;
};

OutputFiles files_of(const EncodeJob& job) {
  OutputFiles files;
  files.inputs = job.source.inputs;
  files.inputs.insert(files.inputs.end(), job.also_reads.begin(), job.also_reads.end());
  for (const std::string& key : job.keys) {
    const std::string prefix = key_prefix(job.output_prefix, key);
    for (const fs::path& path : {bin_path(prefix), idx_path(prefix), sidecar_path(prefix)})
      files.outputs.push_back(path.string());
  }
  if (!job.rejects.empty()) files.outputs.push_back(job.rejects);
  files.force = job.force;
  return files;
}

void check_numbers(const EncodeJob& job) {
  if (job.workers < 1 || job.workers > kMaxWorkers) {
    throw Error(Code::usage, fmt::format("{} workers: wanted 1 to {}", job.workers, kMaxWorkers), "--workers");
  }
  if (job.max_bad < -1) {
    throw Error(Code::usage, fmt::format("{} bad records: wanted 0 or more, or -1 for no limit", job.max_bad),
                "--max-bad");
  }
  if (job.keys.empty()) throw Error(Code::usage, "no key given", "--json-keys");
  require_distinct(job.keys, "--json-keys");
}

TokenType checked_type(const EncodeJob& job, const Tokenizer& tokenizer) {
  const TokenType type = job.type.value_or(token_type_for(tokenizer.vocab_size()));
  if (type == TokenType::u16 && tokenizer.vocab_size() > 65536) {
    throw Error(Code::data,
                fmt::format("a vocabulary of {} does not fit 16-bit ids (at most 65536)", tokenizer.vocab_size()),
                "--token-type", "--token-type int32");
  }
  return type;
}

}  // namespace

std::string key_prefix(const std::string& output_prefix, const std::string& key) {
  return output_prefix + "_" + key + "_document";
}

EncodeReport encode_corpus(const EncodeJob& job, const Tokenizer& tokenizer) {
  const auto start = std::chrono::steady_clock::now();
  check_numbers(job);
  if (job.append_eod) require_eod(tokenizer);
  const TokenType type = checked_type(job, tokenizer);
  TextSource source(job.source);
  const OutputFiles files = files_of(job);
  check_outputs(files);
  remove_stale_temporaries(files);
  EncodeReport report;
  Committer committer(job, type, report);
  {
    Progress progress("encode", source.total_bytes(), "bytes");
    Pool pool(job, tokenizer, type, source);
    while (std::optional<ChunkResult> result = pool.take()) {
      committer.take(*result);
      progress.update(static_cast<std::uint64_t>(report.input_bytes), fmt::format("{} documents", report.documents));
    }
    progress.finish();
  }
  committer.finish(tokenizer);
  report.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace mt::data
