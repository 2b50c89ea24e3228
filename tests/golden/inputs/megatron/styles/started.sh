#!/bin/bash
#SBATCH --nodes=4
# Starts a script of its own, which sees what is exported.
export TP=4 PP=2
MICRO_BATCH=2
GPUS=8 srun bash ./common/train.sh --global-batch-size 256
