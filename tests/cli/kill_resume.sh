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
# The run is killed the moment it has printed step 13; the pipe holds it there.
mkfifo steps
run --save parts > steps 2> parts.err &
pid=$!
while read -r line; do
  case "$line" in
    *"iteration       13/"*) kill -9 "$pid"; break ;;
  esac
done < steps
wait "$pid" && { echo "the killed run says it succeeded"; exit 1; }
mt-ckpt list parts
run --save parts --load parts > rest.log 2>&1
grep -q "loaded iteration" rest.log
mt-ckpt diff whole/iter_0000020 parts/iter_0000020
losses() { sed -n 's/.*"event":"step","iteration":\(1[1-9]\|20\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1" | sort -u; }
losses whole/run.jsonl > a
losses parts/run.jsonl > b
diff a b
[ "$(wc -l < b)" -eq 10 ]
