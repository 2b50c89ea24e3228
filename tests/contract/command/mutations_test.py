#!/usr/bin/env python3
"""Imports mutated launch scripts and traces: nothing crashes, and nothing that changes a cost is lost without a word.

Usage: mutations_test.py PLUMBLINE ROOT [COUNT]: so many scripts and so many traces, always the same ones.

A launch script is a list of Megatron's arguments, written in one of the styles of public scripts. An argument is taken
away, and the import compared with that of the whole script: the plan or its model differs, or the whole script's notes
name the argument, or it is refused. The styles of one list give one plan. Other scripts and all traces are damaged:
they are imported, or refused with a reason; a trace that is imported has the time of all of its kernels.
"""

import csv
import gzip
import json
import math
import random
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
    return condition


def run(plumbline, *arguments):
    """The command's exit status and what it prints to stderr; a refusal has a reason, and nothing ends by a signal."""
    done = processes.run([plumbline, *map(str, arguments)], capture_output=True, text=True, errors="replace")
    refused = done.returncode == 1 and done.stderr.startswith("plumbline: ") and len(done.stderr) > 20
    expect(done.returncode == 0 or refused, f"{arguments}: status {done.returncode}: {done.stderr[-300:]}")
    return done.returncode, done.stderr


# Arguments of a script, each with values of which none is Megatron's default; "" is a flag.
SIZES = [("--num-layers", "24 48"), ("--hidden-size", "2048 4096"), ("--num-attention-heads", "16 32"),
         ("--seq-length", "2048 8192"), ("--max-position-embeddings", "8192 16384"), ("--micro-batch-size", "2 4"),
         ("--global-batch-size", "768 1536"), ("--vocab-size", "32000 128256")]
# Of each family one alternative is taken, or none.
FAMILIES = [
    [[("--ffn-hidden-size", "5504 14336")]],
    [[("--swiglu", "")]],
    [[("--group-query-attention", ""), ("--num-query-groups", "4 8")]],
    [[("--kv-channels", "96 160")]],
    [[("--position-embedding-type", "rope"), ("--rotary-base", "500000 1000000")]],
    [[("--normalization", "RMSNorm"), ("--norm-epsilon", "1e-6")]],
    [[("--disable-bias-linear", "")]],
    [[("--qk-layernorm", "")]],
    [[("--untie-embeddings-and-output-weights", "")]],
    [[("--make-vocab-size-divisible-by", "1024 3000")]],
    [[("--tokenizer-type", "NullTokenizer")]],
    [[("--window-size", "1024,0 (512,0)"), ("--window-attn-skip-freq", "2 4")]],
    [[("--num-experts", "8 16"), ("--moe-router-topk", "4"), ("--moe-ffn-hidden-size", "1408 3072"),
      ("--expert-model-parallel-size", "4 8"), ("--moe-token-dispatcher-type", "alltoall flex"),
      ("--moe-grouped-gemm", ""), ("--moe-shared-expert-intermediate-size", "2816"), ("--moe-permute-fusion", ""),
      ("--moe-router-fusion", ""), ("--moe-layer-freq", "2"), ("--moe-expert-capacity-factor", "1.25"),
      ("--moe-pad-expert-input-to-capacity", ""), ("--moe-router-load-balancing-type", "sinkhorn"),
      ("--moe-shared-expert-overlap", "")]],
    [[("--tensor-model-parallel-size", "2 4"), ("--sequence-parallel", "")]],
    [[("--pipeline-model-parallel-size", "2 4")],
     [("--pipeline-model-parallel-size", "2 4"), ("--num-virtual-stages-per-pipeline-rank", "2 3")]],
    [[("--context-parallel-size", "2"), ("--cp-comm-type", "a2a all_gather")]],
    [[("--use-distributed-optimizer", ""), ("--overlap-grad-reduce", ""), ("--overlap-param-gather", ""),
      ("--num-distributed-optimizer-instances", "2"), ("--ddp-bucket-size", "100000000")]],
    [[("--bf16", ""), ("--grad-reduce-in-bf16", "")],
     [("--bf16", ""), ("--fp8-format", "hybrid e4m3"), ("--fp8-recipe", "blockwise tensorwise")],
     [("--fp16", ""), ("--loss-scale", "4096")]],
    [[("--attention-backend", "flash fused unfused")], [("--use-flash-attn", "")],
     [("--transformer-impl", "local")]],
    [[("--recompute-granularity", "full"), ("--recompute-method", "block"), ("--recompute-num-layers", "2 3")],
     [("--recompute-granularity", "selective"), ("--recompute-modules", "mlp")],
     [("--recompute-activations", "")]],
    [[("--cross-entropy-loss-fusion", ""), ("--cross-entropy-fusion-impl", "te")]],
    [[("--cuda-graph-impl", "transformer_engine"), ("--cuda-graph-scope", "attn")]],
    [[("--use-precision-aware-optimizer", ""), ("--exp-avg-dtype", "bf16 fp8"), ("--exp-avg-sq-dtype", "bf16 fp8")]],
    [[("--optimizer-cpu-offload", "")]],
    [[("--train-iters", "5000"), ("--lr", "0.00015"), ("--save-interval", "10000"), ("--eval-iters", "7")],
     [("--train-samples", "1000000"), ("--split", "949,50,1")]],
    [[("--no-gradient-accumulation-fusion", ""), ("--hidden-dropout", "0.1"), ("--squared-relu", "")]],
    [[("--distributed-timeout-minutes", "60"), ("--reset-attention-mask", "")]],
    [[("--rampup-batch-size", "16,16,1000"), ("--delay-wgrad-compute", ""), ("--optimizer", "sgd")]],
    [[("--an-argument-of-our-fork", "3")]],
]


def arguments_of(chance):
    """A list of [name, value...] that a script could have."""
    families = sorted(chance.sample(range(len(FAMILIES)), 11))
    pairs = SIZES + [pair for i in families for pair in chance.choice(FAMILIES[i])]
    chosen = [[name, *chance.choice(values.split(" ")).split()] for name, values in pairs]
    return [one[:1] + one[1].split(",") if one[0] == "--rampup-batch-size" else one for one in chosen]


def plain(arguments):
    words = " \\\n    ".join(" ".join(map(quoted, one)) for one in arguments)
    return f"#!/bin/bash\ntorchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \\\n    {words}\n"


def quoted(word):
    return f"'{word}'" if re.search(r"[(),]", word) else word


def styled(arguments, chance):
    """The same training, written as public scripts write it."""
    lines, parts, number = ["#!/bin/bash"], [], 0
    if chance.random() < 0.3:
        lines += ["if [ ! -f pretrain_gpt.py ]; then", "  echo no program", "  exit 1", "fi"]
    arguments = [list(one) for one in arguments]
    for one in arguments:
        if len(one) == 2 and chance.random() < 0.3:
            number += 1
            value = quoted(one[1])
            form = chance.randrange(6)
            lines.append({0: f"V{number}={value}", 1: f"V{number}=${{V{number}:-{value}}}",
                          2: f"export V{number}=\"{one[1]}\"",
                          3: f"if [ 1 -eq 1 ]; then V{number}={value}; else V{number}=7; fi",
                          4: f"case b in a) V{number}=7 ;; b) V{number}={value} ;; esac",
                          5: f"f{number}() {{ V{number}={value}; }}; f{number}"}[form])
            one[1] = chance.choice([f"${{V{number}}}", f"$V{number}"])
    while arguments:
        count, form = chance.randint(1, 9), chance.randrange(6)
        part, arguments = arguments[:count], arguments[count:]
        name = f"ARGS{len(parts)}"
        words = [" ".join(word if "$" in word else quoted(word) for word in one) for one in part]
        bare = [" ".join(one) for one in part]
        if form == 0:
            lines += [f"{name}=(", *(f"  {word}" for word in words), ")"]
            parts.append(f"\"${{{name}[@]}}\"")
        elif form == 1:
            lines += [f"{name}=\"", *(f"  {word} \\" for word in bare), "\""]
            parts.append(f"${name}")
        elif form == 2:
            lines += [f"{name}=()", *(f"{name}+=({word})" for word in words)]
            parts.append(f"${{{name}[@]}}")
        elif form == 3:
            lines += [f"{name}=\"{bare[0]}\"", *(f"{name}=\"${{{name}}} {word}\"" for word in bare[1:])]
            parts.append(f"${{{name}}}")
        elif form == 4:
            lines += [f"{name}=(", *(f"  \"{word}\" # why" for word in bare), ")", f"{name}S=\"${{{name}[@]}}\""]
            parts.append(f"${name}S")
        else:
            parts.append(" \\\n  ".join(words))
    number = chance.randrange(4)
    start = {0: "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py", 1: "$LAUNCH pretrain_gpt.py",
             2: "torchrun \"${LAUNCHER[@]}\" pretrain_gpt.py", 3: "srun python pretrain_gpt.py"}[number]
    if number == 1:
        lines += ["GPUS=8", "LAUNCH=\"python -m torch.distributed.run --nproc-per-node $GPUS --nnodes=$((GPUS * 1))\""]
    elif number == 2:
        lines += ["LAUNCHER=(--nproc_per_node 8 --nnodes 8)"]
    elif number == 3:
        lines[1:1] = ["#SBATCH --nodes=8", "#SBATCH --ntasks-per-node=8"]
    words = f"{start} \\\n  " + " \\\n  ".join(parts)
    if chance.random() < 0.2 and not re.search(r"[\"()]", words + "".join(lines)):
        return "\n".join([*lines, f"CMD=\"{words}\"", "echo $CMD", "eval $CMD"]) + "\n"
    return "\n".join([*lines, words + chance.choice(["", " 2>&1 | tee log", " &> log"])]) + "\n"


class Scripts:
    def __init__(self, plumbline, folder):
        self.plumbline, self.folder = plumbline, folder
        self.imported = self.refused = 0

    def imports(self, text, *options):
        """(plan and model, notes) or None, where the script is refused."""
        script, plan, model = (self.folder / name for name in ("launch.sh", "plan.toml", "plan.json"))
        script.write_text(text)
        for path in (plan, model):
            path.unlink(missing_ok=True)
        status, notes = run(self.plumbline, "import", "megatron", script, "-o", plan, "--verbose", *options)
        self.imported += status == 0
        self.refused += status != 0
        # Each note without its line; where an argument is, decides nothing.
        lines = {re.sub(r"^[^ ]*launch\.sh(:\d+)?: ", "", line) for line in notes.split("\n") if "launch.sh" in line}
        return (plan.read_text() + model.read_text(), lines) if status == 0 else (None, notes)

    def drop_each(self, chance, count):
        """Takes away the arguments of scripts one by one, in any style."""
        done = 0
        while done < count:
            arguments = arguments_of(chance)
            whole, notes = self.imports(plain(arguments))
            if whole is None:
                done += 1
                continue
            for i in sorted(chance.sample(range(len(arguments)), min(len(arguments), count - done))):
                done += 1
                rest = arguments[:i] + arguments[i + 1 :]
                without, others = self.imports(plain(rest))
                name = arguments[i][0]
                named = any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line) for line in notes)
                expect(without != whole or named or others != notes,
                       f"{' '.join(arguments[i])} is lost among {arguments}")
                if done % 2 == 0:
                    continue
                script = styled(rest, chance)
                again, reason = self.imports(script)
                expect(again == without or (again is None and "--execute" in reason),
                       f"another plan ({reason if again is None else ''}) than without a style:\n{script}")

    def damage(self, chance, count):
        """Changes lines and characters of scripts."""
        for _ in range(count):
            lines = styled(arguments_of(chance), chance).split("\n")
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(lines))
                change = chance.randrange(5)
                if change == 0:
                    del lines[at : at + chance.randint(1, 4)]
                elif change == 1:
                    lines.insert(at, chance.choice(lines) if lines else "")
                elif change == 2:
                    lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
                elif change == 3:
                    where = chance.randrange(len(lines[at]) + 1)
                    letter = chance.choice("\"'\\$(){}[]#;&|<>=` \t*?~!-\0é")
                    lines[at] = lines[at][:where] + letter + lines[at][where:]
                else:
                    lines[at] = lines[at].replace(*chance.choice([("\"", ""), (" ", ""), ("$", "${"), ("(", ""),
                                                                  ("\\", ""), ("8", "$N"), ("=", " ")]))
                lines = lines or [""]
            self.imports("\n".join(lines))


def write_trace(path, events, chance):
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
                       "traceEvents": events})
    if chance.random() < 0.5:
        # What some writers put where a number belongs.
        number = chance.choice(["inf", "NaN", "-Infinity", "null"])
        text = text.replace('"warps per SM": 0', f'"warps per SM": {number}')
    data = text.encode()
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)


KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")


def mutated(events, chance):
    """Copies of events, changed as recorders, cuts and editors change them."""
    events = [dict(event, args=dict(event.get("args", {}))) for event in events]
    for _ in range(chance.randint(1, 4)):
        change, share = chance.randrange(10), chance.random() ** 3
        chosen = [event for event in events if chance.random() < share] or [chance.choice(events)]
        if change == 0:
            gone = {id(event) for event in chosen}
            events = [event for event in events if id(event) not in gone] or events[:1]
        elif change == 1:
            chance.shuffle(events)
        elif change == 2:
            cut = chance.randrange(len(events))
            events = events[cut:] or events if chance.random() < 0.5 else events[: cut + 1]
        elif change == 3:
            for event in chosen:
                key = chance.choice(["grid", "stream", "correlation", "External id", "device", "block"])
                event["args"].pop(key, None)
        elif change == 4:
            for event in chosen:
                key = chance.choice(["grid", "block", "registers per thread", "Input Dims", "Concrete Inputs"])
                event["args"][key] = chance.choice(["grid(8,)", None, [], {}, [1.0, 2.0, 3.0], True, "x", [[["a"]]],
                                                    [-1], 1e300])
        elif change == 5:
            for event in chosen:
                at = float(event["ts"])
                event["ts"] = chance.choice([at * 1000, str(at), at + 0.0005, 0])
        elif change == 6:
            for event in chosen:
                time = float(event.get("dur", 0))
                event["dur"] = chance.choice([0, time * 1000, str(time), 1e-4])
        elif change == 7:
            for event in chosen:
                event["name"] = chance.choice(["", "é\"\\\n", "k" * 5000, "ncclDevKernel_AllReduce_Sum_bf16_RING(x)",
                                               "void at::native::reduce_kernel<x>(y)", "my_fused_thing<128>"])
        elif change == 8:
            events += [dict(event, args=dict(event["args"])) for event in chosen[:500]]
        else:
            for event in chosen:
                event["args"]["warps per SM"] = 0
                event.setdefault("pid", 0)
                event["tid"] = chance.choice(["stream 7", 7, "7", -1])
    return events


def damaged(path, chance):
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(data))
        change = chance.randrange(4)
        if change == 0:
            data[at] = chance.randrange(256)
        elif change == 1:
            del data[at : at + chance.randint(1, 40)]
        elif change == 2:
            data[at:at] = data[chance.randrange(len(data)) :][: chance.randint(1, 60)]
        else:
            del data[max(at, 1) :]
    path.write_bytes(bytes(data) or b"{")


class Traces:
    def __init__(self, plumbline, root, folder):
        self.plumbline, self.folder = plumbline, folder
        self.plan = root / "tests/golden/inputs/llama-4-layers.toml"
        names = ["h100-pytorch-trace.json.gz", "h100-pytorch-recompute-trace.json.gz"]
        texts = [gzip.decompress((root / "tests/data" / name).read_bytes()) for name in names]
        small = (root / "tests/golden/inputs/kineto-trace.json").read_bytes()
        self.traces = [json.loads(text)["traceEvents"] for text in [*texts, *([small] * 4)]]
        self.imported = self.compared = 0

    def check(self, chance, count):
        for i in range(count):
            path = self.folder / chance.choice(["trace.json", "trace.json.gz"])
            events = mutated(chance.choice(self.traces), chance)
            write_trace(path, events, chance)
            broken = i % 4 == 3
            if broken:
                damaged(path, chance)
            self.import_one(path, None if broken else events, i)
            if i % 3 == 0:
                self.compared += run(self.plumbline, "compare", self.plan, path)[0] == 0

    def import_one(self, path, events, number):
        chunk = self.folder / "chunk.csv"
        status, notes = run(self.plumbline, "import", "kineto", path, "-o", chunk)
        if status != 0 or events is None:
            return
        self.imported += 1
        kernels = [event for event in events if event.get("ph") == "X" and event.get("cat") in KERNELS]
        with chunk.open(newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        seconds = sum(float(event["dur"]) for event in kernels)
        found = sum(float(row["dur_us"]) for row in rows)
        whole = len(rows) == len(kernels) and math.isclose(found, seconds, rel_tol=1e-6, abs_tol=0.001 * len(rows))
        # One step and one GPU of several, which is noted.
        part = len(rows) < len(kernels) and ("--step N takes another" in notes or "--device takes another" in notes)
        # Copies of a GPU without kernels are of no step.
        part = part or f"kernels {sum(event['cat'] == 'kernel' for event in kernels)}, copies" in notes
        expect(whole or part,
               f"trace {number}: {len(kernels)} kernels of {seconds} us, {len(rows)} of {found} us: {notes}")


def main(plumbline, root, count="1000"):
    count = int(count)
    with tempfile.TemporaryDirectory() as folder:
        scripts = Scripts(plumbline, Path(folder))
        scripts.drop_each(random.Random(1), count - count // 3)
        expect(scripts.imported > 2 * scripts.refused, f"{scripts.imported} scripts, {scripts.refused} were refused")
        scripts.damage(random.Random(2), count // 3)
        traces = Traces(plumbline, Path(root), Path(folder))
        traces.check(random.Random(3), count)
        expect(traces.imported > count / 4 and traces.compared >= count // 40,
               f"{traces.imported} traces were imported, {traces.compared} compared")


main(*sys.argv[1:])
for failure in failures[:20]:
    print(failure)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
