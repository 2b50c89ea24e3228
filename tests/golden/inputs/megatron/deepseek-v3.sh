#!/bin/bash
# DeepSeek-V3 on NNODES nodes of 8 GPUs; NNODES comes from outside.
set -euxo pipefail
PP=8 VPP=4 EP=32

if [[ ${PROFILE:-0} -eq 1 ]]; then
    PROFILE_ARGS="--profile --profile-step-start 10"
fi

PARALLEL_ARGS=(
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size $PP
    --expert-model-parallel-size $EP
    --expert-tensor-parallel-size 1
    --use-distributed-optimizer
    # Embedding and two layers first, prediction and loss last.
    --pipeline-model-parallel-layout "Et*2|(tt|)*22t|(tt|)*7mL"
    --overlap-moe-expert-parallel-comm
)
MODEL_ARGS=(
    --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432
    --num-attention-heads 128 --kv-channels 128
    --max-position-embeddings 4096 --position-embedding-type rope
    --vocab-size 129280 --make-vocab-size-divisible-by 3232
    --normalization RMSNorm --norm-epsilon 1e-6 --swiglu
    --untie-embeddings-and-output-weights --disable-bias-linear
    --multi-latent-attention --qk-layernorm
    --q-lora-rank 1536 --kv-lora-rank 512
    --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128
    --mtp-num-layers 1
)
MOE_ARGS=(
    --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048
    --moe-layer-freq '([0]*3+[1]*58)'
    --moe-shared-expert-intermediate-size 2048
    --moe-router-num-groups 8 --moe-router-group-topk 4
    --moe-router-topk-scaling-factor 2.5
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias
    --moe-token-dispatcher-type flex --moe-enable-deepep
)
MODEL_ARGS+=("${MOE_ARGS[@]}")
PRECISION_ARGS="--bf16 --fp8-format e4m3 --fp8-recipe blockwise --use-precision-aware-optimizer
    --main-grads-dtype fp32 --main-params-dtype fp32 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"

GLOBAL_BATCH=$((NNODES * 8 / PP * 32))

torchrun --nproc-per-node=8 --nnodes=${NNODES} pretrain_gpt.py "${PARALLEL_ARGS[@]}" "${MODEL_ARGS[@]}" \
    $PRECISION_ARGS --seq-length 4096 --micro-batch-size 1 --global-batch-size $GLOBAL_BATCH \
    --recompute-granularity selective --recompute-modules mla_up_proj mlp layernorm moe_act \
    --overlap-grad-reduce --overlap-param-gather --lr 2.2e-4 ${PROFILE_ARGS:-} 2>&1 | tee log.txt
