#!/usr/bin/env bash
# Two ranks with one thread each against one rank with two threads: tokens/s ratios, medians of interleaved runs.
#
#   tests/bench/two_ranks.sh BIN_DIR MPIEXEC [PAIRS]
# 16 micro-batches of 4 × 256 tokens, a GPT of 6 layers and width 512, bf16. Rows: layout, tokens/s, ratio.
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

for _ in $(seq "$pairs"); do
  tokens_per_s one 2 env -- >> one.rates
  tokens_per_s dp 1 "$mpiexec" -n 2 -- >> dp.rates
  tokens_per_s tp 1 "$mpiexec" -n 2 -- --tensor-model-parallel-size 2 --sequence-parallel >> tp.rates
done
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf 'layout\ttokens_per_s\tratio\n'
for layout in one dp tp; do
  paste one.rates "$layout.rates" | awk '{ print $2 / $1 }' > ratios
  printf '%s\t%.0f\t%.3f\n' "$layout" "$(median "$layout.rates")" "$(median ratios)"
done
