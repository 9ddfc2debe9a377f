#include "foreign/megatron_export.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "foreign/megatron_args.h"
#include "foreign/megatron_map.h"
#include "foreign/torch_writer.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

// Args of a run that are of that run alone.
constexpr const char* kOfTheRun[] = {"rank", "local_rank", "world_size", "data_parallel_size", "load", "save", "iteration", "transformer_pipeline_model_parallel_size",
                                     "virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage", "global_batch_size",
                                     "micro_batch_size", "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"};

// What is written of a model, and where it comes from.
class Source {
 public:
  Source(const Reader& reader, const ModelSpec& model) : reader_(reader), where_(reader.dir().string()) {
    std::vector<std::string> problems;
    for (const auto& t : logical_tensors(model)) {
      const auto* e = reader.manifest().find(t.name, "weight");
      if (e == nullptr) problems.push_back(t.name + " is missing");
      else if (e->dtype != DType::f32 && e->dtype != DType::bf16 && e->dtype != DType::f16) problems.push_back(fmt::format("{} is {}", t.name, dtype_name(e->dtype)));
    }
    if (!problems.empty()) refuse_all(problems, where_);
  }

  // The dtype of a tensor, of all its parts.
  DType dtype_of_tensor(const MappedTensor& t) const {
    const auto of = [&](const std::string& name) { return reader_.manifest().find(name, "weight")->dtype; };
    if (t.parts.empty()) {  // rows of a table that are all padding; a tied head's table is the embedding
      const bool own = reader_.manifest().find(t.name, "weight") != nullptr;
      return of(own ? t.name : "embedding.word_embeddings.weight");
    }
    const DType first = of(t.parts.front().ours);
    for (const auto& p : t.parts)
      if (of(p.ours) != first)
        refuse_all({fmt::format("{} is {} and {} is {}: they become one tensor", t.parts.front().ours, dtype_name(first), p.ours, dtype_name(of(p.ours)))}, where_);
    return first;
  }

  void fill(const MappedTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) const {
    const auto width = static_cast<std::size_t>(bytes_of(dtype_of_tensor(t), 1));
    fill_range(t.shape, begin, end, sources_of(t), width,
               [&](const std::string& name, const Box& box, std::byte* at) { read_weight(reader_, name, box, at); }, out);
  }

 private:
  const Reader& reader_;
  std::string where_;
};

Json args_of(const ModelSpec& model, const CheckpointMeta& meta, const MegatronExport& what, std::int64_t padded, const std::string& where) {
  const Json kept = meta.specs.value("megatron", Json::object());
  Json base = kept.value("args", Json::object());
  for (const char* key : kOfTheRun) base.erase(key);
  const auto is_opaque = [](const Json& v) {  // what was no plain value there
    const std::string text = v.is_string() ? v.get<std::string>() : "";
    return text.starts_with("<") && !text.starts_with("<torch.");
  };
  for (auto it = base.begin(); it != base.end();)
    if (is_opaque(*it)) it = base.erase(it);
    else ++it;
  Json a = megatron_args_of(model, padded, std::move(base), where);
  a["tensor_model_parallel_size"] = what.tp;
  a["pipeline_model_parallel_size"] = what.pp;
  a["expert_model_parallel_size"] = what.ep;
  a["expert_tensor_parallel_size"] = what.tp;
  a["context_parallel_size"] = 1;
  a["consumed_train_samples"] = meta.consumed_samples;
  a["consumed_valid_samples"] = 0;
  a["skipped_train_samples"] = 0;
  if (!a.contains("tokenizer_type")) a["tokenizer_type"] = nullptr;
  const auto dtype = parse_dtype(meta.specs.value("compute_dtype", "f32")).value_or(DType::f32);
  a["params_dtype"] = fmt::format("<torch.{}>", torch_dtype_word(dtype));
  a["bf16"] = dtype == DType::bf16;
  a["fp16"] = dtype == DType::f16;
  return a;
}

// The namespace of args, and what else Megatron looks for.
void begin_state(PickleWriter& p, const Json& args, std::int64_t iteration) {
  p.begin_dict().text("args").begin_object("argparse", "Namespace");
  for (const auto& [key, value] : args.items()) p.text(key).json(value);
  p.end_object().text("checkpoint_version").real(3.0).text("iteration").integer(iteration);
}

struct Writing {
  const Source& source;
  const MegatronExport& what;
  const Json& args;
  std::int64_t iteration;
  const std::string& where;  // the source, for messages
  std::function<void(std::uint64_t)> done;
};

void write_rank_file(const fs::path& path, const std::vector<MappedTensor>& tensors, const std::vector<std::string>& names, const Writing& w) {
  PickleWriter p;
  begin_state(p, w.args, w.iteration);
  p.text("model").begin_dict();
  for (std::size_t i = 0; i < tensors.size(); ++i) p.text(names[i]).tensor(w.source.dtype_of_tensor(tensors[i]), tensors[i].shape, std::to_string(i));
  p.end_dict().end_dict();
  OutputFile file(path);
  TorchArchiveWriter archive(file, "model_optim_rng");
  archive.pickle(p.take());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    const auto width = static_cast<std::uint64_t>(bytes_of(w.source.dtype_of_tensor(t), 1));
    archive.storage(std::to_string(i), static_cast<std::uint64_t>(num_elements(t.shape)) * width, [&](std::uint64_t begin, std::uint64_t end, std::byte* out) {
      w.source.fill(t, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), out);
      w.done(end - begin);
    });
  }
  archive.finish();
  file.commit();
}

std::string rank_name(const MegatronExport& what, int tp, int pp, int ep) {
  std::string name = fmt::format("mp_rank_{:02d}", tp);
  if (what.pp > 1) name += fmt::format("_{:03d}", pp);
  if (what.ep > 1) name += fmt::format("_{:03d}", ep);
  return name;
}

std::size_t write_ranks(const fs::path& dir, const ModelSpec& model, const MegatronCut& cut, const Writing& w) {
  std::size_t count = 0;
  int experts = 0;
  for (const auto& r : model.decoder().rows)
    if (r.kind == RowKind::moe) experts = r.moe.experts;
  for (int tp = 0; tp < cut.tp; ++tp)
    for (int pp = 0; pp < cut.pp; ++pp)
      for (int ep = 0; ep < cut.ep; ++ep) {
        std::vector<MappedTensor> tensors;
        std::vector<std::string> names;
        const MegatronSpelling how{pp * cut.stage_layers[0], ep * (experts / cut.ep), w.what.transformer_engine};
        for (auto& t : megatron_tensors(model, cut, tp, pp, ep, w.where)) {
          names.push_back(spelled(t.theirs.name, model, how));
          tensors.push_back(std::move(t.theirs));
        }
        const auto rank = dir / rank_name(w.what, tp, pp, ep);
        fs::create_directory(rank);
        write_rank_file(rank / "model_optim_rng.pt", tensors, names, w);
        fsync_directory(rank);
        count += tensors.size();
      }
  return count;
}

std::size_t write_dist(const fs::path& dir, const ModelSpec& model, std::int64_t padded, const Writing& w) {
  const auto& rows = model.decoder().rows;
  const auto experts = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [](const Row& r) { return r.kind == RowKind::moe; }));
  const bool stacked = experts == 0 || experts == static_cast<std::size_t>(model.num_layers());  // all layers alike
  const auto map = megatron_dist_tensors(model, padded, stacked, w.where);
  std::vector<DistTensor> tensors;
  for (const auto& t : map) {
    const bool layer = t.name.starts_with("decoder.layers."), expert = t.name.find(".mlp.experts.") != std::string::npos;
    tensors.push_back({dist_spelled(t.name, model, w.what.transformer_engine), w.source.dtype_of_tensor(t), t.shape, (layer && stacked ? 1 : 0) + (expert ? 1 : 0)});
  }
  write_torch_dist(dir, tensors, [&](std::size_t i, std::int64_t begin, std::int64_t end, std::byte* out) {
    w.source.fill(map[i], begin, end, out);
    w.done(static_cast<std::uint64_t>(bytes_of(tensors[i].dtype, end - begin)));
  });
  PickleWriter p;
  begin_state(p, w.args, w.iteration);
  p.end_dict();
  OutputFile common(dir / "common.pt");
  TorchArchiveWriter archive(common, "common");
  archive.pickle(p.take());
  archive.finish();
  common.commit();
  // Its existence is what makes the directory a checkpoint.
  write_file_atomic(dir / "metadata.json", R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1})");
  return tensors.size();
}

// A directory that checkpoints of Megatron's can be saved into.
void require_room(const fs::path& root, const fs::path& target, bool force) {
  std::error_code ec;
  if (fs::exists(root, ec)) {
    require_no_iteration(root);
    require_none_of_ours(root);
  }
  if (!force && fs::exists(target, ec)) throw Error(Code::config, "there is a checkpoint already", target.string(), "--force replaces it");
}

}  // namespace

Converted export_megatron(const Reader& reader, const MegatronExport& what, const BytesDone& progress) {
  const auto& meta = reader.manifest().meta;
  const auto where = reader.dir().string();
  if (!meta.specs.contains("model")) throw Error(Code::config, "the checkpoint does not say what model it is of", where);
  const ModelSpec model = model_from_json(meta.specs["model"], where);
  const Source source(reader, model);
  MegatronCut cut;
  cut.tp = what.tp, cut.pp = what.pp, cut.ep = what.ep;
  const auto& rows = model.decoder().rows;
  if (what.ep > 1 && std::none_of(rows.begin(), rows.end(), [](const Row& r) { return r.kind == RowKind::moe; }))
    throw Error(Code::config, fmt::format("has no experts that could be spread over {} expert ranks", what.ep), where);
  if (model.num_layers() % what.pp != 0) throw Error(Code::config, fmt::format("{} layers cannot be cut in {} equal stages", model.num_layers(), what.pp), where);
  cut.stage_layers.assign(static_cast<std::size_t>(what.pp), model.num_layers() / what.pp);
  cut.padded_vocab = padded_vocab(model, what.tp);
  const Json args = args_of(model, meta, what, cut.padded_vocab, where);
  const fs::path target = what.root / iteration_name(meta.iteration), temporary = what.root / temporary_name(meta.iteration);
  require_room(what.root, target, what.force);
  std::error_code ec;
  fs::remove_all(temporary, ec);
  fs::create_directories(temporary, ec);
  if (ec) throw Error(Code::io, "cannot make the directory: " + ec.message(), temporary.string());
  Converted out;
  const std::uint64_t total = reader.manifest().tensor_bytes();
  const Writing w{source, what, args, meta.iteration, where, [&](std::uint64_t n) {
                    out.bytes += n;
                    if (progress) progress(out.bytes, std::max(total, out.bytes));
                  }};
  try {
    out.tensors = what.dist ? write_dist(temporary, model, cut.padded_vocab, w) : write_ranks(temporary, model, cut, w);
    fsync_directory(temporary);
    if (fs::exists(target)) {
      if (!rename_exchange(temporary, target)) throw Error(Code::io, "cannot be replaced on this file system", target.string(), "remove it first");
      fs::remove_all(temporary, ec);
    } else {
      fs::rename(temporary, target);
    }
  } catch (const fs::filesystem_error& e) {
    fs::remove_all(temporary, ec);
    throw Error(Code::io, e.code().message(), e.path1().string());
  } catch (...) {
    fs::remove_all(temporary, ec);
    throw;
  }
  fsync_directory(what.root);
  write_file_atomic(what.root / kTrackerName, std::to_string(meta.iteration));
  out.path = target;
  return out;
}

}  // namespace mt
