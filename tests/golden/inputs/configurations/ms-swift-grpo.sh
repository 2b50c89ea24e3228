# Groups of 16 answers on the eight GPUs of a node, whose engines sleep during updates.
NPROC_PER_NODE=8 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen3-8B \
    --train_type full \
    --dataset 'my/problems#10000' \
    --reward_funcs accuracy \
    --use_vllm true \
    --vllm_mode colocate \
    --vllm_gpu_memory_utilization 0.6 \
    --vllm_max_model_len 8192 \
    --max_completion_length 4096 \
    --num_generations 16 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --steps_per_generation 16 \
    --sleep_level 1 \
    --offload_model true \
    --offload_optimizer true \
    --deepspeed zero3 \
    --beta 0.001
