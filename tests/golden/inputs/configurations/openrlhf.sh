#!/bin/bash
MODEL=meta-llama/Meta-Llama-3-8B-Instruct
ENGINES=(
    --vllm_num_engines 4
    --vllm_tensor_parallel_size 2
    --vllm_gpu_memory_utilization 0.5
    --colocate_all_models
    --deepspeed_enable_sleep
)
ray job submit --address="http://127.0.0.1:8265" -- python3 -m openrlhf.cli.train_ppo_ray \
    --actor_num_nodes 1 --actor_num_gpus_per_node 8 "${ENGINES[@]}" \
    --pretrain $MODEL --reward_pretrain my/Llama-3-8b-reward \
    --rollout_batch_size 256 --train_batch_size 128 --micro_train_batch_size 4 \
    --prompt_max_len 1024 --generate_max_len 1024 --packing_samples \
    --zero_stage 3 --bf16 --gradient_checkpointing --eps_clip_low_high 0.2 0.27
