# The cluster, for every launch script here.
: "${NNODES:=8}"
: "${GPUS_PER_NODE:=8}"
export NNODES GPUS_PER_NODE
launcher() {
  echo "torchrun --nnodes $NNODES --nproc_per_node $GPUS_PER_NODE --rdzv_backend c10d"
}
