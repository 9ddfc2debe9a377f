#!/bin/bash
# An 8-billion LLaMA 3 shape on 128 GPUs: tensor parallel 1, context parallel 2 for 8192 tokens.
NUM_NODES=16
GPUS_PER_NODE=8
WORLD=$((NUM_NODES * GPUS_PER_NODE))

LAUNCH=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --rdzv_endpoint ${HEAD_NODE:-localhost}:29500
)
SHAPE=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8           # key and value heads
    --kv-channels 128
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --rotary-base 500000
    --rotary-percent 1.0
    --normalization RMSNorm
    --norm-epsilon 1e-5
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --init-method-std 0.0134
    --attention-backend fused
    --transformer-impl transformer_engine
)
BATCH="--micro-batch-size 1 --global-batch-size $WORLD \
    --train-iters 5000 \
    --lr 0.00015 --min-lr 0.00001 --lr-decay-style cosine --lr-warmup-iters 100 \
    --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95"

torchrun ${LAUNCH[@]} pretrain_gpt.py \
    "${SHAPE[@]}" $BATCH \
    --bf16 --grad-reduce-in-bf16 \
    --tensor-model-parallel-size 1 --context-parallel-size 2 --cp-comm-type p2p \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --mock-data --tokenizer-type NullTokenizer --vocab-size 128256 \
    --split '99,1,0' --num-workers 1 --no-create-attention-mask-in-dataloader \
    --log-interval 1 --eval-iters 32 --eval-interval 100 \
    --ckpt-format torch_dist --tensorboard-dir tb --manual-gc 2>&1 | tee run.log
