#include <algorithm>
#include <cstdio>

#include "args_files.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/run_sets.h"
#include "data/bert_dataset.h"
#include "data/blend.h"
#include "data/fim.h"
#include "data/sft_dataset.h"
#include "data/t5_dataset.h"
#include "options/sample_options.h"
#include "options/tokenizer_options.h"

namespace mt::preprocess {

namespace {

struct Flags {
  options::TokenizerFlags tokenizer;
  std::vector<std::string> path, data_path;
  std::string args_file;
  data::SetLength length;  // of the run, which says num_samples where that is not given
  std::string dataset = "gpt", split = "969,30,1", set = "train";
  std::int64_t seq_length = 0, decoder_seq_length = 128, num_samples = 0, start = 0, count = 10;
  std::uint64_t seed = 1234;
  data::MaskOptions masks;
  data::FimOptions fim;
  data::SftOptions sft;
  double mask_prob = 0.15, short_seq_prob = 0.1;
  bool no_binary_head = false, text = false;
  std::optional<int> vocab_extra_ids;

  bool is(const char* name) const { return dataset == name; }
  std::uint32_t seed32() const { return static_cast<std::uint32_t>(seed); }
  // Megatron gives BertWordPieceCase a hundred, which BERT's random tokens are drawn from too.
  int extra_ids() const {
    return vocab_extra_ids.value_or(is("t5") || tokenizer.type == "BertWordPieceCase" ? 100 : 0);
  }
  std::size_t set_index() const { return set == "train" ? 0 : set == "valid" ? 1 : 2; }
};

// A sample as it is printed: named lists of integers and named texts, in this order.
struct Shown {
  std::vector<std::pair<const char*, std::vector<std::int32_t>>> lists;
  std::vector<std::pair<const char*, std::string>> texts;
};
using Show = std::function<Shown(std::int64_t k)>;

// A set that can be walked; `size` 0: it has no end. What it reads from is held by `show`.
struct Walk {
  std::int64_t size = 0;
  Show show;
};

bool needs_tokenizer(const Flags& f) { return f.text || !f.is("gpt"); }

std::shared_ptr<tokenizer::Tokenizer> open_tokenizer(const Flags& f) {
  tokenizer::TokenizerSpec spec = f.tokenizer.spec();
  const bool given = !spec.model.empty() || !spec.vocab_file.empty() || spec.type == "ByteTokenizer" ||
                     spec.type == "NullTokenizer";
  if (!given && !needs_tokenizer(f)) return nullptr;
  spec.parse_special = f.is("sft");
  return tokenizer::make_tokenizer(spec);
}

// Text of ids; ids behind the vocabulary are sentinels.
std::string text_of(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::string text;
  const auto known = [&](std::int32_t id) { return id >= 0 && id < tokenizer.vocab_size(); };
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i;
    while (end < ids.size() && known(ids[end])) ++end;
    tokenizer.decode(ids.subspan(i, end - i), text);
    if (end < ids.size()) text += fmt::format("<extra_id_{}>", ids[end++] - tokenizer.vocab_size());
    i = end;
  }
  return text;
}

Shown shown(const data::TrainingSample& s, const tokenizer::Tokenizer* tokenizer, bool targets) {
  Shown out;
  out.lists = {{"tokens", s.ids},
               {"labels", s.labels},
               {"loss_mask", {s.loss_mask.begin(), s.loss_mask.end()}},
               {"position_ids", s.positions},
               {"cu_seqlens", s.bounds}};
  if (tokenizer == nullptr) return out;
  out.texts.emplace_back("text", text_of(*tokenizer, s.ids));
  if (!targets) return out;
  std::vector<std::int32_t> counted;
  for (std::size_t i = 0; i < s.labels.size(); ++i)
    if (s.loss_mask[i] != 0) counted.push_back(s.labels[i]);
  out.texts.emplace_back("targets", text_of(*tokenizer, counted));
  return out;
}

// What is read of token files, and what is made of it.
struct GptFiles {
  std::shared_ptr<tokenizer::Tokenizer> tokenizer;
  data::TokenFiles files;
  std::optional<data::BlendedDataset> set;
  std::optional<data::FimTransform> fim;
  data::MaskOptions masks;
};

void open_end_token(const Flags& f, GptFiles& g) {
  g.masks = f.masks;
  if (!g.masks.needs_eod()) return;
  if (g.tokenizer) g.masks.eod = g.tokenizer->eod();
  for (const auto& prefix : data::parse_data_path(f.path).prefixes)
    if (const auto origin = g.files.open(prefix).origin(); origin && !g.masks.eod) g.masks.eod = origin->eod;
  data::require_end_id(g.masks);
}

void require_number(const Flags& f, const data::DataPath& path, bool several) {
  if (f.num_samples == 0 && (!path.weights.empty() || several))
    throw Error(Code::config, "a blend of several files is drawn for a number of samples", "--num-samples",
                "train-iters x global-batch-size");
}

Walk walk_gpt(const Flags& f) {
  auto g = std::make_shared<GptFiles>();
  g->tokenizer = open_tokenizer(f);
  data::SetRequest request;
  request.path = data::parse_data_path(f.path);
  require_number(f, request.path, false);
  request.name = f.set == "valid" ? "validation" : f.set == "train" ? "training" : f.set;
  request.split = f.split;
  request.part = f.set_index();
  if (f.num_samples > 0) request.num_samples = f.num_samples;
  request.seq_length = f.seq_length;
  request.seed = f.seed32();
  data::IndexCache cache;  // none: what only looks leaves nothing behind
  g->set.emplace(data::build_set(request, g->files, cache));
  if (f.is("fim")) g->fim.emplace(f.fim, *g->tokenizer, f.seed32());
  open_end_token(f, *g);
  return {g->set->size(), [g, text = f.text, length = static_cast<std::size_t>(f.seq_length)](std::int64_t k) {
            std::vector<std::int32_t> tokens(length + 1), starts;
            std::int64_t real = g->set->fetch(k, tokens, starts);
            if (g->fim) real = g->fim->apply(k, tokens, real);
            data::TrainingSample sample;
            data::make_sample(tokens, real, g->masks, starts, sample);
            Shown out = shown(sample, text ? g->tokenizer.get() : nullptr, false);
            out.lists.insert(out.lists.begin(), {"dataset", {static_cast<std::int32_t>(g->set->place(k).first)}});
            return out;
          }};
}

struct Chats {
  std::shared_ptr<tokenizer::Tokenizer> tokenizer;
  std::optional<data::PromptFormat> format;
  std::vector<std::unique_ptr<data::SftFile>> files;
  std::optional<data::SftDataset> set;
};

Walk walk_sft(const Flags& f) {
  auto c = std::make_shared<Chats>();
  c->tokenizer = open_tokenizer(f);
  c->format.emplace(f.sft.prompt_format, *c->tokenizer);
  for (const std::string& token : c->format->missing_tokens())
    log::warn("the tokenizer has no token '{}': it is encoded as text", token);
  const data::DataPath path = data::parse_data_path(f.path);
  const auto shares = data::parse_split(f.split);
  data::SftDataset::Request request;
  for (const std::string& name : path.prefixes) {
    c->files.push_back(std::make_unique<data::SftFile>(name));
    const data::SftFile& file = *c->files.back();
    log::info("{}: {}, {}, {} without an answer", name, counted(file.num_lines(), "line"),
              counted(file.num_conversations(), "conversation"), file.num_without_answer());
    request.files.push_back(&file);
    request.ranges.push_back(data::split_ranges(shares, file.num_lines())[f.set_index()]);
  }
  require_number(f, path, path.prefixes.size() > 1);
  request.weights = path.weights;
  request.num_samples = f.num_samples;
  request.seq_length = f.seq_length;
  request.pack_lines = f.sft.pack_lines;
  c->set.emplace(request, *c->format);
  return {f.num_samples == 0 ? c->set->pass() : f.num_samples, [c, text = f.text](std::int64_t k) {
            data::TrainingSample sample;
            c->set->make(k, sample);
            Shown out = shown(sample, text ? c->tokenizer.get() : nullptr, true);
            out.lists.insert(out.lists.begin(), {"dataset", {static_cast<std::int32_t>(c->set->place(k).first)}});
            out.lists.push_back({"dropped", {static_cast<std::int32_t>(sample.dropped)}});
            out.lists.push_back({"dropped_answers", {static_cast<std::int32_t>(sample.dropped_answers)}});
            return out;
          }};
}

// Documents of a split of the one token file that BERT and T5 read.
struct Sentences {
  explicit Sentences(const Flags& f) : tokenizer(open_tokenizer(f)), file(f.path.front()) {
    if (f.path.size() != 1) throw Error(Code::usage, "one token file for BERT and T5", "PREFIX");
    documents = data::split_ranges(data::parse_split(f.split), file.num_documents())[f.set_index()];
    if (documents.begin >= documents.end)
      throw Error(Code::config, fmt::format("the {} set gets 0 of {} documents", f.set, file.num_documents()),
                  "--split");
  }
  std::shared_ptr<tokenizer::Tokenizer> tokenizer;
  data::IndexedDataset file;
  data::SequenceRange documents;
};

Walk walk_bert(const Flags& f) {
  auto s = std::make_shared<Sentences>(f);
  data::BertOptions o;
  o.num_samples = f.num_samples;
  o.seq_length = f.seq_length;
  o.seed = f.seed32();
  o.short_seq_prob = f.short_seq_prob;
  o.sentence_pairs = !f.no_binary_head;
  o.masking.mask_prob = f.mask_prob;
  auto set = std::make_shared<data::BertDataset>(s->file, s->documents, data::word_pieces_of(*s->tokenizer, f.extra_ids()),
                                                 o);
  return {set->size(), [s, set, text = f.text](std::int64_t k) {
            const data::BertSample b = set->fetch(k);
            Shown out;
            out.lists = {{"text", b.text},           {"types", b.types},
                         {"labels", b.labels},       {"is_random", {b.is_random ? 1 : 0}},
                         {"loss_mask", b.loss_mask}, {"padding_mask", b.padding_mask},
                         {"truncated", {b.truncated ? 1 : 0}}};
            if (text) out.texts.emplace_back("decoded", text_of(*s->tokenizer, b.text));
            return out;
          }};
}

Walk walk_t5(const Flags& f) {
  auto s = std::make_shared<Sentences>(f);
  data::T5Options o;
  o.num_samples = f.num_samples;
  o.seq_length = f.seq_length;
  o.decoder_seq_length = f.decoder_seq_length;
  o.seed = f.seed32();
  o.short_seq_prob = f.short_seq_prob;
  o.masking.mask_prob = f.mask_prob;
  auto set = std::make_shared<data::T5Dataset>(s->file, s->documents,
                                               data::word_pieces_of(*s->tokenizer, f.extra_ids()), o);
  return {set->size(), [s, set, text = f.text](std::int64_t k) {
            const data::T5Sample t = set->fetch(k);
            Shown out;
            out.lists = {{"text_enc", t.text_enc},   {"text_dec", t.text_dec}, {"labels", t.labels},
                         {"loss_mask", t.loss_mask}, {"enc_mask", t.enc_mask}, {"dec_mask", t.dec_mask},
                         {"truncated", {t.truncated ? 1 : 0}}};
            if (!text) return out;
            out.texts.emplace_back("encoder", text_of(*s->tokenizer, t.text_enc));
            out.texts.emplace_back("decoder", text_of(*s->tokenizer, t.text_dec));
            return out;
          }};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else out += c;
  }
  return out;
}

void print(std::int64_t k, const Shown& s, bool header, bool json) {
  if (json) {
    Json j{{"sample", k}};
    for (const auto& [name, list] : s.lists) j[name] = list;
    for (const auto& [name, text] : s.texts) j[name] = text;
    return cli::object(j);
  }
  std::vector<std::string> names{"sample"}, cells{std::to_string(k)};
  for (const auto& [name, list] : s.lists) {
    names.emplace_back(name);
    cells.push_back(fmt::format("{}", fmt::join(list, " ")));
  }
  for (const auto& [name, text] : s.texts) {
    names.emplace_back(name);
    cells.push_back(escaped(text));
  }
  if (header) cli::row(names);
  cli::row(cells);
}

// What the flags of a training say in other words.
void complete(Flags& f) {
  if (!f.path.empty() && !f.data_path.empty())
    throw Error(Code::usage, "token files are given twice, as PREFIX... too", "--data-path", "one of them");
  if (f.path.empty()) f.path = f.data_path;
  if (f.num_samples == 0 && f.length.global_batch > 0) f.num_samples = data::samples_wanted(f.length)[f.set_index()];
}

int samples(Flags& f, bool json) {
  complete(f);
  if (f.path.empty()) throw Error(Code::usage, "no token file given", "PREFIX");
  const bool sentences = f.is("bert") || f.is("t5");
  const std::int64_t least = f.is("bert") ? 5 : f.is("t5") ? 4 : 1;
  if (f.seq_length < least)
    throw Error(Code::usage, fmt::format("{}: wanted {} or more", f.seq_length, least), "--seq-length");
  const data::MaskOptions& m = f.masks;
  const bool masks = m.eod_mask_loss || m.reset_position_ids || m.reset_attention_mask || m.inter_document_masking;
  if ((sentences || f.is("sft")) && masks)
    throw Error(Code::usage, fmt::format("nothing to mask or reset in samples of {}", f.dataset), "--dataset",
                "gpt or fim");
  if (f.is("fim") && f.masks.inter_document_masking)
    throw Error(Code::usage, "documents move in samples of fim", "--dataloader-inter-document-masking",
                "--reset-attention-mask");
  const Walk walk = sentences ? (f.is("bert") ? walk_bert(f) : walk_t5(f)) : f.is("sft") ? walk_sft(f) : walk_gpt(f);
  log::info("{}", counted(walk.size, "sample"));
  if (f.start >= walk.size)
    throw Error(Code::usage, fmt::format("{}: the set has samples 0 to {}", f.start, walk.size - 1), "--start");
  const std::int64_t end = f.count < walk.size - f.start ? f.start + f.count : walk.size;
  for (std::int64_t k = f.start; k < end; ++k) print(k, walk.show(k), k == f.start, json);
  return 0;
}

}  // namespace

Run build_samples(OptionTable& table, const cli::Shared& shared) {
  const auto f = std::make_shared<Flags>();
  table.positional(f->path, "PREFIX...", "token files, or weights and token files in turn; chat JSON lines for sft");
  table.group("Samples");
  table.add("dataset", f->dataset, "NAME", "what samples are made: gpt, fim, sft, bert or t5").choices = {
      "gpt", "fim", "sft", "bert", "t5"};
  table.add("seq-length", f->seq_length, "N", "tokens of a sample", "tokens").no_default();
  table.add("num-samples", f->num_samples, "N", "samples the run reads in all, which fixes their order; 0: one epoch")
      .at_least(0);
  table.add("data-path", f->data_path, "PREFIX", "the token files, instead of PREFIX...").multiple = true;
  table.add("train-iters", f->length.train_iters, "N", "of the run, which with global-batch-size says num-samples", "steps").at_least(0);
  table.add("train-samples", f->length.train_samples, "N", "instead of train-iters", "samples").at_least(0);
  table.add("global-batch-size", f->length.global_batch, "N", "of the run", "samples").at_least(0);
  table.add("eval-iters", f->length.eval_iters, "N", "of the run, for its other sets", "steps").at_least(0);
  table.add("eval-interval", f->length.eval_interval, "N", "of the run, for its other sets", "steps").at_least(0);
  table.add("split", f->split, "A,B,C", "shares of training, validation and test");
  table.add("set", f->set, "NAME", "which of the three").choices = {"train", "valid", "test"};
  table.add("seed", f->seed, "N", "of the run");
  table.add("start", f->start, "N", "first sample printed").at_least(0);
  table.add("count", f->count, "N", "samples printed").at_least(0);
  table.add("text", f->text, "", "decoded text too");
  table.add("eod-mask-loss", f->masks.eod_mask_loss, "", "no loss after end-of-document tokens");
  table.add("reset-position-ids", f->masks.reset_position_ids, "", "positions restart after end-of-document tokens");
  table.add("reset-attention-mask", f->masks.reset_attention_mask, "",
            "attention stays between end-of-document tokens");
  table.add("dataloader-inter-document-masking", f->masks.inter_document_masking, "",
            "attention stays inside a document of the token file, and positions restart with it");
  options::add_fim(table, f->fim);
  options::add_sft(table, f->sft);
  table.add("mask-prob", f->mask_prob, "P", "bert, t5: share of tokens masked").between(0, 1);
  table.add("short-seq-prob", f->short_seq_prob, "P", "bert, t5: share of samples that are shorter").between(0, 1);
  table.add("bert-no-binary-head", f->no_binary_head, "", "bert: one run of sentences, not two");
  table.add("decoder-seq-length", f->decoder_seq_length, "N", "t5: tokens of the decoder", "tokens").at_least(1);
  table.add("vocab-extra-ids", f->vocab_extra_ids, "N",
            "t5, bert: sentinels, behind the vocabulary where it has none; default 100 for t5 and BertWordPieceCase")
      .between(0, 1 << 20);
  f->tokenizer.add(table);
  table.group("Samples");
  take_args_files(table, f->args_file);
  return [f, &shared] { return samples(*f, shared.json); };
}

}  // namespace mt::preprocess
