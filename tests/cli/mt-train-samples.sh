#!/usr/bin/env bash
# mt-train on every kind of sample as people ask for it; what it reads is what mt-preprocess samples shows.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

for i in $(seq 30); do echo "{\"text\": \"document $i says $((i * i)) and more of it\"}"; done > in.jsonl
special=("<|endoftext|>" "<PRE>" "<MID>" "<SUF>" "<PAD>" "<|im_start|>" "<|im_end|>")
mt-preprocess train-tokenizer --input in.jsonl --vocab-size 300 --output t.json --special-token "${special[@]}" --registry none --quiet
mt-preprocess --input in.jsonl --output-prefix c --tokenizer-model t.json --append-eod --registry none --quiet
tiny=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --lr 1e-2
  --lr-decay-style constant --train-iters 2 --micro-batch-size 2 --global-batch-size 4 --log-interval 1 --registry none --split 1)
text=("${tiny[@]}" --data-path c_text_document)
losses() { mt-train --local-ranks 1 "$@" --json 2> err.txt | grep -o '"lm loss":[0-9.]*\|"loss":[0-9.]*'; }

losses "${text[@]}" > plain.txt
[ "$(wc -l < plain.txt)" -ge 2 ] || fail "$(cat plain.txt)"
losses "${text[@]}" --dataloader-inter-document-masking > apart.txt
cmp -s plain.txt apart.txt && fail "documents apart change nothing"
losses "${text[@]}" --reset-attention-mask --reset-position-ids | cmp - apart.txt || fail "ends part documents otherwise"
expect 0 "--reset-position-ids does nothing beside --dataloader-inter-document-masking" mt-train --local-ranks 1 "${text[@]}" \
  --dataloader-inter-document-masking --reset-position-ids

fim=(--fim-data --fim-rate 1 --fim-prefix-token "<PRE>" --fim-middle-token "<MID>" --fim-suffix-token "<SUF>" --fim-pad-token "<PAD>"
  --tokenizer-model t.json)
losses "${text[@]}" "${fim[@]}" > fim.txt
cmp -s plain.txt fim.txt && fail "fill-in-middle changes nothing"
expect 4 "--fim-middle-token" mt-train --local-ranks 1 "${text[@]}" "${fim[@]}" --fim-middle-token "<fim_middle>"
expect 3 "--tokenizer-type" mt-train --local-ranks 1 "${text[@]}" --fim-data
expect 3 "fim-data with dataloader-inter-document-masking" mt-train --local-ranks 1 "${text[@]}" "${fim[@]}" --dataloader-inter-document-masking
expect 0 "--fim-rate does nothing without --fim-data" mt-train --local-ranks 1 "${text[@]}" --fim-rate 1

for i in $(seq 8); do echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$i\"}, {\"role\": \"assistant\", \"content\": \"doc\"}]}"; done > chat.jsonl
chat=("${tiny[@]}" --seq-length 64 --max-position-embeddings 64 --sft --data-path chat.jsonl --tokenizer-type SFTTokenizer --tokenizer-model t.json --sft-tokenizer-prompt-format)
losses "${chat[@]}" identity > chat.txt
losses "${chat[@]}" chatml > chatml.txt
cmp -s chat.txt chatml.txt && fail "the format changes nothing"
losses "${chat[@]}" identity --sft-pack-lines > packed.txt
cmp -s chat.txt packed.txt && fail "packing changes nothing"
# Answers beyond the sequence are counted; a blend of chat files has a plan and a loss by file.
expect 0 "" mt-train --local-ranks 2 "${chat[@]}" identity --seq-length 2 --max-position-embeddings 2 --micro-batch-size 1
grep -q "answers cut off at the sequence length | samples: " out.txt || fail "$(cat out.txt)"
expect 4 "conversations without an answer, or answers beyond --seq-length" mt-train --local-ranks 1 "${chat[@]}" identity --seq-length 1 --max-position-embeddings 1
cp chat.jsonl chat2.jsonl
expect 0 "training set: " mt-train --local-ranks 2 "${chat[@]}" identity --data-path 0.5 chat.jsonl 0.5 chat2.jsonl
grep -q "0 chat.jsonl: 50 % of the samples, " err.txt && grep -q "loss by source | chat.jsonl: .* chat2.jsonl: " out.txt || fail "$(cat out.txt err.txt)"
expect 0 "" mt-train --dry-run "${chat[@]}" identity
grep -q $'^data\tchat.jsonl\tlines=8\tconversations=8\twithout_answer=0' out.txt || fail "$(grep ^data out.txt)"
expect 0 "the tokenizer has no token '<SPECIAL_10>'" mt-train --local-ranks 1 "${chat[@]}" nemotron-h-aligned
expect 3 "chatml" mt-train --local-ranks 1 "${chat[@]}" default
expect 3 "parted already" mt-train --local-ranks 1 "${chat[@]}" identity --reset-attention-mask
echo '{"messages": [{"role": "user", "content": "no answer"}]}' >> chat.jsonl
expect 0 "1 of 9 conversations have no answer" mt-train --local-ranks 1 "${chat[@]}" identity
echo '{"text": "plain"}' >> chat.jsonl
expect 4 "chat.jsonl:10" mt-train --local-ranks 1 "${chat[@]}" identity

mock=("${tiny[@]:0:${#tiny[@]}-2}" --mock-data --vocab-size 300)
losses "${mock[@]}" > runs.txt
losses "${mock[@]}" --mock-data-style megatron --eod-mask-loss > mock.txt
cmp -s runs.txt mock.txt && fail "the style changes nothing"
expect 0 "--mock-data-style does nothing without --mock-data" mt-train --local-ranks 1 "${text[@]}" --mock-data-style megatron
expect 2 "--mock-data-style" mt-train --local-ranks 1 "${mock[@]}" --mock-data-style other
echo ok
