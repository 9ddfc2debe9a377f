#!/usr/bin/env bash
# Checkpoints of other programs: what is there is recognised and described, becomes ours, scores as it does there, and goes back.
set -euo pipefail
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
golden="$MT_TEST_SOURCE/tests/golden"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

# Fails, says so, and leaves nothing.
refused() {
  local words="$1"
  shift
  rm -rf refused
  if mt-ckpt convert --save refused "$@" 2> said; then echo "not refused: $*"; exit 1; fi
  grep -q -- "$words" said || { cat said; exit 1; }
  [ ! -e refused/latest_checkpointed_iteration.txt ] || { echo "something was left: $*"; exit 1; }
}

# Hugging Face's *.bin are the model that its safetensors are; a tied head lies beside its table.
mt-ckpt convert --load "$golden/hf/llama" --save llama
mt-ckpt convert --load "$golden/torch/llama_bin" --save llama-bin 2> said
grep -q "a model of Hugging Face" said
mt-ckpt diff llama llama-bin
mt-ckpt convert --load "$golden/hf/qwen2" --save qwen2
mt-ckpt convert --from hf --load "$golden/torch/qwen2_bin" --save qwen2-bin
mt-ckpt diff qwen2 qwen2-bin

# Meta's own form of it, and GGUF.
mt-ckpt convert --load "$golden/torch/llama_meta" --save llama-meta 2> said
grep -q "as Meta publishes" said
mt-ckpt diff --kind weight llama llama-meta
mt-ckpt convert --load "$golden/gguf/llama.gguf" --save llama-gguf
mt-ckpt diff --kind weight llama llama-gguf

# Megatron's, of both formats, score as its own forward pass does.
mt-preprocess encode --input "$golden/hf/tokens.jsonl" --output-prefix tokens --tokenizer-type NullTokenizer --vocab-size 37 --registry none
for name in gqa classic experts; do
  for format in legacy dist; do
    mt-ckpt info "$golden/megatron/$name/$format" > info
    grep -q "^num_attention_heads	4$" info
    mt-ckpt info --tensors --json "$golden/megatron/$name/$format" > info
    mt-ckpt convert --load "$golden/megatron/$name/$format" --save "$name-$format"
  done
  mt-ckpt diff "$name-legacy" "$name-dist"
done
while IFS=$'\t' read -r name nll; do
  mt-eval ppl --load "$name-legacy" --data-path tokens_text_document --fp32 --json --registry none > scored
  awk -v want="$nll" '{
    sub(/.*"nll":/, ""); sub(/[,}].*/, "")
    if ($0 - want > 2e-5 * want || want - $0 > 2e-5 * want) { print "nll", $0, "of", want; exit 1 }
  }' scored
done < "$golden/megatron/nll.tsv"

# And back, in another layout.
mt-ckpt convert --load gqa-dist --save back --to megatron --target-tensor-parallel-size 2 --target-pipeline-parallel-size 2
[ "$(find back -name model_optim_rng.pt | wc -l)" = 4 ]
mt-ckpt convert --load back --save again
mt-ckpt diff gqa-dist again
mt-ckpt convert --load gqa-dist --save back-dist --to megatron-dist
mt-ckpt convert --from megatron-dist --load back-dist --save again-dist
mt-ckpt diff gqa-dist again-dist
mt-ckpt convert --load experts-dist --save back-experts --to megatron --target-expert-parallel-size 2 --transformer-impl local
mt-ckpt convert --load back-experts --save again-experts
mt-ckpt diff experts-dist again-experts

# A tied head on a last stage, where a tensor-parallel rank's rows are all padding.
mt-ckpt random --save tied --num-layers 2 --vocab-size 100
mt-ckpt convert --load tied --save tied-cut --to megatron --target-tensor-parallel-size 2 --target-pipeline-parallel-size 2
mt-ckpt convert --load tied-cut --save tied-again
mt-ckpt diff tied tied-again

# What cannot be is said, and nothing is left.
refused "no such directory" --load absent
refused "two steps" --load "$golden/megatron/gqa/dist" --to hf
refused "for --from megatron" --load "$golden/hf/llama" --vocab-size 5
refused "its args say a vocabulary of 37" --load "$golden/megatron/gqa/dist" --vocab-size 65
refused "its args say a vocabulary of 37" --load "$golden/megatron/gqa/legacy" --vocab-size 3
refused "for --to megatron" --load llama --to hf --target-tensor-parallel-size 2
refused "cannot be cut" --load gqa-dist --to megatron --target-tensor-parallel-size 3
if mt-ckpt convert --load gqa-dist --save llama --to megatron 2> said; then exit 1; fi
grep -q "checkpoints of ours" said
if mt-ckpt convert --load tied --save llama --to hf 2> said; then exit 1; fi
grep -q "checkpoints of ours" said
cp -r "$golden/megatron/gqa/legacy" broken
rm -r broken/iter_0000005/mp_rank_01_001
refused "rank tp 1, pp 1, ep 0 is missing" --load broken
mkdir pointer
cp "$golden/hf/llama/config.json" pointer
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' > pointer/pytorch_model.bin
refused "pointer of Git LFS" --load pointer
