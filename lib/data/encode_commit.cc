#include "data/encode_commit.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/encode_identity.h"

namespace mt::data {

namespace {

// The counts that go on after a kill.
struct Count {
  const char* name;
  std::int64_t EncodeReport::*member;
};
constexpr Count kCounts[] = {{"documents", &EncodeReport::documents},
                             {"empty_documents", &EncodeReport::empty_documents},
                             {"specials_as_text", &EncodeReport::specials_as_text},
                             {"skipped_records", &EncodeReport::skipped_records},
                             {"blank_lines", &EncodeReport::blank_lines},
                             {"odd_number_records", &EncodeReport::odd_number_records},
                             {"replaced_records", &EncodeReport::replaced_records},
                             {"replaced_characters", &EncodeReport::replaced_characters},
                             {"input_bytes", &EncodeReport::input_bytes}};

Json counts_of(const EncodeReport& report) {
  Json j{{"first_replaced", report.first_replaced}, {"first_skipped", report.first_skipped}};
  for (const Count& count : kCounts) j[count.name] = report.*count.member;
  return j;
}

void restore(const Json& j, EncodeReport& report) {
  report.first_replaced = j.value("first_replaced", "");
  report.first_skipped = j.value("first_skipped", std::vector<std::string>());
  for (const Count& count : kCounts) report.*count.member = j.value(count.name, std::int64_t{0});
  report.resumed_documents = report.documents;
  report.resumed_bytes = report.input_bytes;
}

std::string place(const std::string& file, std::int64_t line, std::int64_t column) {
  return column > 0 ? fmt::format("{}:{}:{}", file, line, column) : fmt::format("{}:{}", file, line);
}

}  // namespace

fs::path journal_path(const EncodeJob& job) { return leftover_paths(key_prefix(job, job.keys.front())).front(); }

EncodeCommitter::EncodeCommitter(const EncodeJob& job, CommitPlan plan, const tokenizer::Tokenizer& tokenizer, const TextSource& source,
                                 EncodeReport& report)
    : job_(job), plan_(std::move(plan)), tokenizer_(tokenizer), source_(source), report_(report) {
  if (job.stats) stats_.emplace(tokenizer.vocab_size(), tokenizer.unknown());
  const JournalEntry* from = plan_.resume ? &*plan_.resume->last : nullptr;
  const bool committing = from != nullptr && from->phase == JournalEntry::Phase::complete;
  for (const std::string& key : job.keys) {
    for (const fs::path& path : leftover_paths(key_prefix(job, key))) had_leftovers_ = had_leftovers_ || fs::exists(path);
  }
  for (std::size_t k = 0; k < job.keys.size(); ++k) {
    report.prefixes.push_back(key_prefix(job, job.keys[k]));
    writers_.push_back(plan_.journaled
                           ? std::make_unique<IndexedWriter>(report.prefixes[k], plan_.type, job.force,
                                                             from != nullptr ? &from->files.at(k) : nullptr, committing)
                           : std::make_unique<IndexedWriter>(report.prefixes[k], plan_.type, job.force));
  }
  if (!job.rejects.empty()) open_rejects();
  if (from != nullptr) {
    restore(from->report, report);
    last_ = *from;
    if (stats_) {
      stats_->restore_lengths(from->report.at("stats"));
      writers_.front()->replay_tokens([this](std::span<const std::byte> ids) { stats_->count(ids, plan_.type); });
    }
    journal_ = std::make_unique<EncodeJournal>(journal_path(job), *plan_.resume);
    journal_->keep(true);  // a run that goes on and fails is gone on with again, once what it failed of is mended
  }
}

void EncodeCommitter::keep_leftovers(bool keep) {
  for (const auto& writer : writers_) writer->keep_leftovers(keep);
  if (rejects_) rejects_->keep_temporary(keep);
  if (journal_) journal_->keep(keep);
}

void EncodeCommitter::open_rejects() {
  if (!plan_.journaled) {
    rejects_.emplace(job_.rejects);
    return;
  }
  auto lock = FileLock::try_lock(job_.rejects + ".lock", true);
  if (!lock) throw Error(Code::io, "another process is writing there", job_.rejects, "choose another --rejects");
  rejects_lock_.emplace(std::move(*lock));
  const JournalEntry* from = plan_.resume ? &*plan_.resume->last : nullptr;
  const bool committing = from != nullptr && from->phase == JournalEntry::Phase::complete;
  if (committing && !fs::exists(partial_path(job_.rejects)) && fs::exists(job_.rejects)) return;  // has its name
  std::error_code none;
  const auto left_bytes = fs::file_size(partial_path(job_.rejects), none);
  if (from == nullptr && !had_leftovers_ && !job_.force && !none && left_bytes > 0) {
    throw Error(Code::io, "a run with another output was killed and left records here", partial_path(job_.rejects).string(),
                "choose another --rejects; --force throws them away");
  }
  rejects_.emplace(OutputFile::partial(job_.rejects, from != nullptr ? from->rejects_bytes : 0));
  rejects_->keep_temporary(from != nullptr);
}

void EncodeCommitter::name_fault(const std::string& where, const RecordFault& fault) {
  if (report_.first_skipped.size() < kSkippedNamed) report_.first_skipped.push_back(where + ": " + fault.reason);
  if (++named_ <= kSkippedNamed) log::info("left out {}: {}", where, fault.reason);
  else if (named_ == kSkippedNamed + 1)
    log::info("further records left out are counted{}", job_.rejects.empty() ? ", --rejects FILE keeps them all" : "; all are in " + job_.rejects);
}

void EncodeCommitter::take_faults(const ChunkResult& result) {
  for (const RecordFault& fault : result.faults) {
    const std::string where = place(result.file, source_.lines_before(result.input) + fault.line, fault.column);
    if (job_.on_bad == OnBadRecord::stop) {
      throw Error(Code::data, fault.reason, where,
                  fault.hint.empty() ? "--on-error skip leaves such records out and counts them" : fault.hint);
    }
    if (rejects_ && !fault.raw.empty()) {
      const std::string_view end = result.separator.empty() ? std::string_view("\n") : std::string_view(result.separator);
      rejects_->write(fault.raw.data(), fault.raw.size());
      rejects_->write(end.data(), end.size());
    }
    if (++report_.skipped_records <= job_.max_bad || job_.max_bad < 0) {
      name_fault(where, fault);
      continue;
    }
    if (job_.on_bad == OnBadRecord::replace && job_.max_bad == 0) {
      throw Error(Code::data, fault.reason + "; this is not mended by replacing characters", where,
                  "--max-bad N leaves out up to N such records, -1 all");
    }
    throw Error(Code::data,
                fmt::format("bad record {}, over the limit of {}: {}", report_.skipped_records, job_.max_bad, fault.reason),
                where);
  }
}

void EncodeCommitter::take(ChunkResult& result) {
  if (result.failure) std::rethrow_exception(result.failure);
  take_faults(result);
  for (std::size_t k = 0; k < writers_.size(); ++k) {
    const EncodedKey& encoded = result.keys[k];
    writers_[k]->add_packed(encoded.ids, encoded.lengths, encoded.document_sequences);
    report_.empty_documents += encoded.empty_documents;
  }
  if (stats_) take_stats(result);
  if (report_.replaced_records == 0 && result.mended_records > 0)
    report_.first_replaced = place(result.file, source_.lines_before(result.input) + result.first_mended_line, 0);
  report_.documents += result.documents;
  report_.blank_lines += result.blank_lines;
  report_.odd_number_records += result.odd_numbers;
  report_.specials_as_text += result.specials_as_text;
  report_.replaced_records += result.mended_records;
  report_.replaced_characters += result.mended_characters;
  report_.input_bytes += result.bytes;
  report_.sequences = writers_.front()->num_sequences();
  report_.tokens = writers_.front()->num_tokens();
  last_.at = result.after;
  if (plan_.journaled && seconds_since(noted_) >= job_.journal_every_s) note(JournalEntry::Phase::running);
}

void EncodeCommitter::take_stats(ChunkResult& result) {
  for (LongDocument& document : result.stats.longest) {
    document.file = result.file;
    document.line += source_.lines_before(result.input);
  }
  stats_->lengths().add(result.stats);
  stats_->count(result.keys.front().ids, plan_.type);
}

Json EncodeCommitter::counts() const {
  Json j = counts_of(report_);
  if (stats_) j["stats"] = stats_->lengths_json();
  return j;
}

void EncodeCommitter::note(JournalEntry::Phase phase) {
  last_.phase = phase;
  if (phase != JournalEntry::Phase::published) {
    if (rejects_) rejects_->sync();
    last_.rejects_bytes = rejects_ ? rejects_->size() : 0;
    last_.files.clear();
    for (const auto& writer : writers_) last_.files.push_back(writer->mark());
    last_.report = counts();
  }
  if (!journal_) journal_ = std::make_unique<EncodeJournal>(journal_path(job_), plan_.identity, report_.prefixes);
  journal_->add(last_);
  noted_ = std::chrono::steady_clock::now();
}

TokenFileOrigin EncodeCommitter::origin() const {
  TokenFileOrigin made_by;
  made_by.tokenizer_type = job_.tokenizer_type;
  made_by.fingerprint = hash_text(tokenizer_.fingerprint());
  made_by.vocab_size = tokenizer_.vocab_size();
  made_by.eod = tokenizer_.eod();
  made_by.eod_appended = job_.append_eod;
  made_by.parse_special = job_.parse_special;
  made_by.sentences = job_.split_sentences;
  made_by.before = tokenizer_.surround().before;
  made_by.after = tokenizer_.surround().after;
  if (plan_.journaled) made_by.made_from = json_line(kept_identity(plan_.identity));
  return made_by;
}

void EncodeCommitter::stop(int signal) {
  report_.stopped_by = signal;
  const bool resumable = plan_.journaled && !(last_.at == TextPosition());
  if (!resumable) return;
  if (journal_) keep_leftovers(true);  // up to its last entry, if the next cannot be written
  note(JournalEntry::Phase::running);
  keep_leftovers(true);
  const auto& inputs = job_.source.inputs;
  const auto at = static_cast<std::size_t>(last_.at.input);
  report_.stopped_at = at < inputs.size() ? place(inputs[at], source_.lines_before(last_.at.input) + last_.at.line, 0)
                                          : "the end of the input";
}

void EncodeCommitter::publish_rejects() {
  if (!rejects_) return;
  rejects_->finish();
  std::error_code error;
  if (plan_.resume && fs::equivalent(rejects_->temporary_path(), job_.rejects, error)) return;  // killed between its two names
  if (job_.force) rejects_->publish();
  else publish_new(*rejects_, job_.rejects);
}

void EncodeCommitter::finish() {
  if (report_.documents == 0) {
    throw Error(Code::data,
                fmt::format("no documents in the input ({} bytes, {} blank lines, {} skipped records)", report_.input_bytes,
                            report_.blank_lines, report_.skipped_records),
                job_.source.inputs.front(),
                job_.source.share.count > 1 ? "fewer shares: packed files and texts are not cut" : "");
  }
  report_.sequences = writers_.front()->num_sequences();
  report_.tokens = writers_.front()->num_tokens();
  for (std::size_t k = 0; k < writers_.size(); ++k) {
    if (writers_[k]->num_tokens() > 0) continue;
    log::warn("{}: no token in {} documents, every '{}' is empty; nothing can be trained on it", report_.prefixes[k],
              report_.documents, job_.keys[k]);
  }
  if (journal_ && last_.phase == JournalEntry::Phase::running) note(JournalEntry::Phase::complete);
  publish_rejects();
  const TokenFileOrigin made_by = origin();
  for (const auto& writer : writers_) writer->commit(made_by);
  if (stats_) report_.stats = stats_->to_json();
  if (journal_) note(JournalEntry::Phase::published);
  keep_leftovers(false);
  writers_.clear();
  rejects_.reset();
  journal_.reset();
}

EncodeReport finish_published(const EncodeJob& job, const JournalEntry& entry, const tokenizer::Tokenizer& tokenizer) {
  EncodeReport report;
  restore(entry.report, report);
  report.sequences = entry.files.at(0).sequences;
  report.tokens = entry.files.at(0).tokens;
  if (job.stats) {
    EncodeStats stats(tokenizer.vocab_size(), tokenizer.unknown());
    stats.restore_lengths(entry.report.at("stats"));
    const IndexedDataset file(key_prefix(job, job.keys.front()));
    stats.count(file.bin(), static_cast<TokenType>(file.type_code()));
    report.stats = stats.to_json();
  }
  std::error_code error;
  if (!job.rejects.empty()) fs::remove(partial_path(job.rejects), error);
  for (auto key = job.keys.rbegin(); key != job.keys.rend(); ++key) {  // the journal last
    const std::string prefix = key_prefix(job, *key);
    report.prefixes.insert(report.prefixes.begin(), prefix);
    std::vector<fs::path> paths = leftover_paths(prefix);
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) fs::remove(*path, error);
  }
  return report;
}

}  // namespace mt::data
