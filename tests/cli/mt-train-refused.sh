#!/usr/bin/env bash
# What was once taken in silence, or answered with advice that does not help: a line each, with its status.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
tiny=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --mock-data
  --vocab-size 257 --micro-batch-size 1 --train-iters 3 --lr 1e-3 --registry none)
four=("${tiny[@]}" --global-batch-size 4)
full=(--recompute-granularity full --recompute-method uniform)

expect 3 "recompute-num-layers 5 is more than the 4 layers of the largest stage; try --recompute-num-layers 4" \
  mt-train --dry-run "${four[@]}" "${full[@]}" --recompute-num-layers 5
expect 3 "recompute-num-layers 3 is more than the 2 layers of the largest stage" \
  mt-train --dry-run "${four[@]}" "${full[@]}" --recompute-num-layers 3 --pipeline-model-parallel-size 2
expect 0 "" mt-train --dry-run "${four[@]}" "${full[@]}" --recompute-num-layers 3 --pipeline-model-parallel-size 2 \
  --decoder-first-pipeline-num-layers 3

expect 3 "iterations-to-skip 9 is behind the last of 3 iterations" mt-train "${four[@]}" --iterations-to-skip 2 9
expect 2 "--iterations-to-skip" mt-train "${four[@]}" --iterations-to-skip 2,x
expect 2 "--iterations-to-skip" mt-train "${four[@]}" --iterations-to-skip 0

fp8=(--bf16 --fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16)
expect 3 "num-layers-at-start-in-bf16 3 and num-layers-at-end-in-bf16 2 are more than num-layers 4" \
  mt-train --dry-run "${four[@]}" "${fp8[@]}" --num-layers-at-start-in-bf16 3 --num-layers-at-end-in-bf16 2
expect 0 "" mt-train --dry-run "${four[@]}" "${fp8[@]}" --num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 2

for flag in "moe-router-topk 2" "moe-layer-freq 2" "moe-ffn-hidden-size 64" "moe-shared-expert-intermediate-size 64"; do
  # shellcheck disable=SC2086
  expect 0 "--${flag% *} does nothing without --num-experts" mt-train --dry-run "${four[@]}" --$flag
done
expect 2 "wanted 1 to 2147483647" mt-train --dry-run "${four[@]}" --num-experts 2 --moe-ffn-hidden-size 0

sets=("${four[@]/--mock-data/--train-data-path=t}" --valid-data-path a b --full-validation --multiple-validation-sets --eval-interval 1)
expect 3 "validation-set-names: 'x' is there twice" mt-train --dry-run "${sets[@]}" --validation-set-names x x
expect 3 "validation-set-names: name 2 is empty or has a control character" mt-train --dry-run "${sets[@]}" \
  --validation-set-names x $'y\tz'
expect 3 "validation-set-names: name 1 is empty or has a control character" mt-train --dry-run "${sets[@]}" \
  --validation-set-names $'x\n' y

expect 3 "features; try kv-channels" mt-train --dry-run "${four[@]}" --kv-channels 2000000000
expect 2 "4000000000" mt-train --dry-run "${four[@]}" --num-attention-heads 4000000000
expect 2 "4000000000" mt-train --dry-run "${four[@]}" --moe-ffn-hidden-size 4000000000

expect 3 "save-retain-interval 250 without save-interval; try --save-interval 250" mt-train --dry-run "${four[@]}" \
  --save s --save-retain-interval 250
expect 3 "save-retain-interval 1000 is not a multiple of save-interval 300; try --save-retain-interval 900" \
  mt-train --dry-run "${four[@]}" --save s --save-interval 300 --save-retain-interval 1000
expect 3 "try --save-retain-interval 300" mt-train --dry-run "${four[@]}" --save s --save-interval 300 --save-retain-interval 7

# Schedules from a file: fields nobody reads, and acts that training would run as something else.
lanes() { # EXTRA; two steps of one rank
  printf 'mt-schedule\t1\nnum_micro_batches\t1\nlane\t0\t0\nforward\t0\t0%s\nbackward\t0\t0%s\n' "$1" "$1" > ./file.tsv
}
one=("${tiny[@]}" --global-batch-size 1 --pipeline-schedule ./file.tsv)
lanes ""
expect 0 "" mt-train --dry-run "${one[@]}"
lanes $'\tspeed=9'
expect 6 "'speed=9' is unknown: ./file.tsv:4" mt-train --dry-run "${one[@]}"
lanes $'\tsegments=5-3'
expect 6 "segments 5-3 end before they begin: ./file.tsv:4" mt-train --dry-run "${one[@]}"
lanes $'\tsegments=0-3'
expect 3 "the schedule has a forward of some segments, and training runs whole chunks" mt-train --dry-run "${one[@]}"
lanes $'\ttower=1'
expect 3 "a forward of another tower" mt-train --dry-run "${one[@]}"

# The batch by steps of tokens: 16 tokens a sample, 4 samples up to 128 tokens, then 2, then 8.
expect 0 "--step-batch-size-schedule: lengths in iterations are counted through the changing batch, so --train-iters 6 are 34 samples" \
  mt-train "${tiny[@]}" --train-iters 6 --step-batch-size-schedule "0:4 0.128K:2" 160:8 --log-interval 1 --metrics-file steps.jsonl
[ "$(sed -n 's/.*global batch size: *\([0-9]*\).*/\1/p' out.txt | tr '\n' ' ')" = "4 4 2 8 8 8 " ] || fail "$(cat out.txt)"
expect 3 "step-batch-size-schedule and global-batch-size exclude each other" mt-train "${four[@]}" --step-batch-size-schedule 0:4
expect 3 "step-batch-size-schedule passes 3, not divisible by micro-batch-size·data-parallel-size 2" \
  mt-train --dry-run "${tiny[@]}" --world-size 2 --step-batch-size-schedule "0:2 1K:3"
expect 3 "step-batch-size-schedule begins at 1000 tokens, not at 0; try" mt-train --dry-run "${tiny[@]}" --step-batch-size-schedule 1K:4
echo ok
