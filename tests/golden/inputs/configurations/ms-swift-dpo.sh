# Preferences on the eight GPUs of a node.
processes=8

NPROC_PER_NODE=$processes \
swift rlhf \
    --rlhf_type dpo \
    --model Qwen/Qwen3-8B \
    --train_type lora \
    --lora_rank 16 \
    --dataset 'my/pairs#2000' 'my/more-pairs' \
    --max_length 4096 \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps $(expr 16 / $processes) \
    --deepspeed zero2 \
    --learning_rate 1e-5
