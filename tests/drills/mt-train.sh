#!/usr/bin/env bash
# One rank of a job fails, and the person is told who, where and what; nothing stays behind.
#   mt-train.sh throw|kill|stop|term-training|term-evaluation|config|early|early-term RANKS
set -uo pipefail
drill="$1" ranks="$2"
[ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "skipped: this build has no MPI"; exit 77; }
[ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "skipped: mpiexec starts worlds of one rank"; exit 77; }
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
work="$(mktemp -d)"
job=
victim=$((ranks > 2 ? 2 : 1))
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
  --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --mock-data --vocab-size 61 --registry none
  --log-interval 1 --tensor-model-parallel-size 2 --metrics-file "$work/run.jsonl")

# Processes of this job's ranks (not their watchers): "pid rank".
rank_processes() {
  local d environment
  for d in /proc/[0-9]*; do
    [ "$(cat "$d/comm" 2> /dev/null)" = mt-train ] || continue
    environment="$( (tr '\0' '\n' < "$d/environ") 2> /dev/null)"
    grep -q "^MT_TEST_JOB=$work$" <<< "$environment" || continue
    echo "${d#/proc/} $(sed -n 's/^\(PMI\|OMPI_COMM_WORLD\|PMIX\)_RANK=//p' <<< "$environment" | head -1)"
  done
}
trap 'kill -9 $(rank_processes | cut -d" " -f1) $job 2> /dev/null; rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $drill on $ranks ranks: $1"
  echo "--- stderr"; cat "$work/err"
  echo "--- stdout"; tail -3 "$work/out"
  exit 1
}
start() {
  MT_TEST_JOB="$work" "$MT_TEST_MPIEXEC" -n "$ranks" "$MT_TEST_BIN/mt-train" "${model[@]}" "$@" \
    > "$work/out" 2> "$work/err" < /dev/null &
  job=$!
}
wait_for_step() {
  for _ in $(seq 300); do
    grep -qE "iteration +$1/" "$work/out" && return
    sleep 0.05
  done
  fail "step $1 did not come"
}
pid_of_victim() { rank_processes | awk -v r="$victim" '$2 == r { print $1; exit }'; }
# Ends within so many seconds; sets `status`.
ends_within() {
  local tenths=$(($1 * 10))
  while kill -0 "$job" 2> /dev/null; do
    tenths=$((tenths - 1))
    [ "$tenths" -gt 0 ] || fail "still running after $1 s"
    sleep 0.1
  done
  wait "$job"
  status=$?
  job=
  for _ in $(seq 50); do
    [ -n "$(rank_processes)" ] || return
    sleep 0.1
  done
  fail "ranks stay behind: $(rank_processes | tr '\n' ' ')"
}
says() { grep -qE "$1" "$work/err" || fail "stderr does not say: $1"; }
# Our first line: MPI's transport may print before anyone knows of the loss (UCX, when it reads a dead peer's memory).
first_line_says() { grep -m 1 '^mt-train' "$work/err" | grep -qE "$1" || fail "the first line of ours does not say: $1"; }
reports() { # lines of ours
  [ "$(grep -cE '^mt-train' "$work/err")" = "$1" ] || fail "$1 line(s) from mt-train wanted"
}

host="$(hostname)"
forever=(--train-iters 1000000)
case "$drill" in
  throw)
    export MT_TEST_THROW="$victim:3"
    start "${forever[@]}"
    ends_within 20
    [ "$status" = 70 ] || fail "status $status, 70 wanted"
    first_line_says "^mt-train\[$host rank $victim\]: .*thrown.*step 3, phase forward-backward"
    reports 1
    ;;
  kill)
    start "${forever[@]}"
    wait_for_step 3
    kill -9 "$(pid_of_victim)"
    ends_within 10
    [ "$status" != 0 ] || fail "status 0"
    first_line_says "^mt-train\[$host rank $victim\]: killed by signal 9.*step [0-9]+, phase [a-z-]+"
    reports 1
    ;;
  stop)
    start "${forever[@]}" --distributed-timeout-minutes 0.05
    wait_for_step 3
    kill -STOP "$(pid_of_victim)"
    ends_within 14
    [ "$status" != 0 ] || fail "status 0"
    first_line_says "^mt-train\[$host rank $victim\]: stopped by signal 19 at step [0-9]+, phase"
    says "^mt-train\[$host rank $victim\]: silent for 3 s at step [0-9]+, phase .*not entered: group [a-z-]+ [a-z_]+ number [0-9]+, where rank"
    reports 2
    ;;
  term-training)
    start "${forever[@]}" --save "$work/save"
    wait_for_step 3
    kill -TERM "$(pid_of_victim)"
    ends_within 20
    [ "$status" = 41 ] || fail "status $status, 41 wanted"
    "$MT_TEST_BIN/mt-ckpt" verify "$work/save" > /dev/null 2>> "$work/err" || fail "no complete checkpoint"
    ;;
  term-evaluation)
    # Too long to be waited for: the signal is heard between its batches, or before it begins.
    start --train-iters 1000000 --eval-interval 3 --eval-iters 100000000 --save "$work/save"
    wait_for_step 3
    kill -TERM "$(pid_of_victim)"
    ends_within 30
    [ "$status" = 41 ] || fail "status $status, 41 wanted"
    "$MT_TEST_BIN/mt-ckpt" verify "$work/save" > /dev/null 2>> "$work/err" || fail "no complete checkpoint"
    ! grep -q '"event":"evaluation"' "$work/run.jsonl" || fail "an evaluation was reported that was left"
    # At once if the signal came before step 3 was agreed on, else behind the next step.
    case "$(cat "$work/save/latest_checkpointed_iteration.txt")" in
      3 | 4) ;;
      *) fail "it should stop at step 3 or 4" ;;
    esac
    ;;
  config) # wrong on every rank, said once
    start "${forever[@]}" --seq-length 99
    ends_within 20
    [ "$status" = 3 ] || fail "status $status, 3 wanted"
    first_line_says "1 problem"
    reports 1
    ;;
  early) # one rank leaves before it has started MPI, where the others wait for it
    cat > "$work/one_wrong.sh" <<'END'
#!/bin/sh
[ "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-}}" = "$MT_TEST_VICTIM" ] && set -- "$@" --bogus
exec "$MT_TEST_TOOL" "$@"
END
    chmod +x "$work/one_wrong.sh"
    MT_TEST_VICTIM="$victim" MT_TEST_TOOL="$MT_TEST_BIN/mt-train" MT_TEST_JOB="$work" \
      "$MT_TEST_MPIEXEC" -n "$ranks" "$work/one_wrong.sh" "${model[@]}" "${forever[@]}" \
      > "$work/out" 2> "$work/err" < /dev/null &
    job=$!
    ends_within 10
    [ "$status" = 2 ] || fail "status $status, 2 wanted"
    first_line_says "unknown flag: --bogus"
    ;;
  early-term) # before the watcher stands, and before MPI does
    for wait_s in 0.01 0.02 0.03 0.05; do
      start "${forever[@]}"
      sleep "$wait_s"
      for _ in $(seq 100); do
        [ -z "$(pid_of_victim)" ] || break
        sleep 0.01
      done
      kill -TERM "$(pid_of_victim)"
      ends_within 10
      [ "$status" != 0 ] || fail "status 0"
    done
    ;;
  *) echo "no drill '$drill'"; exit 2 ;;
esac
echo "$drill on $ranks ranks: status $status"
cat "$work/err"
