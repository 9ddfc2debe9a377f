#!/usr/bin/env bash
# The matrix of layouts over MPI:   matrix_mpi.sh RANKS | all
# Each cell is held to one rank's losses and norms within the bounds, and where a cell is named behind it, to that cell's run
# of the same class, digit for digit.
set -euo pipefail
[ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "no MPI in this build"; exit 77; }
[ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "this machine's mpiexec starts worlds of one rank"; exit 77; }
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
steps=20
[ "$1" != 8 ] || steps=6  # eight ranks take turns on a few cores

gpt=() llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights)
train() { # RANKS NAME MODEL ARGUMENTS...
  local ranks="$1" name="$2" model="$3[@]"
  shift 3
  "$MT_TEST_MPIEXEC" -n "$ranks" mt-train --num-layers 8 --hidden-size 32 --num-attention-heads 4 --group-query-attention \
    --num-query-groups 2 --seq-length 16 --max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 8 \
    --mock-data --micro-batch-size 1 --global-batch-size 16 --lr 1e-3 --lr-decay-style constant --clip-grad 0.5 \
    --log-interval 1000 --registry none --train-iters "$steps" --metrics-file "$name.jsonl" "${!model}" "$@" < /dev/null > "$name.log" 2>&1 ||
    { cat "$name.log"; exit 1; }
  # iteration, loss, norm of every step
  sed -n 's/.*"event":"step","iteration":\([0-9]*\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$name.jsonl" > "$name.steps"
}

# NAME RANKS MODEL CLASS ARGUMENTS: CLASS names an earlier cell, or is "-". A class of one rank is the reference run.
cells='
tp2            2 gpt   -        --tensor-model-parallel-size 2 --sequence-parallel
pp2            2 gpt   one-gpt  --pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 2
dp2-z3         2 llama -        --use-megatron-fsdp
dp2-z1         2 gpt   -        --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
dp4-z2-i2      4 gpt   -        --data-parallel-sharding-strategy optim_grads --num-distributed-optimizer-instances 2
tp2-dp2-z2     4 gpt   -        --tensor-model-parallel-size 2 --sequence-parallel --data-parallel-sharding-strategy optim_grads
pp2-dp2-z3     4 llama dp2-z3   --pipeline-model-parallel-size 2 --use-megatron-fsdp --pipeline-schedule zb-h1
pp4-v2         4 gpt   one-gpt  --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2
pp2-tp2-dp2-z2 8 gpt   tp2-dp2-z2 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --data-parallel-sharding-strategy optim_grads --pipeline-schedule zb-v
pp4-dp2-z3     8 llama dp2-z3   --pipeline-model-parallel-size 4 --use-megatron-fsdp --recompute-activations
pp2-dp4-z2-i2  8 gpt   dp4-z2-i2 --pipeline-model-parallel-size 2 --data-parallel-sharding-strategy optim_grads --num-distributed-optimizer-instances 2
tp4-dp2-z1     8 gpt   -        --tensor-model-parallel-size 4 --use-distributed-optimizer
'

run() { # NAME: once, with the cells it is compared with
  local name ranks model class arguments
  [ ! -e "$1.steps" ] || return 0
  case "$1" in one-*) train 1 "$1" "${1#one-}"; return ;; esac
  read -r name ranks model class arguments <<< "$(grep "^$1 " <<< "$cells")"
  run "one-$model"
  [ "$class" = - ] || run "$class"
  # shellcheck disable=SC2086
  train "$ranks" "$name" "$model" $arguments
  paste -d ' ' "one-$model.steps" "$name.steps" | awk -v name="$name" -v steps="$steps" '
    function off(a, b) { return a > b ? (a - b) / a : (b - a) / a }
    { if ($1 != $4) bad = "steps differ"
      if (off($2, $5) > loss) loss = off($2, $5)
      if (off($3, $6) > norm) norm = off($3, $6); ++n }
    END { printf "%-16s %d steps, loss %.1e, norm %.1e\n", name, n, loss, norm
          exit !(n == steps && bad == "" && loss <= 1e-5 && norm <= 1e-4) }'
  [ "$class" = - ] || cmp "$class.steps" "$name.steps"
}

case "$1" in
  2) wanted="pp2 dp2-z3" ;;
  4) wanted="dp4-z2-i2 pp2-dp2-z3 pp4-v2" ;;
  8) wanted="pp2-tp2-dp2-z2" ;;
  all) wanted="$(awk 'NF { print $1 }' <<< "$cells")" ;;
esac
for name in $wanted; do
  run "$name"
done
