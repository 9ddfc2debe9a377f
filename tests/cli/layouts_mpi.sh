#!/usr/bin/env bash
# The same run over MPI in layouts of tp and dp: losses within 1e-5 and norms within 1e-4 relative of one rank's,
# initial weights bitwise.
set -euo pipefail
[ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "no MPI in this build"; exit 77; }
[ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "this machine's mpiexec starts worlds of one rank"; exit 77; }
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

train() { # RANKS NAME ARGUMENTS...
  local ranks="$1" name="$2"
  shift 2
  "$MT_TEST_MPIEXEC" -n "$ranks" mt-train --num-layers 4 --hidden-size 32 --num-attention-heads 4 --group-query-attention \
    --num-query-groups 2 --seq-length 16 --max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 8 \
    --mock-data --global-batch-size 16 --lr 1e-3 --lr-decay-style constant --clip-grad 0.5 --log-interval 1000 \
    --registry none --train-iters 20 "$@" > "$name.log" 2>&1 || { cat "$name.log"; exit 1; }
}

# iteration, loss, norm of every step
steps() { sed -n 's/.*"event":"step","iteration":\([0-9]*\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1"; }

train 1 one --micro-batch-size 2 --metrics-file one.jsonl
train 1 one-initial --micro-batch-size 2 --train-iters 0 --save one-initial
steps one.jsonl > one.steps
[ "$(wc -l < one.steps)" -eq 20 ]

for layout in "2 1 2 --sequence-parallel" "4 1 4 --sequence-parallel" "4 1 2" "1 2 1" "1 4 4" "2 2 2 --sequence-parallel" "2 2 1" \
  "4 1 2 --sequence-parallel --tp-comm-overlap"; do
  read -r tp dp micro sp <<< "$layout"
  name="tp$tp-dp$dp-mb$micro${sp:+-sp}"
  train "$((tp * dp))" "$name" --micro-batch-size "$micro" --tensor-model-parallel-size "$tp" $sp --metrics-file "$name.jsonl"
  steps "$name.jsonl" | paste -d ' ' one.steps - | awk -v name="$name" '
    function off(a, b) { return a > b ? (a - b) / a : (b - a) / a }
    { if ($1 != $4) bad = "steps differ"
      if (off($2, $5) > loss) loss = off($2, $5)
      if (off($3, $6) > norm) norm = off($3, $6); ++n }
    END { printf "%-20s %d steps, loss %.1e, norm %.1e\n", name, n, loss, norm
          exit !(n == 20 && bad == "" && loss <= 1e-5 && norm <= 1e-4) }'
  train "$((tp * dp))" "$name-initial" --micro-batch-size "$micro" --tensor-model-parallel-size "$tp" $sp \
    --train-iters 0 --save "$name-initial"
  mt-ckpt diff one-initial "$name-initial" > /dev/null
done
