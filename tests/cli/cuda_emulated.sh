#!/usr/bin/env bash
# mt-train --device cuda on the emulated device (tests/cuda_emulation/): losses and norms of every step against --device
# cpu in several layouts, a run cut in two equal to the whole one bit for bit, checkpoints from one device to the other.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
emulated="$MT_TEST_BUILD/emulated-cuda/mt-train"
[ -x "$emulated" ] || { echo "no emulated mt-train in this build"; exit 77; }

tiny=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --group-query-attention --num-query-groups 2 --seq-length 16
  --max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 8 --mock-data --micro-batch-size 2
  --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --clip-grad 0.5 --log-interval 1000 --registry none
  --train-iters 6)
llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights)

train() { # NAME ARGUMENTS...
  local name="$1"
  shift
  "$emulated" "${tiny[@]}" --metrics-file "$name.jsonl" "$@" > "$name.log" 2>&1 || fail "$name: $(cat "$name.log")"
  sed -n 's/.*"event":"step","iteration":\([0-9]*\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$name.jsonl" \
    > "$name.steps"
}
close() { # NAME NAME STEPS LOSS NORM
  paste -d ' ' "$1.steps" "$2.steps" | awk -v what="$1 against $2" -v steps="$3" -v most_loss="$4" -v most_norm="$5" '
    function off(a, b) { return a > b ? (a - b) / a : (b - a) / a }
    { if ($1 != $4) bad = 1
      if (off($2, $5) > loss) loss = off($2, $5)
      if (off($3, $6) > norm) norm = off($3, $6); ++n }
    END { printf "%-28s %d steps, loss %.1e, norm %.1e\n", what, n, loss, norm
          exit !(n == steps && !bad && loss <= most_loss && norm <= most_norm) }' || fail "$1 and $2 differ"
}

# Without a device, and without CUDA in the build, it is said in one line.
expect 7 "no CUDA device: " env CUDA_VISIBLE_DEVICES= "$emulated" "${tiny[@]}" --device cuda
expect 7 "compute capability 7.5, kernels want 8.0 or more: cuda:0" env MT_EMULATION_CAPABILITY=75 "$emulated" "${tiny[@]}" --device cuda
if [ -n "${MT_TEST_MPIEXEC:-}" ] && [ -z "${MT_TEST_MPI_BROKEN:-}" ]; then
  expect 8 "ranks were started with different options" "$MT_TEST_MPIEXEC" -n 1 "$emulated" "${tiny[@]}" --device cuda : \
    -n 1 "$emulated" "${tiny[@]}" --device cpu
fi
expect 2 "one of cpu, cuda" "$emulated" "${tiny[@]}" --device tpu

train cpu --device cpu
train cuda --device cuda
close cpu cuda 6 1e-5 1e-4
train cpu-llama "${llama[@]}" --device cpu
train cuda-llama "${llama[@]}" --device cuda
close cpu-llama cuda-llama 6 1e-5 1e-4
# In bf16 a rounding that falls the other way is a step of 2^-8 somewhere.
train cpu-bf16 "${llama[@]}" --bf16 --device cpu
train cuda-bf16 "${llama[@]}" --bf16 --device cuda
close cpu-bf16 cuda-bf16 6 5e-3 5e-2

# Layouts on two devices, over NCCL. Two numbers add up to the same either way round, so the host's sums are no others.
train tp "${llama[@]}" --device cuda --local-ranks 2 --tensor-model-parallel-size 2 --sequence-parallel
close cpu-llama tp 6 1e-5 1e-4
train dp "${llama[@]}" --device cuda --local-ranks 2 --micro-batch-size 1 --use-distributed-optimizer
close cpu-llama dp 6 1e-5 1e-4
train pp "${llama[@]}" --device cuda --local-ranks 2 --pipeline-model-parallel-size 2
close cpu-llama pp 6 1e-5 1e-4

grep -q "messages between devices go over NCCL" tp.log || fail "NCCL is not used: $(cat tp.log)"
train host "${llama[@]}" --device cuda --local-ranks 2 --tensor-model-parallel-size 2 --sequence-parallel \
  --distributed-backend mpi
cmp tp.steps host.steps || fail "NCCL and messages through the host differ"
train overlapped "${llama[@]}" --device cuda --local-ranks 4 --tensor-model-parallel-size 2 --micro-batch-size 1 \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --deterministic-mode
close cpu-llama overlapped 6 1e-5 1e-4
train graphs "${llama[@]}" --device cuda --local-ranks 2 --tensor-model-parallel-size 2 --sequence-parallel \
  --cuda-graph-impl local --cuda-graph-warmup-steps 1
cmp tp.steps graphs.steps || fail "graphs change what is trained"
# Where ranks share a device the host carries the messages, or it is refused.
export MT_EMULATION_DEVICES=1
train shared "${llama[@]}" --device cuda --local-ranks 2 --tensor-model-parallel-size 2 --sequence-parallel
grep -q "go through the host: ranks share a device" shared.log || fail "not said: $(cat shared.log)"
cmp tp.steps shared.steps || fail "one device and two differ"
expect 3 "NCCL cannot be used: ranks share a device" "$emulated" "${tiny[@]}" --device cuda --local-ranks 2 \
  --distributed-backend nccl
expect 3 "messages inside graphs go over NCCL alone" "$emulated" "${tiny[@]}" "${llama[@]}" --device cuda --local-ranks 2 \
  --tensor-model-parallel-size 2 --cuda-graph-impl local
unset MT_EMULATION_DEVICES
expect 2 "one of nccl, mpi, gloo" "$emulated" "${tiny[@]}" --device cuda --distributed-backend ucc

# Six steps are three and three more, to the bit; a checkpoint knows no device.
train whole "${llama[@]}" --device cuda --save whole
train first "${llama[@]}" --device cuda --save parts --exit-interval 3
train rest "${llama[@]}" --device cuda --load parts --save parts
cmp whole/iter_0000006/data_00000.safetensors parts/iter_0000006/data_00000.safetensors || fail "a resumed run differs"
tail -n 3 cpu-llama.steps > end.steps
train back "${llama[@]}" --device cpu --load parts --ckpt-step 3
close end back 3 1e-5 1e-4

# Ranks of one host over MPI take a device each.
if [ -n "${MT_TEST_MPIEXEC:-}" ] && [ -z "${MT_TEST_MPI_BROKEN:-}" ]; then
  "$MT_TEST_MPIEXEC" -n 2 "$emulated" "${tiny[@]}" "${llama[@]}" --device cuda --tensor-model-parallel-size 2 \
    --sequence-parallel --metrics-file mpi.jsonl > mpi.log 2>&1 || fail "over MPI: $(cat mpi.log)"
  sed -n 's/.*"event":"step","iteration":\([0-9]*\),.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2 \3/p' mpi.jsonl > mpi.steps
  cmp tp.steps mpi.steps || fail "MPI and threads differ"
fi
