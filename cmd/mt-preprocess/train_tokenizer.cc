#include <chrono>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/progress.h"
#include "commands.h"
#include "data/bpe_trainer.h"
#include "data/output_check.h"
#include "data/tokenizer_json.h"
#include "options/registry_options.h"

namespace mt::preprocess {

namespace {

struct Flags {
  InputFlags input;
  std::vector<std::string> json_keys = {"text"}, special = {"<|endoftext|>"};
  std::string output;
  int vocab_size = 32000;
  std::int64_t min_frequency = 0;
  bool force = false;
  options::RegistryFlag registry;
};

// Read every document into the trainer.   gives  how many there were
std::int64_t read_documents(const Flags& flags, data::BpeTrainer& trainer) {
  data::TextSource source(flags.input.options());
  data::RecordReader reader(flags.json_keys);
  Progress progress("read", source.total_bytes(), "bytes");
  std::int64_t documents = 0;
  std::uint64_t bytes = 0;
  while (const std::optional<data::TextChunk> chunk = source.next()) {
    reader.start(*chunk);
    for (auto step = reader.next(); step != data::RecordReader::Step::end; step = reader.next()) {
      if (step == data::RecordReader::Step::bad) {
        const data::BadRecord& fault = reader.fault();
        const std::string column = fault.column > 0 ? fmt::format(":{}", fault.column) : "";
        throw Error(Code::data, fault.reason, fmt::format("{}:{}{}", chunk->file, fault.line, column),
                    fault.hint("--json-keys"));
      }
      for (const auto& texts : reader.values()) {
        for (const std::string_view text : texts) trainer.add(text);
      }
      ++documents;
    }
    progress.update(bytes += chunk->size);
  }
  progress.finish();
  return documents;
}

int train(const Flags& flags, const Json& start, bool json) {
  const auto begun = std::chrono::steady_clock::now();
  if (flags.output.empty()) throw Error(Code::usage, "no output given", "--output");
  data::require_distinct(flags.json_keys, "--json-keys");
  data::BpeTrainer trainer({flags.vocab_size, flags.min_frequency, flags.special});
  const data::OutputFiles files{flags.input.options().inputs, {flags.output}, flags.force};
  data::check_outputs(files);
  const auto lock = FileLock::try_lock(flags.output + ".lock", true);
  if (!lock) throw Error(Code::io, "another process is writing there", flags.output, "wait for it, or choose another name");
  data::remove_stale_temporaries(files);
  const std::int64_t documents = read_documents(flags, trainer);
  if (trainer.num_pieces() == 0) {
    throw Error(Code::data, fmt::format("no text in {}", counted(documents, "document")), flags.input.input.front());
  }
  data::TrainedBpe bpe;
  {
    Progress progress("merge", static_cast<std::uint64_t>(flags.vocab_size), "tokens");
    bpe = trainer.train([&progress](std::int64_t n) { progress.update(static_cast<std::uint64_t>(n)); });
    progress.finish();
  }
  data::write_tokenizer_json(flags.output, bpe, flags.force);
  log::info("{}, {} ({} distinct), {} of {} tokens, {}", counted(documents, "document"),
            counted(trainer.num_pieces(), "piece"), trainer.num_distinct_pieces(), bpe.tokens.size(), flags.vocab_size,
            counted(static_cast<std::int64_t>(bpe.merges.size()), "merge"));
  if (bpe.tokens.size() < static_cast<std::size_t>(flags.vocab_size)) {
    log::warn("the text gives {} tokens, {} were asked", bpe.tokens.size(), flags.vocab_size);
  }
  const Json result = {{"documents", documents},
                       {"pieces", trainer.num_pieces()},
                       {"distinct_pieces", trainer.num_distinct_pieces()},
                       {"tokens", bpe.tokens.size()},
                       {"merges", bpe.merges.size()},
                       {"output", flags.output}};
  if (json) cli::object(result);
  flags.registry.record(start, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), result);
  return 0;
}

}  // namespace

Run build_train_tokenizer(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  flags->input.add(table);
  table.add("json-keys", flags->json_keys, "KEY", "fields to learn from").multiple = true;
  table.group("Output");
  table.add("output", flags->output, "FILE", "tokenizer.json to write");
  table.add("force", flags->force, "", "overwrite a file that exists");
  table.group("Vocabulary");
  table.add("vocab-size", flags->vocab_size, "N", "tokens wanted, the 256 bytes and the special tokens included");
  table.add("min-frequency", flags->min_frequency, "N", "pairs seen less often are not merged");
  table.add("special-token", flags->special, "S", "control tokens, ids from 0 on").multiple = true;
  flags->registry.add(table);
  return [flags, &shared, &table] {
    return train(*flags, options::RegistryFlag::start("mt-preprocess train-tokenizer", table), shared.json);
  };
}

}  // namespace mt::preprocess
