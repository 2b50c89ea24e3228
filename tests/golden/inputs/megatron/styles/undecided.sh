#!/bin/bash
# The degrees depend on a variable that only the cluster sets.
if [ "$CLUSTER" = "hopper" ]; then
  TP=8
  EXTRA="--fp8-format e4m3 --fp8-recipe blockwise"
else
  TP=4
  EXTRA=""
fi
torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 \
  --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 \
  --tensor-model-parallel-size $TP --bf16 $EXTRA
