#!/bin/bash
# GRPO of a model of 8 billion parameters by slime: two nodes train, and generate in turn.
set -ex

LINKS=$(nvidia-smi topo -m 2>/dev/null | grep -o 'NV[0-9]*' | wc -l)
if [ "$LINKS" -gt 0 ]; then HAS_NVLINK=1; else HAS_NVLINK=0; fi

MODEL_ARGS=(
   --num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288
   --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128
   --swiglu --normalization RMSNorm --qk-layernorm --disable-bias-linear
   --position-embedding-type rope --rotary-base 1000000
   --untie-embeddings-and-output-weights --vocab-size 151936
)
ROLLOUT_ARGS=(
   --num-rollout 500 --rollout-batch-size 64 --n-samples-per-prompt 8
   --rollout-max-prompt-len 1024 --rollout-max-response-len 8192
   --num-steps-per-rollout 2
   --advantage-estimator grpo --use-kl-loss --kl-loss-coef 0.001
)
PERF_ARGS=(
   --tensor-model-parallel-size 2 --sequence-parallel
   --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
   --use-dynamic-batch-size --max-tokens-per-gpu 9216
   --attention-backend flash --attention-dropout 0.0 --hidden-dropout 0.0
)
ENGINE_ARGS=(
   --rollout-num-gpus-per-engine 2 --sglang-mem-fraction-static 0.7
   --sglang-cuda-graph-bs 1 2 4 8 $(seq 16 8 256)
)

for HOST in $(awk '{print $1}' hostfile); do
   ssh root@"${HOST}" "pkill -9 python ; ray start --address=${MASTER_ADDR}:6379 --num-gpus 8" &
done
wait

ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json="{\"env_vars\": {\"NCCL_NVLS_ENABLE\": \"${HAS_NVLINK}\"}}" \
   -- python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate \
   ${MODEL_ARGS[@]} ${ROLLOUT_ARGS[@]} ${PERF_ARGS[@]} ${ENGINE_ARGS[@]}
