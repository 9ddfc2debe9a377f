#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/text_source.h"
#include "infer/perplexity.h"
#include "options/idle_flags.h"

namespace mt::eval {

namespace {

struct Flags {
  ModelFlags model;
  PerplexityOptions options;
  std::vector<std::string> inputs;
  std::string data_path, format = "auto", json_key = "text";
};

std::vector<ScoredDocument> read_text(const Flags& f, const tokenizer::Tokenizer& tokenizer) {
  data::TextSourceOptions o;
  o.inputs = f.inputs;
  if (f.format != "auto") o.format = f.format == "text" ? data::InputFormat::text : data::InputFormat::jsonl;
  data::TextSource source(o);
  data::RecordReader reader({f.json_key});
  std::vector<ScoredDocument> out;
  while (auto chunk = source.next()) {
    reader.start(*chunk);
    for (auto step = reader.next(); step != data::RecordReader::Step::end; step = reader.next()) {
      if (step == data::RecordReader::Step::bad)
        throw Error(Code::data, reader.fault().reason, fmt::format("{}:{}", chunk->file, reader.fault().line),
                    reader.fault().hint("--json-key"));
      for (const auto text : reader.values()[0]) {
        ScoredDocument d;
        d.tokens = tokenizer.encode_alone(text);
        d.words = count_words(text);
        d.bytes = static_cast<std::int64_t>(text.size());
        out.push_back(std::move(d));
      }
    }
  }
  return out;
}

// Ids of another tokenizer mean other words.
void require_same_tokenizer(const std::string& prefix, const std::string& fingerprint, const Session& session,
                            const tokenizer::Tokenizer* tokenizer) {
  const std::string of_model = session.meta().tokenizer;
  const std::string wanted = !of_model.empty() ? of_model : tokenizer ? hash_text(tokenizer->fingerprint()) : "";
  if (!fingerprint.empty() && !wanted.empty() && fingerprint != wanted)
    throw Error(Code::config, fmt::format("the token file was made with another tokenizer ({}) than {} ({})", fingerprint,
                                          of_model.empty() ? "the one given" : "the model was trained with", wanted),
                prefix, "encode the text with the model's tokenizer");
}

// Documents of a token file; words and bytes are counted on the decoded text when a tokenizer is at hand.
std::vector<ScoredDocument> read_tokens(const Flags& f, const Session& session, const tokenizer::Tokenizer* tokenizer,
                                        std::optional<std::int32_t>& start_id) {
  const data::IndexedDataset file(f.data_path);
  const auto origin = file.origin();
  if (origin) require_same_tokenizer(file.prefix(), origin->fingerprint, session, tokenizer);
  if (origin && origin->eod) start_id = origin->eod;
  std::vector<ScoredDocument> out;
  for (std::int64_t d = 0; d < file.num_documents(); ++d) {
    ScoredDocument doc;
    for (std::int64_t i = file.document_begin(d); i < file.document_end(d); ++i) {
      const std::size_t old = doc.tokens.size();
      doc.tokens.resize(old + static_cast<std::size_t>(file.length(i)));
      file.read(i, 0, std::span(doc.tokens).subspan(old));
    }
    if (origin && origin->eod_appended && !doc.tokens.empty()) doc.tokens.pop_back();
    if (tokenizer) {
      std::vector<std::int32_t> shown = doc.tokens;  // what stands around texts is scored, and is no word of theirs
      const auto around = [&origin](std::int32_t id) {
        const auto in = [id](const auto& side) { return std::find(side.begin(), side.end(), id) != side.end(); };
        return in(origin->before) || in(origin->after);
      };
      if (origin) std::erase_if(shown, around);
      const std::string text = tokenizer->decode(shown);
      doc.words = count_words(text);
      doc.bytes = static_cast<std::int64_t>(text.size());
    }
    out.push_back(std::move(doc));
  }
  return out;
}

Json result_json(const Perplexity& p) {
  Json j{{"documents", p.documents}, {"windows", p.windows},        {"window", p.window},
         {"stride", p.stride},       {"tokens", p.tokens},          {"unscored_tokens", p.unscored_tokens},
         {"words", p.bytes > 0 ? Json(p.words) : Json()},           {"bytes", p.bytes > 0 ? Json(p.bytes) : Json()},
         {"nll", p.nll},             {"token_ppl", p.token_ppl()}};
  if (p.words > 0) j["word_ppl"] = p.word_ppl();
  if (p.bytes > 0) {
    j["byte_ppl"] = p.byte_ppl();
    j["bits_per_byte"] = p.bits_per_byte();
  }
  return j;
}

int run_rank(Communicator& world, const Flags& f, const Json& start, bool json) {
  const auto began = Clock::now();
  Session session(world, f.model.resolved());
  const std::string compute = told_precision(world, session);
  PerplexityOptions options = f.options;
  std::vector<ScoredDocument> documents;
  if (!f.inputs.empty()) {
    const auto tokenizer = tokenizer_for(f.model, session);
    options.start_id = tokenizer->eod();
    documents = read_text(f, *tokenizer);
  } else {
    std::unique_ptr<tokenizer::Tokenizer> tokenizer;
    if (!f.model.tokenizer.model.empty() || !f.model.tokenizer.vocab_file.empty() ||
        f.model.tokenizer.type == "ByteTokenizer")
      tokenizer = tokenizer_for(f.model, session);
    documents = read_tokens(f, session, tokenizer.get(), options.start_id);
  }
  const Perplexity p = perplexity(session, documents, options);
  if (world.rank() != 0) return 0;
  const double seconds = seconds_since(began);
  Json j = result_json(p);
  j["compute_dtype"] = compute;
  j["iteration"] = session.meta().iteration;
  j["seconds"] = seconds;
  if (json) {
    cli::object(j);
  } else {
    for (const auto& [key, value] : j.items()) cli::row({key, value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump()});
  }
  Json event = {{"event", "evaluation"}, {"name", "perplexity"}};
  for (const auto& [key, value] : j.items())
    if (!value.is_null()) event[key] = value;
  f.model.registry.record(start, seconds, j, {event});
  return 0;
}

}  // namespace

Build ppl_command() {
  return [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
    auto f = std::make_shared<Flags>();
    f->model.add(table);
    table.group("Text");
    table.add("input", f->inputs, "FILE", "documents: JSON lines or text; - is stdin").multiple = true;
    table.add("input-format", f->format, "F", "auto (by name), jsonl or text").choices = {"auto", "jsonl", "text"};
    table.add("json-key", f->json_key, "KEY", "field of the text in JSON lines");
    table.add("data-path", f->data_path, "PREFIX", "a token file instead of text");
    table.group("Windows");
    table.add("window", f->options.window, "N", "context and targets together; default the model's positions", "tokens")
        .at_least(1).no_default();
    table.add("stride", f->options.stride, "N", "targets a window adds; default half the window", "tokens")
        .at_least(1).no_default();
    table.add("micro-batch-size", f->options.micro_batch, "N", "windows of one forward pass", "samples")
        .between(1, 4096);
    return [f, &table, &shared] {
      if (f->inputs.empty() == f->data_path.empty())
        throw Error(Code::usage, "wanted --input FILE... or --data-path PREFIX, one of them");
      options::note_idle_flags(table, {{f->inputs.empty(), {"input-format", "json-key"}, "without --input"},
                                       {f->format == "text", {"json-key"}, "with --input-format text"}});
      const Json start = options::RegistryFlag::start("mt-eval", table);
      return f->model.launch.run([&](Communicator& world, comm::StatusSlot& slot) {
        slot.at(-1, "score");
        return run_rank(world, *f, start, shared.json);
      });
    };
  };
}

}  // namespace mt::eval
