#!/usr/bin/env bash
# Command lines of published sizes (tests/cli/scripts, written for these tests): validated and sized by a dry run, in less
# than 1 GB. Parameters and bytes are computed here from the shapes.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
ulimit -v 1000000
scripts="$MT_TEST_SOURCE/tests/cli/scripts"
# parameters LAYERS HIDDEN FFN KV_WIDTH VOCABULARY: a LLaMA shape whose heads are as wide as the model.
parameters() { echo $(($1 * (2 * $2 * $2 + 2 * $2 * $4 + 3 * $2 * $3 + 2 * $2) + $2 + 2 * $5 * $2)); }
field() { grep "^$1	" out.txt | cut -f 2; }
same() { [ "$1" = "$2" ] || fail "'$1' is not '$2'"; }

# 8B: context parallelism is laid out, marked, and refused by a real run. Gradients in bf16 take what weights take.
expect 0 "--manual-gc: there is no garbage" mt-train --dry-run --args-file "$scripts/dense_8b.sh"
grep "^rank	0	" out.txt | grep -qE "weight_bytes=([0-9]+)	grad_bytes=\\1	" || fail "$(grep '^rank	0	' out.txt)"
says $'layout\ttp 1, cp 2, pp 1, dp 64, ZeRO 1' $'world_size\t128' $'micro_batches\t2' \
  $'not_trainable_yet\tcontext-parallel-size 2'
same "$(field parameters)" "$(parameters 32 4096 14336 1024 128256)"
same "$(field parameters)" 8030261248
same "$(grep -c '^rank' out.txt)" 128
expect 3 "context-parallel-size 2 is more than this program runs, 1" mt-train --args-file "$scripts/dense_8b.sh"

# 70B: chunks of 2 of its 80 layers are five a rank; every stage is printed.
expect 0 "--use-flash-attn: there is one implementation" mt-train --dry-run --args-file "$scripts/dense_70b.sh"
says $'layout\ttp 8, cp 1, pp 8, dp 8, vpp 5, sequence parallel, ZeRO 1' $'world_size\t512' $'micro_batches\t128' \
  $'stage\t0\tpp 0\tchunk 0\tembedding, layers 0-1' $'stage\t39\tpp 7\tchunk 4\tlayers 78-79, output'
same "$(field parameters)" "$(parameters 80 8192 28672 1024 128256)"
same "$(grep -c '^stage' out.txt)" 40
# A middle rank: 10 layers of a tensor-parallel eighth, norms whole. bf16 weights, f32 gradients, 12 bytes of states over dp 8.
middle=$((10 * ((2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 8 + 2 * 8192)))
grep "^rank	64-127	ranks=64	" out.txt | grep -q "parameters=$middle	weight_bytes=$((2 * middle))	" || fail "middle ranks: $(grep '^rank' out.txt)"
same "$(sed -n 's/^rank.*\tranks=\([0-9]*\)\t.*/\1/p' out.txt | paste -sd+ | bc)" 512

# 405B on 16384 ranks: 16 x 8 x 128, and 6 x parameters x tokens is most of its flop.
expect 0 "" mt-train --dry-run --args-file "$scripts/dense_405b.flags" --world-size 16384
says $'layout\ttp 8, cp 1, pp 16, dp 128, vpp 8, stages E|(t|)*126L, sequence parallel, ZeRO 1' \
  $'stage\t0\tpp 0\tchunk 0\tembedding' $'stage\t127\tpp 15\tchunk 7\toutput'
same "$(field parameters)" "$(parameters 126 16384 53248 1024 128256)"
awk -v p="$(field parameters)" -v f="$(field flop_per_step)" 'BEGIN { r = f / (6 * p * 2048 * 8192); exit !(r > 1 && r < 1.1) }' ||
  fail "flop $(field flop_per_step)"
same "$(sed -n 's/^rank.*\tranks=\([0-9]*\)\t.*/\1/p' out.txt | paste -sd+ | bc)" 16384
[ "$(wc -c < out.txt)" -lt 40000 ] || fail "$(wc -c < out.txt) bytes for what few kinds of ranks need"
expect 0 "" mt-train --dry-run --json --args-file "$scripts/dense_405b.flags" --world-size 16384
grep -q '"stages":\[{"stage":0,"pp_rank":0,"chunk":0,"layers":0,"holds":"embedding"}' out.txt || fail "$(head -c 2000 out.txt)"

# Eight experts of 7B on 64 ranks: expert parallelism folded over data parallelism. Experts of a rank: 1 of 8, a layer's quarter.
expect 0 "--moe-grouped-gemm: it changes no size" mt-train --dry-run --args-file "$scripts/experts_8x7b.sh"
says $'layout\ttp 4, cp 1, pp 4, dp 4, ep 4, etp 1, vpp 8, sequence parallel, ZeRO 1' $'not_trainable_yet\tnum-experts 8' \
  $'not_trainable_yet\texpert-model-parallel-size 4'
same "$(field parameters)" 46702792704
attention=$(((2 * 4096 * 4096 + 2 * 4096 * 1024) / 4)) experts=$((8 / 4 * 3 * 4096 * 14336)) whole=$((2 * 4096 + 8 * 4096))
grep "^rank	16	" out.txt | grep -q "parameters=$((8 * (attention + experts + whole)))	" || fail "$(grep '^rank	16	' out.txt)"
expect 3 "num-experts 8 is more than this program runs, 0" mt-train --args-file "$scripts/experts_8x7b.sh"
expect 0 "" mt-train --dry-run --args-file "$scripts/experts_8x7b.sh" --moe-layer-freq "([0]*16+[1]*16)" --moe-shared-expert-intermediate-size 1024
dense=$((3 * 4096 * 14336)) layer=$((2 * 4096 * 4096 + 2 * 4096 * 1024 + 2 * 4096))
same "$(field parameters)" $((32 * layer + 16 * dense + 16 * (8 * dense + 8 * 4096 + 3 * 4096 * 1024) + 4096 + 2 * 32000 * 4096))
expect 3 "moe-layer-freq '[0]*3' is no number and no list of 32 zeros and ones" mt-train --dry-run \
  --args-file "$scripts/experts_8x7b.sh" --moe-layer-freq "[0]*3"

# Copied for 128 GPUs, made for 256: both numbers and what would do. 126 layers do not divide over 16 ranks alone.
wide=(--args-file "$scripts/dense_70b.sh" --num-layers-per-virtual-pipeline-stage 10 --pipeline-model-parallel-size 8)
expect 3 "world size 128 is not tp·cp·pp·dp = 8·2·8·2 = 256; try data-parallel-size 1, or context-parallel-size 1, or pipeline-model-parallel-size 4, or tensor-model-parallel-size 4, or world size 256" \
  mt-train --dry-run --world-size 128 "${wide[@]}" --context-parallel-size 2 --data-parallel-size 2
expect 0 "" mt-train --dry-run --world-size 256 "${wide[@]}" --context-parallel-size 2 --data-parallel-size 2
sed 's/--pipeline-model-parallel-layout.*//' "$scripts/dense_405b.flags" > even.flags
expect 3 "num-layers 126 is not divisible by pp·vpp 16; try pp·vpp 14 or 18, or num-layers 112 or 128, or --pipeline-model-parallel-layout 'Et*7|(t*8|)*14t*7L'" \
  mt-train --dry-run --args-file even.flags
expect 0 "" mt-train --dry-run --args-file even.flags --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
says $'layout\ttp 8, cp 1, pp 16, dp 1, stages Et*7|(t*8|)*14t*7L, sequence parallel, ZeRO 1'
expect 0 "" mt-train --dry-run --args-file "$scripts/dense_70b.sh" --use-tp-pp-dp-mapping
grep -q "^group	pp	0-56/8	" out.txt || fail "$(grep '^group	pp' out.txt | cut -c 1-200)"

# Sizes that are slips of the keys.
expect 3 "is more than 10000" mt-train --dry-run --args-file even.flags --num-layers 1000000
expect 3 "more than 1000000" mt-train --dry-run --args-file even.flags --world-size 2147483647
expect 3 "is more than this program runs, 256" mt-train --dry-run --args-file even.flags --pipeline-model-parallel-size 1024
echo ok
