#!/usr/bin/env bash
# Runs of mt-preprocess killed at every file operation, gone on with by --resume and begun anew without.
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
  [ -z "$(ls -A drill)" ] || fail "a full disk left $(ls -A drill)"
fi
echo ok
