#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "ckpt/one_save.h"
#include "ckpt/store.h"
#include "layout/initial_values.h"
#include "layout/validate.h"
#include "mt-ckpt/commands.h"

namespace mt {
namespace {

struct Arguments {
  std::string save;
  ModelOptions model;
  std::int64_t vocab_size = 256, iteration = 0, consumed_samples = 0;
  std::uint64_t seed = 1234;
  bool optimizer = false, bf16 = false, force = false;
};

// A box's bytes: initial values for weights (the master copy has the same), normal noise for everything else.
std::vector<std::byte> values(const Piece& piece, const TensorBox& box, std::uint64_t seed) {
  Piece p = piece;
  if (box.kind == "exp_avg" || box.kind == "exp_avg_sq") {
    p.name += "#" + box.kind;
    p.init = {Init::Kind::normal, 1e-3};
  }
  std::vector<float> wide(static_cast<std::size_t>(box.box.size()));
  initial_values(p, seed, box.box, wide.data());
  if (box.kind == "exp_avg_sq")
    for (auto& v : wide) v *= v;
  std::vector<std::byte> out(box.bytes());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (box.dtype == DType::f32) std::memcpy(out.data() + 4 * i, &wide[i], 4);
    else {
      const auto h = to_bf16(wide[i]);
      std::memcpy(out.data() + 2 * i, &h, 2);
    }
  }
  return out;
}

void check(const Arguments& a) {
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");
  if (a.iteration < 0) throw Error(Code::usage, fmt::format("{} is less than 0", a.iteration), "--iteration");
  if (a.consumed_samples < 0)
    throw Error(Code::usage, fmt::format("{} is less than 0", a.consumed_samples), "--consumed-samples");
}

int random(const Arguments& a, bool json) {
  check(a);
  const auto model = build_model(a.model, a.vocab_size);
  BatchSpec batch;
  batch.seq_length = a.model.max_position_embeddings;
  Limits limits;
  limits.max_experts = std::max(0, a.model.num_experts);
  require_valid(validate(model, ParallelSpec{}, batch, limits, 0));
  const OneSave lock(a.save, a.iteration, a.force);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorShard> shards;
  for (const auto& param : param_specs(model, ParallelSpec{}, Coordinate{}))
    for (const auto& piece : param.pieces) {
      std::vector<std::pair<const char*, DType>> kinds = {{"weight", a.bf16 ? DType::bf16 : DType::f32}};
      if (a.optimizer && a.bf16) kinds.emplace_back("master", DType::f32);
      if (a.optimizer) kinds.insert(kinds.end(), {{"exp_avg", DType::f32}, {"exp_avg_sq", DType::f32}});
      for (const auto& [kind, dtype] : kinds) {
        const TensorBox box{piece.name, kind, dtype, piece.shape, whole(piece.shape)};
        bytes.push_back(values(piece, box, a.seed));
        shards.push_back({box, bytes.back().data()});
      }
    }
  CheckpointMeta meta;
  meta.iteration = a.iteration;
  meta.consumed_samples = a.consumed_samples;
  meta.version = cli::version();
  meta.specs = {{"model", to_json(model)}, {"parallel", to_json(ParallelSpec{})}};
  WriteResult written;
  const auto dir = save_at_once(a.save, meta, [&](const std::filesystem::path& at) { written = write_rank(at, 0, shards); });
  if (json)
    cli::object({{"path", dir.string()}, {"parameters", num_parameters(model)}, {"tensors", shards.size()},
                 {"bytes", written.file_bytes}});
  else {
    cli::row({"path", "parameters", "tensors", "bytes"});
    cli::row({dir.string(), std::to_string(num_parameters(model)), std::to_string(shards.size()),
              std::to_string(written.file_bytes)});
  }
  return 0;
}

void add_model(OptionTable& table, Arguments& a) {
  table.group("Model");
  table.add("num-layers", a.model.num_layers, "N", "transformer layers");
  table.add("hidden-size", a.model.hidden_size, "N", "width of the residual stream");
  table.add("num-attention-heads", a.model.num_attention_heads, "N", "attention heads");
  table.add("max-position-embeddings", a.model.max_position_embeddings, "N", "longest sequence", "tokens");
  table.add("vocab-size", a.vocab_size, "N", "tokens in the vocabulary").between(1, 2147483647);
  table.add("group-query-attention", a.model.group_query_attention, "", "fewer key and value heads than query heads");
  table.add("num-query-groups", a.model.num_query_groups, "N", "key and value heads with --group-query-attention");
  table.add("swiglu", a.model.swiglu, "", "gated feed-forward with SiLU");
  table.add("normalization", a.model.normalization, "KIND", "LayerNorm or RMSNorm").choices = {"LayerNorm", "RMSNorm"};
  table.add("position-embedding-type", a.model.position_embedding_type, "KIND", "how positions enter").choices = {
      "learned_absolute", "rope", "none"};
  table.add_off("disable-bias-linear", a.model.add_bias_linear, "no biases in linear layers");
  table.add("untie-embeddings-and-output-weights", a.model.untie_embeddings_and_output_weights, "",
            "an output layer of its own");
  table.add("num-experts", a.model.num_experts, "N", "feed-forward networks of a layer; 0: one").between(0, 1 << 16);
  table.add("moe-layer-freq", a.model.moe_layer_freq, "N|LIST", "every N-th layer has experts, or a list as ([0]*3+[1]*58)");
  table.add("moe-ffn-hidden-size", a.model.moe_ffn_hidden_size, "N", "width of an expert; default ffn-hidden-size")
      .between(1, 1 << 24);
  table.add("moe-router-topk", a.model.moe_router_topk, "N", "experts a token visits").between(1, 1 << 16);
  table.add("moe-shared-expert-intermediate-size", a.model.moe_shared_expert_intermediate_size, "N",
            "width of what every token visits besides; 0: nothing")
      .between(0, 1 << 24);
}

}  // namespace

cli::Command random_command() {
  return {"random", "write a small random model as a checkpoint, to try things with",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            a->model.num_layers = 2;
            a->model.hidden_size = 64;
            a->model.num_attention_heads = 4;
            a->model.max_position_embeddings = 64;
            table.add("save", a->save, "DIRECTORY", "where to write");
            table.add("iteration", a->iteration, "N", "iteration to write it as");
            table.add("consumed-samples", a->consumed_samples, "N", "samples it claims to have seen");
            table.add("force", a->force, "", "replace that iteration if it is there");
            table.add("seed", a->seed, "N", "seed of the values");
            table.add("optimizer", a->optimizer, "", "moments too, and master weights with --bf16");
            table.add("bf16", a->bf16, "", "weights in bf16 instead of f32");
            add_model(table, *a);
            return [a, &shared] { return random(*a, shared.json); };
          }};
}

}  // namespace mt
