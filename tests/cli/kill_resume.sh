#!/usr/bin/env bash
# kill -9 at step 13, a new process, and the end is bitwise the end of a run nobody killed.
set -euo pipefail
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

run() { # ARGUMENTS...
  mt-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 \
    --vocab-size 61 --mock-data --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 20 --registry none \
    --log-interval 1 --save-interval 5 "$@"
}

run --save whole > whole.log 2>&1
# The fault shim kills the run where it writes the line of step 13; a build without the shim (sanitizers) kills it from
# outside, at step 13 or a little later.
line="$(grep -n -m 1 '"event":"step","iteration":13,' whole/run.jsonl | cut -d: -f1)"
[ -n "$line" ]
if [ -n "${MT_TEST_FAULT_LIB:-}" ]; then
  MT_TEST_FAULT="kill:write:$line:parts/run.jsonl" LD_PRELOAD="$MT_TEST_FAULT_LIB" \
    run --save parts > steps.log 2> parts.err && { echo "the killed run says it succeeded"; exit 1; }
  grep -q "iteration       12/" steps.log
  [ "$(grep -c '"event":"step"' parts/run.jsonl)" -eq 12 ]
  mt-ckpt list parts
else
  mkfifo steps
  run --save parts > steps 2> parts.err &
  pid=$!
  while read -r text; do
    case "$text" in
      *"iteration       13/"*) kill -9 "$pid"; break ;;
    esac
  done < steps
  wait "$pid" && { echo "the killed run says it succeeded"; exit 1; }
  mt-ckpt list parts || true  # a save may have been under way
fi
run --save parts --load parts > rest.log 2>&1
grep -q "loaded iteration" rest.log
mt-ckpt diff whole/iter_0000020 parts/iter_0000020
losses() { sed -n 's/.*"event":"step","iteration":\(1[1-9]\|20\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1" | sort -u; }
losses whole/run.jsonl > a
losses parts/run.jsonl > b
diff a b
[ "$(wc -l < b)" -eq 10 ]
