#!/usr/bin/env bash
# Two ranks with one thread each against one rank with two threads: tokens/s ratios, medians of interleaved runs.
#
#   tests/bench/two_ranks.sh BIN_DIR MPIEXEC [PAIRS]
# 16 micro-batches of 4 × 256 tokens (8 a rank with dp), a GPT of 6 layers and width 512, bf16. Rows: layout, tokens/s, and
# its ratio to one rank and to plain data parallelism. A pipeline splits 4/2: the output layer weighs about two layers.
set -euo pipefail
export PATH="$1:$PATH"
mpiexec="$2"
pairs="${3:-10}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

tokens_per_s() { # NAME THREADS LAUNCHER... -- ARGUMENTS...; the median step of a run but its first
  local name="$1" threads="$2"
  shift 2
  local launch=()
  while [ "$1" != -- ]; do launch+=("$1"); shift; done
  shift
  rm -f "$name.jsonl"
  OMP_NUM_THREADS="$threads" "${launch[@]}" mt-train --num-layers 6 --hidden-size 512 --num-attention-heads 8 --seq-length 256 \
    --max-position-embeddings 256 --vocab-size 8192 --mock-data --micro-batch-size 4 --global-batch-size 64 --bf16 \
    --lr 1e-4 --train-iters 3 --attention-dropout 0 --hidden-dropout 0 --registry none --log-interval 1000 \
    --metrics-file "$name.jsonl" "$@" > "$name.log" 2>&1 || { cat "$name.log"; exit 1; }
  sed -n 's/.*"event":"step","iteration":[23],.*"tokens_per_s":\([0-9.e+]*\).*/\1/p' "$name.jsonl" | sort -g | tail -n 1
}

zero3=(--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params)
for _ in $(seq "$pairs"); do
  tokens_per_s one 2 env -- >> one.rates
  tokens_per_s dp 1 "$mpiexec" -n 2 -- >> dp.rates
  tokens_per_s tp 1 "$mpiexec" -n 2 -- --tensor-model-parallel-size 2 --sequence-parallel >> tp.rates
  tokens_per_s pp 1 "$mpiexec" -n 2 -- --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 4 >> pp.rates
  tokens_per_s zb-h1 1 "$mpiexec" -n 2 -- --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 4 \
    --pipeline-schedule zb-h1 >> zb-h1.rates
  tokens_per_s zero1 1 "$mpiexec" -n 2 -- --use-distributed-optimizer >> zero1.rates
  tokens_per_s overlap 1 "$mpiexec" -n 2 -- --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    >> overlap.rates
  tokens_per_s zero3 1 "$mpiexec" -n 2 -- "${zero3[@]}" >> zero3.rates
done
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { # LAYOUT BASE; the median over pairs, and its quartiles
  paste "$2.rates" "$1.rates" | awk '{ print $2 / $1 }' | sort -g |
    awk '{ v[NR] = $1 } END { printf "%.3f (%.3f-%.3f)", v[int((NR + 1) / 2)], v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)] }'
}
printf 'layout\ttokens_per_s\tto_one_rank\tto_dp\n'
for layout in one dp tp pp zb-h1 zero1 overlap zero3; do
  printf '%s\t%.0f\t%s\t%s\n' "$layout" "$(median "$layout.rates")" "$(ratio "$layout" one)" "$(ratio "$layout" dp)"
done
