#!/bin/bash
# The GPUs depend on what the machine has.
GPUS_PER_NODE=$(nvidia-smi --list-gpus | wc -l)
if [ "$GPUS_PER_NODE" -ge 8 ]; then
  PP=1
else
  PP=4
fi
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size 1 --global-batch-size 64 --bf16 --pipeline-model-parallel-size $PP
