#!/bin/bash
export VLLM_USE_V1=1
vllm serve deepseek-ai/DeepSeek-V3 \
  --tensor-parallel-size 1 --data-parallel-size 16 --enable-expert-parallel \
  --max-num-seqs 256 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.92 \
  --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}' --kv-cache-dtype fp8 \
  --all2all-backend deepep_low_latency --enable-dbo --foo-bar 3 --port 8000
