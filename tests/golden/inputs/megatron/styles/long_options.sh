#!/bin/bash
# Long options by a while loop over the parameters.
NUM_NODES=1
GPUS_PER_NODE=8
RECOMPUTE=none
while [[ $# -gt 0 ]]; do
  case $1 in
    --nodes) NUM_NODES="$2"; shift 2 ;;
    --gpus=*) GPUS_PER_NODE="${1#*=}"; shift ;;
    --recompute) RECOMPUTE="$2"; shift; shift ;;
    *) echo "unknown option $1"; exit 1 ;;
  esac
done

function recompute_args() {
  local kind="$1"
  if [[ "$kind" == "full" ]]; then
    echo "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
  elif [[ "$kind" == sel* ]]; then
    echo "--recompute-granularity selective --recompute-modules core_attn"
  fi
}

WORLD=$(( NUM_NODES * GPUS_PER_NODE ))
GBS=$(( WORLD * 16 ))
torchrun --nproc-per-node "$GPUS_PER_NODE" --nnodes "$NUM_NODES" pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu \
  --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --vocab-size 32000 \
  --seq-length 4096 --max-position-embeddings 4096 --untie-embeddings-and-output-weights \
  --tensor-model-parallel-size 2 --micro-batch-size 2 --global-batch-size $GBS --bf16 \
  $(recompute_args "$RECOMPUTE")
