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
for name in gqa classic experts qk experts-etp grouped; do
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

# What its optimizers kept comes along, and a run goes on from there at the step, the samples and the learning rate it had.
for name in torch-f32 dist-buckets; do
  mt-ckpt convert --load "$golden/megatron_optimizer/$name" --save "state-$name"
  precision=(--bf16)
  [ "$name" = dist-buckets ] || precision=()
  mt-train --local-ranks 1 --load "state-$name" --use-checkpoint-args --use-checkpoint-opt-param-scheduler "${precision[@]}" --mock-data \
    --seq-length 32 --micro-batch-size 2 --global-batch-size 8 --lr 0.01 --train-iters 5 --seed 4321 --registry none --save "on-$name" > log 2>&1
  grep -q "iteration *5/ *5 | consumed samples: *40 .*learning rate: 8.681981E-03" log || { cat log; exit 1; }
  mt-ckpt info --json "on-$name" | grep -q '"optimizer_steps":5'
done
mt-ckpt diff "$golden/megatron_optimizer/torch-f32" "$golden/megatron_optimizer/dist-f32"
mt-ckpt diff "$golden/megatron_optimizer/torch" "$golden/megatron_optimizer/torch-distributed"
mt-ckpt convert --weights-only --load "$golden/megatron_optimizer/dist-fully-stages" --save stages
mt-ckpt diff --kind weight stages "$golden/megatron_optimizer/dist-fully-stages"

# Qwen3 to Megatron and back.
mt-ckpt convert --load "$golden/hf/qwen3" --save qwen3
for to in megatron megatron-dist; do
  mt-ckpt convert --load qwen3 --save "qwen3-$to" --to "$to"
  mt-ckpt diff "$golden/hf/qwen3" "qwen3-$to"
done

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

# Compared across formats, under our names, without a conversion between.
mt-ckpt diff llama "$golden/hf/llama"
mt-ckpt diff "$golden/torch/llama_meta" "$golden/gguf/llama.gguf"
mt-ckpt diff "$golden/torch/llama_bin" llama-gguf
mt-ckpt diff "$golden/megatron/experts/legacy" "$golden/megatron/experts/dist"
mt-ckpt diff "$golden/megatron/gqa/dist" back
differs() {
  local words="$1" rc=0
  shift
  mt-ckpt diff "$@" > rows 2> said || rc=$?
  [ "$rc" = 1 ] || { echo "status $rc: $*"; cat said; exit 1; }
  cat said >> rows
  grep -q -- "$words" rows || { cat rows; exit 1; }
}
differs "	values	" "$golden/hf/llama" "$golden/hf/qwen2"
differs "only_in_b" --all "$golden/hf/llama" "$golden/hf/qwen2"
mt-ckpt random --save half --num-layers 2 --vocab-size 37 --bf16
mt-ckpt convert --load half --save half-hf --to hf
mt-ckpt diff half half-hf
mt-ckpt random --save trained --num-layers 2 --vocab-size 37 --optimizer
mt-ckpt convert --load trained --save trained-hf --to hf
differs "state that one side does not have: --kind weight" trained trained-hf
mt-ckpt diff --kind weight trained trained-hf
mt-reshard --load trained --save narrow --weights-only --save-dtype bf16 --registry none > /dev/null
differs "^embedding.word_embeddings.weight	weight	dtype" --kind weight trained-hf narrow
mt-ckpt stats "$golden/gguf/llama.gguf" > rows
[ "$(wc -l < rows)" = 22 ]
mt-ckpt cat "$golden/megatron/gqa/legacy" decoder.final_layernorm.weight > theirs
mt-ckpt cat gqa-dist decoder.final_layernorm.weight | cmp - theirs
if mt-ckpt cat "$golden/hf/llama" model.norm.weight 2> said; then exit 1; fi
grep -q "no tensor model.norm.weight" said

# Where ours is wanted, another program's is answered with the command that makes one of it.
for path in gguf/llama.gguf torch/llama_meta hf/llama megatron/gqa/legacy megatron/gqa/dist; do
  if mt-ckpt verify "$golden/$path" 2> said; then exit 1; fi
  grep -q "mt-ckpt convert --load $golden/$path" said || { cat said; exit 1; }
done
if mt-ckpt verify --ckpt-step 6 "$golden/megatron/gqa/dist" 2> said; then exit 1; fi
grep -q "no iteration 6 there.*another program's: mt-ckpt convert" said || { cat said; exit 1; }
mt-ckpt list "$golden/megatron/gqa/dist" | grep -q "^5	foreign	yes"

# An iteration that is read and one that is written are two things.
mt-ckpt convert --load "$golden/hf/llama" --save numbered --iteration 3
[ -d numbered/iter_0000003 ]

# What cannot be is said, and nothing is left.
refused "does not round to its weight.*--weights-only" --load "$golden/megatron_optimizer/dist-fully-stages"
refused "is for --from megatron" --load "$golden/hf/llama" --weights-only
refused "has no iterations" --load "$golden/hf/llama" --ckpt-step 3
refused "is for --from hf, meta or gguf" --load "$golden/megatron/gqa/dist" --iteration 3
refused "lies there: .*without --from" --load "$golden/megatron/gqa/dist" --from megatron
refused "lies there: .*without --from" --load "$golden/megatron/gqa/legacy" --from megatron-dist
refused "no experts that could be spread" --load gqa-dist --to megatron --target-expert-parallel-size 2
cp -r "$golden/hf/mixtral" greedy
sed -i 's/"num_experts_per_tok": [0-9]*/"num_experts_per_tok": 9/' greedy/config.json
refused "a token visits 9 of" --load greedy
refused "no such directory" --load absent
refused "two steps" --load "$golden/megatron/gqa/dist" --to hf
refused "for --from megatron" --load "$golden/hf/llama" --vocab-size 5
refused "its args say a vocabulary of 37" --load "$golden/megatron/gqa/dist" --vocab-size 65
refused "its args say a vocabulary of 37" --load "$golden/megatron/gqa/legacy" --vocab-size 3
refused "for --to megatron" --load llama --to hf --target-tensor-parallel-size 2
refused "cannot be cut in 3: gqa-dist/iter_0000005" --load gqa-dist --to megatron --target-tensor-parallel-size 3
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
