#!/usr/bin/env bash
# Models as transformers writes them: they score as they do there, go through another layout, and come back.
set -euo pipefail
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
golden="$MT_TEST_SOURCE/tests/golden/hf"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

mt-preprocess encode --input "$golden/tokens.jsonl" --output-prefix tokens --tokenizer-type NullTokenizer --vocab-size 37 --registry none
while IFS=$'\t' read -r name nll; do
  mt-ckpt convert --load "$golden/$name" --save "$name"
  layout=(--target-tensor-parallel-size 2 --target-pipeline-parallel-size 2)
  [ "$name" != mixtral ] || layout+=(--target-data-parallel-size 2 --target-expert-parallel-size 2 --target-expert-tensor-parallel-size 1)
  mt-reshard --load "$name" --save "$name-cut" --registry none "${layout[@]}"
  mt-ckpt diff "$name" "$name-cut"
  mt-reshard --load "$name-cut" --save "$name-one" --registry none --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 \
    --target-data-parallel-size 1 --target-expert-parallel-size 1
  # What it came from is kept in the manifest, through both.
  mt-ckpt convert --load "$name-one" --save "$name-back"
  mt-ckpt convert --load "$name-back" --save "$name-again"
  mt-ckpt diff "$name" "$name-again"
  cmp <(tr -d ' \n' < "$golden/$name/config.json") <(tr -d ' \n' < "$name-back/config.json")
  [ "$name" != mixtral ] || continue  # experts are laid out, not computed
  mt-eval ppl --load "$name" --data-path tokens_text_document --fp32 --json --registry none > scored
  awk -v want="$nll" '{
    sub(/.*"nll":/, ""); sub(/[,}].*/, "")
    if ($0 - want > 2e-5 * want || want - $0 > 2e-5 * want) { print "nll", $0, "of", want; exit 1 }
  }' scored
done < "$golden/nll.tsv"

# A run that began as one of them gives its config and tokenizer files back.
cp -r "$golden/llama" mine
echo '{"kept": true}' > mine/tokenizer_config.json
mt-train --num-layers 2 --hidden-size 16 --ffn-hidden-size 24 --num-attention-heads 4 --group-query-attention --num-query-groups 2 \
  --position-embedding-type rope --rotary-base 5000 --normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear \
  --untie-embeddings-and-output-weights --max-position-embeddings 32 --seq-length 16 --vocab-size 37 --mock-data \
  --micro-batch-size 1 --lr 1e-3 --train-iters 2 --load llama --finetune --save tuned --registry none > log 2>&1 || { cat log; exit 1; }
if grep -q "computes otherwise" log; then cat log; exit 1; fi
mt-train --num-layers 2 --hidden-size 16 --ffn-hidden-size 24 --num-attention-heads 4 --group-query-attention --num-query-groups 2 \
  --position-embedding-type rope --rotary-base 100 --normalization RMSNorm --swiglu --disable-bias-linear \
  --untie-embeddings-and-output-weights --max-position-embeddings 32 --seq-length 16 --vocab-size 37 --mock-data \
  --micro-batch-size 1 --lr 1e-3 --train-iters 1 --load llama --finetune --registry none > log2 2>&1 || { cat log2; exit 1; }
grep -q "computes otherwise, .*--use-checkpoint-args takes its shape" log2
mt-ckpt convert --load tuned --save leaving --like mine
cmp mine/tokenizer_config.json leaving/tokenizer_config.json
cmp <(tr -d ' \n' < mine/config.json) <(tr -d ' \n' < leaving/config.json)
if mt-ckpt convert --load leaving --save again && mt-ckpt diff --kind weight llama again; then
  echo "training changed nothing"
  exit 1
fi
