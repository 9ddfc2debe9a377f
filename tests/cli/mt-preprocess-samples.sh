#!/usr/bin/env bash
# mt-preprocess samples as people run it: from JSON lines to what a run reads, of every kind.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

for i in $(seq 30); do echo "{\"text\": \"document $i says $((i * i)) and more of it\"}"; done > in.jsonl
special=("<|endoftext|>" "<fim_prefix>" "<fim_middle>" "<fim_suffix>" "<fim_pad>" "<|im_start|>" "<|im_end|>")
mt-preprocess train-tokenizer --input in.jsonl --vocab-size 300 --output t.json --special-token "${special[@]}" --registry none --quiet
mt-preprocess --input in.jsonl --output-prefix c --tokenizer-model t.json --eod-token "<|endoftext|>" --append-eod --registry none --quiet
show() { mt-preprocess samples --seq-length 12 --split 1 --quiet "$@"; }

# Samples of one file lie end to end where nothing is shuffled between documents: their tokens are the file's.
show c_text_document --json --count 1000000 > all.jsonl
tokens="$(mt-preprocess info c_text_document | tail -1 | cut -f 4)"
[ "$(wc -l < all.jsonl)" = $(((tokens - 1) / 12)) ] || fail "samples: $(wc -l < all.jsonl) of $tokens tokens"
show c_text_document --json --start 5 --count 2 | cmp - <(sed -n 6,7p all.jsonl) || fail "a part is another"
show c_text_document --start 3 --count 1 --tokenizer-model t.json --text > row.tsv
[ "$(head -1 row.tsv)" = "$(printf 'sample\tdataset\ttokens\tlabels\tloss_mask\tposition_ids\tcu_seqlens\ttext')" ] || fail "$(head -1 row.tsv)"
[ "$(sed -n 4p all.jsonl | sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' | tr ',' ' ')" = "$(tail -1 row.tsv | cut -f 3)" ] || fail "table and JSON"
[ "$(tail -1 row.tsv | cut -f 1)" = 3 ] || fail "number"

# Parts of a sample: by documents of the file and by end tokens, which is the same here.
show c_text_document --json --dataloader-inter-document-masking > by_file.jsonl
show c_text_document --json --reset-attention-mask --reset-position-ids --tokenizer-model t.json > by_end.jsonl
cmp by_file.jsonl by_end.jsonl
grep -q '"cu_seqlens":\[0,[0-9]*,12\]' by_file.jsonl || fail "no sample of two documents"

# A blend draws by weight and says of which file; what a run reads first does not depend on how much is printed.
mt-preprocess --input in.jsonl --output-prefix d --tokenizer-model t.json --registry none --quiet
show 0.5 c_text_document 0.5 d_text_document --num-samples 20 --count 20 --json | grep -o '"dataset":\[[01]\]' | sort | uniq -c | grep -q '10 "dataset":\[1\]' ||
  fail "blend"
expect 3 "drawn for a number of samples: --num-samples" show 1 c_text_document 1 d_text_document
expect 2 "samples 0 to" show c_text_document --start 100000

# Fill-in-middle.
show c_text_document --dataset fim --fim-rate 1 --tokenizer-model t.json --text --json --count 5 > fim.jsonl
[ "$(grep -c '<fim_middle>' fim.jsonl)" -ge 4 ] || fail "$(cat fim.jsonl)"
show c_text_document --dataset fim --fim-rate 1 --tokenizer-model t.json --text --json --start 3 --count 1 | cmp - <(sed -n 4p fim.jsonl)
show c_text_document --dataset fim --fim-rate 0 --tokenizer-model t.json --json --count 4 | cmp - <(sed -n 1,4p all.jsonl)
expect 4 "--fim-suffix-token" show c_text_document --dataset fim --fim-suffix-token "<SUF>" --tokenizer-model t.json
expect 2 "documents move" show c_text_document --dataset fim --dataloader-inter-document-masking --tokenizer-model t.json

# Conversations.
cat > chat.jsonl << 'END'
{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}, {"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "6"}]}
{"instruction": "say", "input": "it", "output": "so"}
{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a long answer that does not fit into this"}]}
END
mt-preprocess samples chat.jsonl --dataset sft --split 1 --seq-length 60 --sft-tokenizer-prompt-format chatml --tokenizer-model t.json \
  --text --json > chat.out 2> err.txt
[ "$(wc -l < chat.out)" = 3 ] || fail "$(cat chat.out)"
grep -qF '"targets":"4<|im_end|>6<|im_end|>"' chat.out || fail "$(cat chat.out)"
grep -qF '"targets":"so<|im_end|>"' chat.out || fail "$(cat chat.out)"
grep -qF "3 conversations, 0 without an answer" err.txt || fail "$(cat err.txt)"
mt-preprocess samples chat.jsonl --dataset sft --split 1 --seq-length 12 --sft-tokenizer-prompt-format chatml --tokenizer-model t.json \
  --json --start 2 --quiet > long.out
grep -q '"dropped":\[[1-9]' long.out || fail "nothing dropped: $(cat long.out)"
expect 3 "chatml" show chat.jsonl --dataset sft --sft-tokenizer-prompt-format default --tokenizer-model t.json
echo '{"messages": [{"role": "user", "content": 5}]}' >> chat.jsonl
expect 4 "chat.jsonl:4" show chat.jsonl --dataset sft --tokenizer-model t.json
expect 2 "nothing to mask" show chat.jsonl --dataset sft --eod-mask-loss --tokenizer-model t.json

# BERT and T5, from lists of sentences.
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' one two three four five '##s' '##ty' > vocab.txt
bert=(--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt)
for i in $(seq 20); do echo '{"text": ["one twos three", "fours fivety one two", "threes one", "two fivety fours"]}'; done > lists.jsonl
mt-preprocess --input lists.jsonl --output-prefix s "${bert[@]}" --registry none --quiet
mt-preprocess samples s_text_document --dataset bert --seq-length 32 --split 1 "${bert[@]}" --quiet --json --num-samples 40 --count 40 > bert.jsonl
[ "$(wc -l < bert.jsonl)" = 40 ] || fail "$(wc -l < bert.jsonl) samples"
grep -q '"is_random":\[1\]' bert.jsonl && grep -q '"is_random":\[0\]' bert.jsonl || fail "no swaps"
mt-preprocess samples s_text_document --dataset bert --seq-length 32 --split 1 "${bert[@]}" --quiet --json --num-samples 40 --start 7 --count 1 |
  cmp - <(sed -n 8p bert.jsonl)
mt-preprocess samples s_text_document --dataset t5 --seq-length 32 --decoder-seq-length 16 --split 1 "${bert[@]}" --quiet --text > t5.tsv
grep -q '<extra_id_0>' t5.tsv || fail "no sentinel: $(cat t5.tsv)"
expect 4 "--decoder-seq-length" mt-preprocess samples s_text_document --dataset t5 --seq-length 32 --decoder-seq-length 2 --split 1 "${bert[@]}"
expect 4 "[CLS]" show c_text_document --dataset bert --tokenizer-model t.json
expect 4 "lists of strings" mt-preprocess samples c_text_document --dataset bert --seq-length 32 --split 1 "${bert[@]}"
expect 5 "" show absent
expect 2 "--seq-length" mt-preprocess samples c_text_document
echo ok
