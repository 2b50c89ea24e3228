#!/usr/bin/env bash
# A server and its benchmark.
TP=8; CONC=64; ISL=1024; OSL=1024; RANDOM_RANGE_RATIO=0.8
MODEL=openai/gpt-oss-120b
PORT=8888
cat > config.yaml << EOF
async-scheduling: true
no-enable-prefix-caching: true
max-cudagraph-capture-size: 2048
max-num-batched-tokens: 8192
max-model-len: 4096
EOF
export VLLM_MXFP4_USE_MARLIN=1
SERVER_LOG=/tmp/server.log
PYTHONNOUSERSITE=1 vllm serve $MODEL --host 0.0.0.0 --port $PORT --config config.yaml \
 --gpu-memory-utilization 0.9 --tensor-parallel-size $TP --max-num-seqs $CONC > $SERVER_LOG 2>&1 &
SERVER_PID=$!
while [[ "$(curl -s -o /dev/null -w '%{http_code}' http://localhost:$PORT/health)" != "200" ]]; do
  if ! kill -0 "$SERVER_PID"; then echo died; exit 1; fi
  sleep 5
done
pip install -q datasets pandas
python3 bench_serving/benchmark_serving.py --model $MODEL --backend vllm --base-url http://0.0.0.0:$PORT \
 --dataset-name random --random-input-len $ISL --random-output-len $OSL --random-range-ratio $RANDOM_RANGE_RATIO \
 --num-prompts $(( $CONC * 10 )) --max-concurrency $CONC --request-rate inf --ignore-eos --save-result
