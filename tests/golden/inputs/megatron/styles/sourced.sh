#!/bin/bash
# Cluster and model in files of their own.
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" &> /dev/null && pwd)"
source "${SCRIPT_DIR}/common/cluster.sh"
. "$SCRIPT_DIR/common/model_${MODEL:=8b}.sh"
if [ -f "$SCRIPT_DIR/common/local.sh" ]; then
  source "$SCRIPT_DIR/common/local.sh"
fi
[ -f /etc/profile.d/modules.sh ] && source /etc/profile.d/modules.sh

$(launcher) pretrain_gpt.py "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" \
  --micro-batch-size 1 --global-batch-size 128 --bf16 --use-flash-attn
