#!/bin/bash
#SBATCH --job-name=pretrain-moe
#SBATCH --nodes=16
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --output=logs/%x-%j.log

module load cuda/12.4 2>/dev/null || true
export CUDA_DEVICE_MAX_CONNECTIONS=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
WORKDIR=${WORKDIR:-$PWD}
mkdir -p "$WORKDIR/checkpoints" || exit 1

TP=1 PP=4 EP=8
OPTIONS=(
  # Model
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8
  --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
  --position-embedding-type rope --max-position-embeddings 8192 --seq-length 8192 --vocab-size 32000
  --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall
)
OPTIONS+=(
  --tensor-model-parallel-size "$TP"
  --pipeline-model-parallel-size "$PP"
  --expert-model-parallel-size "$EP"
)
[[ $TP -gt 1 ]] && OPTIONS+=(--sequence-parallel)
(( PP > 1 )) && OPTIONS+=(--num-virtual-stages-per-pipeline-rank 2)
OPTIONS+=(--bf16 --micro-batch-size 1 --global-batch-size 256)
OPTIONS+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
if [ -d "$WORKDIR/checkpoints/latest" ]; then
  OPTIONS+=(--load "$WORKDIR/checkpoints/latest")
fi

srun --label bash -c "python -u $WORKDIR/Megatron-LM/pretrain_gpt.py ${OPTIONS[*]}"
