#!/usr/bin/env bash
# kill -9 at every file operation of a save, one after the other: the tracker names a complete checkpoint and the next
# start ends bitwise where a run that nobody killed ends.
#   kill_in_save.sh threads|mpi wait|async|local [EVERY]      over MPI one of the two ranks is killed, in turn; local:
#                                                            by way of --save-local
set -euo pipefail
ranks="$1" mode="$2" every="${3:-1}"
[ -n "${MT_TEST_FAULT_LIB:-}" ] || { echo "no fault shim in this build"; exit 77; }
if [ "$ranks" = mpi ]; then
  [ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "no MPI in this build"; exit 77; }
  [ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "this machine's mpiexec starts worlds of one rank"; exit 77; }
fi
. "$(dirname "$0")/alone.sh"
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
exec 2> noise  # the shell's words on every killed job

n=0
fail() {
  trap - ERR
  echo "FAILED at operation $n of $count: $*"
  tail -5 err noise
  find ckpt
  exit 1
}
trap 'fail "status $? at line $LINENO"' ERR
cat > rank.sh <<'RANK'
# rank.sh VICTIM FAULT COMMAND...: the fault befalls the victim's rank alone; "all": everybody
victim="$1" fault="$2"; shift 2
rank="${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}"
if [ "$victim" = all ] || [ "$victim" = "$rank" ]; then
  export MT_TEST_FAULT="$fault" MT_TEST_FAULT_LOG="operations.$rank" LD_PRELOAD="$MT_TEST_FAULT_LIB"
fi
exec "$@"
RANK
train() { # VICTIM FAULT ARGUMENTS...
  local victim="$1" fault="$2" launch=(bash) more=(--local-ranks 2)
  shift 2
  [ "$ranks" = mpi ] && launch=("$MT_TEST_MPIEXEC" -n 2 bash) more=()
  [ "$mode" = async ] && more+=(--async-save)
  [ "$mode" = local ] && more+=(--save-local "$work/fast/ckpt/")
  "${launch[@]}" rank.sh "$victim" "$fault" mt-train --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --seq-length 8 --max-position-embeddings 8 --vocab-size 61 --mock-data --micro-batch-size 1 --global-batch-size 2 \
    --lr 1e-3 --lr-decay-style constant --lr-decay-iters 1000000 --tensor-model-parallel-size 2 --registry none --log-interval 1000 \
    --metrics-file run.jsonl --save "$work/ckpt" --load "$work/ckpt" --load-if-present "${more[@]}" "$@" > out 2> err < /dev/null
}
saving=(--train-iters 3 --save-interval 2 --save-retain-interval 2)

count=0
train none - --train-iters 1
mv ckpt base
rm -rf fast
cp -r base ckpt
train all log:any:0:/ckpt/ "${saving[@]}" || fail "the run without a kill failed"
mv ckpt whole
rm -rf fast
kills=0 resumed=0
for rank in 0 1; do
  [ -f operations.$rank ] || continue
  mv operations.$rank all.$rank
  count="$(wc -l < all.$rank)"
  for ((n = 1 + rank * (every / 2); n <= count; n += every)); do
    rm -rf ckpt fast
    cp -r base ckpt
    status=0
    train "$([ "$ranks" = mpi ] && echo "$rank" || echo all)" "kill:any:$n:/ckpt/" "${saving[@]}" || status=$?
    # Threads take turns as they like; a run may have an operation less than the one that was counted.
    [ "$status" != 0 ] || [ "$n" -ge $((count - 1)) ] || fail "the killed run says it succeeded"
    [ "$status" = 0 ] || kills=$((kills + 1))
    nothing_left
    mt-ckpt verify ckpt > verify.out 2>&1 || fail "$(cat verify.out)"
    [ $((kills % 4)) = 0 ] || continue
    train none - "${saving[@]}" || fail "the next start failed"
    for i in 2 3; do
      mt-ckpt diff "whole/iter_000000$i" "ckpt/iter_000000$i" > diff.out || fail "iteration $i: $(cat diff.out)"
    done
    mt-ckpt gc ckpt > gc.out
    mt-ckpt list ckpt | grep -q 'unfinished\|incomplete' && fail "gc left something: $(mt-ckpt list ckpt)"
    resumed=$((resumed + 1))
  done
done
# A disk that fails under the write: the run ends with the status of its error, which names the file.
for fault in eio:fsync:1:data_0000 enospc:write:1:data_0000; do
  rm -rf ckpt fast
  cp -r base ckpt
  status=0
  train "$([ "$ranks" = mpi ] && echo 1 || echo all)" "$fault" "${saving[@]}" || status=$?
  [ "$status" = 5 ] || fail "$fault: status $status, wanted 5"
  grep -q "iter_0000002.tmp/data_0000[01].safetensors" err || fail "$fault: the file is not named: $(cat err)"
  nothing_left
  mt-ckpt verify ckpt > verify.out 2>&1 || fail "$(cat verify.out)"
  [ ! -e ckpt/.iter_0000002.tmp ] && [ ! -e fast/ckpt/.iter_0000002.tmp ] || fail "$fault: the unfinished save stays"
done
[ "$kills" -ge 3 ] || fail "only $kills kills"
echo "$ranks $mode: $kills kills, $resumed of them resumed bitwise"
