#!/usr/bin/env bash
# Emulated compute and traces as people use them: labels, refusals, a trace of a run that was killed.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
tiny=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --mock-data
  --vocab-size 257 --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 1e-3)
pp=(--pipeline-model-parallel-size 2 --emulate-compute)

# 1F1B of 2 ranks and 4 micro-batches is (m + pp − 1)(F + D + W), in a dry run and in a run.
expect 0 "" mt-train --dry-run "${tiny[@]}" "${pp[@]}" F=10,D=6,W=4 --world-size 2 --registry none
says $'emulated_step_ms\t100.0'
expect 0 "the clock predicts 30.00 ms a step" mt-train "${tiny[@]}" "${pp[@]}" 2 --local-ranks 2 --registry runs.db \
  --metrics-file run.jsonl --trace trace.json
! grep -v "emulated compute" out.txt || fail "a line that does not say it is emulated"
! grep -v '"emulated":true' run.jsonl || fail "an event that does not say it is emulated"
! grep -qE '"(loss|tflops|tokens_per_s|mfu)"' run.jsonl || fail "$(cat run.jsonl)"
expect 0 "" mt-runs list --registry runs.db
grep -q $'mt-train (emulated compute)\tdone' out.txt || fail "$(cat out.txt)"
expect 0 "" mt-runs trace trace.json
[ "$(grep -c "mt-train, emulated compute" out.txt)" = 2 ] || fail "$(cat out.txt)"
# Each rank's 2 steps of 4 micro-batches of 6 ms; sleep is never short.
awk -F '\t' 'NR > 1 && ($2 != 2 || $4 < 0.048 || $6 <= 0) { exit 1 }' out.txt || fail "$(cat out.txt)"
expect 0 "" mt-runs trace trace.json --skip-steps 1 --json
grep -q '^{"rank":1,"name":"rank 1: tp 0, dp 0, pp 1","steps":1,' out.txt || fail "$(cat out.txt)"

tiny+=(--registry none)
expect 3 "emulate-compute with save: nothing is trained; try no --save" mt-train "${tiny[@]}" --emulate-compute 1 --save s
[ ! -e s ] || fail "a refused run made s/"
expect 3 "emulate-compute with tensor-model-parallel-size above 1" mt-train "${tiny[@]}" --emulate-compute 1 \
  --tensor-model-parallel-size 2 --local-ranks 2
expect 2 "--emulate-compute: the time of an act is 'soon'" mt-train "${tiny[@]}" --emulate-compute soon
expect 2 "--emulate-compute: 'Q=1' is unknown" mt-train "${tiny[@]}" --emulate-compute F=1,Q=1
expect 2 "--emulate-compute: F is given twice" mt-train "${tiny[@]}" --emulate-compute F=1,F=2
expect 2 "--emulate-compute: F is no time" mt-train "${tiny[@]}" --emulate-compute D=1
expect 2 "its messages take what they take" mt-train "${tiny[@]}" --emulate-compute F=1,p2p=1
expect 2 "more than an hour" mt-train "${tiny[@]}" --emulate-compute 1e9

# A trace grows while the run goes: killed, it is read as far as it goes.
mt-train "${tiny[@]}" --emulate-compute 2 --train-iters 100000 --trace cut.json --metrics-file cut.jsonl > cut.txt 2>&1 &
pid=$!
for _ in $(seq 200); do
  ! grep -q '"iteration"' cut.json 2> /dev/null || break
  sleep 0.1
done
kill -9 "$pid"
wait "$pid" || true
expect 0 "cut.json has no end" mt-runs trace cut.json
awk -F '\t' 'NR > 1 && $2 < 2 { exit 1 }' out.txt || fail "$(cat out.txt)"
expect 6 "this is no trace of mt-train" mt-runs trace run.jsonl
expect 5 "cannot read the trace" mt-runs trace absent.json
expect 2 "wanted one FILE" mt-runs trace
echo ok
