#!/usr/bin/env bash
# Megatron's command lines as people bring them: every flag by its state, spellings, scripts, launchers' variables.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
tiny=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --mock-data
  --vocab-size 257 --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 1e-3 --registry none)

# Every name of the list has a state, and mt-train does what the state says: all accepted flags in one command line give a
# line each, all refused ones a problem each, supported ones are in --help.
mt-train --megatron-flags > states.tsv
mt-train --help > help.txt
accepted=() refused=()
for name in $(grep -v '^#' "$MT_TEST_SOURCE/tests/cli/megatron_flags.txt"); do
  IFS=$'\t' read -r state argument <<< "$(awk -F '\t' -v f="--$name" '$1 == f { print $2 "\t" $3 "." }' states.tsv)"
  argument="${argument%.}"
  value="${argument%% *}"
  case "$state" in
    supported) grep -qE -- "--$name( |\)|,|;|\$)" help.txt || fail "--$name is said to be supported and is not in --help" ;;
    accepted) accepted+=("--$name" ${value:+"$value"}) ;;
    refused) refused+=("--$name" ${value:+"$value"}) ;;
    *) fail "--$name has no state: '$state'" ;;
  esac
done
expect 0 "" mt-train --dry-run "${tiny[@]}" "${accepted[@]}"
for flag in "${accepted[@]}"; do
  [ "${flag:0:2}" != -- ] || [ "$(grep -cE -- "^mt-train: $flag( [^:]*)?: " err.txt)" = 1 ] || fail "no line for $flag: $(cat err.txt)"
done
expect 3 "problems" mt-train --dry-run "${tiny[@]}" "${refused[@]}"
for flag in "${refused[@]}"; do
  [ "${flag:0:2}" != -- ] || grep -qE -- "^  ${flag:2}( [^:]*)?: .*; try ." err.txt || fail "$flag is not refused: $(cat err.txt)"
done
[ ! -s out.txt ] || fail "a refused run printed"
expect 3 "optimizer soap is not here; try --optimizer muon" mt-train "${tiny[@]}" --optimizer soap
expect 2 "--optimizer 'adamm' is not here" mt-train "${tiny[@]}" --optimizer adamm
expect 0 "--sgd-momentum does nothing without --optimizer sgd" mt-train --dry-run "${tiny[@]}" --optimizer lion --sgd-momentum 0.5
expect 3 "exp-avg-dtype fp8 without use-precision-aware-optimizer; try --use-precision-aware-optimizer" \
  mt-train --dry-run "${tiny[@]}" --exp-avg-dtype fp8
expect 0 "" mt-train --dry-run "${tiny[@]}" --bf16 --use-distributed-optimizer --use-precision-aware-optimizer \
  --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16 --main-grads-dtype fp32 --main-params-dtype fp32
expect 3 "muon-num-ns-steps 3 with the quintic coefficients" mt-train "${tiny[@]}" --optimizer muon --muon-num-ns-steps 3

# Unknown flags fail with the closest spelling, of ours and of Megatron's; other spellings are read.
expect 2 "did you mean --transformer-impl?" mt-train "${tiny[@]}" --transformer-imp local
expect 2 "did you mean --use-flash-attn" mt-train "${tiny[@]}" --use-flash-atn
expect 2 "unknown flag: --frobnicate" mt-train "${tiny[@]}" --frobnicate
expect 0 "--use-flash-attn-v2 is read as --use-flash-attn" mt-train --dry-run "${tiny[@]}" --use-flash-attn-v2
expect 0 "--cpu-optimizer is read as --optimizer-cpu-offload" mt-train --dry-run "${tiny[@]}" --cpu-optimizer
expect 0 "--optimizer-cpu-offload does nothing with --device cpu" mt-train --dry-run "${tiny[@]}" --optimizer-cpu-offload
expect 0 "--cpu-offloading-num-layers does nothing with --device cpu" mt-train --dry-run "${tiny[@]}" --cpu-offloading-num-layers 1
expect 0 "--enable-cuda-graph is read as --cuda-graph-impl local" mt-train --dry-run "${tiny[@]}" --enable-cuda-graph
expect 0 "--cuda-graph-impl does nothing with --device cpu" mt-train --dry-run "${tiny[@]}" --cuda-graph-impl local
expect 3 "cuda-graph-impl transformer_engine" mt-train --dry-run "${tiny[@]}" --external-cuda-graph
expect 3 "cuda-graph-impl local with sharded gradients" mt-train --dry-run "${tiny[@]}" --device cuda --cuda-graph-impl local \
  --data-parallel-sharding-strategy optim_grads
expect 0 "--cuda-gemm-autotune does nothing beside --deterministic-mode" mt-train --dry-run "${tiny[@]}" --device cuda \
  --cuda-gemm-autotune 4 --deterministic-mode
expect 0 "--cuda-f32-precision does nothing without --device cuda" mt-train --dry-run "${tiny[@]}" --cuda-f32-precision tf32
expect 0 "--attention-backend does nothing without --device cuda" mt-train --dry-run "${tiny[@]}" --attention-backend fused
expect 0 "" mt-train --dry-run "${tiny[@]}" --device cuda --attention-backend fused
expect 2 "flesh" mt-train --dry-run "${tiny[@]}" --attention-backend flesh
expect 2 "tf31" mt-train --dry-run "${tiny[@]}" --cuda-f32-precision tf31
expect 3 "tp-comm-overlap without sequence-parallel, whose messages it is about; try --sequence-parallel" \
  mt-train --dry-run "${tiny[@]}" --tensor-model-parallel-size 2 --tp-comm-overlap
expect 0 "--tp-comm-overlap without tensor parallelism does nothing" mt-train --dry-run "${tiny[@]}" --tp-comm-overlap
expect 0 "--no-tp-comm-bulk-wgrad does nothing without --tp-comm-overlap" mt-train --dry-run "${tiny[@]}" --no-tp-comm-bulk-wgrad
expect 0 "--tp-comm-overlap-cfg cfg.yaml: gathers are cut in a piece a rank" mt-train --dry-run "${tiny[@]}" --tensor-model-parallel-size 2 \
  --sequence-parallel --tp-comm-overlap --tp-comm-overlap-cfg cfg.yaml
expect 0 "--optimizer-offload-fraction does nothing without" mt-train --dry-run "${tiny[@]}" --optimizer-offload-fraction 0.5

# Beside a GPU: 16 bytes a parameter become 12 on the host and 4 on the device; saved tensors go likewise.
deep=("${tiny[@]}" --bf16 --device cuda --json)
deep[1]=6  # layers
expect 0 "" mt-train --dry-run "${deep[@]}"
device="$(grep -o '"total_bytes":[0-9]*' out.txt | cut -d : -f 2)"
! grep -q host_bytes out.txt || fail "host bytes of a run that moves nothing"
for flags in "--optimizer-cpu-offload" "--optimizer-cpu-offload --optimizer-offload-fraction 0.3" "--cpu-offloading-num-layers 6"; do
  # shellcheck disable=SC2086  # several flags
  expect 0 "" mt-train --dry-run "${deep[@]}" $flags
  [ "$(grep -o '"host_bytes":[0-9]*' out.txt | cut -d : -f 2)" -gt 0 ] || fail "$flags: no host bytes"
  [ "$(grep -o '"total_bytes":[0-9]*' out.txt | cut -d : -f 2)" -lt "$device" ] || fail "$flags saves nothing on the device"
done
expect 3 "optimizer-cpu-offload with optimizer muon" mt-train --dry-run "${tiny[@]}" --device cuda --optimizer muon --optimizer-cpu-offload
expect 0 "--fp8-hybrid is read as --fp8-format hybrid" sh -c "mt-train --dry-run ${tiny[*]} --fp8-hybrid || [ \$? = 3 ]"
expect 0 "--layernorm-epsilon is read as --norm-epsilon 1e-6" mt-train --dry-run "${tiny[@]}" --layernorm-epsilon=1e-6
expect 2 "a value is missing" mt-train "${tiny[@]}" --warmup

# A switch of a script is taken back behind it.
echo "--swiglu --bf16 --disable-bias-linear --use-flash-attn" > switches.sh
expect 0 "" mt-train --dry-run "${tiny[@]}" --args-file switches.sh --json
with="$(grep -o '"parameters":[0-9]*' out.txt | head -1)"
expect 0 "" mt-train --dry-run "${tiny[@]}" --args-file switches.sh --swiglu=false --bf16=false --disable-bias-linear=false --use-flash-attn=false --json
grep -q "flash-attn" err.txt && fail "a flag taken back is told of: $(cat err.txt)"
without="$(grep -o '"parameters":[0-9]*' out.txt | head -1)"
expect 0 "" mt-train --dry-run "${tiny[@]}" --json
[ "$without" = "$(grep -o '"parameters":[0-9]*' out.txt | head -1)" ] && [ "$with" != "$without" ] || fail "$with, then $without"
expect 2 "takes no value: --use-flash-attn-v2" mt-train --dry-run "${tiny[@]}" --use-flash-attn-v2=false

# A script as it is.
cat > run.sh << 'SCRIPT'
#!/bin/bash
GPUS_PER_NODE=8
NNODES=${NNODES:-1}
CKPT=$1   # where to save
MODEL_ARGS=(
    --num-layers 4      # small
    --hidden-size 64
    --num-attention-heads 8 --seq-length 32 --max-position-embeddings 32
    --swiglu --disable-bias-linear
)
TRAIN_ARGS="--micro-batch-size 1 --global-batch-size 8 --train-iters 2 \
   --lr 1e-3"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES \
    pretrain_gpt.py \
    ${MODEL_ARGS[@]} $TRAIN_ARGS \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size $((4 / 2)) \
    --mock-data --tokenizer-type NullTokenizer --vocab-size 257 \
    --save $CKPT --transformer-impl transformer_engine 2>&1 | tee log
SCRIPT
expect 2 "line 4: \$1 is a parameter of the script" mt-train --dry-run --args-file run.sh
expect 0 "--transformer-impl transformer_engine:" env CKPT=save mt-train --dry-run --args-file run.sh
says $'layout\ttp 2, cp 1, pp 2, dp 2' $'world_size\t8'
expect 0 "" env CKPT=save NNODES=4 mt-train --dry-run --args-file run.sh
says $'layout\ttp 2, cp 1, pp 2, dp 8' $'world_size\t32'
expect 0 "starts 8 ranks, here there are 4" env CKPT=save mt-train --args-file run.sh --registry none --local-ranks 4
grep -q "iteration *2/ *2" out.txt || fail "$(cat out.txt)"
expect 0 "" env CKPT=eight mt-train --dry-run --args-file=run.sh --num-layers 8 --world-size 4
says $'layout\ttp 2, cp 1, pp 2, dp 1' $'stage\t0\tpp 0\tchunk 0\tembedding, layers 0-3'
expect 5 "nothing.sh" mt-train --args-file nothing.sh
echo '--lr 1e-3 --args-file self.sh --args-file self.sh' > self.sh
echo 'python pretrain.py --lr 1e-3 --args-file ./self2.sh' > self2.sh
echo '--args-file b.sh' > a.sh && echo '--args-file a.sh' > b.sh
for file in self.sh self2.sh a.sh; do
  expect 2 "the file names itself as a file of flags" timeout 20 mt-train "${tiny[@]}" --args-file "$file"
  [ "$(wc -l < err.txt)" = 1 ] || fail "$(cat err.txt)"
done
for i in $(seq 0 9); do echo "--args-file d$((i + 1)).sh --args-file d$((i + 1)).sh" > "d$i.sh"; done
echo '--seed 5' > d10.sh
expect 2 "more than 64 files of flags" timeout 20 mt-train "${tiny[@]}" --args-file d0.sh
expect 0 "" mt-train --dry-run "${tiny[@]}" --args-file d8.sh
printf -- '--lr 1\0--seed 2\n' > binary.sh
expect 2 "a binary file is no file of flags" timeout 20 mt-train "${tiny[@]}" --args-file binary.sh
# A limit on the size of files is told, as a full disk is, and does not kill.
(ulimit -f 40 && expect 5 "ulimit -f" mt-train "${tiny[@]}" --save limited --save-interval 1)
expect 2 "on the command line" env MT_ARGS_FILE=run.sh mt-train "${tiny[@]}"

# Launchers' variables: ranks that nothing connects, and numbers that clash.
expect 8 "this is rank 3 of 8 by WORLD_SIZE, and no MPI connects them (mpiexec -n 8 mt-train" \
  env RANK=3 LOCAL_RANK=3 WORLD_SIZE=8 mt-train "${tiny[@]}"
expect 8 "rank 1 of 4 by SLURM_STEP_NUM_TASKS" env SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 mt-train "${tiny[@]}"
expect 8 "room for 8 tasks by SLURM_NTASKS, and this process is none of them" env SLURM_NTASKS=8 mt-train "${tiny[@]}"
expect 0 "" env SLURM_NTASKS=8 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 mt-train "${tiny[@]}"
expect 0 "" env SLURM_NTASKS=8 mt-train "${tiny[@]}" --local-ranks 1
for words in "WORLD_SIZE abc" "WORLD_SIZE 0" "WORLD_SIZE 2x" "SLURM_NTASKS many" "SLURM_STEP_NUM_TASKS -1" "RANK one"; do
  read -r name value <<< "$words"
  expect 3 "$name is '$value' in the environment, wanted a whole number" env "$name=$value" mt-train "${tiny[@]}"
done
expect 3 "WORLD_SIZE is 'abc'" env WORLD_SIZE=abc mt-train --dry-run "${tiny[@]}"
expect 3 "WORLD_SIZE is 8 in the environment, MPI's PMI_SIZE is 1" env PMI_RANK=0 PMI_SIZE=1 WORLD_SIZE=8 mt-train "${tiny[@]}"
expect 3 "RANK is 1 in the environment, MPI's PMI_RANK is 0" env PMI_RANK=0 PMI_SIZE=2 RANK=1 mt-train "${tiny[@]}"
expect 3 "RANK is 3 in the environment, WORLD_SIZE is 1: ranks count from 0" env RANK=3 WORLD_SIZE=1 mt-train "${tiny[@]}"
expect 0 "" env RANK=0 WORLD_SIZE=1 mt-train "${tiny[@]}"
expect 0 "" env WORLD_SIZE=4 mt-train --dry-run "${tiny[@]}"
says $'world_size\t4'
expect 3 "--world-size 8 with 2 ranks" mt-train "${tiny[@]}" --world-size 8 --local-ranks 2
expect 0 "" mt-train --dry-run "${tiny[@]}" --data-parallel-size 2
says $'world_size\t2'

# A dry run is of the ranks it is started with, and refuses what they would refuse.
expect 3 "not divisible by" mt-train --dry-run "${tiny[@]}" --local-ranks 3
expect 3 "" mt-train --dry-run "${tiny[@]}" --local-ranks 2 --tensor-model-parallel-size 4
expect 3 "world-size 4 with 2 ranks" mt-train --dry-run "${tiny[@]}" --local-ranks 2 --world-size 4
mt-train --dry-run "${tiny[@]}" --local-ranks 2 --use-distributed-optimizer --json > started.json 2> err.txt
mt-train --dry-run "${tiny[@]}" --world-size 2 --use-distributed-optimizer --json > said.json 2> err.txt
cmp started.json said.json || fail "a dry run of two ranks is another than one for two"
if [ -n "${MT_TEST_MPIEXEC:-}" ] && [ -z "${MT_TEST_MPI_BROKEN:-}" ]; then
  expect 0 "" "$MT_TEST_MPIEXEC" -n 2 mt-train --dry-run "${tiny[@]}" --use-distributed-optimizer --json
  cmp out.txt said.json || fail "a dry run under a launcher is not one plan of its ranks"
fi

# The snapshot of a save beside training lies in host memory where the rest lies on a device.
total() { mt-train --dry-run "${tiny[@]}" --json "$@" 2> err.txt | tr ',{' '\n\n' | sed -n 's/.*"total_bytes":\([0-9]*\).*/\1/p' | head -1; }
[ "$(total --device cuda --save s --async-save)" = "$(total --device cuda --save s)" ] || fail "a snapshot is counted on the device"
[ "$(total --save s --async-save)" -gt "$(total --save s)" ] || fail "a snapshot is not counted on a CPU"
mt-train --dry-run "${tiny[@]}" --json --device cuda --save s --async-save 2> err.txt | grep -q '"host_bytes":[1-9]' || fail "no host_bytes"
echo ok
