
#include "base/clock.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/progress.h"
#include "commands.h"
#include "tokenizer/bpe_trainer.h"
#include "data/output_check.h"
#include "tokenizer/tokenizer_json.h"
#include "options/registry_options.h"

namespace mt::preprocess {

namespace {

struct Flags {
  InputFlags input;
  std::vector<std::string> json_keys = {"text"}, special;
  std::string output, style = "byte-level", on_error = "stop";
  int vocab_size = 32000;
  std::int64_t min_frequency = 0, limit_alphabet = 0;
  bool force = false;
  options::RegistryFlag registry;
};

struct Read {
  std::int64_t documents = 0, skipped = 0, replaced = 0;
};

// A bad record ends the run, or is named, of the first ones, and counted.
void take_fault(const Flags& flags, const data::BadRecord& fault, const std::string& file, Read& read) {
  const std::string column = fault.column > 0 ? fmt::format(":{}", fault.column) : "";
  const std::string where = fmt::format("{}:{}{}", file, fault.line, column);
  if (flags.on_error == "stop") throw Error(Code::data, fault.reason, where, fault.hint("--json-keys"));
  constexpr std::int64_t kNamed = 5;
  if (++read.skipped <= kNamed) log::info("left out {}: {}", where, fault.reason);
  else if (read.skipped == kNamed + 1) log::info("further records left out are counted");
}

// Read every document into the trainer.   gives  how many there were
Read read_documents(const Flags& flags, const data::TextSourceOptions& input, tokenizer::BpeTrainer& trainer) {
  data::TextSource source(input);
  data::RecordReader reader(flags.json_keys, flags.on_error == "replace" ? data::Mend::yes : data::Mend::no);
  Progress progress("read", source.total_bytes(), "bytes");
  Read read;
  std::uint64_t bytes = 0;
  while (const std::optional<data::TextChunk> chunk = source.next()) {
    reader.start(*chunk);
    for (auto step = reader.next(); step != data::RecordReader::Step::end; step = reader.next()) {
      if (step == data::RecordReader::Step::bad) {
        take_fault(flags, reader.fault(), chunk->file, read);
        continue;
      }
      read.replaced += reader.mended() > 0 ? 1 : 0;
      for (const auto& texts : reader.values()) {
        for (const std::string_view text : texts) trainer.add(text);
      }
      ++read.documents;
    }
    progress.update(bytes += chunk->size);
  }
  progress.finish();
  return read;
}

tokenizer::BpeTrainerOptions options_of(const Flags& flags) {
  const bool pieces = flags.style == "sentencepiece";
  if (!pieces && flags.style != "byte-level") {
    throw Error(Code::usage, fmt::format("unknown style '{}'", flags.style), "--style", "byte-level or sentencepiece");
  }
  tokenizer::BpeTrainerOptions options;
  options.vocab_size = flags.vocab_size;
  options.min_frequency = flags.min_frequency;
  options.style = pieces ? tokenizer::BpeStyle::sentencepiece : tokenizer::BpeStyle::byte_level;
  options.limit_alphabet = flags.limit_alphabet;
  if (pieces) options.special = {"<unk>", "<s>", "</s>"};
  if (!flags.special.empty()) options.special = flags.special;
  return options;
}

int train(const Flags& flags, const Json& start, bool json) {
  const auto begun = Clock::now();
  if (flags.output.empty()) throw Error(Code::usage, "no output given", "--output");
  require_distinct(flags.json_keys, "--json-keys");
  tokenizer::BpeTrainer trainer(options_of(flags));
  const data::TextSourceOptions input = flags.input.options();
  const data::OutputFiles files{input.inputs, {flags.output}, flags.force};
  data::check_outputs(files);
  const auto lock = FileLock::try_lock(flags.output + ".lock", true);
  if (!lock) throw Error(Code::io, "another process is writing there", flags.output, "wait for it, or choose another name");
  data::remove_stale_temporaries(files);
  const Read read = read_documents(flags, input, trainer);
  const std::int64_t documents = read.documents;
  if (trainer.num_pieces() == 0) {
    throw Error(Code::data, fmt::format("no text in {}{}", counted(documents, "document"),
                                        read.skipped > 0 ? fmt::format(", {} left out", read.skipped) : ""),
                flags.input.input.front());
  }
  tokenizer::TrainedBpe bpe;
  {
    Progress progress("merge", static_cast<std::uint64_t>(flags.vocab_size), "tokens");
    bpe = trainer.train([&progress](std::int64_t n) { progress.update(static_cast<std::uint64_t>(n)); });
    progress.finish();
  }
  tokenizer::write_tokenizer_json(flags.output, bpe, flags.force);
  log::info("{}, {} ({} distinct), {} of {} tokens, {}", counted(documents, "document"),
            counted(trainer.num_pieces(), "piece"), trainer.num_distinct_pieces(), bpe.tokens.size(), flags.vocab_size,
            counted(static_cast<std::int64_t>(bpe.merges.size()), "merge"));
  if (read.skipped > 0) log::info("{} left out", counted(read.skipped, "record"));
  if (read.replaced > 0) log::info("characters replaced in {}", counted(read.replaced, "record"));
  if (bpe.tokens.size() < static_cast<std::size_t>(flags.vocab_size)) {
    log::warn("the text gives {} tokens, {} were asked", bpe.tokens.size(), flags.vocab_size);
  }
  const Json result = {{"documents", documents},
                       {"skipped_records", read.skipped},
                       {"replaced_records", read.replaced},
                       {"pieces", trainer.num_pieces()},
                       {"distinct_pieces", trainer.num_distinct_pieces()},
                       {"tokens", bpe.tokens.size()},
                       {"merges", bpe.merges.size()},
                       {"output", flags.output}};
  if (json) cli::object(result);
  flags.registry.record(start, seconds_since(begun), result);
  return 0;
}

}  // namespace

Run build_train_tokenizer(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  flags->input.add(table);
  table.add("json-keys", flags->json_keys, "KEY", "fields to learn from").multiple = true;
  table.add("on-error", flags->on_error, "WHAT", "a bad record ends the run, is left out, or has its bad characters replaced; counted")
      .choices = {"stop", "skip", "replace"};
  table.group("Output");
  table.add("output", flags->output, "FILE", "tokenizer.json to write");
  table.add("force", flags->force, "", "overwrite a file that exists");
  table.group("Vocabulary");
  table.add("style", flags->style, "S", "byte-level: symbols are bytes; sentencepiece: characters, words begin with a space");
  table.add("vocab-size", flags->vocab_size, "N", "tokens wanted, the 256 bytes and the special tokens included");
  table.add("min-frequency", flags->min_frequency, "N", "pairs seen less often are not merged");
  table.add("limit-alphabet", flags->limit_alphabet, "N", "sentencepiece: tokens for so many characters; 0: for all");
  table.add("special-token", flags->special, "S", "control tokens, ids from 0 on").multiple = true;
  flags->registry.add(table);
  return [flags, &shared, &table] {
    return train(*flags, options::RegistryFlag::start("mt-preprocess train-tokenizer", table), shared.json);
  };
}

}  // namespace mt::preprocess
