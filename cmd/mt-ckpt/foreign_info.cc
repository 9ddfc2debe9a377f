// What a checkpoint of another program says of itself, from its headers.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "foreign/gguf_convert.h"
#include "foreign/gguf_file.h"
#include "foreign/hf_files.h"
#include "foreign/megatron_convert.h"
#include "foreign/megatron_files.h"
#include "foreign/meta_files.h"
#include "mt-ckpt/commands.h"

namespace mt {

namespace {

// Args that say what the model is; the others are in --json.
constexpr const char* kShape[] = {"num_layers", "hidden_size", "num_attention_heads", "group_query_attention", "num_query_groups",
                                  "ffn_hidden_size", "num_experts", "vocab_size", "padded_vocab_size", "max_position_embeddings"};

struct Summary {
  Json head = Json::object();
  Json more = Json::object();  // in --json alone
  SourceTensors tensors;
};

std::string text_at(const Json& j, const char* key) { return j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : ""; }

Summary summary_of(const std::string& path, std::optional<std::int64_t> iteration, const std::string& format) {
  Summary s;
  if (format == "hf") {
    const HfWeights weights(path);
    const Json config = read_json(fs::path(path) / "config.json");
    s.head = {{"path", path}, {"format", format}, {"model_type", text_at(config, "model_type")}};
    s.more = {{"config", config}};
    for (const auto& [name, t] : weights.tensors()) s.tensors[name] = {t.entry.dtype, t.entry.dtype_text, "", t.entry.shape, nullptr};
  } else if (format == "meta") {
    s.head = {{"path", path}, {"format", format}};
    s.more = {{"params", read_json(fs::path(path) / "params.json")}};
    s.tensors = meta_tensors(path);
  } else if (format == "gguf") {
    const GgufFile file(path);
    s.head = {{"path", path}, {"format", format}, {"architecture", text_at(file.values(), "general.architecture")}};
    s.more = {{"values", file.values()}};
    s.tensors = gguf_tensors(path);
  } else {
    auto m = megatron_summary(path, iteration);
    s.head = {{"path", m.dir.string()}, {"format", m.format}, {"iteration", m.iteration}, {"consumed_samples", m.consumed_samples}};
    for (const auto& [key, value] : m.layout.items()) s.head[key] = value;
    for (const char* key : kShape)
      if (m.args.contains(key) && !m.args[key].is_null()) s.head[key] = m.args[key];
    s.more = {{"args", m.args}};
    s.tensors = std::move(m.tensors);
  }
  return s;
}

}  // namespace

std::string foreign_format(const std::string& path, std::optional<std::int64_t> iteration) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return "";
  const auto format = detect_format(path);
  if (format == CheckpointFormat::native) return "";
  const bool megatron = format == CheckpointFormat::megatron_torch || format == CheckpointFormat::megatron_torch_dist;
  if (iteration && is_foreign(format) && !megatron)
    throw Error(Code::usage, fmt::format("{} is a model of {} and has no iterations", path, format_name(format)), "--ckpt-step");
  if (format == CheckpointFormat::gguf) return "gguf";
  if (format == CheckpointFormat::meta) return "meta";
  if (format == CheckpointFormat::hugging_face || fs::exists(fs::path(path) / "config.json", ec)) return "hf";
  if (format == CheckpointFormat::megatron_torch) return "megatron";
  if (format == CheckpointFormat::megatron_torch_dist) return "megatron-dist";
  if (format == CheckpointFormat::torch_dcp)
    throw Error(Code::config, "holds a torch DCP checkpoint without Megatron's metadata.json, which is not read", path);
  if (!iteration && !fs::exists(fs::path(path) / kTrackerName, ec)) return "";
  try {
    return detect_format(megatron_directory(path, iteration)) == CheckpointFormat::megatron_torch ? "megatron" : "megatron-dist";
  } catch (const Error&) {  // ours, or what is said of ours
    return "";
  }
}

int foreign_info(const ForeignInfo& what, bool json) {
  const Summary s = summary_of(what.path, what.iteration, what.format);
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, t] : s.tensors) {
    elements += num_elements(t.shape);
    if (t.dtype) bytes += static_cast<std::uint64_t>(bytes_of(*t.dtype, num_elements(t.shape)));
  }
  Json head = s.head;
  head.update({{"tensors", s.tensors.size()}, {"elements", elements}, {"tensor_bytes", bytes}});
  if (json) {
    head.update(s.more);
    cli::object(head);
  } else {
    for (const auto& [key, value] : head.items()) cli::row({key, value.is_string() ? value.get<std::string>() : json_line(value)});
  }
  if (!what.tensors) return 0;
  if (!json) cli::row({"tensor", "dtype", "shape"});
  for (const auto& [name, t] : s.tensors) {
    const std::string dtype = t.dtype ? std::string(dtype_name(*t.dtype)) : t.dtype_text;
    if (json) cli::object({{"name", name}, {"dtype", dtype}, {"shape", t.shape}});
    else cli::row({name, dtype, dims_text(t.shape)});
  }
  return 0;
}

}  // namespace mt
