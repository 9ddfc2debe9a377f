#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/encode_corpus.h"
#include "megatron_habits.h"
#include "options/registry_options.h"
#include "options/tokenizer_options.h"

namespace mt::preprocess {

namespace {

constexpr std::int64_t kMostPartitions = 10000;  // each is a pass over the input

struct Flags {
  InputFlags input;
  options::TokenizerFlags tokenizer;
  options::RegistryFlag registry;
  std::vector<std::string> json_keys = {"text"};
  std::string output_prefix, on_error = "stop", rejects, token_type = "auto";
  std::optional<std::string> shard;
  std::string lang = "english";
  std::int64_t partitions = 1;
  bool append_eod = false, force = false, keep_sequential = false, split_sentences = false, keep_newlines = false;
  int workers = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, data::kMaxWorkers);
  std::optional<std::int64_t> max_bad;
  bool resume = false, stats = false;
  double journal_interval = 30;
};

std::atomic<int> signal_seen{0};  // a handler reaches nothing else
std::atomic<std::int64_t> signal_seen_ms{0};

// timeout(1) and launchers signal a process and then its group: what comes within half a second is the same request.
void on_signal(int seen) {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000;
  if (signal_seen == 0) {
    signal_seen_ms = ms;
    signal_seen = seen;
  } else if (ms - signal_seen_ms > 500) {
    ::signal(seen, SIG_DFL);
    ::raise(seen);
  }
}

// INT, TERM and HUP end the run in order once; a later one ends it at once. Those that are ignored (nohup) stay so.
void catch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction act {};
    if (::sigaction(number, nullptr, &act) != 0 || act.sa_handler == SIG_IGN) continue;
    act = {};
    act.sa_handler = on_signal;
    act.sa_flags = SA_RESTART;
    ::sigaction(number, &act, nullptr);
  }
}

// Files the tokenizer is read from, those beside or inside --tokenizer-model among them.
std::vector<std::string> tokenizer_files(const options::TokenizerFlags& flags) {
  namespace fs = std::filesystem;
  const fs::path model = flags.model;
  std::vector<fs::path> paths = {flags.vocab_file, flags.merge_file, model};
  if (!model.empty()) {
    for (const fs::path& folder : {model, model.parent_path()}) paths.push_back(folder / "tokenizer_config.json");
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) paths.push_back(model / name);
  }
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::path& path : paths) {
    if (fs::is_regular_file(path, error)) files.push_back(path.string());
  }
  return files;
}

// "I/N".
data::InputShare parse_share(const std::string& text) {
  data::InputShare share;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, share.index);
  const auto second = first.ptr != end && *first.ptr == '/' ? std::from_chars(first.ptr + 1, end, share.count) : first;
  if (first.ec != std::errc() || second.ec != std::errc() || second.ptr != end || first.ptr == end)
    throw Error(Code::usage, fmt::format("'{}': wanted I/N, such as 0/8", text), "--shard");
  return share;
}

data::EncodeJob job_of(const Flags& flags) {
  if (flags.output_prefix.empty()) throw Error(Code::usage, "no output prefix given", "--output-prefix");
  data::EncodeJob job;
  job.source = flags.input.options();
  if (flags.shard) job.source.share = parse_share(*flags.shard);
  job.source.stop = &signal_seen;
  job.source.deal = flags.keep_sequential ? 1 : flags.partitions;
  job.split_sentences = flags.split_sentences;
  job.keep_newlines = flags.keep_newlines;
  job.keys = flags.json_keys;
  job.also_reads = tokenizer_files(flags.tokenizer);
  if (flags.registry.file != "none") job.also_reads.push_back(flags.registry.file);
  job.output_prefix = flags.output_prefix;
  job.tokenizer_type = flags.tokenizer.type;
  job.append_eod = flags.append_eod;
  job.workers = flags.workers;
  job.force = flags.force;
  job.on_bad = flags.on_error == "skip"      ? data::OnBadRecord::skip
               : flags.on_error == "replace" ? data::OnBadRecord::replace
                                             : data::OnBadRecord::stop;
  job.rejects = flags.rejects;
  job.max_bad = flags.max_bad.value_or(job.on_bad == data::OnBadRecord::replace ? 0 : -1);
  job.parse_special = flags.tokenizer.parse_special;
  job.resume = flags.resume;
  job.stats = flags.stats;
  job.journal_every_s = flags.journal_interval;
  if (flags.token_type == "uint16") job.type = data::TokenType::u16;
  if (flags.token_type == "int32") job.type = data::TokenType::i32;
  if (job.on_bad == data::OnBadRecord::stop && (!job.rejects.empty() || flags.max_bad)) {
    throw Error(Code::usage, "given without --on-error skip or replace", job.rejects.empty() ? "--max-bad" : "--rejects",
                "add --on-error skip");
  }
  return job;
}

// One row a fact: what, of which, how many.
void print_stats(const data::EncodeReport& r) {
  const auto text = [](const Json& value) { return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump(); };
  const auto row = [&](const std::string& what, const std::string& of, const Json& value) { cli::row({what, of, text(value)}); };
  cli::row({"what", "of", "value"});
  row("documents", "-", r.documents);
  row("sequences", "-", r.sequences);
  row("tokens", "-", r.tokens);
  row("empty_documents", "-", r.empty_documents);
  row("skipped_records", "-", r.skipped_records);
  row("replaced_records", "-", r.replaced_records);
  row("replaced_characters", "-", r.replaced_characters);
  row("specials_as_text", "-", r.specials_as_text);
  for (const char* name : {"text_bytes", "bytes_per_token", "unknown_tokens", "distinct_tokens"}) row(name, "-", r.stats.at(name));
  for (const Json& j : r.stats.at("lengths"))
    row("documents_of_length", fmt::format("{}-{}", text(j.at("from")), text(j.at("to"))), j.at("documents"));
  for (const Json& j : r.stats.at("longest")) row("longest_document", fmt::format("{}:{}", text(j.at("file")), text(j.at("line"))), j.at("tokens"));
  for (const Json& j : r.stats.at("top_tokens")) row("top_token", text(j.at("id")), j.at("count"));
}

// A run that a signal ended.   gives  the exit status a shell makes of it
int report_stop(const data::EncodeReport& r) {
  const std::string by = fmt::format("stopped by SIG{} after {}", r.stopped_by == SIGINT ? "INT" : r.stopped_by == SIGTERM ? "TERM" : "HUP", counted(r.documents, "document"));
  if (!r.stopped_at.empty()) log::line(fmt::format("{}, before {}; the same command with --resume goes on there", by, r.stopped_at));
  else log::line(by + "; nothing is kept, the next run begins at the start");
  return 128 + r.stopped_by;
}

// Files that an earlier run made of the same: nothing was done.
Json report_complete(const data::EncodeReport& r) {
  log::info("already complete: {}, {}; nothing is written", counted(r.documents, "document"), counted(r.tokens, "token"));
  return {{"already_complete", true}, {"documents", r.documents}, {"sequences", r.sequences}, {"tokens", r.tokens},
          {"prefixes", r.prefixes}};
}

Json report(const data::EncodeReport& r) {
  const double mb_per_s = static_cast<double>(r.input_bytes - r.resumed_bytes) / 1e6 / std::max(r.elapsed_s, 1e-9);
  log::info("{}, {}, {}, {} seen as text, {} skipped, {}, {:.1f} MB/s", counted(r.documents, "document"),
            counted(r.tokens, "token"), counted(r.empty_documents, "empty document"),
            counted(r.specials_as_text, "special string"), r.skipped_records, counted(r.blank_lines, "blank line"),
            mb_per_s);
  if (r.replaced_records > 0) {
    log::info("{} replaced in {}, the first in {}", counted(r.replaced_characters, "character"),
              counted(r.replaced_records, "record"), r.first_replaced);
  }
  if (r.odd_number_records > 0)
    log::info("{} with a number that JSON has not (NaN, Infinity) or no double holds, taken as Python takes them",
              counted(r.odd_number_records, "record"));
  return {{"documents", r.documents},
          {"sequences", r.sequences},
          {"tokens", r.tokens},
          {"empty_documents", r.empty_documents},
          {"specials_as_text", r.specials_as_text},
          {"skipped_records", r.skipped_records},
          {"replaced_records", r.replaced_records},
          {"replaced_characters", r.replaced_characters},
          {"resumed_documents", r.resumed_documents},
          {"blank_lines", r.blank_lines},
          {"input_bytes", r.input_bytes},
          {"elapsed_s", r.elapsed_s},
          {"mb_per_s", mb_per_s},
          {"prefixes", r.prefixes},
          {"first_skipped", r.first_skipped},
          {"odd_number_records", r.odd_number_records}};
}

}  // namespace

Run build_encode(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  flags->input.add(table);
  table.add("json-keys", flags->json_keys, "KEY", "fields to encode, each into a token file of its own").multiple =
      true;
  table.add("shard", flags->shard, "I/N", "encode the I-th of N shares of the input, from 0; merged in order they are the whole");
  table.add("partitions", flags->partitions, "N", "order of Megatron's N partitions: line k goes to partition k modulo N")
      .between(1, kMostPartitions);
  table.add("keep-sequential-samples", flags->keep_sequential, "", "with --partitions: the order of the input after all");
  table.add("split-sentences", flags->split_sentences, "", "a sequence a sentence; files are P_KEY_sentence");
  table.add("keep-newlines", flags->keep_newlines, "", "with --split-sentences: white space stays behind its sentence");
  table.add("lang", flags->lang, "LANG", "language of the rules for sentences").choices = {"english"};
  table.group("Output");
  table.add("output-prefix", flags->output_prefix, "P", "files are P_KEY_document.bin, .idx and .json");
  table.add("append-eod", flags->append_eod, "", "end every document that is not empty with the end token");
  table.add("token-type", flags->token_type, "T", "width of an id; auto: uint16 below a vocabulary of 65500")
      .choices = {"auto", "uint16", "int32"};
  table.add("force", flags->force, "", "overwrite files that exist");
  flags->tokenizer.add(table);
  table.group("Work");
  table.add("workers", flags->workers, "N", "encoding threads, 1 to 256; the output does not depend on it");
  table.add("on-error", flags->on_error, "WHAT",
            "a bad record ends the run, is left out, or has its bad characters replaced; counted").choices = {
      "stop", "skip", "replace"};
  table.add("rejects", flags->rejects, "FILE", "with skip or replace: write the records left out here, as they are");
  table.add("max-bad", flags->max_bad, "N",
            "more records left out end the run; -1: no limit; by default -1 with skip, 0 with replace", "records");
  table.add("resume", flags->resume, "", "go on with a killed run of the same inputs, options and tokenizer");
  table.add("journal-interval", flags->journal_interval, "S",
            "how often is written down how far the run is, for --resume; 0: after every chunk", "s")
      .at_least(0);
  table.add("stats", flags->stats, "", "print lengths, longest documents, commonest and unknown tokens of the first key");
  flags->registry.add(table);
  add_megatron_habits(table);
  return [flags, &shared, &table] {
    const data::EncodeJob job = job_of(*flags);
    const Json start = options::RegistryFlag::start("mt-preprocess encode", table);
    const auto tokenizer = tokenizer::make_tokenizer(flags->tokenizer.spec());
    const tokenizer::Surround& around = tokenizer->surround();
    if (!around.empty()) {
      log::info("around every text: {} in front, {} behind", counted(std::ssize(around.before), "token"),
                counted(std::ssize(around.after), "token"));
    }
    catch_signals();
    const data::EncodeReport done = data::encode_corpus(job, *tokenizer);
    if (done.stopped_by != 0) return report_stop(done);
    if (done.already_complete) {
      if (job.stats) log::warn("--stats: they are of a run as it encodes; --force encodes anew");
      if (std::error_code none; !job.rejects.empty() && !std::filesystem::exists(job.rejects, none))
        log::warn("--rejects: {} is not there, and only a run that encodes writes it; --force encodes anew", job.rejects);
      const Json result = report_complete(done);
      if (shared.json) cli::object(result);
      return 0;
    }
    Json result = report(done);
    if (job.stats) result["stats"] = done.stats;
    if (shared.json) cli::object(result);
    else if (job.stats) print_stats(done);
    flags->registry.record(start, done.elapsed_s, result);
    return 0;
  };
}

}  // namespace mt::preprocess
