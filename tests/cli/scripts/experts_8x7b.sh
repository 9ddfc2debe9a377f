#!/bin/bash
# Eight experts of the 7-billion Mistral shape on 64 GPUs.
MODEL=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 4096 --max-position-embeddings 32768 --position-embedding-type rope --rotary-base 1000000
    --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0 --no-masked-softmax-fusion
)
EXPERTS=(
    --num-experts 8 --moe-router-topk 2
    --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-permute-fusion
)
torchrun --nproc_per_node=8 --nnodes=8 pretrain_gpt.py "${MODEL[@]}" "${EXPERTS[@]}" \
    --tensor-model-parallel-size 4 --sequence-parallel \
    --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 \
    --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 \
    --use-distributed-optimizer --bf16 \
    --micro-batch-size 1 --global-batch-size 256 --train-iters 5000 \
    --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 500 \
    --mock-data --tokenizer-type NullTokenizer --vocab-size 32000
