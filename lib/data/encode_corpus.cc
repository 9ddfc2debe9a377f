#include "data/encode_corpus.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "data/encode_commit.h"
#include "data/encode_identity.h"
#include "data/encode_pool.h"
#include "data/output_check.h"

namespace mt::data {

namespace {

OutputFiles files_of(const EncodeJob& job) {
  OutputFiles files;
  files.inputs = job.source.inputs;
  files.inputs.insert(files.inputs.end(), job.also_reads.begin(), job.also_reads.end());
  for (const std::string& key : job.keys) {
    const std::string prefix = key_prefix(job, key);
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
  if (job.keep_newlines && !job.split_sentences)
    throw Error(Code::usage, "given without --split-sentences", "--keep-newlines", "add --split-sentences");
  require_distinct(job.keys, "--json-keys");
}

TokenType checked_type(const EncodeJob& job, const tokenizer::Tokenizer& tokenizer) {
  const TokenType type = job.type.value_or(token_type_for(tokenizer.vocab_size()));
  if (type == TokenType::u16 && tokenizer.vocab_size() > 65536) {
    throw Error(Code::data,
                fmt::format("a vocabulary of {} does not fit 16-bit ids (at most 65536)", tokenizer.vocab_size()),
                "--token-type", "--token-type int32");
  }
  return type;
}

ChunkOptions chunk_options(const EncodeJob& job, TokenType type) {
  ChunkOptions options;
  options.keys = job.keys;
  options.type = type;
  options.append_eod = job.append_eod;
  options.mend = job.on_bad == OnBadRecord::replace ? Mend::yes : Mend::no;
  options.stop_at_fault = job.on_bad == OnBadRecord::stop;
  options.keep_raw = !job.rejects.empty();
  options.split_sentences = job.split_sentences;
  options.keep_newlines = job.keep_newlines;
  options.stats = job.stats;
  return options;
}

// What a killed run left, if it is one of this job.
std::optional<EncodeJournal::Found> find_killed_run(const EncodeJob& job, const Json& identity) {
  for (const std::string& key : job.keys) {  // it is beside its own first key
    const fs::path path = leftover_paths(key_prefix(job, key)).front();
    std::optional<EncodeJournal::Found> found = EncodeJournal::find(path);
    if (!found || !found->last) continue;
    const std::string difference = first_difference(found->identity, identity);
    if (difference.empty()) return found;
    throw Error(Code::config, "the killed run was another: " + difference, path.string(),
                "give it what it had, or --force without --resume to begin anew");
  }
  return std::nullopt;
}

void encode_all(const EncodeJob& job, const ChunkOptions& options, const tokenizer::Tokenizer& tokenizer, TextSource& source,
                EncodeCommitter& committer, EncodeReport& report) {
  const auto start = Clock::now();
  const std::int64_t tokens_before = report.tokens;
  Progress progress("encode", source.total_bytes(), "bytes");
  EncodePool pool(options, tokenizer, source, job.workers);
  const auto wanted_to_stop = [&job] { return job.source.stop != nullptr && *job.source.stop != 0; };
  while (std::optional<ChunkResult> result = pool.take()) {
    if (wanted_to_stop()) {
      progress.finish();
      return committer.stop(*job.source.stop);
    }
    committer.take(*result);
    const double seconds = seconds_since(start);
    progress.update(result->used, fmt::format("{} documents, {:.2f} M tokens/s", report.documents,
                                              static_cast<double>(report.tokens - tokens_before) / 1e6 / std::max(seconds, 1e-9)));
    pool.give_back(std::move(*result));
  }
  progress.finish();
}

}  // namespace

std::string key_prefix(const EncodeJob& job, const std::string& key) {
  return job.output_prefix + "_" + key + (job.split_sentences ? "_sentence" : "_document");
}

EncodeReport encode_corpus(const EncodeJob& job, const tokenizer::Tokenizer& tokenizer) {
  const auto start = Clock::now();
  check_numbers(job);
  if (job.append_eod) tokenizer::require_eod(tokenizer);
  CommitPlan plan;
  plan.type = checked_type(job, tokenizer);
  TextSource source(job.source);
  plan.journaled = source.again();
  if (job.resume && !plan.journaled) {
    throw Error(Code::usage, "standard input and pipes cannot be read again", "--resume", "give files");
  }
  OutputFiles files = files_of(job);
  if (plan.journaled) {
    plan.identity = identity_of(job, plan.type, tokenizer);
    if (job.resume) plan.resume = find_killed_run(job, plan.identity);
  }
  if (job.resume && !plan.resume) {
    if (const std::optional<EncodeReport> done = finished_run(job, plan.identity)) return *done;
    log::info("no killed run to go on with at {}: begun from the start", journal_path(job).string());
  }
  const auto phase = plan.resume ? plan.resume->last->phase : JournalEntry::Phase::running;
  if (phase == JournalEntry::Phase::published) return finish_published(job, *plan.resume->last, tokenizer);
  if (phase != JournalEntry::Phase::running) files.force = true;  // they are ours, as far as they are there
  check_outputs(files);
  remove_stale_temporaries(files);
  EncodeReport report;
  {
    if (plan.resume && phase == JournalEntry::Phase::running) source.start_at(plan.resume->last->at);
    const ChunkOptions options = chunk_options(job, plan.type);
    EncodeCommitter committer(job, std::move(plan), tokenizer, source, report);
    if (report.resumed_documents > 0) log::info("going on after {} documents of a killed run", report.resumed_documents);
    if (phase == JournalEntry::Phase::running) encode_all(job, options, tokenizer, source, committer, report);
    if (report.stopped_by == 0) committer.finish();
  }
  report.elapsed_s = seconds_since(start);
  return report;
}

}  // namespace mt::data
