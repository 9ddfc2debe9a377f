#!/usr/bin/env bash
# kill -9 at a random moment of start, step or save, again and again in one directory: the next start always takes a
# complete checkpoint, no older than the last one seen, and the end is bitwise that of a run nobody killed.
#   kill_anywhere.sh KILLS [SEED]      every fifth run is over MPI, where one rank is killed or all of them
set -euo pipefail
. "$(dirname "$0")/alone.sh"
kills="$1" seed="${2:-$RANDOM}"
RANDOM="$seed"
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
exec 2> noise  # the shell's words on every killed job
mpi=no
[ -n "${MT_TEST_MPIEXEC:-}" ] && [ -z "${MT_TEST_MPI_BROKEN:-}" ] && mpi=yes

fail() {
  trap - ERR
  echo "FAILED with seed $seed, kill $n ($how): $*"
  tail -5 err noise
  ls -lA run
  exit 1
}
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
  --vocab-size 61 --mock-data --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --lr-decay-style constant --lr-decay-iters 1000000
  --tensor-model-parallel-size 2 --registry none --log-interval 1000000)
saves=(--save-interval 3 --save-retain-interval 30)
tracked() { cat run/latest_checkpointed_iteration.txt 2> /dev/null || echo 0; }

trap 'fail "status $? at line $LINENO"' ERR
n=0 last=0 in_start=0 how=
for ((n = 1; n <= kills; ++n)); do
  how=threads memory='' async=() launch=(mt-train --local-ranks 2)
  [ $((RANDOM % 2)) = 1 ] && async=(--async-save)
  [ "$mpi" = yes ] && [ $((n % 5)) = 0 ] && how=mpi launch=("$MT_TEST_MPIEXEC" -n 2 mt-train)
  "${launch[@]}" "${model[@]}" "${saves[@]}" "${async[@]}" --save run --load run --load-if-present \
    --train-iters 1000000 > out 2> err < /dev/null &
  job=$!
  delay=$((RANDOM % (n % 3 ? 150 : 700)))  # milliseconds; most strike in the start and the first saves
  sleep "$(printf '0.%03d' "$delay")"
  victims=("$job")
  if [ "$how" = mpi ] && [ "$MT_TEST_ALONE" = yes ]; then
    memory=memory
    # Ranks are children of their watchers; before that, or without leave to look, the launcher dies.
    mapfile -t victims < <(ps -eo pid=,ppid=,comm= | awk '$3 == "mt-train" { at[$1] = $2 } END { for (p in at) if (at[p] in at) print p }')
    [ "${#victims[@]}" -gt 0 ] || victims=("$job") memory=  # the next job that starts removes the name
    [ $((RANDOM % 2)) = 1 ] && victims=("${victims[RANDOM % ${#victims[@]}]}")
  fi
  grep -q "loaded iteration\|starting fresh" err || in_start=$((in_start + 1))
  kill -0 "$job" 2> /dev/null || fail "ended by itself"
  kill -9 "${victims[@]}" 2> /dev/null || true
  wait "$job" 2> /dev/null && fail "a killed run says it succeeded"
  nothing_left $memory
  now="$(tracked)"
  [ "$now" -ge "$last" ] || fail "the tracker went back from $last to $now"
  if [ "$now" -gt 0 ]; then mt-ckpt verify run > verify.out 2>&1 || fail "$(cat verify.out)"; fi
  last="$now"
done

how=end
[ "$last" -gt 0 ] || fail "no save in $kills runs"
mt-ckpt gc run > gc.out
mt-ckpt list run | grep -q 'unfinished\|incomplete' && fail "gc left something: $(mt-ckpt list run)"
end=$((last + 5))
mt-train --local-ranks 2 "${model[@]}" --save run --load run --train-iters "$end" > out 2> err || fail "the last start failed"
mt-train --local-ranks 2 "${model[@]}" --save whole --train-iters "$end" > out 2> err || fail "the whole run failed"
mt-ckpt diff "whole/$(printf 'iter_%07d' "$end")" "run/$(printf 'iter_%07d' "$end")" || fail "not the run nobody killed"
if [ "$mpi" = yes ]; then "$MT_TEST_MPIEXEC" -n 2 mt-train "${model[@]}" --train-iters 1 --metrics-file last.jsonl > out 2> err || fail "MPI"; fi
nothing_left memory
echo "$kills kills, $in_start of them before the first step, seed $seed: $last steps trained, resumed bitwise"
