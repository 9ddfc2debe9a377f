#!/usr/bin/env bash
# Families that transformers writes, through another layout and back: tensors and config as they were. What no run computes yet is
# refused with its name; what is computed scores as transformers does.
. "$MT_TEST_SOURCE/tests/cli/expect.sh"
golden="$MT_TEST_SOURCE/tests/golden/hf"

mt-preprocess encode --input "$golden/tokens.jsonl" --output-prefix tokens --tokenizer-type NullTokenizer --vocab-size 37 --registry none
models=0
while IFS=$'\t' read -r name kind nll; do
  mt-ckpt convert --load "$golden/$name" --save "$name" > /dev/null 2> notices
  layout=(--target-tensor-parallel-size 2 --target-pipeline-parallel-size 2)
  [ "$kind" = dense ] || layout+=(--target-data-parallel-size 2 --target-expert-parallel-size 2 --target-expert-tensor-parallel-size 1)
  mt-reshard --load "$name" --save "$name-cut" --registry none "${layout[@]}" > /dev/null
  expect 0 "" mt-ckpt diff "$name" "$name-cut"
  mt-reshard --load "$name-cut" --save "$name-one" --registry none --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 \
    --target-data-parallel-size 1 --target-expert-parallel-size 1 > /dev/null
  # What it came from is kept in the manifest, through both.
  mt-ckpt convert --load "$name-one" --save "$name-back" > /dev/null
  mt-ckpt convert --load "$name-back" --save "$name-again" > /dev/null
  expect 0 "" mt-ckpt diff "$name" "$name-again"
  cmp <(tr -d ' \n' < "$golden/$name/config.json") <(tr -d ' \n' < "$name-back/config.json")
  mt-ckpt info "$name" > /dev/null
  models=$((models + 1))
  case "$name" in
    qwen3 | gpt_neox-sequential)
      mt-eval ppl --load "$name" --data-path tokens_text_document --fp32 --json --registry none > scored
      awk -v want="$nll" -v name="$name" '{
        sub(/.*"nll":/, ""); sub(/[,}].*/, "")
        if ($0 - want > 2e-5 * want || want - $0 > 2e-5 * want) { print name, "nll", $0, "of", want; exit 1 }
      }' scored
      continue
      ;;
    falcon*) feature="parallel residuals" ;;
    gpt_neox) feature="parallel residuals" ;;
    qwen3_moe) feature="num-experts 4 is more than this program runs, 0" ;;
    bloom) feature="a norm of the embedding, ALiBi" ;;
    deepseek*) feature="multi-head latent attention" ;;
    t5*) feature="an encoder beside the decoder" ;;
    bert) feature="embeddings of token types, a norm of the embedding, a head for masked tokens, a pooler" ;;
    *) fail "no word on $name" ;;
  esac
  expect 3 "$feature" mt-eval ppl --load "$name" --data-path tokens_text_document --fp32 --registry none
  expect 3 "$feature" mt-train --load "$name" --finetune --use-checkpoint-args --mock-data --seq-length 16 --micro-batch-size 1 --lr 1e-3 \
    --train-iters 1 --registry none
done < "$golden/families.tsv"
[ "$models" -ge 1 ] || fail "no models"
