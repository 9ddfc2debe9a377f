// mt-ckpt convert: between checkpoints of ours and models of Hugging Face.

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "ckpt/one_save.h"
#include "foreign/hf_convert.h"
#include "mt-ckpt/commands.h"

namespace mt {
namespace {

struct Arguments {
  std::string from, to, load, save, family, like;
  std::optional<std::int64_t> iteration;
  double max_shard_gb = 5;
  bool force = false;
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

void tell(const HfConverted& done, const char* format, bool json) {
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

int from_hf(const Arguments& a, bool json) {
  const HfImport what{a.load, a.save, a.iteration.value_or(0), cli::version()};
  const OneSave lock(a.save, what.iteration, a.force);
  LateProgress progress("converting");
  const auto done = import_hf(what, std::ref(progress));
  tell(done, "native", json);
  return 0;
}

// Where the format is not said, what lies there says it.
std::string format_of(const Arguments& a) {
  if (!a.from.empty()) return a.from;
  std::error_code ec;
  if (!fs::exists(a.load, ec)) throw Error(Code::io, "no such directory", a.load);
  const auto format = detect_format(a.load);
  if (format == CheckpointFormat::hugging_face || fs::exists(fs::path(a.load) / "config.json", ec)) return "hf";
  if (format == CheckpointFormat::native || fs::exists(fs::path(a.load) / "latest_checkpointed_iteration.txt", ec)) return "native";
  throw Error(Code::config, fmt::format("holds {}, which is not converted", format_name(format)), a.load, "--from native or --from hf");
}

int convert(const Arguments& a, bool json) {
  if (a.load.empty()) throw Error(Code::usage, "nothing to read", "--load");
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");
  const std::string from = format_of(a), to = a.to.empty() ? (from == "hf" ? "native" : "hf") : a.to;
  if (from == to) throw Error(Code::usage, "--from and --to are the same format, " + from, "", "mt-reshard rewrites a checkpoint of ours");
  if (from == "hf" && (!a.family.empty() || !a.like.empty()))
    throw Error(Code::usage, "--hf-family and --like are for --to hf", "", "config.json says the family");
  if (!(a.max_shard_gb > 0 && a.max_shard_gb <= 1e6)) throw Error(Code::usage, fmt::format("{} is no size", a.max_shard_gb), "--max-shard-size");
  std::error_code ec;
  if (fs::equivalent(a.load, a.save, ec)) throw Error(Code::config, "source and destination are the same directory", a.save);
  return from == "hf" ? from_hf(a, json) : to_hf(a, json);
}

}  // namespace

cli::Command convert_command() {
  return {"convert", "a model of Hugging Face into a checkpoint, or back",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.add("load", a->load, "DIRECTORY", "what to read: a model with config.json, or a checkpoint");
            table.add("save", a->save, "DIRECTORY", "where to write");
            table.add("from", a->from, "F", "native or hf; what lies in --load when not given").choices = {"native", "hf"};
            table.add("to", a->to, "F", "native or hf; the other one when not given").choices = {"native", "hf"};
            table.add("ckpt-step", a->iteration, "N", "iteration to read instead of the tracker's, or to write a model as (0)");
            table.add("hf-family", a->family, "NAME", "to hf: model_type to write; the one it came from, or the first that fits");
            table.add("like", a->like, "DIRECTORY", "to hf: the model this began as; its other config keys and tokenizer files are kept");
            table.add("max-shard-size", a->max_shard_gb, "GB", "to hf: most bytes of a file, in 1e9");
            table.add("force", a->force, "", "replace what is there");
            return [a, &shared] { return convert(*a, shared.json); };
          }};
}

}  // namespace mt
