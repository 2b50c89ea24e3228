#!/bin/bash
# Started by another script: degrees are in its environment, further arguments behind its name.
torchrun --nproc_per_node $GPUS --nnodes $SLURM_NNODES pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size ${MICRO_BATCH:-1} --bf16 --use-distributed-optimizer --pipeline-model-parallel-size $PP \
  --tensor-model-parallel-size $TP --sequence-parallel "$@"
