#!/usr/bin/env bash
# A checkpoint that mt-reshard rewrote is the same start: training on from it is bitwise training on from the original.
set -euo pipefail
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

train() { # WHAT ARGUMENTS...; the log is shown only when it fails
  local log="$1.log"
  shift
  mt-train --device cpu --num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 \
    --vocab-size 67 --mock-data --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --bf16 --registry none \
    --use-checkpoint-opt-param-scheduler "$@" > "$log" 2>&1 || { cat "$log"; exit 1; }
}

train first --train-iters 3 --save first
# The initial state is also what `mt-ckpt random` writes.
train initial --train-iters 0 --save initial
mt-ckpt random --save random --hidden-size 32 --max-position-embeddings 32 --vocab-size 67 --bf16 --optimizer
mt-ckpt diff --kind weight initial random
mt-ckpt diff --kind master initial random

for layout in "2 1" "1 2" "2 2"; do
  read -r tp dp <<< "$layout"
  mt-reshard --load first --save "first-$tp-$dp" --registry none --target-tensor-parallel-size "$tp" --target-data-parallel-size "$dp"
  mt-ckpt verify "first-$tp-$dp"
  for from in first "first-$tp-$dp"; do
    train "on-$from" --train-iters 6 --load "$from" --save "on-$from-$tp-$dp" --tensor-model-parallel-size "$tp" \
      --local-ranks "$((tp * dp))"
  done
  mt-ckpt diff "on-first-$tp-$dp" "on-first-$tp-$dp-$tp-$dp"
done

# The same with what other optimizers keep, scales of fp8 moments among it.
rules=("--optimizer muon" "--use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16")
for i in 0 1; do
  # shellcheck disable=SC2086
  train "rule$i" --train-iters 3 --save "rule$i" ${rules[i]}
  mt-reshard --load "rule$i" --save "rule$i-2" --registry none --target-tensor-parallel-size 2
  mt-ckpt verify "rule$i-2"
  for from in "rule$i" "rule$i-2"; do
    # shellcheck disable=SC2086
    train "on-$from" --train-iters 5 --load "$from" --save "on-$from" --tensor-model-parallel-size 2 --local-ranks 2 ${rules[i]}
  done
  mt-ckpt diff "on-rule$i" "on-rule$i-2"
done
