#!/usr/bin/env bash
# mt-eval as people run it: what it counts, determinism, layouts, refusals.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
value() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "${2:-out.txt}"; }
# close A B: equal to 1e-5 relative
close() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-5 * (b < 0 ? -b : b)) }' || fail "$1 is not $2"; }

model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 32 --global-batch-size 4
  --train-iters 6 --lr 1e-2 --registry none --quiet)
printf '{"text": "abc abd"}\n{"text": "b"}\n{"text": "caf\xc3\xa9"}\n' > in.jsonl
mt-preprocess --input in.jsonl --output-prefix in --tokenizer-type ByteTokenizer --append-eod --registry none --quiet
mt-train "${model[@]}" --data-path in_text_document --split 1 --save run > train.txt
bytes=(--tokenizer-type ByteTokenizer --registry none)

# 13 bytes and 4 words in 3 documents, behind an end token each; the token file gives the same.
expect 0 "" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --json
cp out.txt text.txt
[ "$(value documents) $(value tokens) $(value words) $(value bytes) $(value unscored_tokens)" = "3 13 4 13 0" ] || fail "$(cat out.txt)"
close "$(value token_ppl)" "$(awk -v n="$(value nll)" 'BEGIN { printf "%.17g", exp(n / 13) }')"
close "$(value word_ppl)" "$(awk -v n="$(value nll)" 'BEGIN { printf "%.17g", exp(n / 4) }')"
close "$(value bits_per_byte)" "$(awk -v n="$(value nll)" 'BEGIN { printf "%.17g", n / (13 * log(2)) }')"
expect 0 "" mt-eval ppl --load run/iter_0000006 --data-path in_text_document --registry none --json
[ "$(value tokens) $(value nll)" = "13 $(value nll text.txt)" ] || fail "$(cat out.txt)"

[ -z "$(value words)$(value bytes)" ] || fail "nothing was counted: $(cat out.txt)"
expect 0 "" mt-eval ppl --load run --data-path in_text_document --registry e.db
says $'words\t-' $'bytes\t-'
mt-runs show last --registry e.db | grep -q '^evaluation.*"token_ppl"' || fail "not recorded"
mt-runs compare last last --registry e.db | grep -q '^evaluation perplexity token_ppl' || fail "not compared"
# Ids of another tokenizer: the set, and a blend.
echo '{"text": "1 2 3"}' > ids.jsonl
mt-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 257 --append-eod --registry none --quiet
expect 3 "made with another tokenizer" mt-eval ppl --load run --data-path ids_text_document --registry none
expect 3 "were made by different tokenizers" mt-train "${model[@]}" --data-path in_text_document ids_text_document --split 1 --vocab-size 300
expect 4 "--json-key names the field" sh -c "echo '{\"body\": \"a\"}' | mt-eval ppl --load run --input - ${bytes[*]}"

# Standard input, plain text, the same on two ranks of either kind and with small windows the same tokens.
printf 'abc abd' > plain.txt
expect 0 "" sh -c "mt-eval ppl --load run --input - --input-format text ${bytes[*]} --json < plain.txt"
one="$(value nll)"
expect 0 "" mt-eval ppl --load run --input plain.txt "${bytes[@]}" --json --local-ranks 2 --tensor-model-parallel-size 2
close "$(value nll)" "$one"
expect 0 "" mt-eval ppl --load run --input plain.txt plain.txt plain.txt plain.txt plain.txt "${bytes[@]}" --json --local-ranks 2
close "$(value nll)" "$(awk -v n="$one" 'BEGIN { printf "%.17g", 5 * n }')"
expect 0 "" mt-eval ppl --load run --input plain.txt "${bytes[@]}" --json --window 3 --stride 2
[ "$(value tokens) $(value windows) $(value window) $(value stride)" = "7 3 3 2" ] || fail "$(cat out.txt)"

# A window is no longer than the longest document, nor a micro-batch than what there is.
expect 0 "" mt-eval ppl --load run --input plain.txt "${bytes[@]}" --json --window 32 --stride 9 --micro-batch-size 4096
[ "$(value tokens) $(value windows) $(value window) $(value stride)" = "7 1 7 7" ] || fail "$(cat out.txt)"
close "$(value nll)" "$one"

# The same command gives the same text: again, with other threads, on two ranks; another seed another one.
draw=(mt-eval generate --load run --prompt "abc" "b" --max-new-tokens 12 "${bytes[@]}")
"${draw[@]}" --seed 7 > a.txt
"${draw[@]}" --seed 7 > b.txt
cmp a.txt b.txt
"${draw[@]}" --seed 7 --threads 3 > b.txt
cmp a.txt b.txt
"${draw[@]}" --seed 8 > b.txt
! cmp -s a.txt b.txt || fail "the seed does nothing"
"${draw[@]}" --greedy --json | sed 's/,"prefill_s.*//' > a.txt
"${draw[@]}" --temperature 0 --json --local-ranks 2 --tensor-model-parallel-size 2 | sed 's/,"prefill_s.*//' > b.txt
cmp a.txt b.txt
"${draw[@]}" --top-k 1 --json | sed 's/,"prefill_s.*//' > b.txt
cmp a.txt b.txt
printf 'abc\nb\n' | mt-eval generate --load run --input - --max-new-tokens 12 --greedy --json "${bytes[@]}" | sed 's/,"prefill_s.*//' > b.txt
cmp a.txt b.txt
[ "$(wc -l < a.txt)" = 2 ] || fail "$(cat a.txt)"

# Lines of files may end as on Windows.
printf 'abc\r\nb\r\n' | mt-eval generate --load run --input - --max-new-tokens 12 --greedy --json "${bytes[@]}" | sed 's/,"prefill_s.*//' > b.txt
cmp a.txt b.txt

# A flag that does nothing beside another is named.
expect 0 "--temperature does nothing beside --greedy" "${draw[@]}" --greedy --temperature 0.5
expect 0 "--top-k does nothing with --temperature 0" "${draw[@]}" --temperature 0 --top-k 3
expect 0 "--json-key does nothing without --input" mt-eval ppl --load run --data-path in_text_document "${bytes[@]}" --json-key x

# Refusals.
for words in "threads 0 1 to 1024" "max-new-tokens 0 1 or more" "temperature -1 0 or more" "local-ranks 0 1 to 256"; do
  read -r flag value range <<< "$words"
  expect 2 "wanted $range, found $value: --$flag" "${draw[@]}" "--$flag" "$value"
done
for n in 0 -1; do
  expect 2 "--window" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --window "$n"
  expect 2 "--stride" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --stride "$n"
  expect 2 "--micro-batch-size" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --micro-batch-size "$n"
done
expect 2 "--micro-batch-size" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --micro-batch-size 4097
printf 'ab\xff' > broken.txt
expect 4 "byte 0xff is not valid UTF-8: broken.txt:1" mt-eval ppl --load run --input broken.txt "${bytes[@]}"
printf '{"text": "ab\xff"}\n' > broken.jsonl
expect 4 "broken.jsonl:1" mt-eval ppl --load run --input broken.jsonl "${bytes[@]}"
expect 4 "byte 3 of the text is not UTF-8: broken.txt:1" mt-eval generate --load run --input broken.txt "${bytes[@]}"
expect 4 "not UTF-8" mt-eval generate --load run --prompt $'a\xff' "${bytes[@]}"
expect 3 "a prompt of less than 32 tokens" mt-eval generate --load run --prompt "$(printf 'a%.0s' $(seq 40))" "${bytes[@]}"
expect 5 "no such checkpoint directory: nowhere" mt-eval ppl --load nowhere --input in.jsonl "${bytes[@]}"
expect 3 "" mt-eval ppl --load run --ckpt-step 5 --input in.jsonl "${bytes[@]}"
expect 2 "--load DIR" mt-eval ppl --input in.jsonl "${bytes[@]}"
expect 2 "one of them" mt-eval ppl --load run "${bytes[@]}"
expect 2 "one of them" mt-eval ppl --load run --input in.jsonl --data-path in_text_document "${bytes[@]}"
expect 2 "did you mean --input?" mt-eval ppl --load run --inptu in.jsonl "${bytes[@]}"
expect 2 "no prompt" mt-eval generate --load run "${bytes[@]}"
expect 2 "--top-p 1.5 is not in (0, 1]" "${draw[@]}" --top-p 1.5
expect 2 "exclude each other" "${draw[@]}" --bf16 --fp32
expect 3 "another tokenizer" mt-eval generate --load run --prompt 1 --tokenizer-type NullTokenizer --vocab-size 20 --registry none
expect 3 "--max-new-tokens 29" mt-eval generate --load run --prompt abc --max-new-tokens 64 "${bytes[@]}"
expect 3 "window 33 is more than the model's 32 positions" mt-eval ppl --load run --input in.jsonl --window 33 "${bytes[@]}"
expect 3 "stride 9 is more than the window 8" mt-eval ppl --load run --input in.jsonl --window 8 --stride 9 "${bytes[@]}"
expect 3 "not divisible by tensor-model-parallel-size 3" mt-eval ppl --load run --input in.jsonl "${bytes[@]}" --local-ranks 3 \
  --tensor-model-parallel-size 3
expect 5 "absent.jsonl" mt-eval ppl --load run --input absent.jsonl "${bytes[@]}"
expect 4 "nothing to score" mt-eval ppl --load run --input /dev/null --input-format text "${bytes[@]}"
printf '{"text": 5}\n' > five.jsonl
expect 4 "five.jsonl:1" mt-eval ppl --load run --input five.jsonl "${bytes[@]}"
truncate -s -1 run/iter_0000006/data_00000.safetensors
expect 6 "data_00000.safetensors" mt-eval ppl --load run/iter_0000006 --input in.jsonl "${bytes[@]}"
truncate -s +1 run/iter_0000006/data_00000.safetensors
expect 5 "standard output" sh -c "mt-eval ppl --load run --input in.jsonl ${bytes[*]} > /dev/full"

# A model trained in fp8 is computed in bf16, and both lines and numbers say so.
mt-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --mock-data \
  --vocab-size 257 --micro-batch-size 1 --global-batch-size 2 --train-iters 1 --lr 1e-3 --registry none --bf16 \
  --fp8-format hybrid --fp8-recipe tensorwise --save fp8 > /dev/null 2>&1
expect 0 "trained with --fp8-format hybrid --fp8-recipe tensorwise; it is computed in bf16, without rounding to fp8" \
  mt-eval ppl --load fp8 --input in.jsonl "${bytes[@]}"
says $'compute_dtype\tbf16'
expect 0 "it is computed in f32" mt-eval generate --load fp8 --prompt a --max-new-tokens 2 --fp32 "${bytes[@]}"

# An evaluation is recorded.
[ ! -e mt-runs.db ] || fail "a registry nobody asked for"
mt-eval ppl --load run --input in.jsonl --tokenizer-type ByteTokenizer > out.txt
mt-runs list | grep -q mt-eval || fail "not recorded"
echo ok
