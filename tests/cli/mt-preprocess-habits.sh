#!/usr/bin/env bash
# A Megatron user's command lines for mt-preprocess: every flag of tools/preprocess_data.py, flags of a training where some
# of them decide, and what several files and odd inputs are answered with.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
for i in $(seq 40); do echo "{\"text\": \"document $i. It has two sentences.\"}"; done > in.jsonl
encode() { mt-preprocess --input in.jsonl --tokenizer-type ByteTokenizer --registry none "$@"; }
encode --output-prefix plain --append-eod --quiet

# Taken with a line each, and the files are the same; refused with what to take instead.
expect 0 "--log-interval 100: progress shows" encode --output-prefix habits --append-eod --log-interval 100 --dataset-impl mmap --legacy-tokenizer \
  --tokenizer-hf-use-fast --trust-remote-code --make-vocab-size-divisible-by 128 --tensor-model-parallel-size 8 --rank 0 --no-pad-vocab-size \
  --padded-vocab-size 512 --vocab-extra-ids 0 --tokenizer-metadata m.json --null-tokenizer-pad-id -1 --lang english --workers 2
for flag in log-interval dataset-impl legacy-tokenizer tokenizer-hf-use-fast trust-remote-code make-vocab-size-divisible-by rank \
  tensor-model-parallel-size no-pad-vocab-size padded-vocab-size vocab-extra-ids tokenizer-metadata null-tokenizer-pad-id; do
  [ "$(grep -cE -- "--$flag( [^:]*)?: " err.txt)" = 1 ] || fail "no line for $flag: $(cat err.txt)"
done
cmp plain_text_document.bin habits_text_document.bin && cmp plain_text_document.idx habits_text_document.idx
for flags in "special-tokens a b" "tokenizer-special-tokens a" "tiktoken-special-tokens a" "tokenizer-sentencepiece-legacy" \
  "null-tokenizer-eod-id 3" "sft-tokenizer-prompt-format chatml" "tokenizer-prompt-format x" "image-tag-type x" "force-system-message" \
  "find-optimal-num-workers" "workers-to-check 1 2" "max-documents 10" "dataset-impl lazy" "vocab-extra-ids 5"; do
  # shellcheck disable=SC2086
  expect 3 "--${flags%% *} (" encode --output-prefix x --$flags
done
[ ! -e x_text_document.idx ] || fail "a refused run wrote"
# The manual names every one of them, and the table none that it does not name.
page="$(sed -e 's/\\-/-/g' "$MT_TEST_SOURCE/man/mt-preprocess.1")"
for flag in $(grep -o '^    {"[a-z-]*"' "$MT_TEST_SOURCE/cmd/mt-preprocess/megatron_habits.cc" | tr -d ' {"'); do
  grep -q -- "--$flag" <<< "$page" || fail "the manual does not name --$flag"
done
expect 2 "wanted 1 to 10000, found 1000000000" encode --output-prefix x --partitions 1000000000

# Several files: all are looked at.
cp plain_text_document.bin b.bin && cp plain_text_document.idx b.idx && cp plain_text_document.json b.json
printf 'X' | dd of=b.bin bs=1 seek=3 conv=notrunc status=none
expect 6 "2 of 3 token files cannot be told of" mt-preprocess info b absent plain_text_document --verify
grep -q "^plain_text_document.*yes$" out.txt && [ "$(wc -l < out.txt)" = 2 ] || fail "$(cat out.txt)"
[ "$(grep -c "b.bin\|absent" err.txt)" = 2 ] || fail "$(cat err.txt)"

# Sentences of a split file, a line each.
encode --output-prefix s --split-sentences --quiet
expect 0 "" mt-preprocess cat s_text_sentence --tokenizer-type ByteTokenizer --documents 0:2 --sequences
says "document 1." "It has two sentences." "document 2."
[ "$(wc -l < out.txt)" = 4 ] || fail "$(cat out.txt)"
expect 0 "" mt-preprocess cat s_text_sentence --tokenizer-type ByteTokenizer --documents 1 --sequences --json
says '{"document":1,"sequence":1,"text":"It has two sentences."}'

# A tokenizer is learned past bad records where that is asked for.
(cat in.jsonl; echo '{"text": 5}'; printf '{"text": "bad \xff byte"}\n') > bad.jsonl
expect 4 "bad.jsonl:41" mt-preprocess train-tokenizer --input bad.jsonl --output t.json --vocab-size 280 --registry none
expect 0 "left out bad.jsonl:41: key 'text': wanted a string" mt-preprocess train-tokenizer --input bad.jsonl --output t.json --vocab-size 280 \
  --registry none --on-error skip --json
grep -q '"documents":40,"skipped_records":2,"replaced_records":0' out.txt || fail "$(cat out.txt)"
expect 0 "1 record left out" mt-preprocess train-tokenizer --input bad.jsonl --output t2.json --vocab-size 280 --registry none --on-error replace --json
grep -q '"documents":41,"skipped_records":1,"replaced_records":1' out.txt || fail "$(cat out.txt)"

# Flags of a training: in a file those that decide are taken, on the command line all that are unknown are named.
echo "--num-layers 4 --hidden-size 64 --data-path plain_text_document --seq-length 16 --train-iters 4 --global-batch-size 2 --seed 7 --split 1" > run.sh
expect 0 "2 flags left aside, which samples do not depend on: --num-layers, --hidden-size" mt-preprocess samples --args-file run.sh --json --count 8
cp out.txt from_file.txt
expect 0 "" mt-preprocess samples --data-path plain_text_document --seq-length 16 --num-samples 8 --seed 7 --split 1 --json --count 8
cmp out.txt from_file.txt
expect 2 "given twice" mt-preprocess samples plain_text_document --data-path plain_text_document --seq-length 16
expect 2 "2 flags are unknown here: --num-layers, --hidden-size" mt-preprocess index --num-layers 4 --hidden-size 64 --data-path plain_text_document
expect 5 "could not be stored" mt-preprocess index --args-file run.sh --data-cache-path /proc/nowhere --registry none
! grep -q "unless --data-cache-path is given" err.txt || fail "$(cat err.txt)"

# No name is taken for a file that is none.
expect 2 "standard output is none" encode --output-prefix x --on-error skip --rejects -
expect 2 "no index of runs" mt-preprocess --input in.jsonl --tokenizer-type ByteTokenizer --output-prefix x --registry -
mkfifo p1.jsonl
cp in.jsonl p2.jsonl
expect 0 "1 left out, which is no file (p1.jsonl)" timeout 20 mt-preprocess --input 'p*.jsonl' --tokenizer-type ByteTokenizer --registry none --output-prefix fifo
printf '\xef\xbb\xbf' > bom.jsonl
expect 4 "no documents in the input" mt-preprocess --input bom.jsonl --tokenizer-type ByteTokenizer --registry none --output-prefix x
[ -z "$(ls ./*.lock 2> /dev/null)" ] || fail "locks stayed: $(ls ./*.lock)"
echo ok
