TP=8
EP_SIZE=8
DP_ATTENTION=true
MODEL=nvidia/DeepSeek-R1-0528-FP4-V2
MOE_BACKEND="CUTLASS"
EXTRA_CONFIG_FILE="dsr1-fp4.yml"
cat > $EXTRA_CONFIG_FILE << EOF
cuda_graph_config:
    enable_padding: true
    max_batch_size: 512
enable_attention_dp: $DP_ATTENTION
print_iter_log: true
kv_cache_config:
    dtype: fp8
    free_gpu_memory_fraction: 0.8
    enable_block_reuse: false
stream_interval: 10
moe_config:
    backend: $MOE_BACKEND
speculative_config:
    decoding_type: MTP
    num_nextn_predict_layers: 3
EOF
PYTHONNOUSERSITE=1 mpirun -n 1 --oversubscribe --allow-run-as-root \
    trtllm-serve $MODEL --port=8888 \
    --trust_remote_code \
    --backend=pytorch \
    --max_seq_len=2248 \
    --max_num_tokens=8192 --max_batch_size 64 \
    --tp_size=$TP --ep_size=$EP_SIZE \
    --extra_llm_api_options=$EXTRA_CONFIG_FILE
