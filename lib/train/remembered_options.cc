#include "train/remembered_options.h"

#include <fmt/format.h>

namespace mt {

Json remembered_options(const TrainingOptions& o) {
  Json j{{"seq-length", o.batch.seq_length},
         {"global-batch-size", o.batch.global_batch},
         {"rampup-batch-size", o.rampup_batch_size},
         {"step-batch-size-schedule", o.step_batch_sizes},
         {"mean-of-means-loss", o.mean_of_means_loss},
         {"mock-data", o.data.mock_data},
         {"mock-data-style", o.data.mock_data ? o.data.mock_data_style : ""},
         {"train-data-path", o.data.train_path},
         {"data-path", o.data.data_path},
         {"split", o.data.split},
         {"mid-level-dataset-surplus", o.data.surplus},
         {"eod-mask-loss", o.data.eod_mask_loss},
         {"reset-position-ids", o.data.reset_position_ids},
         {"reset-attention-mask", o.data.reset_attention_mask},
         {"dataloader-inter-document-masking", o.data.inter_document_masking},
         {"fim-data", o.data.fim_data},
         {"fim-rate", o.data.fim.rate},
         {"fim-spm-rate", o.data.fim.spm_rate},
         {"fim-split-sample", o.data.fim.split_sample.value_or("")},
         {"fim-fragment-rate", o.data.fim.fragment_rate.value_or(0)},
         {"fim-no-prefix", o.data.fim.no_prefix.value_or("")},
         {"sft", o.data.sft},
         {"sft-tokenizer-prompt-format", o.data.sft ? o.data.sft_options.prompt_format : ""},
         {"sft-pack-lines", o.data.sft_options.pack_lines},
         {"optimizer", update_rule_name(o.optimizer.rule)},
         {"exp-avg-dtype", o.optimizer_names.exp_avg_dtype},
         {"exp-avg-sq-dtype", o.optimizer_names.exp_avg_sq_dtype},
         {"sgd-momentum", o.optimizer.sgd_momentum},
         {"lion-beta1", o.optimizer.lion.beta1},
         {"lion-beta2", o.optimizer.lion.beta2},
         {"muon-momentum", o.optimizer.muon.momentum},
         {"muon-use-nesterov", o.optimizer.muon.nesterov},
         {"muon-split-qkv", o.optimizer.muon.split_qkv},
         {"muon-num-ns-steps", o.optimizer.muon.iteration.steps},
         {"muon-coefficient-type", o.optimizer_names.muon_coefficient_type},
         {"muon-scale-mode", o.optimizer_names.muon_scale_mode},
         {"muon-extra-scale-factor", o.optimizer.muon.extra_scale},
         {"muon-tp-mode", o.optimizer_names.muon_tp_mode},
         {"adam-beta1", o.optimizer.adam.beta1},
         {"adam-beta2", o.optimizer.adam.beta2},
         {"adam-eps", o.optimizer.adam.eps},
         {"clip-grad", o.optimizer.clip_grad},
         {"bf16", o.bf16},
         {"fp16", o.fp16},
         {"grad-reduce-in-bf16", o.grad_reduce_in_bf16},
         {"fp8-format", o.fp8.format},
         {"fp8-recipe", o.fp8.format.empty() ? "" : o.fp8.recipe},
         {"device", o.device},
         {"cuda-f32-precision", o.device == "cpu" ? "f32" : o.cuda_f32_precision}};
  if (!o.fp8.format.empty()) {
    const bool delayed = o.fp8.recipe == "delayed", ends = o.fp8.first_last_layers_bf16;
    j["fp8-margin"] = o.fp8.margin;
    j["fp8-amax-history-len"] = delayed ? o.fp8.amax_history_len : 1;
    j["fp8-amax-compute-algo"] = delayed ? o.fp8.amax_compute_algo : "most_recent";
    j["no-fp8-wgrad"] = !o.fp8.weight_gradients;
    j["first-last-layers-bf16"] = ends;
    j["num-layers-at-start-in-bf16"] = ends ? o.fp8.num_layers_at_start_in_bf16 : 0;
    j["num-layers-at-end-in-bf16"] = ends ? o.fp8.num_layers_at_end_in_bf16 : 0;
  }
  if (o.data.tokenizer_given) {
    j["tokenizer-type"] = o.data.tokenizer.type;
    j["tokenizer-model"] = o.data.tokenizer.model;
  }
  // With --use-checkpoint-args these are the checkpoint's, whatever the flags say.
  if (!o.use_checkpoint_args) {
    j["attention-dropout"] = o.model.attention_dropout;
    j["hidden-dropout"] = o.model.hidden_dropout;
  }
  return j;
}

namespace {

std::string value_text(const Json& v) {
  if (v.is_string()) return v.get_ref<const std::string&>().empty() ? "not given" : v.get<std::string>();
  if (!v.is_array()) return json_line(v);
  std::string words;
  for (const auto& word : v) words += (words.empty() ? "" : " ") + value_text(word);
  return words.empty() ? "not given" : words;
}

}  // namespace

std::vector<std::string> option_changes(const Json& stored, const Json& now) {
  std::vector<std::string> lines;
  if (!stored.is_object()) return lines;
  for (const auto& [flag, value] : now.items())
    if (stored.contains(flag) && stored[flag] != value)
      lines.push_back(fmt::format("--{} is {}, the checkpoint's run had {}", flag, value_text(value),
                                  value_text(stored[flag])));
  return lines;
}

}  // namespace mt
