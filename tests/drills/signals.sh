#!/usr/bin/env bash
# A signal to a training process: taken by a thread that computes nothing, since generated kernels use the stack pointer
# for their own ends and a handler's frame would be written over the heap.
#   signals.sh solo|threads|mpi [STORMS]
# In each way of starting: all threads but one block the signal; then STORMS runs in a row leave as promised.
set -uo pipefail
way="$1" storms="${2:-3}"
case "$way" in
  solo) launch=(env) more=() ;;
  threads) launch=(env) more=(--local-ranks 2) ;;
  mpi)
    [ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "skipped: this build has no MPI"; exit 77; }
    [ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "skipped: mpiexec starts worlds of one rank"; exit 77; }
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    launch=("$MT_TEST_MPIEXEC" -n 2) more=()
    ;;
esac
# The kernels that were seen to do it most.
export DNNL_MAX_CPU_ISA=AVX2 MT_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=2
work="$(mktemp -d)"
job=
processes() { # of ranks, not of their watchers
  local d
  for d in /proc/[0-9]*; do
    [ "$(cat "$d/comm" 2> /dev/null)" = mt-train ] || continue
    (tr '\0' '\n' < "$d/environ") 2> /dev/null | grep -q "^MT_TEST_JOB=$work$" && echo "${d#/proc/}"
  done
}
trap 'kill -9 $(processes) $job 2> /dev/null; rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $way: $1"
  tail -3 "$work/out" "$work/err"
  exit 1
}
start() {
  : > "$work/out"
  MT_TEST_JOB="$work" "${launch[@]}" "$MT_TEST_BIN/mt-train" "${more[@]}" --num-layers 2 --hidden-size 64 \
    --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 257 --mock-data \
    --global-batch-size 4 --lr 1e-3 --train-iters 1000000 --log-interval 1 --registry none \
    --metrics-file "$work/run.jsonl" > "$work/out" 2> "$work/err" < /dev/null &
  job=$!
  for _ in $(seq 600); do
    grep -qE "iteration +2/" "$work/out" && return
    sleep 0.05
  done
  fail "step 2 did not come"
}
leave_on_a_signal() {
  kill -TERM $(processes | head -1)
  wait "$job"
  [ "$?" = 41 ] || fail "41 was promised"
  job=
  grep -q "left on a signal after iteration" "$work/err" || fail "nobody says why"
}

start
for process in $(processes); do
  [ "$(ls "/proc/$process/task" | wc -l)" -ge 3 ] || fail "where are the threads of $process"
  open=0
  for task in "/proc/$process/task"/*; do
    mask="$(sed -n 's/^SigBlk:[[:space:]]*//p' "$task/status")"
    (((16#$mask >> 14 & 1) == 1)) || open=$((open + 1)) # bit n-1 is signal n; TERM is 15
  done
  [ "$open" = 1 ] || fail "$open threads of $process take TERM, one should"
done
leave_on_a_signal
for _ in $(seq "$storms"); do
  start
  leave_on_a_signal
done
