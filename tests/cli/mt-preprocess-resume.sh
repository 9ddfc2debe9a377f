#!/usr/bin/env bash
# Runs of mt-preprocess killed at every file operation or stopped by a signal, gone on with by --resume, begun anew by --force.
[ -w /dev/shm ] && export TMPDIR=/dev/shm  # fsync costs nothing there
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

encode() {
  mt-preprocess encode --tokenizer-type ByteTokenizer --append-eod --registry none --quiet --journal-interval 0 \
    --json-keys text n --on-error replace --max-bad 2 --rejects "$1/rejects" --output-prefix "$1/a" --input texts "${@:2}"
}
files="a_text_document.bin a_text_document.idx a_text_document.json a_n_document.bin a_n_document.idx a_n_document.json rejects"
same() {  # DIRECTORY WORDS: holds what `whole` holds, and nothing else
  for file in $files; do cmp "$1/$file" "whole/$file" || fail "$2: $file differs"; done
  [ "$(ls -A "$1" | grep -cv "\.lock$")" = 7 ] || fail "$2 left $(ls -A "$1")"
}

mkdir texts whole
for f in 1 2 3; do
  for i in $(seq 40); do printf '{"text": "document %d \xff", "n": "%d"}\n' "$i" "$f"; done > "texts/$f.jsonl"
done
echo '{"text": bad}' >> texts/2.jsonl
gzip texts/3.jsonl
encode whole
[ "$(wc -l < whole/rejects)" = 1 ] || fail "rejects: $(cat whole/rejects)"

# Nothing to go on with, and input that cannot be read again.
mkdir fresh
mt-preprocess encode --tokenizer-type ByteTokenizer --registry none --output-prefix fresh/a --input texts --resume \
  --on-error replace --max-bad 2 2> err.txt
grep -q "no killed run to go on with" err.txt || fail "$(cat err.txt)"
expect 2 "cannot be read again" sh -c 'mt-preprocess --input - --resume --tokenizer-type ByteTokenizer --output-prefix z < /dev/null'

if [ -n "${MT_TEST_FAULT_LIB:-}" ]; then
  mkdir drill
  MT_TEST_FAULT=log:any:0:/drill/ MT_TEST_FAULT_LOG="$work/ops.txt" LD_PRELOAD="$MT_TEST_FAULT_LIB" encode "$work/drill"
  operations="$(wc -l < ops.txt)"
  [ "$operations" -ge 40 ] || fail "only $operations operations seen"
  went_on=0
  for n in $(seq "$operations"); do
    rm -rf drill && mkdir drill
    MT_TEST_FAULT="kill:any:$n:/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" encode "$work/drill" --workers 2 2> err.txt &&
      fail "operation $n did not kill"
    if [ $((n % 5)) = 0 ]; then  # without --resume: from the start, when what is at the final names lets it
      encode "$work/drill" --workers 1 --force 2> err.txt || fail "anew after $n: $(cat err.txt)"
      same drill "anew after operation $n"
      continue
    fi
    if [ $((n % 2)) = 0 ]; then  # killed once more on the way
      MT_TEST_FAULT="kill:any:$((1 + n % 13)):/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" encode "$work/drill" --resume 2> err.txt || true
    fi
    [ ! -e drill/a_text_document.idx ] || [ -e drill/a_text_document.journal ] || { same drill "operation $n"; continue; }
    encode "$work/drill" --resume --workers 3 2> err.txt || fail "going on after $n: $(cat err.txt)"
    same drill "going on after operation $n"
    went_on=$((went_on + 1))
  done
  [ "$went_on" -ge 20 ] || fail "only $went_on runs went on"
  # A full disk while going on is told and leaves nothing.
  rm -rf drill && mkdir drill
  MT_TEST_FAULT="kill:any:$((operations / 2)):/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" encode "$work/drill" 2> err.txt || true
  expect 5 "No space" env MT_TEST_FAULT="enospc:write:1+:/drill/" LD_PRELOAD="$MT_TEST_FAULT_LIB" mt-preprocess encode \
    --tokenizer-type ByteTokenizer --append-eod --registry none --quiet --journal-interval 0 --json-keys text n \
    --on-error replace --max-bad 2 --rejects "$work/drill/rejects" --output-prefix "$work/drill/a" --input texts --resume
  [ -e drill/a_text_document.journal ] || fail "a full disk left $(ls -A drill)"  # what the killed run had done is kept
  encode "$work/drill" --resume 2> err.txt || fail "after the full disk: $(cat err.txt)"
  same drill "after a full disk"
fi

# Of a finished run there is nothing to do; of another one it is said.
again() {
  mt-preprocess encode --tokenizer-type ByteTokenizer --append-eod --registry reg.db --json-keys text n --on-error replace \
    --rejects whole/rejects --output-prefix whole/a --input texts --resume "$@"
}
names="$(ls -lA --time-style=full-iso whole)"
expect 0 "already complete: 120 documents" again --max-bad 2
expect 0 "already complete" again --max-bad 2 --json --workers 3
grep -q '"already_complete":true' out.txt || fail "$(cat out.txt)"
[ "$(ls -lA --time-style=full-iso whole)" = "$names" ] && [ ! -e reg.db ] || fail "something was written: $(ls -lA whole)"
expect 3 "--token-type was uint16, is int32" again --token-type int32
touch texts/1.jsonl
expect 3 "input 1 was" again
expect 5 "exists already" mt-preprocess encode --tokenizer-type ByteTokenizer --input texts --output-prefix whole/a --on-error skip --registry none

# A signal ends a run in order: where it is is said and written down.
seq 300000 | sed 's/.*/{"text": "the same few words in line & of a file that is long enough to be stopped in"}/' > long.jsonl
slow="mt-preprocess encode --tokenizer-type ByteTokenizer --registry none --input long.jsonl --workers 1 --journal-interval 0 --output-prefix s/a"
mkdir s w
mt-preprocess encode --tokenizer-type ByteTokenizer --registry none --quiet --input long.jsonl --output-prefix w/a
for signal in TERM HUP; do
  for n in $(seq 50); do
    rm -rf s && mkdir s
    $slow 2> err.txt &
    pid=$!
    until [ -e s/a_text_document.journal ] || [ -e s/a_text_document.idx ]; do :; done
    kill -$signal $pid
    status=0
    wait $pid || status=$?
    [ "$status" = 0 ] || break
  done
  [ "$status" = $((128 + $(kill -l $signal))) ] || fail "$signal: status $status: $(cat err.txt)"
  grep -q "stopped by SIG$signal after [0-9]* documents, before long.jsonl:[0-9]*; .*--resume" err.txt || fail "$(cat err.txt)"
  cp -r s killed
  expect 5 "--resume goes on with it" $slow
  diff -r s killed || fail "the refused run touched something"
  expect 0 "going on after" $slow --resume
  for ending in bin idx; do cmp s/a_text_document.$ending w/a_text_document.$ending; done
  rm -r killed
done
# What cannot be read again is not gone on with; a pipe that gives nothing does not hold the run up.
mkdir p
expect 130 "stopped by SIGINT after" sh -c '{ head -1000 long.jsonl; sleep 20; } | timeout --preserve-status -s INT 4 \
  mt-preprocess encode --tokenizer-type ByteTokenizer --registry none --input - --output-prefix p/a'
grep -q "nothing is kept" err.txt || fail "$(cat err.txt)"
[ -z "$(ls -A p)" ] || fail "a stopped run over a pipe left $(ls -A p)"

# Records left out: the first are named, all are counted.
for i in 1 2 3 4 5 6 7 8; do printf '{"text": "a"}\n{"text": %d}\n' "$i"; done > bad.jsonl
expect 0 "left out bad.jsonl:2" mt-preprocess encode --tokenizer-type ByteTokenizer --registry none --input bad.jsonl --output-prefix p/b --on-error skip --json
[ "$(grep -c "left out bad.jsonl:" err.txt)" = 5 ] && grep -q "further records left out are counted" err.txt || fail "$(cat err.txt)"
grep -q '"skipped_records":8,.*"first_skipped":\["bad.jsonl:2' out.txt || fail "$(cat out.txt)"
echo ok
