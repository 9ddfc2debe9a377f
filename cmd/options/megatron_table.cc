// Every flag of Megatron's parser once, by state and reason. See megatron_flags.h for the form.

#include "options/megatron_flags.h"

namespace mt::options {

namespace {

constexpr auto kSupported = FlagState::supported;
constexpr auto kAccepted = FlagState::accepted;
constexpr auto kRefused = FlagState::refused;

constexpr FlagGroup kGroups[] = {
  // Parallel sizes and pipeline
  {kSupported,
   "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size expert-model-parallel-size "
   "expert-tensor-parallel-size sequence-parallel num-layers-per-virtual-pipeline-stage "
   "num-virtual-stages-per-pipeline-rank pipeline-model-parallel-layout decoder-first-pipeline-num-layers "
   "decoder-last-pipeline-num-layers account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split "
   "microbatch-group-size-per-virtual-pipeline-stage use-tp-pp-dp-mapping distributed-timeout-minutes distributed-backend"},
  {kAccepted, "no-overlap-p2p-communication overlap-p2p-communication-warmup-flush",
   "stages always post receives early and send in the background"},
  {kAccepted, "pipeline-model-parallel-comm-backend=N disable-gloo-process-groups",
   "ranks talk over MPI or as threads of one process, GPUs over NCCL"},
  {kAccepted,
   "nccl-communicator-config-path=N high-priority-stream-groups=N... use-sharp sharp-enabled-group=N use-nccl-ub "
   "disable-symmetric-registration flight-recorder-dump-path=N flight-recorder-trace-buffer-size=N "
   "create-all-gather-group tp-comm-bootstrap-backend=N high-priority-a2a-comm-stream",
   "tunes NCCL, which is left as its own environment variables say"},
  {kAccepted, "local-rank=N lazy-mpu-init=N", "the launcher says which rank this is"},
  {kAccepted, "no-align-grad-reduce no-align-param-gather", "stages do not wait for one another to reduce or gather"},
  {kAccepted, "distributed-timeout-seconds-after-init=N",
   "one limit holds throughout, --distributed-timeout-minutes"},
  {kAccepted, "cp-comm-type=N...", "it changes no size, and context parallelism is for --dry-run alone so far"},
  {kRefused, "hierarchical-context-parallel-sizes=N... hybrid-context-parallel max-seqlen-per-dp-cp-rank=N",
   "there is no context parallelism of several levels or of varying size", "--context-parallel-size"},
  {kRefused, "tensor-parallel-num-weight-shards=N expert-tensor-parallel-num-weight-shards=N",
   "weights are not sharded again inside tensor parallelism", "--use-distributed-optimizer"},
  {kRefused, "defer-embedding-wgrad-compute wgrad-deferral-limit=N delay-wgrad-compute",
   "weight gradients are deferred by the pipeline schedule", "--pipeline-schedule zb-h1"},
  {kRefused, "fake-process-group", "a rehearsal needs no process here", "--dry-run"},

  // Model shape
  {kSupported,
   "num-layers hidden-size num-attention-heads max-position-embeddings ffn-hidden-size kv-channels "
   "group-query-attention num-query-groups position-embedding-type rotary-base rotary-percent rotary-interleaved "
   "use-rope-scaling rope-scaling-factor normalization norm-epsilon qk-layernorm swiglu squared-relu openai-gelu "
   "disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights make-vocab-size-divisible-by"},
  {kAccepted, "transformer-impl=N use-flash-attn use-mcore-models enable-experimental",
   "there is one implementation, and its attention works in blocks"},
  {kSupported, "attention-backend"},
  {kAccepted, "apply-query-key-layer-scaling attention-softmax-in-fp32", "the softmax of attention is always f32"},
  {kAccepted, "softmax-type=:vanilla", "there is no attention sink", "--softmax-type vanilla"},
  {kAccepted, "linear-attention-freq=:0", "there is no linear attention", "full attention"},
  {kRefused, "encoder-num-layers=N decoder-num-layers=N encoder-seq-length=N decoder-seq-length=N",
   "models are decoders alone", "--num-layers, --seq-length"},
  {kRefused,
   "rotary-seq-len-interpolation-factor=N no-rope-freq=N yarn-rotary-scaling-factor=N "
   "yarn-original-max-position-embeddings=N yarn-beta-fast=N yarn-beta-slow=N yarn-mscale=N yarn-mscale-all-dim=N "
   "yarn-correction-range-round-to-int no-yarn-correction-range-round-to-int mrope-section=N... "
   "relative-attention-num-buckets=N relative-attention-max-distance=N",
   "these positions are not there", "--position-embedding-type rope, --use-rope-scaling"},
  {kRefused, "apply-layernorm-1p apply-residual-connection-post-layernorm",
   "norms stand before each sub-layer, as they are",
   "--normalization"},
  {kRefused, "quick-geglu glu-linear-offset=N activation-func-clamp-value=N", "this activation is not there",
   "--swiglu"},
  {kRefused, "padded-vocab-size=N no-pad-vocab-size", "the padded vocabulary follows from its divisor",
   "--make-vocab-size-divisible-by"},
  {kRefused,
   "qk-l2-norm qk-clip qk-clip-alpha=N qk-clip-threshold=N apply-wd-to-qk-layernorm "
   "attention-output-gate log-max-attention-logit",
   "queries and keys are used as they are, or normed by head", "--qk-layernorm"},
  {kRefused, "window-size=N window-attn-skip-freq=N", "attention sees the whole sequence", "the same without it"},
  {kRefused, "bert-no-binary-head", "there is no BERT", "the same without it"},
  {kRefused, "mtp-num-layers=N mtp-loss-scaling-factor=N mtp-use-repeated-layer mtp-detach-heads mtp-hsm",
   "there is no multi-token prediction", "the same without it"},
  {kRefused,
   "multi-latent-attention q-lora-rank=N kv-lora-rank=N qk-head-dim=N qk-pos-emb-head-dim=N v-head-dim=N "
   "rotary-scaling-factor=N mscale=N mscale-all-dim=N rope-type=N",
   "there is no multi-latent attention", "--group-query-attention"},
  {kRefused,
   "hybrid-layer-pattern=N mamba-state-dim=N mamba-head-dim=N mamba-num-groups=N mamba-num-heads=N "
   "experimental-attention-variant=N linear-conv-kernel-dim=N linear-key-head-dim=N linear-value-head-dim=N "
   "linear-num-key-heads=N linear-num-value-heads=N dsa-indexer-n-heads=N dsa-indexer-head-dim=N dsa-indexer-topk=N "
   "dsa-indexer-loss-coeff=N dsa-indexer-use-sparse-loss",
   "layers are attention and feed-forward alone", "--num-layers"},
  {kRefused, "heterogeneous-layers-config-path=N spec=N... te-precision-config-file=N yaml-cfg=N",
   "a model is what its options say", "the options themselves, or --config FILE"},
  {kRefused,
   "use-mup mup-base-hidden-size=N mup-base-head-dim=N mup-attn-scale-power=N mup-output-mult=N mup-embedding-mult=N",
   "there is no muP scaling", "--init-method-std"},

  // Optimizer, regularisation, initial values
  {kSupported,
   "attention-dropout hidden-dropout weight-decay start-weight-decay end-weight-decay weight-decay-incr-style "
   "clip-grad adam-beta1 adam-beta2 adam-eps use-distributed-optimizer "
   "num-distributed-optimizer-instances seed init-method-std "
   "embedding-init-method-std optimizer sgd-momentum lion-beta1 lion-beta2 muon-momentum muon-use-nesterov "
   "muon-nesterov muon-no-split-qkv muon-num-ns-steps muon-coefficient-type muon-scale-mode muon-extra-scale-factor "
   "muon-tp-mode use-precision-aware-optimizer main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype "
   "optimizer-cpu-offload optimizer-offload-fraction no-pin-cpu-grads no-pin-cpu-params"},
  {kAccepted, "muon-scalar-optimizer=:adam", "what Muon leaves is AdamW's", "--muon-scalar-optimizer adam"},
  {kAccepted, "muon-fp32-matmul-prec=N", "Muon's products are in f32"},
  {kRefused, "decoupled-lr=N decoupled-min-lr=N", "one learning rate holds for all weights", "--lr"},
  {kAccepted, "overlap-cpu-optimizer-d2h-h2d", "copies of state in host memory always go on beside its update"},
  {kAccepted, "use-torch-optimizer-for-cpu-offload", "state in host memory is updated by the kernels that a CPU run has"},
  {kAccepted, "use-cpu-initialization init-model-with-meta-device", "weights are drawn on the host, each rank its own"},
  {kSupported, "cuda-graph-impl cuda-graph-warmup-steps"},
  {kAccepted, "optimizer-cuda-graph", "the kernels of an update are launched one by one"},
  {kRefused, "cuda-graph-modules=N...", "forward and backward of a micro-batch are a graph each, as a whole",
   "--cuda-graph-impl local"},
  {kRefused, "freeze-all-layers", "every weight is trained", "--lr 0"},
  {kRefused, "init-method-xavier-uniform no-initialization", "weights start normal", "--init-method-std"},
  {kAccepted, "data-parallel-random-init", "replicas start from the same values in every layout"},
  {kAccepted, "te-rng-tracker inference-rng-tracker", "random numbers depend on the seed and the place alone"},

  // Training length, batch, checks
  {kSupported,
   "micro-batch-size global-batch-size train-iters train-samples rampup-batch-size step-batch-size-schedule iterations-to-skip "
   "exit-interval exit-duration-in-mins deterministic-mode no-bias-gelu-fusion check-for-nan-in-loss-and-grad check-for-spiky-loss"},
  {kRefused, "decrease-batch-size-if-needed", "the batch is a size that divides", "--global-batch-size"},
  {kAccepted, "exit-signal-handler exit-signal=:SIGTERM|SIGINT|SIGUSR1 exit-signal-handler-for-dataloader",
   "SIGTERM, SIGINT and SIGUSR1 always save and end all ranks", "--exit-signal SIGTERM"},
  {kRefused, "phase-transition-iterations=N", "data has no phases", "--exit-interval"},
  {kAccepted, "empty-unused-memory-level=N manual-gc manual-gc-interval=N no-manual-gc-eval train-sync-interval=N",
   "there is no garbage to collect and no queue to drain"},
  {kAccepted, "check-weight-hash-across-dp-replicas-interval=N gpu-sniff-test-interval=N",
   "replicas are equal by construction, which the project's tests hold"},
  {kAccepted, "no-check-for-nan-in-loss-and-grad",
   "the check costs nothing and stays on; --non-finite-limit says how long a run of such steps may be"},
  {kRefused, "check-for-large-grads", "large gradients are clipped", "--clip-grad"},
  {kAccepted, "calculate-per-token-loss",
   "the loss is the mean over the tokens of the whole batch, unless --mean-of-means-loss says otherwise"},
  {kAccepted,
   "cross-entropy-loss-fusion cross-entropy-fusion-impl=N no-masked-softmax-fusion no-bias-swiglu-fusion "
   "no-bias-dropout-fusion no-rope-fusion no-persist-layer-norm no-gradient-accumulation-fusion "
   "no-gradient-reduce-div-fusion",
   "what is fused changes no bit"},

  // Learning rate
  {kSupported,
   "lr min-lr lr-decay-style lr-decay-iters lr-wsd-decay-style lr-wsd-decay-iters lr-warmup-fraction lr-warmup-iters "
   "lr-decay-samples lr-wsd-decay-samples lr-warmup-samples lr-warmup-init override-opt-param-scheduler "
   "use-checkpoint-opt-param-scheduler override-opt_param-scheduler "
   "use-checkpoint-opt_param-scheduler"},

  // Checkpoints
  {kSupported,
   "save load save-interval persistent-save-interval save-retain-interval async-save ckpt-step finetune "
   "no-load-optim "
   "use-checkpoint-args"},
  {kAccepted,
   "ckpt-format=N auto-detect-ckpt-format no-ckpt-fully-parallel-save ckpt-fully-parallel-load "
   "ckpt-fully-parallel-load-exchange-algo=N ckpt-fully-parallel-load-process-group=N ckpt-assume-constant-structure "
   "ckpt-pg-tensors-cache-path=N ckpt-pg-tensors-cache-create dist-ckpt-optim-fully-reshardable "
   "distrib-optim-fully-reshardable-mem-efficient ckpt-drop-redundant-extra-state strict-fsdp-dtensor-load "
   "dist-ckpt-save-pre-mcore-014",
   "there is one format, written by all ranks together, and any layout loads it"},
  {kAccepted, "dist-ckpt-strictness=N no-ckpt-load-validate-sharding-integrity verify-integrity",
   "a tensor unused, unfilled or damaged is always an error"},
  {kRefused, "override-ckpt-iteration=N", "a checkpoint keeps its number", "--ckpt-step, or --finetune"},
  {kRefused, "pretrained-checkpoint=N", "weights alone come by another flag", "--load DIR --finetune"},
  {kRefused, "no-save-optim", "a checkpoint is whole", "--no-load-optim when it is read"},
  {kAccepted, "no-save-rng no-load-rng load-main-params-from-ckpt",
   "there is no random state to keep; master weights are loaded"},
  {kAccepted, "exit-on-missing-checkpoint", "it always is an error, unless --load-if-present"},
  {kRefused, "use-mp-args-from-checkpoint-args", "the layout is this command line's", "the parallel sizes"},
  {kAccepted, "no-use-tokenizer-model-from-checkpoint-args no-save-tokenizer-assets",
   "a checkpoint holds the tokenizer's fingerprint, not its files"},
  {kAccepted,
   "async-strategy=N use-persistent-ckpt-worker dist-ckpt-workers=N async-ckpt-cpu-priority=N "
   "async-ckpt-io-priority=N async-ckpt-use-cpu-shm",
   "a rank writes its own files, beside training by a thread of its own"},
  {kRefused, "ckpt-convert-format=N ckpt-convert-save=N", "another tool rewrites checkpoints",
   "mt-reshard(1), mt-ckpt(1)"},
  {kRefused,
   "non-persistent-save-interval=N non-persistent-ckpt-type=N non-persistent-global-ckpt-dir=N "
   "non-persistent-local-ckpt-dir=N non-persistent-local-ckpt-algo=N replication replication-jump=N "
   "replication-factor=N",
   "every checkpoint becomes durable", "--save-local DIR saves into a fast directory first"},
  {kRefused,
   "save-params-interval=N save-wgrads-interval=N save-dgrads-interval=N save-activations-interval=N "
   "save-tokens-per-expert-interval=N",
   "there are no debug dumps", "--save-interval 1 and mt-ckpt(1)"},

  // Precision
  {kSupported,
   "grad-reduce-in-bf16 accumulate-allreduce-grads-in-fp32 "
   "fp16 bf16 loss-scale initial-loss-scale min-loss-scale loss-scale-window hysteresis fp32-residual-connection"},
  {kSupported,
   "fp8-format fp8-recipe fp8-margin fp8-amax-history-len fp8-amax-compute-algo no-fp8-wgrad first-last-layers-bf16 "
   "num-layers-at-start-in-bf16 num-layers-at-end-in-bf16"},
  {kAccepted,
   "ddp-reduce-scatter-with-fp32-accumulation "
   "ddp-param-name-patterns-for-fp32-local-accumulation=N... disable-bf16-reduced-precision-matmul "
   "fp16-lm-cross-entropy",
   "sums over ranks, products and the loss are always in f32"},
  {kRefused, "output-logit-dtype=N", "logits are as the weights", "the same without it"},
  {kRefused, "fp8-param-gather fp8-output-proj reuse-grad-buf-for-mxfp8-param-ag",
   "weights are kept in bf16 and the output layer computes in it", "--fp8-format"},
  {kRefused, "fp4-format=N fp4-recipe=N fp4-param-gather", "there is no fp4", "--bf16"},

  // Recomputation and offload
  {kSupported,
   "recompute-activations recompute-granularity recompute-method recompute-num-layers recompute-modules "
   "distribute-saved-activations cpu-offloading-num-layers"},
  {kRefused, "fine-grained-activation-offloading offload-modules=N... min-offloaded-tensor-size=N",
   "what a layer saves goes to host memory as a whole", "--cpu-offloading-num-layers"},

  // Data-parallel communication
  {kSupported, "use-megatron-fsdp data-parallel-sharding-strategy"},
  {kSupported, "overlap-grad-reduce overlap-param-gather"},
  {kAccepted, "overlap-param-gather-with-optimizer-step",
   "each layer's gradients are reduced, and weights gathered, while others compute"},
  {kAccepted,
   "ddp-bucket-size=N ddp-num-buckets=N ddp-pad-buckets-for-high-nccl-busbw ddp-average-in-collective "
   "megatron-fsdp-version=N fsdp-double-buffer fsdp-manual-registration suggested-communication-unit-size=N",
   "a bucket is a sub-layer's, whatever its size"},
  {kAccepted, "outer-dp-sharding-strategy=:no_shard", "optimizer instances hold the same shards",
   "--outer-dp-sharding-strategy no_shard"},
  {kAccepted,
   "megatron-fsdp-main-params-dtype=:fp32 megatron-fsdp-main-grads-dtype=:fp32 megatron-fsdp-grad-comm-dtype=:fp32",
   "master weights and gradients are f32", "fp32"},
  {kRefused, "use-torch-fsdp2 torch-fsdp2-no-reshard-after-forward", "there is no torch", "--use-megatron-fsdp"},
  {kSupported,
   "tp-comm-overlap no-tp-comm-overlap-ag no-tp-comm-overlap-rs tp-comm-overlap-rs-dgrad no-tp-comm-bulk-wgrad "
   "no-tp-comm-bulk-dgrad"},
  {kAccepted, "tp-comm-overlap-cfg=N", "gathers are cut in a piece a rank, sums in four pieces"},

  // Experts: what changes a size is an option, for --dry-run
  {kSupported,
   "num-experts moe-layer-freq moe-ffn-hidden-size moe-router-topk moe-shared-expert-intermediate-size"},
  {kAccepted,
   "moe-grouped-gemm moe-router-score-function=N moe-router-pre-softmax moe-router-topk-scaling-factor=N "
   "moe-router-dtype=N moe-router-load-balancing-type=N... moe-aux-loss-coeff=N... moe-z-loss-coeff=N "
   "moe-input-jitter-eps=N moe-router-enable-expert-bias moe-router-bias-update-rate=N moe-router-num-groups=N "
   "moe-router-group-topk=N moe-token-dispatcher-type=N moe-flex-dispatcher-backend=N moe-flex-dispatcher-num-sms=N "
   "moe-permute-fusion moe-router-fusion moe-router-padding-for-quantization moe-router-padding-for-fp8 "
   "moe-apply-probs-on-input moe-shared-expert-overlap moe-per-layer-logging moe-router-force-load-balancing "
   "moe-router-force-biased overlap-moe-expert-parallel-comm ep-overlap-early-attn-memory-release",
   "it changes no size, and experts are for --dry-run alone so far"},
  {kRefused,
   "moe-expert-capacity-factor=N moe-pad-expert-input-to-capacity moe-token-drop-policy=N "
   "moe-expert-rank-capacity-factor=N moe-shared-expert-gate moe-latent-size=N moe-use-upcycling "
   "moe-upcycling-granularity=N moe-enable-routing-replay moe-routing-trace-path=N moe-layer-recompute "
   "moe-paged-stash",
   "experts are laid out without it", "the same without it"},

  // Logging, validation, profiling
  {kSupported,
   "timing-log-level timing-log-option log-straggler tensorboard-dir tensorboard-log-interval "
   "log-interval eval-iters eval-interval full-validation multiple-validation-sets validation-set-names"},
  {kAccepted, "log-throughput", "every log line has it"},
  {kAccepted,
   "log-params-norm log-num-zeros-in-grad log-energy log-progress log-memory-interval=N "
   "no-barrier-with-level-1-timing straggler-ctrlr-port=N straggler-minmax-count=N "
   "disable-straggler-on-startup",
   "it is not measured; what is, stands in run.jsonl, a line a step"},
  {kAccepted,
   "tensorboard-queue-size=N log-timers-to-tensorboard "
   "no-log-loss-scale-to-tensorboard log-validation-ppl-to-tensorboard log-memory-to-tensorboard "
   "log-world-size-to-tensorboard wandb-project=N wandb-exp-name=N wandb-save-dir=N wandb-entity=N otel-enabled "
   "otel-service-name=N otel-span-groups=N no-one-logger one-logger-project=N one-logger-run-name=N "
   "app-tag-run-name=N app-tag-run-version=N",
   "metrics go to run.jsonl and the registry, see mt-runs(1), and all of them to --tensorboard-dir"},
  {kAccepted, "logging-level=N", "--quiet and --verbose say how much is told"},
  {kRefused,
   "start-eval-at-iter=N eval-global-batch-size=N eval-micro-batch-size=N",
   "validation starts with training and has its batch", "--eval-interval, --eval-iters, --global-batch-size"},
  {kRefused, "skip-train", "another tool scores", "mt-eval(1)"},
  {kAccepted,
   "profile profile-step-start=N profile-step-end=N profile-ranks=N... use-pytorch-profiler "
   "pytorch-profiler-collect-shapes pytorch-profiler-collect-callstack pytorch-profiler-collect-chakra "
   "record-memory-history memory-snapshot-path=N nvtx-ranges record-shapes",
   "there is no profiler inside; perf(1) sees the program, --dry-run predicts its memory"},

  // Data
  {kSupported,
   "data-path train-data-path valid-data-path test-data-path split data-args-path per-split-data-args-path "
   "mid-level-dataset-surplus data-cache-path mock-data seq-length reset-position-ids "
   "reset-attention-mask eod-mask-loss dataloader-inter-document-masking fim-data fim-rate fim-spm-rate "
   "fim-split-sample fim-fragment-rate fim-no-prefix fim-prefix-token fim-middle-token fim-suffix-token fim-pad-token "
   "fim-eod-token sft sft-tokenizer-prompt-format"},
  {kAccepted,
   "num-dataset-builder-threads=N dataloader-fast-cache-load dataloader-defer-npy-index-mmap "
   "per-dataset-sequences-path=N no-mmap-bin-files",
   "orders of samples are made once, at the speed of memory, and mapped; token files are mapped"},
  {kRefused, "object-storage-cache-path=N", "token files are on a file system", "a local copy"},
  {kAccepted, "num-workers=N", "a rank reads its samples itself"},
  {kAccepted, "dataloader-type=:single", "samples come in the order that the seed fixes; cyclic's would change with the layout",
   "--dataloader-type single"},
  {kAccepted, "no-create-attention-mask-in-dataloader allow-ambiguous-pad-tokens",
   "masks and padding are computed where they are used"},
  {kAccepted, "mask-prob=N short-seq-prob=N", "only BERT and T5 read it"},
  {kSupported,
   "tokenizer-type tokenizer-model vocab-file merge-file vocab-size tiktoken-pattern tiktoken-num-special-tokens"},
  {kRefused, "tokenizer-metadata=N null-tokenizer-eod-id=N",
   "this tokenizer's details are not there", "a tokenizer.json with --tokenizer-type HuggingFaceTokenizer"},
  {kAccepted, "vocab-extra-ids=:0", "the vocabulary is the tokenizer's", "--vocab-extra-ids 0"},

  // Inference and resilience
  {kRefused,
   "inference-max-requests=N inference-max-seq-length=N max-tokens-to-oom=N inference-dynamic-batching "
   "inference-dynamic-batching-buffer-size-gb=N inference-dynamic-batching-block-size=N "
   "inference-dynamic-batching-max-requests=N inference-dynamic-batching-max-tokens=N "
   "inference-dynamic-batching-num-cuda-graphs=N inference-dynamic-batching-prefix-caching "
   "inference-dynamic-batching-sampling-backend=N enable-chunked-prefill num-speculative-tokens=N "
   "inference-batch-times-seqlen-threshold=N inference-shards=N",
   "another tool generates", "mt-eval(1)"},
  {kAccepted, "rerun-mode=N result-rejected-tracker-filename=N error-injection-type=N error-injection-rate=:0",
   "steps repeat to the bit, so none is run again to compare", "--error-injection-rate 0"},
  {kAccepted, "enable-ft-package calc-ft-timeouts ft-num-warmup-iters=N",
   "a dead or silent rank always ends the job, named; start it again with --load-if-present"},
  {kRefused,
   "inprocess-restart inprocess-max-iterations=N inprocess-monitor-thread-interval=N "
   "inprocess-monitor-process-interval=N inprocess-progress-watchdog-interval=N inprocess-heartbeat-interval=N "
   "inprocess-heartbeat-timeout=N inprocess-soft-timeout=N inprocess-hard-timeout=N inprocess-barrier-timeout=N "
   "inprocess-completion-timeout=N inprocess-last-call-wait=N inprocess-termination-grace-time=N "
   "inprocess-granularity=N inprocess-active-world-size=N inprocess-empty-cuda-cache",
   "a job that lost a rank is started again from its last checkpoint", "--load DIR --load-if-present"},
  {kRefused,
   "fault-injector-ranks=N... fault-injector-num-ranks=N fault-injector-fault-types=N... "
   "fault-injector-fault-probabilities=N... fault-injector-fault-delay=N fault-injector-mtti-seconds=N "
   "fault-injector-offset-seconds=N fault-injector-delay-start-iteration=N fault-injector-seed=N",
   "faults are injected by the project's own drills", "kill -9 a rank"},
  {kRefused, "adlr-autoresume adlr-autoresume-interval=N", "a limit of time ends a run by itself",
   "--exit-duration-in-mins"},
  {kRefused, "run-workload-inspector-server", "there is no server inside", "mt-runs(1)"},
};

constexpr Spelling kSpellings[] = {
  {"fp8-hybrid", false, "--fp8-format hybrid"},
  {"fp8-e4m3", false, "--fp8-format e4m3"},
  {"enable-cuda-graph", false, "--cuda-graph-impl local"},
  {"external-cuda-graph", false, "--cuda-graph-impl transformer_engine"},
  {"cpu-optimizer", false, "--optimizer-cpu-offload"},
  {"use-flash-attn-v2", false, "--use-flash-attn"},
  {"use-flash-attention", false, "--use-flash-attn"},
  {"model-parallel-size", true, "--tensor-model-parallel-size"},
  {"tp", true, "--tensor-model-parallel-size"},
  {"pp", true, "--pipeline-model-parallel-size"},
  {"cp", true, "--context-parallel-size"},
  {"ep", true, "--expert-model-parallel-size"},
  {"dp", true, "--data-parallel-size"},
  {"mbs", true, "--micro-batch-size"},
  {"gbs", true, "--global-batch-size"},
  {"tensor-parallel-size", true, "--tensor-model-parallel-size"},
  {"pipeline-parallel-size", true, "--pipeline-model-parallel-size"},
  {"expert-parallel-size", true, "--expert-model-parallel-size"},
  {"batch-size", true, "--micro-batch-size"},
  {"num-key-value-heads", true, "--group-query-attention --num-query-groups"},
  {"use-rotary-position-embeddings", false, "--position-embedding-type rope"},
  {"no-position-embedding", false, "", "--position-embedding-type says what positions there are"},
  {"no-add-position-embedding", false, "", "--position-embedding-type says what positions there are"},
  {"use-rmsnorm", false, "--normalization RMSNorm"},
  {"layernorm-epsilon", true, "--norm-epsilon"},
  {"warmup", true, "--lr-warmup-fraction"},
  {"checkpoint-activations", false,
   "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
  {"distribute-checkpointed-activations", false, "--distribute-saved-activations"},
  {"no-query-key-layer-scaling", false, "", "queries and keys are not scaled by the layer"},
  {"no-async-tensor-model-parallel-allreduce", false, "", "tensor-parallel sums are waited for"},
  {"no-contiguous-buffers-in-local-ddp", false, "", "gradients are in buffers, a bucket a sub-layer"},
  {"use-contiguous-buffers-in-local-ddp", false, "", "gradients are in buffers, a bucket a sub-layer"},
  {"use-ring-exchange-p2p", false, "", "stages send to their neighbours alone"},
  {"scatter-gather-tensors-in-pipeline", false, "", "what is sent is the sequence-parallel shard"},
  {"DDP-impl", true, "", "there is one implementation of data parallelism"},
  {"data-impl", true, "", "token files are mapped into memory"},
  {"use-legacy-models", false, "", "there is one implementation of the model"},
  {"use-dist-ckpt", false, "", "checkpoints are written by all ranks together"},
  {"tensorboard-log-dir", true, "--tensorboard-dir"},
};

}  // namespace

std::span<const FlagGroup> megatron_table() { return kGroups; }
std::span<const Spelling> megatron_spellings() { return kSpellings; }

}  // namespace mt::options
