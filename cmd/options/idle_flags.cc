#include "options/idle_flags.h"

#include "base/log.h"
#include "comm/status_page.h"

namespace mt::options {

void note_idle_flags(const OptionTable& table, const std::vector<IdleFlags>& rows) {
  if (comm::launched_rank().rank != 0) return;
  for (const auto& row : rows)
    for (const auto& flag : row.flags)
      if (row.idle && (table.given(flag) || (row.off_too && table.taken_back(flag)))) log::warn("--{} does nothing {}", flag, row.reason);
}

std::vector<IdleFlags> idle_training_flags(const TrainingOptions& o) {
  const auto& m = o.model;
  const std::string& rule = o.optimizer_names.rule;
  const bool rope = m.position_embedding_type == "rope", constant = o.lr.decay_style == "constant";
  std::vector<IdleFlags> rows{
      {!m.group_query_attention, {"num-query-groups"}, "without --group-query-attention"},
      {!rope, {"rotary-base", "rotary-percent", "rotary-interleaved", "use-rope-scaling"},
       "without --position-embedding-type rope"},
      {!m.use_rope_scaling || !rope, {"rope-scaling-factor"}, "without --use-rope-scaling and rotary positions"},
      {m.num_experts == 0, {"moe-layer-freq", "moe-ffn-hidden-size", "moe-router-topk", "moe-shared-expert-intermediate-size"},
       "without --num-experts"},
      {m.swiglu, {"openai-gelu", "no-bias-gelu-fusion"}, "with --swiglu"},
      {m.squared_relu, {"openai-gelu", "no-bias-gelu-fusion"}, "with --squared-relu"},
      {o.lr.decay_style != "WSD", {"lr-wsd-decay-style", "lr-wsd-decay-iters", "lr-wsd-decay-samples"}, "without --lr-decay-style WSD"},
      {constant, {"min-lr", "lr-decay-iters", "lr-decay-samples"}, "with --lr-decay-style constant"},
      {o.lr.weight_decay_incr_style == "constant" && o.lr.start_weight_decay != o.lr.end_weight_decay,
       {"start-weight-decay"}, "with --weight-decay-incr-style constant"},
      {o.lr.warmup_fraction > 0, {"lr-warmup-iters"}, "beside --lr-warmup-fraction"},
      {o.lr.start_weight_decay && o.lr.end_weight_decay, {"weight-decay"},
       "beside --start-weight-decay and --end-weight-decay"},
      {rule != "adam" && rule != "muon", {"adam-beta1", "adam-beta2", "adam-eps"}, "without --optimizer adam or muon"},
      {rule != "sgd", {"sgd-momentum"}, "without --optimizer sgd"},
      {rule != "lion", {"lion-beta1", "lion-beta2"}, "without --optimizer lion"},
      {rule != "muon",
       {"muon-momentum", "muon-use-nesterov", "muon-no-split-qkv", "muon-num-ns-steps", "muon-coefficient-type",
        "muon-scale-mode", "muon-extra-scale-factor", "muon-tp-mode"},
       "without --optimizer muon"},
      {!o.optimizer_names.cpu_offload, {"optimizer-offload-fraction", "no-pin-cpu-grads", "no-pin-cpu-params"},
       "without --optimizer-cpu-offload"},
      {o.device == "cpu", {"optimizer-cpu-offload", "cpu-offloading-num-layers"},
       "with --device cpu, where everything is in host memory"},
      {o.optimizer_names.offload_fraction == 0, {"optimizer-cpu-offload"}, "with --optimizer-offload-fraction 0"},
      {o.device == "cpu", {"cuda-graph-impl"}, "with --device cpu"},
      {o.device != "cpu", {"deferred-stream"}, "with --device cuda, whose streams are no others"},
      {o.cuda_graph_impl == "none", {"cuda-graph-warmup-steps"}, "without --cuda-graph-impl"},
      {!o.tp_comm_overlap, {"no-tp-comm-overlap-ag", "no-tp-comm-overlap-rs", "tp-comm-overlap-rs-dgrad",
                            "no-tp-comm-bulk-dgrad", "no-tp-comm-bulk-wgrad"}, "without --tp-comm-overlap"},
      {!o.fp16, {"initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis"}, "without --fp16"},
      {o.fp16 && o.loss_scale.fixed, {"initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis"},
       "beside --loss-scale"},
      {o.fp8.format.empty(), {"fp8-recipe", "fp8-margin", "fp8-amax-history-len", "fp8-amax-compute-algo", "no-fp8-wgrad",
                              "first-last-layers-bf16"}, "without --fp8-format"},
      {o.fp8.recipe != "delayed", {"fp8-amax-history-len", "fp8-amax-compute-algo"}, "without --fp8-recipe delayed"},
      {!o.fp8.first_last_layers_bf16, {"num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16"},
       "without --first-last-layers-bf16"},
      {o.fp8.first_last_layers_bf16 &&
           o.fp8.num_layers_at_start_in_bf16 + o.fp8.num_layers_at_end_in_bf16 >= m.num_layers && !o.use_checkpoint_args,
       {"fp8-format"}, "where --first-last-layers-bf16 leaves no layer between"},
      {o.device == "cpu", {"cuda-f32-precision", "cuda-gemm-autotune", "attention-backend"}, "without --device cuda"},
      {o.fp16 || o.bf16, {"cuda-f32-precision"}, "beside --bf16 or --fp16"},
      {o.deterministic, {"cuda-gemm-autotune"}, "beside --deterministic-mode"},
      {!o.fp16 && !o.bf16, {"fp32-residual-connection"}, "where all is f32"},
      {o.timers.log_level == 0, {"timing-log-option"}, "without --timing-log-level"},
      {o.tensorboard_dir.empty(), {"tensorboard-log-interval"}, "without --tensorboard-dir"},
      {o.save.empty(), {"save-interval", "save-retain-interval", "save-local"}, "without --save"},
      {o.load.empty(), {"ckpt-step", "finetune", "no-load-optim", "override-opt-param-scheduler",
                        "use-checkpoint-opt-param-scheduler"}, "without --load"},
      {o.eval_interval == 0, {"eval-iters", "full-validation", "valid-data-path", "test-data-path"},
       "without --eval-interval"},
      {!o.data.train_path.empty() || !o.data.per_split_data_args_path.empty(), {"split"},
       "where each set has token files of its own"},
      {o.check_for_nan, {"non-finite-limit"}, "beside --check-for-nan-in-loss-and-grad"},
      {o.lr.warmup_fraction > 0, {"lr-warmup-samples"}, "beside --lr-warmup-fraction"},
      {o.data.mock_data, {"split", "mid-level-dataset-surplus", "data-cache-path"}, "with --mock-data"},
      {o.data.sft, {"mid-level-dataset-surplus", "data-cache-path"}, "with --sft"},
      {o.data.mock_data && o.data.mock_data_style == "runs",
       {"eod-mask-loss", "reset-position-ids", "reset-attention-mask", "dataloader-inter-document-masking"},
       "with --mock-data, whose samples have no end token"},
      {!o.data.mock_data, {"mock-data-style"}, "without --mock-data"},
      {o.data.inter_document_masking, {"reset-position-ids", "reset-attention-mask"},
       "beside --dataloader-inter-document-masking"},
      {!o.data.fim_data,
       {"fim-rate", "fim-spm-rate", "fim-split-sample", "fim-fragment-rate", "fim-no-prefix", "fim-prefix-token",
        "fim-middle-token", "fim-suffix-token", "fim-pad-token", "fim-eod-token"}, "without --fim-data"},
      {!o.data.sft, {"sft-tokenizer-prompt-format", "sft-pack-lines"}, "without --sft"},
      {o.device == "cpu", {"distributed-backend"}, "with --device cpu, where ranks talk over MPI or as threads; --device cuda trains on GPUs"},
      {o.device == "cpu", {"deterministic-mode"}, "with --device cpu, where every run repeats to the bit"}};
  // Where the model comes from the checkpoint, every flag of its shape is idle, dropout's too, be it said to be off.
  const bool given = o.use_checkpoint_args && !o.load.empty() && !o.load_if_present;
  rows.push_back({given,
                  {"num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "kv-channels",
                   "num-query-groups", "group-query-attention", "max-position-embeddings", "position-embedding-type",
                   "rotary-base", "rotary-percent", "rotary-interleaved", "use-rope-scaling", "rope-scaling-factor", "normalization",
                   "norm-epsilon", "qk-layernorm", "swiglu", "squared-relu", "openai-gelu", "no-bias-gelu-fusion", "disable-bias-linear",
                   "add-qkv-bias", "untie-embeddings-and-output-weights", "make-vocab-size-divisible-by", "attention-dropout",
                   "hidden-dropout", "num-experts", "moe-layer-freq", "moe-ffn-hidden-size", "moe-router-topk",
                   "moe-shared-expert-intermediate-size"},
                  "with --use-checkpoint-args", true});
  rows.push_back({given, {"vocab-size"}, "to the model with --use-checkpoint-args"});
  return rows;
}

}  // namespace mt::options
