#!/bin/bash
# Everything from the environment, with defaults.
: ${TP:=4} ${PP:=2} ${CP:=1}
: "${SEQ_LEN:=4096}"
: "${MBS:=1}" "${GBS:=256}"
: ${FP8:=0}
NNODES=${NNODES:-${SLURM_NNODES:-4}}
PRECISION_ARGS=(--bf16)
if [ "${FP8}" -eq 1 ]; then
  PRECISION_ARGS+=(--fp8-format e4m3 --fp8-recipe blockwise)
fi
if [ "$CP" -gt 1 ]; then
  CONTEXT_ARGS=(--context-parallel-size $CP --cp-comm-type p2p)
fi
if [ -n "$WANDB_API_KEY" ]; then
  LOGGING="--wandb-project scaling --wandb-exp-name run-$TP-$PP"
else
  LOGGING="--tensorboard-dir runs"
fi
total=1
for i in 1 2 3; do total=$((total * 2)); done
torchrun --nproc_per_node $total --nnodes $NNODES pretrain_gpt.py \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention \
  --num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear --vocab-size 128256 \
  --untie-embeddings-and-output-weights --position-embedding-type rope --max-position-embeddings $SEQ_LEN \
  --seq-length $SEQ_LEN --micro-batch-size $MBS --global-batch-size $GBS \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel \
  ${CONTEXT_ARGS[@]:+"${CONTEXT_ARGS[@]}"} "${PRECISION_ARGS[@]}" --use-distributed-optimizer $LOGGING
