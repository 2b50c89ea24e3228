#!/usr/bin/env bash
# usage: getopts.sh -n NODES [-t TP] [-p PP] [-f]
usage() {
  cat <<EOF
usage: $(basename "$0") -n NODES [-t TP] [-p PP] [-f]
EOF
  exit 2
}
tp=2
pp=1
fp8=false
while getopts ":n:t:p:fh" opt; do
  case "$opt" in
    n) nodes=$OPTARG ;;
    t) tp=$OPTARG ;;
    p) pp=$OPTARG ;;
    f) fp8=true ;;
    h | *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ -z "${nodes:-}" ] && usage

args="--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --vocab-size 50304 --max-position-embeddings 2048"
args+=" --seq-length 2048 --micro-batch-size 4 --global-batch-size 512 --bf16"
args+=" --tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp"
if $fp8; then
  args+=" --fp8-format hybrid --fp8-recipe delayed"
fi
if [ "$tp" -gt 1 ]; then args+=" --sequence-parallel"; fi
exec torchrun --nproc-per-node=8 --nnodes="$nodes" pretrain_gpt.py $args "$@"
