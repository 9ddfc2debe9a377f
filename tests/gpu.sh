#!/usr/bin/env bash
# Everything that wants a real GPU, as one table: are the kernels right on it, and how fast are they.
#
#   tests/gpu.sh [--build DIR] [--json FILE] [--small]
#
#   --build DIR    a build with CUDA (default: build/gpu, configured and built here for this machine's GPU)
#   --json FILE    also write what was found, one JSON object a line (default: gpu.json)
#   --small        tiny sizes and no time limits worth the name: what the tests run on the emulated device
#
# A row a check: ok, FAILED, or "not run" with the reason. Benchmarks come last, each beside the copy bandwidth and the
# matrix-product rate measured in the same run. Made for under 8 minutes on one H200 with 16 cores. Status 1 when a check
# failed, 0 else; a figure below what is wanted is printed, not a failure.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

build='' json=gpu.json small=no
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build="${2:?--build wants a folder}"; shift ;;
    --json) json="${2:?--json wants a file}"; shift ;;
    --small) small=yes ;;
    --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tests/gpu.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
  shift
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
: > "$json" || { echo "tests/gpu.sh: cannot write $json" >&2; exit 2; }
failed=0
start=$SECONDS

# row NAME RESULT WORDS
row() {
  printf '%-34s %-8s %s\n' "$1" "$2" "$3"
  printf '{"check":"%s","result":"%s","words":"%s"}\n' "$1" "$2" "${3//\"/\'}" >> "$json"
  [ "$2" != FAILED ] || failed=1
}
last_line() { tr -d '\r' < "$1" | grep -v '^[[:space:]]*$' | tail -1 | cut -c1-200; }

# check NAME SECONDS COMMAND...: ok when it ends with 0 in time.
check() {
  local name="$1" limit="$2" began=$SECONDS status=0
  shift 2
  timeout "$limit" "$@" > "$work/log" 2>&1 || status=$?
  case "$status" in
    0) row "$name" ok "$((SECONDS - began)) s; $(last_line "$work/log")" ;;
    77) row "$name" "not run" "$(last_line "$work/log")" ;;
    124) row "$name" FAILED "not done after $limit s" ;;
    *)
      row "$name" FAILED "status $status: $(grep -m1 -E 'Failure|FAILED|rror' "$work/log" | cut -c1-200)"
      tail -50 "$work/log"
      ;;
  esac
}

# A GoogleTest binary on the GPU.
tests_of() {
  local name="$1" binary="$2" limit="$3"
  shift 3
  [ -x "$binary" ] || { row "$name" "not run" "no $binary"; return; }
  check "$name" "$limit" env MT_TEST_DEVICE=cuda "$binary" --gtest_brief=1 "$@"
}

emulated=''
if [ "$small" = yes ]; then
  emulated=_emulated
  row device "not run" "emulated: figures below say nothing about a GPU"
else
  if ! command -v nvidia-smi > /dev/null || ! nvidia-smi -L > "$work/gpus" 2>&1; then
    row device "not run" "no NVIDIA driver here"
    exit 0
  fi
  row device ok "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1), $(nproc) cores"
fi
if [ -z "$build" ]; then
  build=build/gpu
  began=$SECONDS
  capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)"
  [ "$capability" != 90 ] || capability=90a
  if cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMT_CUDA=ON "-DMT_CUDA_ARCHITECTURES=$capability" > "$work/log" 2>&1 &&
    cmake --build "$build" --target test_device test_ops test_comm test_nn test_train bench_gpu mt-train >> "$work/log" 2>&1; then
    row build ok "$((SECONDS - began)) s for sm_$capability"
  else
    row build FAILED "$(grep -m1 -E 'error|Error' "$work/log" | cut -c1-200)"
    exit 1
  fi
fi
build="$(cd "$build" && pwd)"

# ---- right? ----------------------------------------------------------------------------------------------------------
tests_of "device, streams, memory" "$build/tests/test_device$emulated" 120
if [ "$small" = yes ]; then tests_of "ops: some cases" "$build/tests/test_ops$emulated" 300 --gtest_filter='Fp8.*:Rotary.*'
else tests_of "ops: all cases, and CPU's bits" "$build/tests/test_ops$emulated" 180; fi
# What skips itself has not run.
if [ ! -x "$build/tests/test_ops$emulated" ]; then row "cuDNN attention" "not run" "no test_ops"
else
  check "cuDNN attention" 120 env MT_TEST_DEVICE=cuda bash -c '"$0" --gtest_filter="CudnnAttention.ForwardIsRight:CudnnAttention.B*" | tee "$1"
    ! grep -q SKIPPED "$1" || { grep -m1 "attention is" "$1"; exit 77; }' "$build/tests/test_ops$emulated" "$work/cudnn"
fi
[ "$small" = yes ] || tests_of "messages through the host" "$build/tests/test_comm$emulated" 60 --gtest_filter='Staged.*:*/staged*'
if [ "$small" = yes ]; then tests_of "NCCL" "$build/tests/test_comm$emulated" 120 --gtest_filter='Nccl*:*/nccl*'
elif [ "$(nvidia-smi -L | wc -l)" -lt 2 ]; then row "NCCL" "not run" "one GPU here, NCCL needs one a rank"
else tests_of "NCCL" "$build/tests/test_comm" 120 --gtest_filter='Nccl*:*/nccl*'; fi
[ "$small" = yes ] || tests_of "layers against the oracles" "$build/tests/test_nn$emulated" 120
[ "$small" = yes ] || tests_of "training: layouts, resume" "$build/tests/test_train$emulated" 180 --gtest_filter='*Device*'

train="$build/bin/mt-train"
[ "$small" = no ] || train="$build/emulated-cuda/mt-train"
model=(--num-layers 2 --hidden-size 128 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64
  --vocab-size 256 --mock-data --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --registry none --log-interval 1)

trained() { "$train" --device cuda "${model[@]}" "$@"; }
if [ ! -x "$train" ]; then
  row "short training run" "not run" "no $train"
elif ! trained --train-iters 2 > "$work/log" 2>&1; then
  row "short training run" "not run" "mt-train --device cuda: $(last_line "$work/log")"
else
  row "short training run" ok "$(last_line "$work/log")"
  sanitizer="$(command -v compute-sanitizer || true)"
  if [ -z "$sanitizer" ]; then row "compute-sanitizer" "not run" "no compute-sanitizer here"
  else
    for tool in memcheck racecheck; do
      check "compute-sanitizer $tool" 120 "$sanitizer" --tool "$tool" --error-exitcode 3 "$train" --device cuda \
        "${model[@]}" --train-iters 1
    done
  fi
  run() { # NAME ARGUMENTS...: its losses in $work/NAME.losses
    local name="$1"
    shift
    (cd "$work" && "$train" "${model[@]}" --train-iters 4 --metrics-file "$name.jsonl" "$@") > "$work/log" 2>&1 || return
    sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$work/$name.jsonl" > "$work/$name.losses"
  }
  # same NAME ONE OTHER BOUND: the last losses of two runs, as far as sums in another order allow.
  same() {
    local worst
    worst="$(paste <(tail -2 "$work/$2.losses") <(tail -2 "$work/$3.losses") |
      awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > m) m = d; n += NF == 2 } END { print n == 2 ? m + 0 : "nan" }')"
    if awk -v w="$worst" -v b="$4" 'BEGIN { exit !(w != "nan" && w + 0 <= b) }'; then row "$1" ok "losses differ by $worst"
    else row "$1" FAILED "losses differ by $worst, allowed $4"; fi
  }
  runs() { # NAME ROW ARGUMENTS...
    local name="$1" words="$2"
    shift 2
    run "$name" "$@" && return
    row "$words" "not run" "$(last_line "$work/log")"
    return 1
  }
  if runs cpu "CPU and GPU" --device cpu && runs gpu "CPU and GPU" --device cuda; then
    same "CPU and GPU" cpu gpu 1e-4
    runs half "resume on the GPU" --device cpu --save half --exit-interval 2 &&
      runs later "resume on the GPU" --device cuda --load half && same "resume on the GPU of a CPU's run" cpu later 1e-4
    runs tp "2 ranks, tensors split" --device cuda --local-ranks 2 --tensor-model-parallel-size 2 --sequence-parallel &&
      same "2 ranks, tensors split" gpu tp 1e-4
    runs zero "4 ranks, ZeRO" --device cuda --local-ranks 4 --use-distributed-optimizer && same "4 ranks, ZeRO" gpu zero 1e-4
    runs pp "2 ranks, pipeline" --device cuda --local-ranks 2 --pipeline-model-parallel-size 2 &&
      same "2 ranks, pipeline" gpu pp 1e-4
    # These promise the same bits.
    runs state "optimizer in host memory" --device cuda --optimizer-cpu-offload && same "optimizer in host memory" gpu state 0
    runs saved "activations in host memory" --device cuda --cpu-offloading-num-layers 1 &&
      same "activations in host memory" gpu saved 0
    runs graphs "CUDA graphs" --device cuda --cuda-graph-impl local --cuda-graph-warmup-steps 1 && same "CUDA graphs" gpu graphs 0
  fi
fi

# ---- fast? -----------------------------------------------------------------------------------------------------------
bench="$build/tests/bench_gpu$emulated"
[ -x "$bench" ] || bench="$build/bin/bench_gpu$emulated"
arguments=(--json "$work/bench.json")
[ "$small" = no ] || arguments+=(--small)
if [ ! -x "$bench" ]; then row "benchmarks of ops" "not run" "no bench_gpu in $build"
elif timeout 240 "$bench" "${arguments[@]}"; then
  cat "$work/bench.json" >> "$json"
  row "benchmarks of ops" ok "above"
else row "benchmarks of ops" FAILED "bench_gpu ended with $?"; fi
# speed NAME MUST AIM ARGUMENTS...: model FLOP a second, causal, over what an H200 claims for bf16 (989 TFLOP/s).
speed() {
  local name="$1" must="$2" aim="$3"
  shift 3
  if [ "$small" = yes ]; then row "$name" "not run" "emulated"; return; fi
  if [ ! -x "$train" ]; then row "$name" "not run" "no $train"; return; fi
  measured=""
  if ! (cd "$work" && timeout 90 "$train" --device cuda --bf16 --mock-data --registry none --log-interval 1 --lr 1e-4 \
    --train-iters 12 --metrics-file speed.jsonl "$@") > "$work/log" 2>&1; then
    row "$name" "not run" "$(last_line "$work/log")"
    return
  fi
  measured="$(sed -n 's/.*"tflops":\([0-9.]*\).*/\1/p' "$work/speed.jsonl" | tail -8 | sort -g | awk '
    { v[NR] = $1 } END { printf "%.2f", v[int((NR + 1) / 2)] / 9.89 }')"
  row "$name" ok "$(awk -v s="$measured" -v m="$must" -v a="$aim" 'BEGIN {
      printf "%.0f TFLOP/s, %.1f %% of 989 (must %.1f, aim %.1f)%s", s * 9.89, s, m, a, s < m ? ": below" : "" }')"
  rm -f "$work/speed.jsonl"
}
speed "GPT-2 124M" 38 45 --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
  --max-position-embeddings 1024 --vocab-size 50304 --micro-batch-size 32 --global-batch-size 32
speed "GPT-2 1.5B" 46 52 --num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 \
  --max-position-embeddings 1024 --vocab-size 50304 --micro-batch-size 16 --global-batch-size 16
llama=(--num-layers 24 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 --seq-length 4096
  --max-position-embeddings 4096 --vocab-size 32000 --position-embedding-type rope --normalization RMSNorm --swiglu
  --disable-bias-linear --untie-embeddings-and-output-weights --micro-batch-size 4 --global-batch-size 4)
speed "LLaMA shape 1.3B at 4096" 50 55 "${llama[@]}"
# The same in fp8: 1.25 times what bf16 has just reached.
wanted="$(awk -v s="${measured:-0}" 'BEGIN { print 1.25 * s }')"
for recipe in tensorwise delayed blockwise; do
  speed "LLaMA shape, fp8 $recipe" "$wanted" "$wanted" "${llama[@]}" --fp8-format hybrid --fp8-recipe "$recipe"
done
speed "LLaMA shape, autotuned" "$(awk -v w="$wanted" 'BEGIN { print w / 1.25 }')" 55 "${llama[@]}" --cuda-gemm-autotune 8
# Dropout keeps attention from cuDNN.
for whose in flash fused; do
  speed "LLaMA shape, attention $whose" 50 55 "${llama[@]}" --attention-dropout 0 --hidden-dropout 0 --attention-backend "$whose"
done
row "all" "$([ "$failed" = 0 ] && echo ok || echo FAILED)" "$((SECONDS - start)) s; $json"
exit "$failed"
