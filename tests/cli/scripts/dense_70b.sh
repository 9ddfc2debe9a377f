#!/bin/bash
# A 70-billion LLaMA 3 shape: tensor parallel 8, pipeline 8 with five chunks a rank, 512 GPUs under Slurm.
export CUDA_DEVICE_MAX_CONNECTIONS=1
MODEL_ARGS="
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
    --num-attention-heads 64 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000 --no-rope-fusion
    --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
    --attention-dropout 0 --hidden-dropout 0 --make-vocab-size-divisible-by 16128
"
PARALLEL_ARGS="
    --tensor-model-parallel-size 8 --sequence-parallel
    --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"
srun --ntasks=512 --ntasks-per-node=8 python pretrain_gpt.py ${MODEL_ARGS} ${PARALLEL_ARGS} \
    --micro-batch-size 1 --global-batch-size 1024 --train-iters 100000 \
    --lr 1.5e-4 --lr-decay-style cosine --lr-warmup-fraction 0.01 --min-lr 1e-5 \
    --bf16 --use-flash-attn --use-mcore-models \
    --data-path 0.7 ${DATA_DIR:-/data}/web 0.3 ${DATA_DIR:-/data}/code --split 990,9,1 \
    --tokenizer-type Llama2Tokenizer --tokenizer-model ${DATA_DIR:-/data}/tokenizer.model --vocab-size 128256 \
    --save ${OUT_DIR:-/out}/ckpt --save-interval 500 --exit-duration-in-mins 230 --exit-signal-handler
