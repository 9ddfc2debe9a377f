#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "ckpt/reader.h"
#include "ckpt/verify.h"
#include "layout/model_spec.h"
#include "mt-ckpt/commands.h"

namespace mt {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::optional<std::int64_t> iteration;
  bool tensors = false;
  int num_threads = 0;
};

void add_iteration(OptionTable& table, Arguments& a) {
  table.add("ckpt-step", a.iteration, "N", "iteration to take from a --save directory instead of the tracker's");
}

Json entry_json(const TensorEntry& t) {
  return {{"name", t.name},   {"kind", t.kind},           {"dtype", dtype_name(t.dtype)},
          {"shape", t.shape}, {"shards", t.shards.size()}, {"bytes", t.bytes()}};
}

int list(const std::string& root, bool json) {
  if (!std::filesystem::exists(root)) throw Error(Code::io, "no such checkpoint directory", root);
  const auto all = list_iterations(root);
  if (!json) cli::row({"iteration", "state", "tracked", "consumed_samples", "bytes", "path", "problem"});
  for (const auto& i : all) {
    const auto format = i.complete || i.soundness == Soundness::unreadable ? CheckpointFormat::unknown : detect_format(i.dir);
    const std::string state = i.temporary                            ? "unfinished"
                              : i.complete                           ? "complete"
                              : i.soundness == Soundness::unreadable ? "unreadable"
                              : is_foreign(format)                   ? "foreign"
                                                                     : "incomplete";
    const std::string problem = state == "foreign" ? fmt::format("{}: mt-ckpt convert makes one of ours of it", format_name(format)) : i.problem;
    std::int64_t samples = 0;
    std::uint64_t bytes = 0;
    if (i.complete) {
      const auto m = read_manifest(i.dir);
      samples = m.meta.consumed_samples;
      for (const auto& f : m.files) bytes += f.bytes;
    }
    if (json)
      cli::object({{"iteration", i.iteration}, {"state", state}, {"tracked", i.tracked}, {"consumed_samples", samples},
                   {"bytes", bytes}, {"path", i.dir.string()}, {"problem", problem}});
    else
      cli::row({std::to_string(i.iteration), state, i.tracked ? "yes" : "no", std::to_string(samples),
                std::to_string(bytes), i.dir.string(), problem});
  }
  if (all.empty()) log::info("no checkpoints in {}", root);
  try {
    const auto tracked = read_tracker(root);
    if (tracked && std::none_of(all.begin(), all.end(), [](const IterationInfo& i) { return i.tracked; }))
      log::warn("{}: the tracker names iteration {}, which is not there", root, *tracked);
  } catch (const Error& e) {
    log::warn("{}", e.what());
  }
  return 0;
}

std::string plain(const Json& v) {
  if (v.is_null() || (v.is_string() && v.get<std::string>().empty())) return "-";
  return v.is_string() ? v.get<std::string>() : json_line(v);
}

// A row a fact. What a specification nests deeper is in --json alone.
void print_facts(const std::string& prefix, const Json& facts) {
  for (const auto& [key, value] : facts.items())
    if (value.is_primitive()) cli::row({prefix + key, plain(value)});
}

// The sizes of a model under the names of the flags that set them; of a mixture the first layer of each kind speaks.
void print_model(const Json& spec) {
  const auto model = model_from_json(spec, "");
  cli::row({"num_layers", std::to_string(model.num_layers())});
  cli::row({"hidden_size", std::to_string(model.hidden)});
  const auto& rows = model.decoder().rows;
  const auto first = [&](RowKind kind) {
    return std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.kind == kind; });
  };
  if (const auto r = first(RowKind::attention); r != rows.end()) {
    cli::row({"num_attention_heads", std::to_string(r->attention.heads)});
    cli::row({"num_query_groups", std::to_string(r->attention.kv_heads)});
  }
  for (const auto kind : {RowKind::ffn, RowKind::moe})
    if (const auto r = first(kind); r != rows.end())
      cli::row({kind == RowKind::ffn ? "ffn_hidden_size" : "moe_ffn_hidden_size", std::to_string(r->ffn.ffn_hidden)});
  if (const auto r = first(RowKind::moe); r != rows.end()) cli::row({"num_experts", std::to_string(r->moe.experts)});
  cli::row({"vocab_size", std::to_string(model.vocab_size)});
  cli::row({"max_position_embeddings", std::to_string(model.max_positions)});
}

void print_head(const Json& head, const CheckpointMeta& meta) {
  for (const auto& [key, value] : head.items())
    if (key != "specs" && key != "training") cli::row({key, plain(value)});
  const Json& specs = meta.specs;
  if (specs.contains("model")) print_model(specs["model"]);
  print_facts("", specs);
  if (specs.contains("parallel")) print_facts("", specs["parallel"]);
  print_facts("training.", meta.training);
}

int info(const Arguments& a, bool json) {
  const auto& path = only_argument(a.paths, "CHECKPOINT");
  if (const auto format = foreign_format(path, a.iteration); !format.empty()) return foreign_info({path, a.iteration, format, a.tensors}, json);
  const auto r = resolve_and_tell(path, a.iteration);
  const auto m = read_manifest(r.dir);
  std::int64_t elements = 0;
  std::uint64_t file_bytes = 0;
  for (const auto& t : m.tensors)
    if (t.kind == "weight") elements += num_elements(t.shape);
  for (const auto& f : m.files) file_bytes += f.bytes;
  const Json head = {{"path", r.dir.string()},
                     {"format", "mt-checkpoint"},
                     {"iteration", m.meta.iteration},
                     {"consumed_samples", m.meta.consumed_samples},
                     {"version", m.meta.version},
                     {"tokenizer", m.meta.tokenizer},
                     {"world_size", m.meta.world_size},
                     {"files", m.files.size()},
                     {"tensors", m.tensors.size()},
                     {"weight_elements", elements},
                     {"tensor_bytes", m.tensor_bytes()},
                     {"file_bytes", file_bytes},
                     {"codec", m.files.empty() || m.files[0].codec.empty() ? "none" : m.files[0].codec},
                     {"specs", m.meta.specs},
                     {"training", m.meta.training}};
  if (json) cli::object(head);
  else print_head(head, m.meta);
  if (!a.tensors) return 0;
  if (!json) cli::row({"tensor", "kind", "dtype", "shape", "shards", "bytes"});
  for (const auto& t : m.tensors) {
    if (json) cli::object(entry_json(t));
    else
      cli::row({t.name, t.kind, std::string(dtype_name(t.dtype)), dims_text(t.shape), std::to_string(t.shards.size()),
                std::to_string(t.bytes())});
  }
  return 0;
}

// Of a --save directory: saved iterations that count for newer than what a load takes, and are broken; a sentence each.
std::vector<std::string> broken_newest(const Arguments& a, const Resolved& taken) {
  std::vector<std::string> all;
  if (a.iteration || std::filesystem::equivalent(a.paths[0], taken.dir)) return all;
  for (const auto& i : list_iterations(a.paths[0]))
    if (!i.temporary && !i.complete && (i.tracked || i.iteration > taken.iteration))
      all.push_back(fmt::format("{}: {}", i.dir.string(), i.problem));
  return all;
}

int verify(const Arguments& a, bool json) {
  if (a.num_threads < 0 || a.num_threads > 256)
    throw Error(Code::usage, fmt::format("wanted 1 to 256, or 0 for automatic, found {}", a.num_threads), "--num-threads");
  const auto r = resolve_and_tell(only_argument(a.paths, "CHECKPOINT"), a.iteration);
  Progress progress("verifying", read_manifest(r.dir).tensor_bytes(), "bytes");
  const auto broken = broken_newest(a, r);
  const auto report = verify_checkpoint(r.dir, a.num_threads, [&](std::uint64_t done) { progress.update(done); });
  progress.finish();
  const double mb_per_s = report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e6 : 0;
  const std::string result = !report.problems.empty() ? "damaged" : report.unreadable.empty() ? "sound" : "unreadable";
  if (json) {
    cli::object({{"result", result}, {"path", r.dir.string()}, {"iteration", r.iteration}, {"files", report.files},
                 {"tensors", report.tensors}, {"chunks", report.chunks}, {"bytes", report.bytes},
                 {"seconds", report.seconds}, {"mb_per_s", mb_per_s}, {"manifest_checksum", report.manifest_checksum},
                 {"problems", report.problems}, {"unreadable", report.unreadable}, {"broken", broken}});
  } else {
    cli::row({"result", "files", "tensors", "chunks", "bytes", "mb_per_s", "path"});
    cli::row({result, std::to_string(report.files), std::to_string(report.tensors), std::to_string(report.chunks),
              std::to_string(report.bytes), fmt::format("{:.0f}", mb_per_s), r.dir.string()});
    if (!report.manifest_checksum) cli::row({"note", "the manifest has no checksum of its own; it was written by an older program"});
    for (const auto& p : report.problems) cli::row({"problem", p});
    for (const auto& u : report.unreadable) cli::row({"unreadable", u});
    for (const auto& b : broken) cli::row({"broken", b});
  }
  if (report.problems.empty() && !report.unreadable.empty())
    throw Error(Code::io, report.unreadable[0], "", "nothing is known about what cannot be read");
  if (report.problems.empty() && broken.empty()) return 0;
  if (report.problems.empty())
    throw Error(Code::corrupt, "the newest checkpoint is broken: " + broken.back(), a.paths[0],
                fmt::format("a load takes iteration {}, which is sound", r.iteration));
  throw Error(Code::corrupt, fmt::format("{} problem{}", report.problems.size(), report.problems.size() > 1 ? "s" : ""),
              r.dir.string(), fmt::format("a load takes this iteration, {}; --ckpt-step takes another: mt-ckpt list", r.iteration));
}

}  // namespace

Resolved resolve_and_tell(const std::string& path, std::optional<std::int64_t> iteration) {
  auto r = resolve(path, iteration);
  for (const auto& text : r.ignored) log::info("ignored {}", text);
  return r;
}

std::string only_argument(const std::vector<std::string>& arguments, const std::string& word) {
  if (arguments.size() != 1)
    throw Error(Code::usage, fmt::format("wanted one {}, found {}", word, arguments.size()), "", "see --help");
  return arguments[0];
}

cli::Command list_command() {
  return {"list", "iterations in a --save directory: complete, incomplete, unfinished",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "DIRECTORY", "a --save directory");
            return [a, &shared] { return list(only_argument(a->paths, "DIRECTORY"), shared.json); };
          }};
}

cli::Command info_command() {
  return {"info", "what a checkpoint holds, from its manifest alone",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "CHECKPOINT", "a --save directory (its tracker decides) or an iter_0000000 in it");
            add_iteration(table, *a);
            table.add("tensors", a->tensors, "", "list every tensor too");
            return [a, &shared] { return info(*a, shared.json); };
          }};
}

cli::Command verify_command() {
  return {"verify", "read a whole checkpoint and compare every hash",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "CHECKPOINT", "a --save directory (its tracker decides) or an iter_0000000 in it");
            add_iteration(table, *a);
            table.add("num-threads", a->num_threads, "N", "threads that read and hash, up to 256; 0: one a core, at most 8");
            return [a, &shared] { return verify(*a, shared.json); };
          }};
}

}  // namespace mt
