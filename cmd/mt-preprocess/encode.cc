#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/encode_corpus.h"
#include "options/registry_options.h"
#include "options/tokenizer_options.h"

namespace mt::preprocess {

namespace {

struct Flags {
  InputFlags input;
  options::TokenizerFlags tokenizer;
  options::RegistryFlag registry;
  std::vector<std::string> json_keys = {"text"};
  std::string output_prefix, on_error = "stop", rejects, token_type = "auto";
  bool append_eod = false, force = false;
  int workers = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, data::kMaxWorkers);
  std::int64_t max_bad = -1;
};

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

data::EncodeJob job_of(const Flags& flags) {
  if (flags.output_prefix.empty()) throw Error(Code::usage, "no output prefix given", "--output-prefix");
  data::EncodeJob job;
  job.source = flags.input.options();
  job.keys = flags.json_keys;
  job.also_reads = tokenizer_files(flags.tokenizer);
  if (flags.registry.file != "none") job.also_reads.push_back(flags.registry.file);
  job.output_prefix = flags.output_prefix;
  job.tokenizer_type = flags.tokenizer.type;
  job.append_eod = flags.append_eod;
  job.workers = flags.workers;
  job.force = flags.force;
  job.on_bad = flags.on_error == "skip" ? data::OnBadRecord::skip : data::OnBadRecord::stop;
  job.rejects = flags.rejects;
  job.max_bad = flags.max_bad;
  if (flags.token_type == "uint16") job.type = data::TokenType::u16;
  if (flags.token_type == "int32") job.type = data::TokenType::i32;
  if (job.on_bad == data::OnBadRecord::stop && (!job.rejects.empty() || job.max_bad >= 0)) {
    throw Error(Code::usage, "given without --on-error skip", job.rejects.empty() ? "--max-bad" : "--rejects",
                "add --on-error skip");
  }
  return job;
}

Json report(const data::EncodeReport& r) {
  const double mb_per_s = static_cast<double>(r.input_bytes) / 1e6 / std::max(r.elapsed_s, 1e-9);
  log::info("{}, {}, {}, {} seen as text, {} skipped, {}, {:.1f} MB/s", counted(r.documents, "document"),
            counted(r.tokens, "token"), counted(r.empty_documents, "empty document"),
            counted(r.specials_as_text, "special string"), r.skipped_records, counted(r.blank_lines, "blank line"),
            mb_per_s);
  return {{"documents", r.documents},
          {"sequences", r.sequences},
          {"tokens", r.tokens},
          {"empty_documents", r.empty_documents},
          {"specials_as_text", r.specials_as_text},
          {"skipped_records", r.skipped_records},
          {"blank_lines", r.blank_lines},
          {"input_bytes", r.input_bytes},
          {"elapsed_s", r.elapsed_s},
          {"mb_per_s", mb_per_s},
          {"prefixes", r.prefixes}};
}

}  // namespace

Run build_encode(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  flags->input.add(table);
  table.add("json-keys", flags->json_keys, "KEY", "fields to encode, each into a token file of its own").multiple =
      true;
  table.group("Output");
  table.add("output-prefix", flags->output_prefix, "P", "files are P_KEY_document.bin, .idx and .json");
  table.add("append-eod", flags->append_eod, "", "end every document that is not empty with the end token");
  table.add("token-type", flags->token_type, "T", "width of an id; auto: uint16 below a vocabulary of 65500")
      .choices = {"auto", "uint16", "int32"};
  table.add("force", flags->force, "", "overwrite files that exist");
  flags->tokenizer.add(table);
  table.group("Work");
  table.add("workers", flags->workers, "N", "encoding threads, 1 to 256; the output does not depend on it");
  table.add("on-error", flags->on_error, "WHAT", "a bad record ends the run, or is skipped and counted").choices = {
      "stop", "skip"};
  table.add("rejects", flags->rejects, "FILE", "with --on-error skip: write bad records here, as they are");
  table.add("max-bad", flags->max_bad, "N", "with --on-error skip: more bad records end the run; -1: no limit",
            "records");
  flags->registry.add(table);
  return [flags, &shared, &table] {
    const data::EncodeJob job = job_of(*flags);
    const Json start = options::RegistryFlag::start("mt-preprocess encode", table);
    const auto tokenizer = data::make_tokenizer(flags->tokenizer.spec());
    const data::Surround& around = tokenizer->surround();
    if (!around.empty()) {
      log::info("around every text: {} in front, {} behind", counted(std::ssize(around.before), "token"),
                counted(std::ssize(around.after), "token"));
    }
    const data::EncodeReport done = data::encode_corpus(job, *tokenizer);
    const Json result = report(done);
    if (shared.json) cli::object(result);
    flags->registry.record(start, done.elapsed_s, result);
    return 0;
  };
}

}  // namespace mt::preprocess
