#!/usr/bin/env bash
# mt-train as people run it, as far as no training is needed: dry run, refusals, missing checkpoints, a full disk.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
tiny=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --mock-data
  --vocab-size 257 --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 1e-3 --registry none)

# All clashes of a configuration at once, each with its two numbers and a neighbour; no device, no MPI, no file.
expect 3 "7 problems" mt-train --dry-run --world-size 12 --tensor-model-parallel-size 8 --num-layers 4 --hidden-size 768 \
  --num-attention-heads 12 --seq-length 1001 --max-position-embeddings 1001 --sequence-parallel --mock-data --vocab-size 1000 \
  --num-experts 6 --disable-bias-linear --expert-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --bf16 --fp16 --train-iters 10 --lr 1e-3
for words in \
  "world size 12 is not divisible by tp·cp·pp 8; try tp·cp·pp 6 or 12, or world size 8 or 16" \
  "num-attention-heads 12 is not divisible by tensor-model-parallel-size 8; try tensor-model-parallel-size 6 or 12" \
  "seq-length 1001 is not divisible by tensor-model-parallel-size (sequence parallel) 8; try tensor-model-parallel-size (sequence parallel) 7 or 11, or seq-length 1000 or 1008" \
  "world size 12 is not divisible by etp·ep·pp 32; try etp·ep·pp 12, or world size 32" \
  "num-experts 6 is not divisible by expert-model-parallel-size 4; try expert-model-parallel-size 3 or 6, or num-experts 4 or 8" \
  "num-virtual-stages-per-pipeline-rank 2 with pipeline-model-parallel-size 1" \
  "2 half precisions given, fp16 and bf16"; do
  grep -qF -- "$words" err.txt || fail "'$words' not in: $(cat err.txt)"
done
[ ! -s out.txt ] || fail "a refused run printed: $(cat out.txt)"
expect 3 "try --train-iters" mt-train --dry-run --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 4 \
  --max-position-embeddings 4 --mock-data --vocab-size 9
expect 3 "expert-tensor-parallel-size 2" mt-train --local-ranks 2 "${tiny[@]}" --expert-tensor-parallel-size 2
expect 3 "num-experts 2 is more than this program runs, 0; try --dry-run" mt-train "${tiny[@]}" --num-experts 2 --disable-bias-linear
expect 3 "expert-model-parallel-size 2 without experts; try num-experts 2" mt-train --dry-run --world-size 2 "${tiny[@]}" --expert-model-parallel-size 2
expect 3 "rank-order 'tp-dp' names 2 of 5 axes" mt-train --dry-run --world-size 2 "${tiny[@]}" --rank-order tp-dp

# A dry run that is well: 257·32 + 16·32 embedding, per layer 4 norm vectors, qkv 3·32·32 + 96, proj 32·32 + 32, and an
# MLP of 2·32·128 + 128 + 32, the last norm.
expect 0 "" mt-train --dry-run --world-size 4 --tensor-model-parallel-size 2 "${tiny[@]}"
per_layer=$((4 * 32 + 3 * 32 * 32 + 96 + 32 * 32 + 32 + 2 * 32 * 128 + 128 + 32))
says $'layout\ttp 2, cp 1, pp 1, dp 2' $'world_size\t4' "$(printf 'parameters\t%d' $((257 * 32 + 16 * 32 + 2 * per_layer + 64)))" \
  $'padded_vocab_size\t512' $'micro_batches\t2' $'group\ttp\t0,1\t2,3' $'group\tdp\t0,2\t1,3'
[ "$(grep -c '^rank' out.txt)" = 4 ] || fail "$(cat out.txt)"
expect 0 "" mt-train --dry-run --json --world-size 4 "${tiny[@]}"
grep -q '^{"layout":{"tp":1,.*"world_size":4,' out.txt || fail "$(cat out.txt)"

# Where layers do not divide: refused with what would do, or run as told; the map is printed.
expect 3 "num-layers 3 is not divisible by pp·vpp 2; try pp·vpp 1 or 3, or num-layers 2 or 4, or --pipeline-model-parallel-layout 'Ett|tL'" \
  mt-train --dry-run "${tiny[@]}" --num-layers 3 --pipeline-model-parallel-size 2
expect 0 "" mt-train --dry-run "${tiny[@]}" --num-layers 3 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 2
says $'layout\ttp 1, cp 1, pp 2, dp 1, stages Ett|tL' $'stage\t0\tpp 0\tchunk 0\tembedding, layers 0-1' \
  $'stage\t1\tpp 1\tchunk 0\tlayer 2, output'
expect 0 "stage 3: pipeline rank 1, chunk 1: layers 3-4, output" mt-train "${tiny[@]}" --num-layers 5 --local-ranks 2 \
  --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "E|tt,|t|ttL" --metrics-file split.jsonl

# The command line.
expect 2 "did you mean --hidden-size?" mt-train --hiden-size 32
expect 2 "unexpected argument 'extra'" mt-train extra
expect 2 "--lr" mt-train "${tiny[@]}" --lr fast
expect 2 "LayerNorm, RMSNorm" mt-train "${tiny[@]}" --normalization none
expect 2 "one of cpu, cuda" mt-train "${tiny[@]}" --device tpu
# Also a build with CUDA is a CPU program where there is no driver; elsewhere there is nothing to refuse.
if ! nvidia-smi > /dev/null 2>&1; then expect 7 "CUDA" mt-train "${tiny[@]}" --device cuda; fi

# Numbers that make no sense are refused with their range and the value given; nothing stands for "default" in silence.
for words in "threads 0 1 to 1024" "threads -2 1 to 1024" "exit-interval 0 1 or more" "log-interval 0 1 or more" \
  "eval-interval 0 1 or more" "eval-iters -1 0 or more" "save-interval 0 1 or more" "num-layers -3 1 or more" \
  "hidden-size 0 1 to 536870911" "micro-batch-size 0 1 or more" "tensor-model-parallel-size 0 1 or more" \
  "rotary-percent 0 0 (excluded) to 1" "adam-eps 0 above 0" "local-ranks 0 1 to 256" "world-size 0 1 or more" \
  "non-finite-limit 0 1 or more" "exit-duration-in-mins 0 above 0" "distributed-timeout-minutes 0 above 0"; do
  read -r flag value range <<< "$words"
  expect 2 "wanted $range, found $value: --$flag" mt-train "${tiny[@]}" "--$flag" "$value"
done
expect 3 "lr is not given" mt-train --dry-run "${tiny[@]/--lr/--min-lr}"

# A flag that does nothing beside the others is named, and only then.
expect 0 "" mt-train --dry-run "${tiny[@]}"
! grep -q "does nothing" err.txt || fail "$(cat err.txt)"
expect 0 "--num-query-groups does nothing without --group-query-attention" mt-train --dry-run "${tiny[@]}" --num-query-groups 2
expect 0 "--rotary-base does nothing without --position-embedding-type rope" mt-train --dry-run "${tiny[@]}" --rotary-base 1e4
expect 0 "--save-interval does nothing without --save" mt-train --dry-run "${tiny[@]}" --save-interval 5
expect 0 "--min-lr does nothing with --lr-decay-style constant" mt-train --dry-run "${tiny[@]}" --lr-decay-style constant \
  --min-lr 1e-4
expect 0 "--quiet does nothing beside --verbose" mt-train --dry-run "${tiny[@]}" --quiet --verbose
expect 0 "--split does nothing with --mock-data" mt-train --dry-run "${tiny[@]}" --split 1

# A growing batch, in the log and in what iterations mean.
expect 0 "--rampup-batch-size: lengths in iterations are counted through the growing batch, so --train-iters 6 are 19 samples" \
  mt-train "${tiny[@]}" --train-iters 6 --rampup-batch-size 2 1 6 --log-interval 1 --metrics-file ramp.jsonl
[ "$(sed -n 's/.*global batch size: *\([0-9]*\).*/\1/p' out.txt | tr '\n' ' ')" = "2 2 3 4 4 4 " ] || fail "$(cat out.txt)"
expect 3 "train-iters and train-samples exclude each other" mt-train "${tiny[@]}" --train-samples 8

# Numbers and names beyond what can be.
expect 3 "9223372036854775807 samples are more than" timeout 20 mt-train --dry-run "${tiny[@]}" \
  --rampup-batch-size 1 1 9223372036854775807
expect 3 "train-iters 9000000000000000000 of global-batch-size 4" mt-train --dry-run "${tiny[@]}" \
  --train-iters 9000000000000000000 --rampup-batch-size 2 1 6
expect 2 "9000000000000000000" mt-train --dry-run "${tiny[@]}" --vocab-size 9000000000000000000
expect 2 "wanted 1 to 2147483647" mt-train --dry-run "${tiny[@]}" --vocab-size 2147483648
expect 2 "--hidden-size" mt-train --dry-run "${tiny[@]}" --hidden-size 1000000000
expect 3 "loss-scale 1e-40 or 1 / 1e-40 is beyond f32" mt-train "${tiny[@]}" --bf16 --loss-scale 1e-40
for flag in save load trace tensorboard-dir metrics-file registry tokenizer-model data-path; do
  expect 2 ", found '': --$flag (" mt-train "${tiny[@]}" "--$flag" ""
done

# What a run says about its time.
expect 0 "the trace of 2 ranks is in trace.json" mt-train "${tiny[@]}" --local-ranks 2 --trace trace.json --tensorboard-dir tb \
  --timing-log-level 2 --log-straggler --metrics-file timed.jsonl
head -1 trace.json | grep -qx '\[' && tail -1 trace.json | grep -qx '\]' || fail "no trace: $(head -c 200 trace.json)"
grep -q '^    forward-backward \.*: ([0-9.]*, [0-9.]*)$' out.txt || fail "$(cat out.txt)"
grep -q '^straggler: compute (ms) min' out.txt || fail "$(cat out.txt)"
[ "$(ls tb | grep -c '^events.out.tfevents.')" = 1 ] || fail "$(ls tb)"
expect 0 "trace.json was an earlier run's trace and is now trace.1.json" mt-train "${tiny[@]}" --trace trace.json --metrics-file timed3.jsonl
grep -q "rank 1" trace.1.json && ! grep -q "rank 1" trace.json || fail "the earlier trace is not what it was"
for flag in metrics-file trace registry; do
  expect 3 "$flag -: it is written to a file and read again" mt-train "${tiny[@]}" "--$flag" -
done
[ ! -e ./- ] || fail "a file named -"
echo "# Notes" > notes.txt
expect 3 "what is there is no trace" mt-train "${tiny[@]}" --trace notes.txt --metrics-file timed2.jsonl
[ "$(cat notes.txt)" = "# Notes" ] || fail "notes.txt was overwritten"
# A full disk: no file may grow beyond 1 KiB. Curves and record end with a warning each, the run does not.
(trap '' XFSZ; ulimit -f 1; mt-train "${tiny[@]}" --train-iters 20 --tensorboard-dir full --metrics-file full.jsonl 2>&1 \
  || echo "status $?") | cat > said.txt
[ "$(grep -c 'tensorboard: .*nothing more is written there' said.txt)" = 1 ] || fail "$(cat said.txt)"
[ "$(grep -c 'metrics are no longer recorded' said.txt)" = 1 ] || fail "$(cat said.txt)"
grep -q 'iteration *20/ *20' said.txt && ! grep -q '^status' said.txt || fail "$(cat said.txt)"
expect 5 "no/where/t.json" mt-train "${tiny[@]}" --trace no/where/t.json --metrics-file timed2.jsonl

# Events in place of Megatron's lines.
expect 0 "" mt-train "${tiny[@]}" --local-ranks 2 --json --eval-interval 2 --eval-iters 1 --timing-log-level 1 --metrics-file json.jsonl
grep -vq '^{"event":' out.txt && fail "not objects alone: $(cat out.txt)"
for event in run step evaluation end; do
  grep -q "^{\"event\":\"$event\"" out.txt || fail "no event $event: $(cat out.txt)"
done

# A reader that goes away ends no run: it is told at the end, after the save.
(mt-train "${tiny[@]}" --train-iters 40 --log-interval 1 --save read --metrics-file read.jsonl 2> err.txt ||
  echo $? > status) | head -1 > /dev/null
[ "$(cat status)" = 5 ] || fail "status $(cat status): $(cat err.txt)"
grep -q "standard output" err.txt || fail "$(cat err.txt)"
[ "$(cat read/latest_checkpointed_iteration.txt)" = 40 ] || fail "nothing saved"
rm -rf read

# Names are bytes.
expect 0 "" mt-train "${tiny[@]}" --save $'r\xff\xfen' --metrics-file bytes.jsonl
[ -f $'r\xff\xfen/latest_checkpointed_iteration.txt' ] || fail "not saved there"

# Numbers no run can have.
expect 2 "wanted a finite number, found 'inf': --end-weight-decay" mt-train "${tiny[@]}" --end-weight-decay inf
most=9223372036854775807
expect 3 "train-samples $most is more than 9007199254740992" mt-train "${tiny[@]/--train-iters/--train-samples}" --train-samples $most

# A named checkpoint that is not there: one message, nothing written, on every rank.
expect 5 "no such checkpoint directory: nowhere" mt-train "${tiny[@]}" --load nowhere --save new --local-ranks 2
[ "$(wc -l < err.txt)" = 1 ] || fail "more than one line: $(cat err.txt)"
[ ! -e new ] || fail "a refused run made new/"
mkdir empty
expect 3 "empty" mt-train "${tiny[@]}" --load empty
for first in nowhere empty; do
  status=5; [ $first = nowhere ] || status=3
  expect $status "on a first start --load-if-present begins without one" mt-train "${tiny[@]}" --load $first --save $first
done
# Killed in its very first save: the same command line starts again, with and without --load-if-present.
mkdir -p killed/.iter_0000002.tmp
touch killed/.lock killed/.iter_0000002.tmp/data_00000.safetensors
cp -r killed again
expect 0 "ignored killed/.iter_0000002.tmp: a save that did not end" mt-train "${tiny[@]}" --load killed --load-if-present --save killed
expect 0 "" mt-train "${tiny[@]}" --save again
expect 3 "on a first start --load-if-present" mt-train "${tiny[@]}" --load "$(mkdir -p left/.iter_0000001.tmp && echo left)"
expect 0 "starting fresh" mt-train "${tiny[@]}" --load empty --load-if-present --save run
grep -q "iteration *2/ *2" out.txt || fail "$(cat out.txt)"
# A model of another program is no empty place: a run would begin from random weights without a word.
mkdir other && touch other/config.json other/model.safetensors
expect 3 "mt-ckpt convert --load other" mt-train "${tiny[@]}" --load other --load-if-present --save never
expect 3 "mt-ckpt convert --load other" mt-train "${tiny[@]}" --load other --save never
[ ! -e never ] || fail "a refused run made its directory"
expect 3 "5" mt-train "${tiny[@]}" --load run --ckpt-step 5
for content in "" abc -1 7; do
  cp -r run damaged
  printf '%s' "$content" > damaged/latest_checkpointed_iteration.txt
  expect 6 "latest_checkpointed_iteration.txt" mt-train "${tiny[@]}" --load damaged --local-ranks 2
  rm -rf damaged
done

# What cannot be read is not damage: no older one is taken in its place. A link to itself is unreadable for root too.
cp -r run unreadable
mt-ckpt random --save older --iteration 1 > /dev/null
cp -r older/iter_0000001 unreadable/
rm unreadable/iter_0000002/manifest.json
ln -s manifest.json unreadable/iter_0000002/manifest.json
expect 5 "unreadable/iter_0000002/manifest.json" mt-train "${tiny[@]}" --load unreadable --save unreadable --load-if-present
[ "$(cat unreadable/latest_checkpointed_iteration.txt)" = 2 ] || fail "the tracker moved"
expect 3 "is an iteration, not a --save directory" mt-train "${tiny[@]}" --save run/iter_0000002
# One that was moved elsewhere and linked: its --save directory is where the link is.
mkdir linked elsewhere
cp -r run/iter_0000002 elsewhere/moved && cp run/latest_checkpointed_iteration.txt linked/ && ln -s "$PWD/elsewhere/moved" linked/iter_0000002
expect 3 "(give $PWD/linked)" mt-train "${tiny[@]}" --save linked/iter_0000002
expect 0 "loaded iteration 2" mt-train "${tiny[@]}" --load linked --save linked --train-iters 3 --override-opt-param-scheduler --metrics-file linked.jsonl

# A second fresh run on the same directory, and a record that is none.
expect 3 "--load run continues it; else name another --save" mt-train "${tiny[@]}" --save run
expect 3 "another --save" mt-train "${tiny[@]}" --load empty --load-if-present --save run --local-ranks 2
# A dry run refuses what the run would, and makes nothing.
expect 3 "--load run continues it; else name another --save" mt-train --dry-run "${tiny[@]}" --save run
expect 0 "" mt-train --dry-run "${tiny[@]}" --load empty --load-if-present --save not-made
says $'start\tchecked\tstarts fresh'
[ ! -e not-made ] || fail "a dry run made its directory"
expect 0 "" mt-train --dry-run "${tiny[@]}" --load run --save run
says $'start\tchecked\tloads run/iter_0000002'
expect 0 "" mt-train --dry-run "${tiny[@]}" --load elsewhere/cluster --save run
says $'start\tnot checked\tnot looked at: elsewhere/cluster is not on this machine'
expect 3 "--lr is 0.5 here" mt-train --dry-run "${tiny[@]}" --lr 0.5 --load run
expect 3 "wanted shape" mt-train --dry-run "${tiny[@]}" --hidden-size 64 --load run
echo "# Notes" > notes.md
expect 3 "is no event file" mt-train "${tiny[@]}" --metrics-file notes.md
[ "$(cat notes.md)" = "# Notes" ] || fail "notes.md was written to"

# The model from the checkpoint; another model is refused.
expect 3 "" mt-train "${tiny[@]}" --load run --num-layers 3 --train-iters 3 --override-opt-param-scheduler
cheap=(--mock-data --seq-length 16 --global-batch-size 4 --lr 1e-3 --registry none)
expect 2 "--load DIR" mt-train "${cheap[@]}" --train-iters 3 --use-checkpoint-args
expect 0 "loaded iteration 2" mt-train "${cheap[@]}" --train-iters 3 --use-checkpoint-args --load run --override-opt-param-scheduler \
  --metrics-file more.jsonl
grep -q "iteration *3/ *3" out.txt || fail "$(cat out.txt)"
# Flags of a model that the checkpoint says do nothing, be they said to be off, and so does a vocabulary.
expect 0 "--swiglu does nothing with --use-checkpoint-args" mt-train "${cheap[@]}" --train-iters 3 --use-checkpoint-args --load run \
  --override-opt-param-scheduler --swiglu=false
expect 0 "--vocab-size does nothing to the model with --use-checkpoint-args" mt-train "${cheap[@]}" --train-iters 3 --use-checkpoint-args \
  --load run --override-opt-param-scheduler --vocab-size 99

# A vocabulary smaller than the data's is noticed.
echo '{"text": "zebra, zebra, zebra, zebra, zebra, zebra, zebra"}' > z.jsonl
mt-preprocess --input z.jsonl --output-prefix z --tokenizer-type ByteTokenizer --registry none --quiet
expect 3 "was encoded with a vocabulary of 257 (ByteTokenizer), the run has 64" mt-train \
  "${tiny[@]/--mock-data/--data-path=z_text_document}" --split 1 --vocab-size 64
# A dry run looks at the data: what is there, what it holds, and that it fits.
z=("${tiny[@]/--mock-data/--data-path=z_text_document}" --split 1)
expect 0 "" mt-train --dry-run "${z[@]}" --vocab-size 257
says $'data\tchecked\ttoken files are there, fit the vocabulary they name, and are long enough'
grep -q $'^data\ttraining\tz_text_document\tuint16\tdocuments=1\ttokens=47\t' out.txt || fail "$(grep ^data out.txt)"
expect 3 "was encoded with a vocabulary of 257" mt-train --dry-run "${z[@]}" --vocab-size 64
expect 4 "samples wanted: over 2^32" timeout 20 mt-train --dry-run "${z[@]}" --vocab-size 257 --train-iters 4611686018427
expect 5 "absent.idx" mt-train --dry-run "${z[@]}" --data-path z_text_document absent --vocab-size 257
expect 0 "" mt-train --dry-run "${tiny[@]/--mock-data/--data-path=absent}" --vocab-size 257 --json
grep -q '"data":{"checked":false,"words":"not looked at: none of 1 file is on this machine, such as absent.idx"' out.txt || fail "$(cat out.txt)"
expect 0 "" mt-train --dry-run "${tiny[@]}"
says $'data\tchecked\tmock: made up, nothing is read'
mv z_text_document.json z.json  # nothing says it now but the ids
expect 4 "the vocabulary has 64" mt-train "${tiny[@]/--mock-data/--data-path=z_text_document}" --split 1 --vocab-size 64
expect 4 "samples wanted: over 2^32" timeout 20 mt-train "${tiny[@]/--mock-data/--data-path=z_text_document}" --split 1 \
  --vocab-size 257 --train-iters 4611686018427

# Nor is another tokenizer than the one that made the data.
mv z.json z_text_document.json
expect 3 "was encoded with another tokenizer" mt-train "${tiny[@]/--mock-data/--data-path=z_text_document}" --split 1 \
  --tokenizer-type NullTokenizer --vocab-size 257

expect 5 "standard output" sh -c "mt-train ${tiny[*]} > /dev/full"
echo ok
