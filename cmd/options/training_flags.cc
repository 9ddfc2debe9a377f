#include "options/training_flags.h"

#include <climits>

#include "ckpt/plane_codec.h"
#include "options/act_costs.h"
#include "options/data_flags.h"
#include "options/sample_options.h"

namespace mt::options {

namespace {

constexpr int kMostInt = INT_MAX, kMostHidden = INT_MAX / 4;  // widths and ids are ints; the widest default is 4h

}  // namespace

void add_model(OptionTable& t, ModelOptions& m) {
  t.group("Model");
  t.add("num-layers", m.num_layers, "N", "transformer layers").at_least(1).no_default();
  t.add("hidden-size", m.hidden_size, "N", "width of the residual stream").between(1, kMostHidden).no_default();
  t.add("ffn-hidden-size", m.ffn_hidden_size, "N", "width of the feed-forward network; default 4h, with --swiglu 8h/3")
      .between(1, kMostInt);
  t.add("num-attention-heads", m.num_attention_heads, "N", "query heads").between(1, kMostInt).no_default();
  t.add("kv-channels", m.kv_channels, "N", "head dimension; default hidden-size / num-attention-heads")
      .between(1, kMostInt);
  t.add("group-query-attention", m.group_query_attention, "", "share key and value heads among query heads");
  t.add("num-query-groups", m.num_query_groups, "N", "key and value heads, with --group-query-attention").at_least(1);
  t.add("max-position-embeddings", m.max_position_embeddings, "N", "positions of the learned table", "tokens")
      .at_least(1).no_default();
  t.add("position-embedding-type", m.position_embedding_type, "TYPE", "learned_absolute, rope or none");
  t.add("rotary-base", m.rotary_base, "X", "base of rotary frequencies").above(0);
  t.add("rotary-percent", m.rotary_percent, "X", "share of a head that rotates").between(0, 1).above_least = true;
  t.add("rotary-interleaved", m.rotary_interleaved, "", "rotate pairs (2i, 2i+1) instead of halves");
  t.add("use-rope-scaling", m.use_rope_scaling, "", "LLaMA 3 scaling of rotary frequencies");
  t.add("rope-scaling-factor", m.rope_scaling_factor, "X", "its factor").above(0);
  t.add("normalization", m.normalization, "TYPE", "LayerNorm or RMSNorm");
  t.add("norm-epsilon", m.norm_epsilon, "X", "added to the variance").above(0);
  t.add("qk-layernorm", m.qk_layernorm, "", "RMSNorm of every head of queries and keys");
  t.add("swiglu", m.swiglu, "", "gated SiLU feed-forward network");
  t.add("squared-relu", m.squared_relu, "", "squared ReLU instead of GELU");
  t.add("openai-gelu", m.openai_gelu, "", "the tanh form of GELU");
  t.add_off("no-bias-gelu-fusion", m.bias_gelu_fusion, "the erf form of GELU (the fused one is the tanh form)");
  t.add_off("disable-bias-linear", m.add_bias_linear, "no biases in linear layers");
  t.add("add-qkv-bias", m.add_qkv_bias, "", "biases in query, key and value only");
  t.add("untie-embeddings-and-output-weights", m.untie_embeddings_and_output_weights, "",
        "an output layer of its own");
  t.add("make-vocab-size-divisible-by", m.make_vocab_size_divisible_by, "N",
        "pad the vocabulary to a multiple of this times tp").at_least(1);
  t.add("attention-dropout", m.attention_dropout, "P", "dropout of attention probabilities").between(0, 1);
  t.add("hidden-dropout", m.hidden_dropout, "P", "dropout of sub-layer outputs and embeddings").between(0, 1);
  t.add("init-method-std", m.init_method_std, "X", "standard deviation of initial weights").above(0);
  t.add("embedding-init-method-std", m.embedding_init_method_std, "X", "of embeddings; default init-method-std");
}

void add_experts(OptionTable& t, ModelOptions& m) {
  t.group("Experts");
  t.add("num-experts", m.num_experts, "N", "feed-forward networks of a layer, for --dry-run alone; 0: one").between(0, kMostInt);
  t.add("moe-layer-freq", m.moe_layer_freq, "N|LIST", "every N-th layer has experts, or a list as ([0]*3+[1]*58)");
  t.add("moe-ffn-hidden-size", m.moe_ffn_hidden_size, "N", "width of an expert; default ffn-hidden-size")
      .between(1, kMostInt);
  t.add("moe-router-topk", m.moe_router_topk, "N", "experts a token visits").between(1, kMostInt);
  t.add("moe-shared-expert-intermediate-size", m.moe_shared_expert_intermediate_size, "N",
        "width of what every token visits besides; 0: nothing")
      .between(0, kMostInt);
}

void add_parallel(OptionTable& t, TrainingOptions& o) {
  ParallelSpec& p = o.parallel;
  t.group("Parallel");
  t.add("tensor-model-parallel-size", p.tp, "N", "ranks that share each layer").at_least(1);
  t.add("pipeline-model-parallel-size", p.pp, "N", "ranks that share the depth").at_least(1);
  t.add("data-parallel-size", o.data_parallel_size, "N", "what is left for data parallelism, to be checked").at_least(1);
  t.add("context-parallel-size", p.cp, "N", "ranks that share a sequence").at_least(1);
  t.add("expert-model-parallel-size", p.ep, "N", "ranks that share the experts").at_least(1);
  t.add("expert-tensor-parallel-size", p.etp, "N", "ranks that share an expert; default as many as share a layer")
      .at_least(1);
  t.add("num-virtual-stages-per-pipeline-rank", p.vpp, "N", "model chunks a pipeline rank holds");
  t.add("num-layers-per-virtual-pipeline-stage", o.split.layers_per_virtual_stage, "N",
        "the same, said by the layers of a chunk");
  t.add("decoder-first-pipeline-num-layers", o.split.first_layers, "N", "layers of the first pipeline rank");
  t.add("decoder-last-pipeline-num-layers", o.split.last_layers, "N", "layers of the last pipeline rank");
  t.add("account-for-embedding-in-pipeline-split", o.split.count_embedding, "",
        "the embedding counts as a layer of the first stage");
  t.add("account-for-loss-in-pipeline-split", o.split.count_loss, "", "the output counts as a layer of the last stage");
  t.add("pipeline-model-parallel-layout", o.split.layout, "LAYOUT", "layers of every stage, as Et*3|(tt|)*2tL");
  t.add("sequence-parallel", p.sequence_parallel, "", "shard norms, dropout and residual over tp along tokens");
  t.add("use-distributed-optimizer", o.use_distributed_optimizer, "", "shard optimizer state over dp (ZeRO 1)");
  t.add("data-parallel-sharding-strategy", o.sharding_strategy, "NAME",
        "no_shard, optim, optim_grads or optim_grads_params (ZeRO 0 to 3)");
  t.add("num-distributed-optimizer-instances", p.optimizer_instances, "N",
        "copies of the sharded state, each over a part of dp; gradients are summed across them")
      .at_least(1);
  t.add("use-megatron-fsdp", o.use_megatron_fsdp, "", "shard layer by layer; allows optim_grads_params, its default");
  t.add("microbatch-group-size-per-virtual-pipeline-stage", o.micro_batch_group, "N",
        "micro-batches that walk through the chunks together (interleaved); default pp");
  t.add("use-tp-pp-dp-mapping", o.tp_pp_dp_mapping, "", "the same as --rank-order tp-cp-ep-pp-dp");
  t.add("overlap-grad-reduce", o.overlap.grad_reduce, "", "sum gradients over dp while the backward runs");
  t.add("overlap-param-gather", o.overlap.param_gather, "",
        "gather new weights over dp while the next forward runs (with use-distributed-optimizer)");
  t.add("tp-comm-overlap", o.tp_comm_overlap, "", "with sequence-parallel: messages of tensor parallelism beside its products");
  t.add_off("no-tp-comm-overlap-ag", o.tp_overlap.gather, "tp-comm-overlap: products that wait for the whole of their gather");
  t.add_off("no-tp-comm-overlap-rs", o.tp_overlap.sum, "tp-comm-overlap: sums that wait for the whole of their product");
  t.add("tp-comm-overlap-rs-dgrad", o.tp_overlap.sum_dgrad, "", "tp-comm-overlap: sums of input gradients in pieces as well");
  t.add_off("no-tp-comm-bulk-dgrad", o.tp_overlap.bulk_dgrad,
            "tp-comm-overlap: gathers for weight gradients after the input gradients' products");
  t.add_off("no-tp-comm-bulk-wgrad", o.tp_overlap.bulk_wgrad, "tp-comm-overlap: sums of input gradients before weight gradients");
  t.add("rank-order", p.order, "ORDER", "which axis varies fastest over ranks, leftmost first");
}

void add_batch(OptionTable& t, TrainingOptions& o) {
  t.group("Batch and length");
  t.add("seq-length", o.batch.seq_length, "N", "tokens of a sample", "tokens").at_least(1).no_default();
  t.add("micro-batch-size", o.batch.micro_batch, "N", "samples of one forward pass on one rank", "samples")
      .at_least(1);
  t.add("global-batch-size", o.batch.global_batch, "N", "samples of a step; default micro-batch-size x dp", "samples")
      .at_least(1).no_default();
  t.add("train-iters", o.train_iters, "N", "steps to train; 0 only initialises (and saves)", "steps")
      .at_least(0).no_default();
  t.add("eval-iters", o.eval_iters, "N", "batches of one validation; 0: none", "steps").at_least(0);
  t.add("eval-interval", o.eval_interval, "N", "validate every N steps", "steps").at_least(1).no_default();
  t.add("exit-interval", o.exit_interval, "N", "save and leave at multiples of N", "steps").at_least(1).no_default();
  t.add("exit-duration-in-mins", o.exit_duration_min, "X", "save and leave (status 42) after so long",
        "minutes").above(0).no_default();
}

void add_optimizer(OptionTable& t, TrainingOptions& o) {
  t.group("Optimizer");
  t.add("lr", o.lr.lr, "X", "learning rate, at its height").at_least(0).no_default();
  t.add("min-lr", o.lr.min_lr, "X", "learning rate at the end of the decay").at_least(0);
  t.add("lr-decay-style", o.lr.decay_style, "STYLE", "constant, linear, cosine, inverse-square-root or WSD");
  t.add("lr-decay-iters", o.lr.decay_iters, "N", "length of the decay; default train-iters", "steps").at_least(1);
  t.add("lr-wsd-decay-style", o.lr.wsd_decay_style, "STYLE", "exponential, linear, cosine or minus_sqrt");
  t.add("lr-wsd-decay-iters", o.lr.wsd_decay_iters, "N", "length of the last part of WSD", "steps").at_least(1);
  t.add("lr-warmup-iters", o.lr.warmup_iters, "N", "linear warm-up", "steps").at_least(0);
  t.add("lr-warmup-fraction", o.lr.warmup_fraction, "X", "warm-up as a share of the decay; over lr-warmup-iters")
      .between(0, 1);
  t.add("lr-warmup-init", o.lr.warmup_init, "X", "learning rate the warm-up starts from").at_least(0);
  t.add("override-opt-param-scheduler", o.lr.override_scheduler, "",
        "on resume, these options count, not the checkpoint's");
  t.add("use-checkpoint-opt-param-scheduler", o.lr.use_checkpoint_scheduler, "",
        "on resume, the checkpoint's learning-rate schedule counts");
  t.alias("override-opt_param-scheduler", "override-opt-param-scheduler");
  t.alias("use-checkpoint-opt_param-scheduler", "use-checkpoint-opt-param-scheduler");
  t.add("weight-decay", o.lr.weight_decay, "X", "decoupled weight decay of matrices").at_least(0);
  t.add("start-weight-decay", o.lr.start_weight_decay, "X", "at the first step; default weight-decay").at_least(0);
  t.add("end-weight-decay", o.lr.end_weight_decay, "X", "at the last step; default weight-decay").at_least(0);
  t.add("weight-decay-incr-style", o.lr.weight_decay_incr_style, "STYLE", "constant, linear or cosine");
}

void add_data(OptionTable& t, DataOptions& d) {
  add_sets(t, d);
  t.add("mock-data", d.mock_data, "", "made-up samples; no token file");
  t.add("mock-data-style", d.mock_data_style, "NAME", "runs a model can learn, or megatron's documents").choices = {
      "runs", "megatron"};
  t.add("vocab-size", d.vocab_size, "N", "true vocabulary; default: the tokenizer's, or what the token file says")
      .between(1, kMostInt);
  t.add("tokenizer-type", d.tokenizer.type, "TYPE", "kind of tokenizer");
  t.add("tokenizer-model", d.tokenizer.model, "FILE", "the tokenizer's file, or the directory that holds it");
  t.add("vocab-file", d.tokenizer.vocab_file, "FILE", "vocab.json of GPT2BPETokenizer");
  t.add("merge-file", d.tokenizer.merge_file, "FILE", "merges.txt of GPT2BPETokenizer");
  t.add("tiktoken-pattern", d.tokenizer.tiktoken_pattern, "P", "how TikTokenizer cuts text");
  t.add("tiktoken-num-special-tokens", d.tokenizer.tiktoken_num_special_tokens, "N",
        "special tokens before TikTokenizer's list").at_least(1);
  t.add("eod-mask-loss", d.eod_mask_loss, "", "no loss after end-of-document tokens");
  t.add("reset-position-ids", d.reset_position_ids, "", "positions restart after end-of-document tokens");
  t.add("reset-attention-mask", d.reset_attention_mask, "", "attention stays between end-of-document tokens");
  t.add("dataloader-inter-document-masking", d.inter_document_masking, "",
        "attention stays inside a document of the token file, and positions restart with it");
  t.add("fim-data", d.fim_data, "", "documents are cut and put in another order: fill-in-middle");
  add_fim(t, d.fim);
  t.add("sft", d.sft, "", "data paths are chat JSON lines, and answers alone count");
  add_sft(t, d.sft_options);
}

void add_checkpoint(OptionTable& t, TrainingOptions& o) {
  t.group("Checkpoint");
  t.add("save", o.save, "DIR", "where to save");
  t.add("save-interval", o.save_interval, "N", "save every N steps; by default at the end only", "steps")
      .at_least(1).no_default();
  t.alias("persistent-save-interval", "save-interval");
  t.add("save-retain-interval", o.save_retain_interval, "N",
        "remove the previous save after the next unless its step is a multiple of N; by default all stay", "steps")
      .at_least(1).no_default();
  t.add("async-save", o.async_save, "", "train on while a save is written; takes memory for a copy of what a rank saves");
  t.add("save-local", o.save_local, "DIR",
        "save into this fast directory, which all ranks see, and copy to --save beside training");
  t.add("ckpt-codec", o.ckpt_codec, "NAME", "pack what is saved, without loss").choices = {"none", kPlaneCodecName};
  t.add("load", o.load, "DIR", "resume from here");
  t.add("load-if-present", o.load_if_present, "", "start fresh when there is no checkpoint in --load yet");
  t.add("ckpt-step", o.ckpt_step, "N", "load this iteration, not the newest").at_least(0);
  t.add("finetune", o.finetune, "", "load weights only and start at iteration 0");
  t.add("no-load-optim", o.no_load_optim, "", "load no optimizer state");
  t.add("use-checkpoint-args", o.use_checkpoint_args, "", "take the model from the checkpoint, not from options");
}

void add_run(OptionTable& t, TrainingOptions& o) {
  t.group("Run");
  t.add("seed", o.seed, "N", "of weights, data order and dropout");
  t.add("device", o.device, "NAME", "cpu, or cuda: one GPU a rank");
  t.add("distributed-backend", o.distributed_backend, "NAME",
        "between GPUs: nccl, or mpi or gloo: through the host; default nccl where each rank has a GPU");
  t.add("cuda-f32-precision", o.cuda_f32_precision, "NAME", "of f32 products on a GPU: f32, or tf32")
      .choices = {"f32", "tf32"};
  t.add("cuda-gemm-autotune", o.gemm_mode.candidates, "N", "time N of cuBLASLt's algorithms for a shape, keep the fastest")
      .between(1, 64);
  t.add("attention-backend", o.attention_backend, "NAME",
        "attention on a GPU: auto (default), fused: cuDNN's, or flash: our own; unfused and local are as flash")
      .choices = {"auto", "flash", "fused", "unfused", "local"};
  t.add("deterministic-mode", o.deterministic, "", "nothing is chosen by its speed, and sums over GPUs are taken in rank order");
  t.add("threads", o.threads, "N", "threads a rank; default OMP_NUM_THREADS, else cores / ranks on this host")
      .between(1, 1024).no_default();
  t.add("pipeline-schedule", o.schedule, "NAME",
        "1f1b (default), gpipe, interleaved (default with virtual stages), zb-h1, zb-h2, zb-1p, zb-2p, zb-v, dualpipe-v, "
        "or a file");
  t.add("log-interval", o.log_interval, "N", "a line every N steps", "steps").at_least(1);
  t.add("metrics-file", o.metrics_file, "FILE", "the record; default run.jsonl in --save, else here");
  t.add("registry", o.registry, "FILE", "SQLite index of runs; none: off");
  t.add("non-finite-limit", o.non_finite_limit, "N", "give up (status 40) after N skipped steps in a row", "steps")
      .at_least(1);
  t.add("emulate-compute", o.emulate_compute, "MS", "acts become waits of so long, messages stay real: one number, or "
        "F=10,D=12,W=8,R=10; nothing is trained", "ms");
  t.add("deferred-stream", o.deferred_stream, "", "debug: run queued work as late as its events allow");
}

void note_given(const OptionTable& t, TrainingOptions& o) {
  o.global_batch_given = t.given("global-batch-size");
  for (const char* name : {"tokenizer-type", "tokenizer-model", "vocab-file", "merge-file", "tiktoken-pattern"})
    o.data.tokenizer_given = o.data.tokenizer_given || t.given(name);
  if (o.data.vocab_size) o.data.tokenizer.vocab_size = static_cast<std::int32_t>(*o.data.vocab_size);
  if (o.tp_pp_dp_mapping && !t.given("rank-order")) o.parallel.order = "tp-cp-ep-pp-dp";
  if (t.given("emulate-compute")) o.emulated_ms = emulated_durations(o.emulate_compute);
  if (!t.given("expert-tensor-parallel-size")) o.parallel.etp = o.parallel.tp;
  o.resolved = t.resolved();
}

}  // namespace mt::options
