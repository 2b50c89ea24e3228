#!/bin/bash
# The model by a case on its size; GPUs by the arguments of the script.
set -e
MODEL_SIZE=${1:-7b}
NODES=${2:-2}

case $MODEL_SIZE in
  7b|7B)
    LAYERS=32; HIDDEN=4096; HEADS=32; FFN=11008; KV=32
    TP=1; PP=1
    ;;
  13b)
    LAYERS=40; HIDDEN=5120; HEADS=40; FFN=13824; KV=40
    TP=2; PP=1
    ;;
  70b)
    LAYERS=80; HIDDEN=8192; HEADS=64; FFN=28672; KV=8
    TP=8; PP=4
    ;;
  *)
    echo "unknown model size: $MODEL_SIZE" >&2
    exit 1
    ;;
esac

GQA_ARGS=""
if [ $KV -lt $HEADS ]; then
  GQA_ARGS="--group-query-attention --num-query-groups $KV"
fi

torchrun --nproc_per_node 8 --nnodes $NODES --node_rank $RANK pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS --ffn-hidden-size $FFN $GQA_ARGS \
  --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear \
  --position-embedding-type rope --vocab-size 32000 --max-position-embeddings 4096 --seq-length 4096 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --micro-batch-size 1 --global-batch-size 512 --bf16 --use-distributed-optimizer
