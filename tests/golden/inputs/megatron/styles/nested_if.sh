#!/bin/bash
# One script for a laptop, a node and a cluster.
MODE="${MODE:-cluster}"
PRECISION=bf16
if [[ "$MODE" == "debug" ]]; then
  NNODES=1; NPROC=1; LAYERS=2
elif [[ "$MODE" == "node" || "$MODE" == "single" ]]; then
  NNODES=1; NPROC=8; LAYERS=24
else
  NPROC=8
  LAYERS=48
  if [ -n "${NODES:-}" ] && [ "$NODES" -ge 4 ]; then
    NNODES=$NODES
    if [ "$PRECISION" != "bf16" ]; then
      echo "only bf16 on a cluster" && exit 1
    else
      OVERLAP="--overlap-grad-reduce --overlap-param-gather"
    fi
  else
    NNODES=4
  fi
fi
if [[ "$PRECISION" == [bf]*16 ]]; then PRECISION_ARG="--${PRECISION}"; fi
VPP=""
if test $LAYERS -ge 48 -a $NNODES -gt 1; then VPP="--pipeline-model-parallel-size 4"; fi

MASTER_ADDR=localhost
[[ -n $SLURM_JOB_NODELIST ]] && MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1)

torchrun --nproc_per_node=$NPROC --nnodes=$NNODES --master_addr=$MASTER_ADDR pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size 6144 --num-attention-heads 48 --seq-length 2048 \
  --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 2 --global-batch-size 256 \
  $PRECISION_ARG $VPP --use-distributed-optimizer ${OVERLAP:-}
