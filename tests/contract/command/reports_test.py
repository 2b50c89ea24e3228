#!/usr/bin/env python3
"""Runs the command on what people published, in words of our own: what fitted in memory, and what a profile shows.

Usage: reports_test.py PLUMBLINE [plans]. With `plans` it searches plans, too, of which none may be recommended that
hardly fits.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

failures = []


def expect(condition, text):
    if not condition:
        failures.append(text)


SCRIPT = """#!/bin/bash
GPUS_PER_NODE={gpus}
NNODES=${{WORLD_SIZE}}
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py --micro-batch-size {micro} \\
  --global-batch-size 8 {arguments}
"""
# NVIDIA/Megatron-LM issue 525: no fused attention exists for a V100 there, and its scores fill the memory. The
# vocabulary is that of the tokenizer that pretrain_gpt.py takes by itself.
GPT2 = ("--num-layers 36 --hidden-size 1280 --num-attention-heads 20 --seq-length 1024 --max-position-embeddings 1024 "
        "--fp16 --vocab-file v.json --merge-file m.txt")
# Issue 606: 7 billion parameters on a node of A100 40 GB, of which no rank shards states of the optimizer.
LLAMA = ("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --seq-length 64 "
         "--max-position-embeddings 4096 --vocab-size 32000 --swiglu --disable-bias-linear --normalization RMSNorm "
         "--position-embedding-type rope --untie-embeddings-and-output-weights --bf16")
V100, A100 = ("--topology", "v100-dgx2"), ("--topology", "a100-dgx", "--set", "cluster.device=a100-sxm-40gb")
SCRIPTS = [
    (SCRIPT.format(gpus=1, micro=8, arguments=GPT2), "1", V100, ['kernel = "unfused"', "gpus = 1"], False),
    (SCRIPT.format(gpus=1, micro=1, arguments=GPT2), "1", V100, ['kernel = "unfused"'], True),
    (SCRIPT.format(gpus=8, micro=1, arguments=LLAMA), "1", A100, ["zero_stage = 0", "gpus = 8"], False),
    (SCRIPT.format(gpus=8, micro=1, arguments=LLAMA + " --use-distributed-optimizer"), "1", A100[:2],
     ["zero_stage = 1"], True),
    # WORLD_SIZE is the number of nodes there; 8 sequences do not fill 16 replicas, with which Megatron does not start.
    (SCRIPT.format(gpus=8, micro=1, arguments=LLAMA), "2", A100, None, None),
]

# tatsu-lab/stanford_alpaca issues 86 and 221, and the machine that its authors used: FSDP of LLaMA 7B and 13B.
ALPACA = """[model]
config = "llama-2-7b"
[cluster]
topology = "a100-dgx"
gpus = 4
[parallelism]
zero_stage = 3
[batch]
sequence_length = 512
micro_batch_size = 1
global_batch_size = 16
[precision]
gemm = "bf16"
[stack]
name = "pytorch-fsdp-eager"
"""
LLAMA_13B = ("model.hidden_size=5120", "model.num_hidden_layers=40", "model.num_attention_heads=40",
             "model.num_key_value_heads=40", "model.intermediate_size=13824")
PLANS = [((), True), (("cluster.gpus=1",), False), (("cluster.gpus=2", *LLAMA_13B), False)]

# What a GPU does not run: NVIDIA/TransformerEngine issue 1159, hiyouga/LlamaFactory issue 3508.
REFUSED = [
    (("cluster.topology=a100-dgx", "precision.gemm=fp8"), "a100-sxm states no peak of fp8"),
    (("cluster.topology=v100-dgx2", "precision.gemm=fp16", "attention.kernel=flash2"), "does not run flash2 attention"),
]

# Questions for plans: pytorch/torchtitan issue 770, tatsu-lab/stanford_alpaca issue 280, NVIDIA/Megatron-LM issue 1031.
QUESTIONS = [
    ("llama-3-70b", "--gpus", "128", "--cluster", "h100-dgx"),
    ("llama-2-7b", "--gpus", "8", "--cluster", "a100-dgx", "--set", "cluster.device=a100-sxm-40gb"),
    ("llama-3-70b", "--gpus", "128", "--cluster", "h100-dgx", "--set", "search.pipeline=2", "--set", "search.tensor=8"),
]


def run(plumbline, *arguments):
    return processes.run([plumbline, *map(str, arguments)], capture_output=True, text=True)


def check_memory(plumbline, plan, fits, *overrides):
    """The verdict is what was reported, and what its probability and its peak say."""
    done = run(plumbline, "memory", plan, *(word for one in overrides for word in ("--set", one)), "--json", "-")
    memory = json.loads(done.stdout)["memory"]
    text = f"{plan.read_text()[:300]}{overrides}: {memory['verdict']}, {memory['fits_probability']}: {done.stderr}"
    expect((memory["verdict"] != "does not fit") == fits and memory["fits"] == fits, text)
    expect(done.returncode == (0 if fits else 2), text)
    expect(memory["fits_probability"] > 0.5 if fits else memory["fits_probability"] < 0.5, text)
    expect(fits or memory["peak_bytes"] > memory["capacity_bytes"], text)


def check_scripts(plumbline, folder):
    for number, (script, nodes, options, lines, fits) in enumerate(SCRIPTS):
        path, plan = folder / f"{number}.sh", folder / f"{number}.toml"
        path.write_text(script)
        done = run(plumbline, "import", "megatron", path, "--define", f"WORLD_SIZE={nodes}", *options, "-o", plan)
        if lines is None:
            done = run(plumbline, "simulate", plan, "--no-interval")
            expect(done.returncode != 0 and "8 sequences do not fill" in done.stderr, f"{script}: {done.stderr}")
            continue
        expect(done.returncode == 0, f"{script}: {done.stderr}")
        if done.returncode != 0:
            continue
        for line in lines:
            expect(re.search(rf"^{re.escape(line)}$", plan.read_text(), re.MULTILINE), f"{script}: {line} is missing")
        check_memory(plumbline, plan, fits)


def check_plans(plumbline, folder):
    for question in QUESTIONS:
        answer = folder / "answer.json"
        done = run(plumbline, "plan", *question, "--json", answer)
        plans = [plan for site in json.loads(answer.read_text())["sites"] for plan in site["plans"]]
        expect(done.returncode == 0 and plans, f"{question}: {done.stderr}")
        for plan in plans:
            expect(plan["interval"]["fits_probability"] >= 0.95, f"{question}: {plan['interval']} is recommended")


def check_first_plan(plumbline, folder):
    """On 16 GPUs the layout without recomputation has a peak below the capacity, but fits with less than a half."""
    model, plan = Path(__file__).parents[3] / "examples/models/mixtral-8x7b.json", folder / "mixtral.toml"
    done = run(plumbline, "import", "hf", model, "--gpus", "16", "-o", plan)
    expect(done.returncode == 0, f"import hf: {done.stderr}")
    memory = json.loads(run(plumbline, "memory", plan, "--json", "-").stdout)["memory"]
    expect(memory["verdict"] == "fits", f"the first plan of Mixtral: {memory['verdict']}, {memory['fits_probability']}")


def check_profile(plumbline):
    """DeepSeek's published profile (deepseek-ai/profile-data): each class once, and on both sides."""
    done = run(plumbline, "compare", "deepseek-v3-2048xh800", "h800_dualpipe_chunk", "--json", "-")
    classes = json.loads(done.stdout)["comparison"]["classes"]
    names = [row["name"] for row in classes]
    expect(len(names) > 10 and len(set(names)) == len(names), f"classes {names}")
    for row in classes:
        expect(row["predicted_s"] and row["measured_s"], f"one side alone has {row}")


def main(plumbline, plans=""):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if plans:
            return check_plans(plumbline, folder)
        check_profile(plumbline)
        check_scripts(plumbline, folder)
        check_first_plan(plumbline, folder)
        alpaca = folder / "alpaca.toml"
        alpaca.write_text(ALPACA)
        for overrides, fits in PLANS:
            check_memory(plumbline, alpaca, fits, *overrides)
        for overrides, reason in REFUSED:
            done = run(plumbline, "simulate", "llama-3-8b-64xh800", "--no-interval",
                       *(word for one in overrides for word in ("--set", one)))
            expect(done.returncode != 0 and reason in done.stderr, f"{overrides}: {done.stderr}")


main(*sys.argv[1:])
for failure in failures[:20]:
    print(failure)
sys.exit(1 if failures else 0)
