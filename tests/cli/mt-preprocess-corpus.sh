#!/usr/bin/env bash
# mt-preprocess on whole corpora: directories and patterns, shares, Megatron's orders, sentences, statistics, merged folders.
[ -w /dev/shm ] && export TMPDIR=/dev/shm  # fsync costs nothing there
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

encode() { mt-preprocess encode --tokenizer-type ByteTokenizer --append-eod --registry none --quiet "$@"; }
# The same tokens, and the same said of them but for what they were made from.
facts() { sed '/^  "made_from"/,$d; s/,$//; /^}$/d' "$1.json"; }
same() {
  for ending in bin idx; do cmp "$1.$ending" "$2.$ending" || fail "$1 is not $2"; done
  cmp <(facts "$1") <(facts "$2") || fail "$1 is not told of as $2"
}
texts() { mt-preprocess cat "$1" --tokenizer-type ByteTokenizer; }

mkdir -p in/more
for i in $(seq 50); do echo "{\"text\": \"line $i $(printf 'x%.0s' $(seq $((i % 20))))\"}"; done > all.jsonl
head -20 all.jsonl > in/a.jsonl
sed -n 21,33p all.jsonl | gzip > in/b.json.gz
tail -n +34 all.jsonl > in/more/c.ndjson
echo "# about" > in/README.md
encode --input all.jsonl --output-prefix all

# A directory, a quoted pattern, both beside a file; what was left out is said.
mt-preprocess encode --tokenizer-type ByteTokenizer --append-eod --registry none --input in --output-prefix dir 2> err.txt
grep -q "in: 3 files, 1 left out (in/README.md)" err.txt || fail "$(cat err.txt)"
same dir_text_document all_text_document
encode --input 'in/[ab].json*' 'in/*/c.*' --output-prefix pattern
same pattern_text_document all_text_document
expect 5 "no file matches the pattern" encode --input 'in/*.txt' --output-prefix z
expect 5 "no file in it ends as" encode --input in --input-format text --output-prefix z
mkdir empty
expect 5 "no file in it ends as" encode --input empty --output-prefix z
(echo '[{"text": "a"},'; echo '{"text": "b"}]') > array.json
expect 4 "jq -c '.[]'" encode --input array.json --on-error skip --output-prefix z
expect 4 "one JSON array" sh -c 'mt-preprocess --input - --tokenizer-type ByteTokenizer --registry none --output-prefix z < array.json'
printf 'PAR1\x15\x04' > t.parquet
expect 2 "duckdb" encode --input t.parquet --output-prefix z

# Replaced characters are counted apart.
printf '{"text": "a\xff"}\n{"text": "\\ud800"}\n{"text": bad}\n' > bad.jsonl
expect 4 "bad.jsonl:3" encode --input bad.jsonl --on-error replace --output-prefix z
encode --input bad.jsonl --on-error replace --max-bad 1 --output-prefix replaced --json > out.json
grep -q '"documents":2.*"skipped_records":1,"replaced_records":2,"replaced_characters":2' out.json || fail "$(cat out.json)"
[ "$(texts replaced_text_document | tr '\n' ' ')" = $'a\xef\xbf\xbd \xef\xbf\xbd ' ] || fail "$(texts replaced_text_document)"

# Shares in order are the whole; they may run at once.
for i in 0 1 2 3; do encode --input all.jsonl --shard "$i/4" --output-prefix "share$i" & done
wait
mt-preprocess merge --input share{0,1,2,3}_text_document --output-prefix shares --registry none --quiet
same shares all_text_document
expect 2 "wanted I/N" encode --input all.jsonl --shard 1of4 --output-prefix z
expect 2 "wanted I/N" encode --input all.jsonl --shard "" --output-prefix z
expect 2 "from 0 to 3" encode --input all.jsonl --shard 4/4 --output-prefix z
expect 2 "cannot be read again" sh -c 'mt-preprocess --input - --shard 0/2 --tokenizer-type ByteTokenizer --output-prefix z < all.jsonl'

# Megatron deals lines into partitions and joins those; with --keep-sequential-samples nothing moves.
for p in 0 1 2; do awk -v p=$p 'NR % 3 == (p + 1) % 3' all.jsonl; done > dealt.jsonl
encode --input dealt.jsonl --output-prefix dealt
encode --input all.jsonl --partitions 3 --workers 2 --output-prefix partitions
same partitions_text_document dealt_text_document
encode --input all.jsonl --partitions 3 --keep-sequential-samples --output-prefix sequential
same sequential_text_document all_text_document
expect 2 "--keep-sequential-samples" encode --input all.jsonl --partitions 3 --shard 0/2 --output-prefix z

# A sequence a sentence.
printf '{"text": "Dr. No came. He left!\\n\\nEnd"}\n{"text": ""}\n' > s.jsonl
encode --input s.jsonl --split-sentences --output-prefix s
[ "$(mt-preprocess info s_text_sentence | tail -1 | cut -f2-4)" = "$(printf '2\t3\t%d' $((12 + 8 + 3 + 1)))" ] || fail "$(mt-preprocess info s_text_sentence)"
encode --input s.jsonl --split-sentences --keep-newlines --output-prefix kept
[ "$(texts kept_text_sentence)" = $'Dr. No came. He left!\n\nEnd\n' ] || [ "$(texts kept_text_sentence | head -3)" = $'Dr. No came. He left!\n\nEnd' ] || fail "$(texts kept_text_sentence)"
expect 2 "--split-sentences" encode --input s.jsonl --keep-newlines --output-prefix z

# What the corpus looks like.
encode --input all.jsonl --stats --output-prefix stats > out.txt
says $'what\tof\tvalue' $'documents\t-\t50' $'unknown_tokens\t-\t-' $'documents_of_length\t16-31\t29' $'longest_document\tall.jsonl:19\t28'
encode --input all.jsonl --stats --json --force --output-prefix stats > out.txt
grep -q '"stats":{"text_bytes":' out.txt || fail "$(cat out.txt)"

# Hashes in the .json are those of the files.
mt-preprocess info --verify all_text_document | tail -1 | grep -q "yes$" || fail "not verified"
cp all_text_document.bin t.bin && cp all_text_document.idx t.idx && cp all_text_document.json t.json
printf 'X' | dd of=t.bin bs=1 seek=3 conv=notrunc status=none
expect 6 "t.bin" mt-preprocess info --verify t
rm t.json
expect 4 "no hashes" mt-preprocess info --verify t

# A folder of token files, as Megatron's merge_datasets takes it.
mkdir parts
for i in 0 1 2 3; do mv share${i}_text_document.* parts/; done
mt-preprocess merge --input parts --output-prefix folder --registry none --quiet
same folder all_text_document
rm parts/share2_text_document.idx
expect 4 "no .idx beside it" mt-preprocess merge --input parts --output-prefix z --registry none
ls z* 2> /dev/null && fail "files of a failed run"
echo ok
