MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192
  --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
  --position-embedding-type rope --rotary-base 500000 --vocab-size 128256 --init-method-std 0.01
)
PARALLEL_ARGS=(--tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 2)
