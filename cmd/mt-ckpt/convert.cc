// mt-ckpt convert: between checkpoints of ours and those of other programs.

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "ckpt/one_save.h"
#include "foreign/gguf_convert.h"
#include "foreign/hf_convert.h"
#include "foreign/megatron_convert.h"
#include "foreign/megatron_export.h"
#include "foreign/megatron_files.h"
#include "foreign/meta_files.h"
#include "mt-ckpt/commands.h"

namespace mt {
namespace {

struct Arguments {
  std::string from, to, load, save, family, like, transformer_impl;
  std::optional<std::int64_t> iteration, vocab_size, write_as;
  std::optional<int> tp, pp, ep;
  double max_shard_gb = 5;
  bool force = false, weights_only = false;
};

// What makes a model usable beside its weights, and is the same before and after training.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
                                           "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt", "spiece.model",
                                           "generation_config.json", "chat_template.jinja"};

void copy_tokenizer(const fs::path& from, const fs::path& to, bool force) {
  for (const char* name : kTokenizerFiles) {
    std::error_code ec;
    if (!fs::is_regular_file(from / name, ec)) continue;
    if (!force && fs::exists(to / name, ec))
      throw Error(Code::config, "is there already", (to / name).string(), "another directory, or --force replaces it");
    write_file_atomic(to / name, read_file(from / name));
  }
}

void tell(const Converted& done, const char* format, bool json) {
  for (const auto& n : done.notices) log::warn("{}", n);
  if (json) return cli::object({{"path", done.path.string()}, {"format", format}, {"tensors", done.tensors}, {"bytes", done.bytes}});
  cli::row({"path", "format", "tensors", "bytes"});
  cli::row({done.path.string(), format, std::to_string(done.tensors), std::to_string(done.bytes)});
}

int to_hf(const Arguments& a, bool json) {
  const Reader reader(resolve_and_tell(a.load, a.iteration).dir);
  HfExport what;
  what.output.dir = a.save;
  what.output.force = a.force;
  what.output.max_shard_bytes = static_cast<std::uint64_t>(a.max_shard_gb * 1e9);
  what.family = a.family;
  if (!a.like.empty()) what.base = read_json(fs::path(a.like) / "config.json");
  LateProgress progress("converting");
  const auto done = export_hf(reader, what, std::ref(progress));
  if (!a.like.empty()) copy_tokenizer(a.like, a.save, a.force);
  tell(done, "hf", json);
  return 0;
}

template <Converted (*import)(const ModelImport&, const BytesDone&)>
int from_model(const Arguments& a, bool json) {
  const ModelImport what{a.load, a.save, a.write_as.value_or(0), cli::version()};
  const OneSave lock(a.save, what.iteration, a.force);
  LateProgress progress("converting");
  tell(import(what, std::ref(progress)), "native", json);
  return 0;
}

int to_megatron(const Arguments& a, bool json) {
  const Reader reader(resolve_and_tell(a.load, a.iteration).dir);
  MegatronExport what;
  what.root = a.save;
  what.dist = a.to == "megatron-dist";
  what.force = a.force;
  what.transformer_engine = a.transformer_impl != "local";
  for (const auto& [option, size, name] : {std::tuple(&a.tp, &what.tp, "--target-tensor-parallel-size"), std::tuple(&a.pp, &what.pp, "--target-pipeline-parallel-size"),
                                           std::tuple(&a.ep, &what.ep, "--target-expert-parallel-size")}) {
    *size = option->value_or(1);
    if (*size < 1 || *size > 1024) throw Error(Code::usage, fmt::format("wanted 1 to 1024, found {}", *size), name);
  }
  LateProgress progress("converting");
  tell(export_megatron(reader, what, std::ref(progress)), a.to.c_str(), json);
  return 0;
}

int from_megatron(const Arguments& a, bool json) {
  const MegatronImport what{a.load, a.save, a.iteration, a.vocab_size, cli::version(), a.weights_only};
  const OneSave lock(a.save, megatron_iteration(megatron_directory(a.load, a.iteration)), a.force);
  LateProgress progress("converting");
  tell(import_megatron(what, std::ref(progress)), "native", json);
  return 0;
}

// A format this tool reads and writes, and what becomes of it.
struct Format {
  const char* name;
  const char* text;
  int (*to_native)(const Arguments&, bool json);
  int (*from_native)(const Arguments&, bool json);
};
constexpr Format kFormats[] = {{"hf", "a model of Hugging Face", from_model<import_hf>, to_hf},
                               {"meta", "a model as Meta publishes its own", from_model<import_meta>, nullptr},
                               {"gguf", "a model in a GGUF file", from_model<import_gguf>, nullptr},
                               {"megatron", "a checkpoint of Megatron's, of format torch", from_megatron, to_megatron},
                               {"megatron-dist", "a checkpoint of Megatron's, of format torch_dist", from_megatron, to_megatron}};

const Format& format_named(const std::string& name) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.name == name; });
}

// "native" and the formats that are asked for.
std::vector<std::string> names_of(bool (*wanted)(const Format&)) {
  std::vector<std::string> names{"native"};
  for (const auto& f : kFormats)
    if (wanted(f)) names.push_back(f.name);
  return names;
}

// Where the format is not said, what lies there says it.
std::string format_of(const Arguments& a) {
  std::error_code ec;
  if (!fs::exists(a.load, ec)) throw Error(Code::io, "no such directory", a.load);
  if (a.from.rfind("megatron", 0) == 0)
    if (const auto found = foreign_format(a.load, a.iteration); found.rfind("megatron", 0) == 0 && found != a.from)
      throw Error(Code::config, fmt::format("--from says {}, and {} lies there", a.from, format_named(found).text), a.load, "without --from it is recognised");
  if (!a.from.empty()) return a.from;
  const auto found = foreign_format(a.load, a.iteration);
  if (found.empty()) return "native";
  log::info("{}: {}", a.load, format_named(found).text);
  return found;
}

// Options of one direction given for another.
void require_direction(const Arguments& a, const std::string& from, const std::string& to) {
  if (to != "hf" && (!a.family.empty() || !a.like.empty()))
    throw Error(Code::usage, "--hf-family and --like are for --to hf", "", from == "native" ? "" : "what lies there says the family");
  if (a.vocab_size && from.rfind("megatron", 0) != 0) throw Error(Code::usage, "is for --from megatron", "--vocab-size");
  const bool model = from == "hf" || from == "meta" || from == "gguf";
  if (model && a.iteration) throw Error(Code::usage, "is the iteration to read, and " + from + " has none", "--ckpt-step", "--iteration is the one to write it as");
  if (!model && a.write_as) throw Error(Code::usage, "is for --from hf, meta or gguf", "--iteration", "what has an iteration keeps it");
  if (a.write_as && *a.write_as < 0) throw Error(Code::usage, fmt::format("wanted 0 or more, found {}", *a.write_as), "--iteration");
  if (a.weights_only && from.rfind("megatron", 0) != 0) throw Error(Code::usage, "is for --from megatron", "--weights-only", "no other format has more");
  if (to != "megatron" && (a.tp || a.pp || a.ep)) throw Error(Code::usage, "target sizes are for --to megatron", "", "torch_dist is loaded by any layout");
  if (to.rfind("megatron", 0) != 0 && !a.transformer_impl.empty()) throw Error(Code::usage, "is for --to megatron", "--transformer-impl");
}

int convert(const Arguments& a, bool json) {
  if (a.load.empty()) throw Error(Code::usage, "nothing to read", "--load");
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");
  const std::string from = format_of(a), to = a.to.empty() ? (from == "native" ? "hf" : "native") : a.to;
  if (from == to) throw Error(Code::usage, "--from and --to are the same format, " + from, "", "mt-reshard rewrites a checkpoint of ours");
  if (from != "native" && to != "native")
    throw Error(Code::usage, fmt::format("from {} to {} is two steps", from, to), "", "convert it --to native first");
  require_direction(a, from, to);
  if (!(a.max_shard_gb > 0 && a.max_shard_gb <= 1e6)) throw Error(Code::usage, fmt::format("{} is no size", a.max_shard_gb), "--max-shard-size");
  std::error_code ec;
  if (fs::equivalent(a.load, a.save, ec)) throw Error(Code::config, "source and destination are the same directory", a.save);
  return from == "native" ? format_named(to).from_native(a, json) : format_named(from).to_native(a, json);
}

}  // namespace

cli::Command convert_command() {
  return {"convert", "a checkpoint of another program into one of ours, or back",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.add("load", a->load, "PATH", "what to read: a model of another program, or a checkpoint");
            table.add("save", a->save, "DIRECTORY", "where to write");
            table.add("from", a->from, "F", "native, hf, meta, gguf, megatron or megatron-dist; what lies in --load when not given")
                .choices = names_of([](const Format&) { return true; });
            table.add("to", a->to, "F", "native, hf, megatron or megatron-dist; native, of ours hf, when not given")
                .choices = names_of([](const Format& f) { return f.from_native != nullptr; });
            table.add("ckpt-step", a->iteration, "N", "iteration to read instead of the tracker's");
            table.add("iteration", a->write_as, "N", "from hf, meta or gguf, which have none: the one to write it as (0)");
            table.add("vocab-size", a->vocab_size, "N", "from megatron: tokens without padding, where its args do not say");
            table.add("weights-only", a->weights_only, "", "from megatron: leave behind what the optimizer keeps and where the run stood");
            table.add("target-tensor-parallel-size", a->tp, "N", "to megatron: tensor ranks it is for (1)");
            table.add("target-pipeline-parallel-size", a->pp, "N", "to megatron: pipeline ranks it is for (1)");
            table.add("target-expert-parallel-size", a->ep, "N", "to megatron: expert ranks it is for (1)");
            table.add("transformer-impl", a->transformer_impl, "IMPL", "to megatron: whose names norms have, transformer_engine (default) or local")
                .choices = {"transformer_engine", "local"};
            table.add("hf-family", a->family, "NAME", "to hf: model_type to write; the one it came from, or the first that fits");
            table.add("like", a->like, "DIRECTORY", "to hf: the model this began as; its other config keys and tokenizer files are kept");
            table.add("max-shard-size", a->max_shard_gb, "GB", "to hf: most bytes of a file, in 1e9");
            table.add("force", a->force, "", "replace what is there");
            return [a, &shared] { return convert(*a, shared.json); };
          }};
}

}  // namespace mt
