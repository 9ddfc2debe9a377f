#!/usr/bin/env bash
# mt-preprocess as people run it: exit codes, one-line errors, killed and full at every file operation.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

encode() { mt-preprocess encode --tokenizer-type ByteTokenizer --append-eod --registry none --quiet "$@"; }

for i in $(seq 400); do echo "{\"text\": \"document $i $(printf 'x%.0s' $(seq $((i % 50))))\"}"; done > in.jsonl

# Round trip, stdin, workers.
encode --input in.jsonl --output-prefix a --workers 1
encode --input - --output-prefix b --workers 2 < in.jsonl
for ending in bin idx; do cmp "a_text_document.$ending" "b_text_document.$ending"; done
facts() { sed '/^  "made_from"/,$d; s/,$//; /^}$/d' "$1"; }  # all but which files it was made from
cmp <(facts a_text_document.json) <(facts b_text_document.json)
mt-preprocess cat a_text_document --tokenizer-type ByteTokenizer --json > back.jsonl
mt-preprocess --input back.jsonl --output-prefix c --tokenizer-type ByteTokenizer --append-eod --registry none --quiet
cmp a_text_document.bin c_text_document.bin
[ "$(mt-preprocess cat a_text_document.idx --documents 1 --tokenizer-type ByteTokenizer)" = "document 2 xx" ]
[ "$(mt-preprocess cat a_text_document --documents 0 --ids --keep-eod | tr ' ' '\n' | tail -1)" = 256 ]
[ "$(mt-preprocess info a_text_document | tail -1 | cut -f2,5)" = "$(printf '400\tuint16')" ]

# Merge equals one run over the joined text.
head -150 in.jsonl > head.jsonl
tail -250 in.jsonl > tail.jsonl
encode --input head.jsonl --output-prefix head
encode --input tail.jsonl --output-prefix tail
mt-preprocess merge --input head_text_document tail_text_document --output-prefix joined --registry none --quiet
for ending in bin idx; do cmp "a_text_document.$ending" "joined.$ending"; done
cmp <(facts a_text_document.json) <(facts joined.json)

# Refusals.
expect 5 "exists already" encode --input in.jsonl --output-prefix a
expect 5 "another process is writing this token file" flock busy_text_document.lock mt-preprocess encode --input in.jsonl \
  --tokenizer-type ByteTokenizer --registry none --output-prefix busy
expect 2 "is no escape" encode --input in.jsonl --output-prefix z --document-separator '\x'
expect 4 "plain text wants --input-format text" sh -c 'echo plain | mt-preprocess --input - --tokenizer-type ByteTokenizer \
  --registry none --output-prefix z'
# Numbers that Python reads, and Megatron with it, in fields that nobody asks for; not in the one that is wanted.
printf '{"text": "a", "n": 1e999}\n{"n": [NaN, -Infinity], "text": "a"}\n{"text": "a", "n": 123456789012345678901234567890}\n' > large.jsonl
printf '{"text": "a"}\n{"text": "a"}\n{"text": "a"}\n' > small.jsonl
expect 0 "3 records with a number that JSON has not" mt-preprocess --tokenizer-type ByteTokenizer --registry none --input large.jsonl --output-prefix large
mt-preprocess --tokenizer-type ByteTokenizer --registry none --quiet --input small.jsonl --output-prefix small
cmp large_text_document.bin small_text_document.bin && cmp large_text_document.idx small_text_document.idx
mt-preprocess train-tokenizer --input large.jsonl --output large.json --vocab-size 257 --registry none --quiet
echo '{"text": NaN}' > nan.jsonl
expect 4 "wanted a string, found number: nan.jsonl:1" encode --input nan.jsonl --output-prefix z
expect 4 "nan.jsonl:1" mt-preprocess train-tokenizer --input nan.jsonl --output z.json --registry none
echo '{"text": "a", "n": 01}' > zero.jsonl
expect 4 "zero.jsonl:1" encode --input zero.jsonl --output-prefix z
mt-preprocess train-tokenizer --input in.jsonl --output t.json --vocab-size 300 --registry t.db --quiet
[ "$(mt-runs show last --registry t.db --json | grep -c '"tool":"mt-preprocess train-tokenizer"')" = 1 ] || fail "not recorded"
expect 5 "exists already" mt-preprocess train-tokenizer --input in.jsonl --output t.json --registry none
expect 5 "another process is writing there" flock u.json.lock mt-preprocess train-tokenizer --input in.jsonl --output u.json --registry none
[ ! -e t.json.lock ] || fail "a lock stayed"
encode --input in.jsonl --output-prefix a --force
expect 2 "--input" mt-preprocess --output-prefix x
expect 2 "--output-prefix" mt-preprocess --input in.jsonl --tokenizer-type ByteTokenizer
expect 2 "--on-error skip" encode --input in.jsonl --output-prefix x --max-bad 3
expect 5 "no such directory" encode --input in.jsonl --output-prefix absent/x
expect 4 "no documents" encode --input /dev/null --input-format jsonl --output-prefix x

# Inputs survive any choice of outputs; nothing is touched by a refusal.
head -3 in.jsonl > i_text_document.json
cp i_text_document.json kept
ls > before.txt  # holds its own name
expect 2 "file the run reads" encode --force --input i_text_document.json --output-prefix i
expect 2 "file the run reads" encode --input in.jsonl --output-prefix x --on-error skip --force --rejects ./in.jsonl
expect 2 "file the run reads" encode --output-prefix i --input-format jsonl --force --input - < i_text_document.json
expect 2 "one file" encode --input in.jsonl --output-prefix x --on-error skip --rejects "$PWD/x_text_document.idx"
expect 5 "exists already" encode --input in.jsonl --output-prefix x --on-error skip --rejects kept
expect 5 "no regular file" encode --input in.jsonl --output-prefix x --on-error skip --force --rejects /dev/null
expect 2 "file the run reads" mt-preprocess train-tokenizer --input in.jsonl --output in.jsonl --force
expect 2 "file the run reads" mt-preprocess merge --input a_text_document --output-prefix a_text_document --force --registry none
expect 2 "twice" encode --input in.jsonl --output-prefix x --json-keys text text
expect 2 "--workers" encode --input in.jsonl --output-prefix x --workers 1000000
expect 2 "--workers" encode --input in.jsonl --output-prefix x --workers 0
if ! grep -qi asan < <(ldd "$(command -v mt-preprocess)"); then  # 256 stacks do not fit into 700 MB of addresses
  expect 7 "cannot start thread" sh -c 'ulimit -v 700000; exec mt-preprocess encode --tokenizer-type ByteTokenizer \
    --registry none --quiet --input in.jsonl --output-prefix x --workers 256'
fi
expect 2 "--max-bad" encode --input in.jsonl --output-prefix x --on-error skip --max-bad -5
expect 2 "--min-frequency" mt-preprocess train-tokenizer --input in.jsonl --output x.json --min-frequency -1
expect 2 "empty" mt-preprocess train-tokenizer --input in.jsonl --output x.json --special-token ""
expect 2 "twice" mt-preprocess train-tokenizer --input in.jsonl --output x.json --special-token "<s>" "<s>"
expect 4 "no text" mt-preprocess train-tokenizer --input /dev/null --input-format text --output x.json
ls | cmp - before.txt || fail "files changed: $(ls)"
cmp kept i_text_document.json
[ "$(wc -l < in.jsonl)" = 400 ] && [ -c /dev/null ] || fail "an input changed"

# Documents that are all empty: files as asked, and a warning.
printf '{"text": ""}\n{"text": ""}\n' > hollow.jsonl
expect 0 "no token in 2 documents" encode --input hollow.jsonl --output-prefix hollow
[ "$(mt-preprocess info hollow_text_document.bin | tail -1 | cut -f1,2,4)" = "$(printf 'hollow_text_document\t2\t0')" ]

# What a killed run left is removed, and said; what a living one has is not.
sleep 0 & dead=$!
wait "$dead"
touch "k_text_document.bin.tmp.$dead" "k_text_document.bin.tmp.$$"
expect 0 "removed k_text_document.bin.tmp.$dead" mt-preprocess encode --tokenizer-type ByteTokenizer --registry none \
  --input in.jsonl --output-prefix k
[ ! -e "k_text_document.bin.tmp.$dead" ] && [ -e "k_text_document.bin.tmp.$$" ] || fail "temporaries: $(ls k_*)"

cp in.jsonl damaged.idx
cp in.jsonl damaged.bin
expect 6 "MMIDIDX" mt-preprocess info damaged
printf '{"text": 5}\n' > five.jsonl
expect 4 "five.jsonl:1" encode --input five.jsonl --output-prefix x
[ "$(wc -l < err.txt)" = 1 ] || fail "more than one line: $(cat err.txt)"
ls x_* 2> /dev/null && fail "files of a failed run"
expect 5 "cannot write" sh -c 'mt-preprocess cat a_text_document --tokenizer-type ByteTokenizer > /dev/full'

# A run is recorded; one that only looks is not.
mt-preprocess --input in.jsonl --output-prefix r --tokenizer-type ByteTokenizer --quiet
[ -s mt-runs.db ] || fail "no registry"
expect 2 "mt-runs.db" mt-preprocess --input in.jsonl --output-prefix s --tokenizer-type ByteTokenizer --on-error skip \
  --rejects mt-runs.db --force

# Killed or out of space at every file operation: the final names hold nothing or everything.
if [ -n "${MT_TEST_FAULT_LIB:-}" ]; then
  mkdir drill
  MT_TEST_FAULT=log:any:0:/drill/ MT_TEST_FAULT_LOG="$work/ops.txt" LD_PRELOAD="$MT_TEST_FAULT_LIB" \
    encode --input in.jsonl --output-prefix "$work/drill/a"
  operations="$(wc -l < ops.txt)"
  [ "$operations" -ge 8 ] || fail "only $operations operations seen"
  for n in $(seq "$operations"); do
    for action in kill enospc; do
      rm -rf drill && mkdir drill
      status=0
      MT_TEST_FAULT="$action:any:$n:/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" \
        encode --input in.jsonl --output-prefix "$work/drill/a" 2> err.txt || status=$?
      if [ -e drill/a_text_document.idx ]; then
        for ending in bin idx json; do
          cmp "drill/a_text_document.$ending" "a_text_document.$ending" || fail "$action at $n left a bad pair"
        done
      elif [ "$status" = 0 ]; then
        fail "$action at operation $n: success without files"
      fi
      if [ "$action" = enospc ] && [ "$status" != 0 ]; then
        grep -qi "no space" err.txt || fail "operation $n: $(cat err.txt)"
        [ -z "$(find drill -name '*.tmp*')" ] || fail "enospc at $n left $(ls drill)"
      fi
    done
  done
  # Over an old pair: never the old index with the new tokens.
  head -7 in.jsonl > seven.jsonl
  encode --input seven.jsonl --output-prefix old
  for n in $(seq "$((operations + 2))"); do
    rm -rf drill && mkdir drill && cp old_text_document.* drill/
    MT_TEST_FAULT="kill:any:$n:/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" \
      encode --input in.jsonl --output-prefix "$work/drill/old" --force 2> err.txt || true
    [ -e drill/old_text_document.idx ] || continue
    if cmp -s drill/old_text_document.idx old_text_document.idx; then
      cmp drill/old_text_document.bin old_text_document.bin || fail "kill at $n paired the old index with new tokens"
    else
      cmp drill/old_text_document.bin a_text_document.bin || fail "kill at $n"
    fi
  done
fi
echo ok
