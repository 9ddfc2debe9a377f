#!/usr/bin/env bash
# Every schedule over 4 ranks with emulated compute: what a step took beside what the clock predicts.
#
#   tests/bench/emulated.sh BIN_DIR MPIEXEC [STEPS] [MS] [LIMIT]      6 steps counted, 25 ms an act, limit 1.05
# Two rows a schedule: ranks as threads (--local-ranks) and over MPI (none where MPIEXEC is ''). 8 micro-batches, messages of
# 512 x 128 in f32; optimizer and batches are real too, and small. The median of the steps but the first. Status 1 where a ratio is above LIMIT; status 0 else.
# Takes about 10 s a row: 3 minutes.
set -euo pipefail
export PATH="$1:$PATH"
mpiexec="${2:-}"
steps="${3:-6}" ms="${4:-25}" limit="${5:-1.05}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1

launchers=(threads)
[ -z "$mpiexec" ] || launchers+=(mpi)
bad=0
printf 'ranks\tschedule\tpredicted_ms\tmeasured_ms\tratio\tlimit\texposed\tbubble\n'
for schedule in gpipe 1f1b interleaved zb-h1 zb-h2 zb-1p zb-v dualpipe-v; do
  arguments=(--num-layers 8 --hidden-size 128 --num-attention-heads 4 --seq-length 512 --max-position-embeddings 512
    --vocab-size 512 --mock-data --micro-batch-size 1 --global-batch-size 8 --lr 1e-4 --train-iters "$((steps + 1))"
    --registry none --log-interval 1000 --pipeline-model-parallel-size 4 --pipeline-schedule "$schedule"
    --emulate-compute "$ms" --metrics-file run.jsonl --trace run.trace)
  [ "$schedule" != interleaved ] || arguments+=(--num-virtual-stages-per-pipeline-rank 2)
  for launcher in "${launchers[@]}"; do
    rm -f run.jsonl run.trace
    case "$launcher" in
      threads) mt-train --local-ranks 4 "${arguments[@]}" > log.txt 2>&1 || { cat log.txt; exit 2; } ;;
      mpi) "$mpiexec" -n 4 mt-train "${arguments[@]}" > log.txt 2>&1 || { cat log.txt; exit 2; } ;;
    esac
    predicted="$(sed -n 's/.*"predicted_step_ms":\([0-9.]*\).*/\1/p' run.jsonl)"
    measured="$(sed -n 's/.*"event":"step".*"step_s":\([0-9.e-]*\).*/\1/p' run.jsonl | tail -n +2 | sort -g |
      awk '{ v[NR] = $1 } END { printf "%.2f", 1e3 * v[int((NR + 1) / 2)] }')"
    shares="$(mt-runs trace run.trace --skip-steps 1 |
      awk -F'\t' 'NR > 1 { e += $8; b += $9; ++n } END { printf "%.3f\t%.3f", e / n, b / n }')"
    awk -v p="$predicted" -v m="$measured" -v l="$limit" -v r="$launcher" -v s="$schedule" -v sh="$shares" 'BEGIN {
      printf "%s\t%s\t%.2f\t%.2f\t%.4f\t%s\t%s\n", r, s, p, m, m / p, l, sh; exit m / p > l }' || bad=1
  done
done
exit "$bad"
