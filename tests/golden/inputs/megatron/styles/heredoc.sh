#!/bin/bash
# Writes configurations of other tools first, and the command as a document.
export GPUS=64
cat <<EOF > ds_config.json
{
  "train_batch_size": $GLOBAL_BATCH,
  "zero_optimization": { "stage": 1 }
}
EOF
cat > hostfile <<-'HOSTS'
	node0 slots=8
	# don't
HOSTS
read -r -d '' CMD <<EOT
python -u pretrain_gpt.py
  --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50257
  --seq-length 1024 --max-position-embeddings 1024
  --micro-batch-size 4 --global-batch-size 512 --fp16
EOT
DEGREES=$(cat <<'EOT'
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
EOT
)
mpirun -np $GPUS -x MASTER_ADDR -hostfile hostfile $CMD $DEGREES
