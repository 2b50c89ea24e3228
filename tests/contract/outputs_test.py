#!/usr/bin/env python3
"""Validates what the verbs write with --json against their schemas: outputs_test.py ROOT PLUMBLINE.

It runs commands of its own over shipped plans, and every command with `--json -` in the transcripts and pages. Then it
shows that the schemas are strict: a document with one key renamed is refused. The exit code is 77 without jsonschema.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

try:
    from jsonschema import Draft202012Validator, RefResolver
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

ROOT, PLUMBLINE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])

# An overlapped pipeline of experts, FSDP, serving, plans that do not fit or cannot be laid out, each form of each verb.
COMMANDS = [
    "simulate deepseek-v3-2048xh800 --json -",
    "simulate deepseek-v3-2048xh800 --fidelity closed-form --no-interval --json -",
    "simulate llama-3-8b-64xh800 --measured 41% --measured-memory 71GB --json -",
    "simulate llama-3-8b-64xh800 --fidelity cluster --seeds 2 --json -",
    "simulate llama-3-8b-fsdp-64xh100 --set run.tokens=1e12 --set run.goodput='\"campaign\"' --json -",
    "simulate llama-3-8b-64xh800 --set batch.micro_batch_size=16 --json -",
    "simulate host-tiny-moe --set routing.skew=0.2 --set routing.imbalance=0 --json -",
    "memory deepseek-v3-2048xh800 --json -",
    "memory llama-3-8b-64xh800 --set batch.micro_batch_size=16 --json -",
    "campaign llama-3-405b-16384xh100 --seeds 5 --finish-by 60d --no-interval --json -",
    "campaign llama-3-8b-64xh800 --seeds 2 --set run.tokens=1e11 --set campaign.start='\"2027-01-01\"' --json -",
    "serve deepseek-v3-144xh800 --json -",
    "plan dapo-qwen3-32b-128xh100 --set search.tensor=1 --set search.context=8 --set search.micro_batch_size=1 "
    "--set search.pipeline=1 --set rollout.tensor=8 --json -",
    "serve llama-3-70b-8xh100 --no-interval --set inference.concurrency=0 --json -",
    "serve llama-3-70b-8xh100 --draws 16 --measured 9000tok/s --set inference.demand_output_tokens_per_day=1e9"
    " --json -",
    "schedule dualpipe --ranks 4 --micro-batches 10 --json -",
    "schedule 1f1b --ranks 2 --micro-batches 3 --costs tests/golden/inputs/uneven_stages.csv --json -",
    "schedule all --ranks 4 --micro-batches 8 --json -",
    "sweep llama-3-8b-64xh800 --over parallelism.tensor=1,3,8 --interval --json -",
    "sweep deepseek-v3-2048xh800 --fidelity closed-form --over overlap.communication_sms=16..24:4 --json -",
    "sweep llama-3-8b-64xh800 --tornado --over cluster.nic_gbps=200,400 --json -",
    "sweep llama-3-8b-64xh800 --solve cluster.nic_gbps --for step.time_s=4 --json -",
    "sweep llama-3-70b-8xh100 --over inference.concurrency=1,32 --over parallelism.tensor=3,8 --interval --json -",
    "sweep dapo-qwen3-32b-128xh100 --over rollout.updates=8,16 --over rollout.tensor=3,8 --json -",
    "compare dapo-qwen3-32b-128xh100 --cluster h200-hgx --json -",
    "sweep llama-3-70b-8xh100 --tornado --over inference.concurrency=32,128 --json -",
    "sweep llama-3-70b-8xh100 --solve inference.concurrency --for serving.output_tokens_per_s_per_gpu=500 --json -",
    "plan llama-3-8b-fsdp-64xh100 --top 2 --set search.tensor=1 --set search.pipeline=1 --set run.tokens=1e11"
    " --deadline 1d --json -",
    "plan llama-3-8b --gpus 16,24 --cluster h100-dgx --top 1 --set search.pipeline=1 --json -",
    "plan llama-3-70b --gpus 16 --cluster h100-dgx --objective throughput --top 2 --json -",
    "plan llama-3-405b --gpus 8 --cluster a100-dgx --objective latency --json -",
    "compare llama-3-8b-64xh800 llama-3-8b-fsdp-64xh100 --fidelity closed-form --by-class --json -",
    "compare llama-3-8b-64xh800 --cluster h100-dgx,h800-multi-rail --no-interval --json -",
    "compare deepseek-67b-8xh800 deepseek-v2-8xh800 --json -",
    "compare tests/golden/inputs/host-dualpipe-measured.json host-dualpipe --json -",
    "compare deepseek-v3-2048xh800 h800_dualpipe_chunk --json -",
    "compare tests/golden/inputs/llama-4-layers.toml tests/data/h100-pytorch-trace.json.gz --json -",
    "show routing deepseek-v3-2048xh800 --set routing.skew=0.2 --set routing.imbalance=0"
    " --set routing.balancing=bias --steps 20 --json -",
    "validate deepseek-v3-2048xh800 h800-dualpipe-chunk --json -",
    "validate tests/golden/inputs/steps-case.toml tests/golden/inputs/components-case.toml"
    " tests/golden/inputs/serving-case.toml --json -",
    "validate --ledger --json -",
    "run host-train --steps 2 --checkpoint $OUT/saved --json -",
    "run host-train --checkpoint $OUT/saved --generate 4 --json -",
]

# Objects whose keys are names of the user's: swept keys, profiles.
OPEN = {"values", "predicted", "error", "value", "background", "model"}


def written_commands():
    """Returns every command with `--json -` of the transcripts and of the pages' blocks, without what it is piped to."""
    commands = []
    for transcript in sorted(ROOT.glob("tests/golden/*.txt")):
        commands += re.findall(r"^\$ (plumbline .*--json -(?: .*)?)$", transcript.read_text(), re.M)
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S):
            commands += re.findall(r"^(plumbline .*--json -(?: .*)?)$", block, re.M)
    short = [re.sub(r" [|#].*", "", command).removeprefix("plumbline ") for command in commands]
    return [re.sub(r"\bPLAN\b", "llama-3-8b-64xh800", re.sub(r"--html \S+", "", command)) for command in short]


def shown_schema(*name):
    done = processes.run([str(PLUMBLINE), "show", "schema", *name], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def validator_of(name):
    schema = json.loads(shown_schema(name))
    Draft202012Validator.check_schema(schema)
    base = "https://localhost/"
    store = {f"{base}defs.schema.json": json.loads(shown_schema("defs"))}
    return Draft202012Validator(schema, resolver=RefResolver(f"{base}{name}.schema.json", schema, store))


def explain(error, depth=0):
    text = f"{'  ' * depth}  /{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}\n"
    return text + "".join(explain(one, depth + 1) for one in error.context[:6] if depth < 3)


def objects(value, depth=4):
    """Yields the closed objects down to a depth; of a list those in its first element."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict) or depth == 0:
        return
    yield value
    for key, member in value.items():
        if key not in OPEN:
            yield from objects(member, depth - 1)


def accepted_renames(validator, document):
    """Returns the keys that may be renamed without the schema refusing the document, other than names of profiles."""
    accepted = []
    profiles = {profile for case in document.get("cases", []) for profile in case.get("profiles", [])}
    for one in objects(document):
        for key in set(one) - profiles:
            one[key + "_"] = one.pop(key)
            if validator.is_valid(document):
                accepted.append(key)
            one[key] = one.pop(key + "_")
    return accepted


def blank_keys(value):
    if isinstance(value, dict):
        return [key for key in value if " " in key] + [key for member in value.values() for key in blank_keys(member)]
    return [key for member in value for key in blank_keys(member)] if isinstance(value, list) else []


def main():
    failures, validators, examples = [], {}, {}
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "OUT": out, "PLUMBLINE": str(PLUMBLINE)}
        for command in dict.fromkeys(COMMANDS + written_commands()):
            done = processes.run(f'"$PLUMBLINE" {command}', cwd=ROOT, env=environment, capture_output=True)
            if done.returncode == 1 and not done.stdout and command not in COMMANDS:
                continue  # a transcript of wrong input
            try:
                document = json.loads(done.stdout)
            except ValueError:
                failures.append(f"{command}\n  exit {done.returncode}, no JSON: {done.stderr.decode()[:300]}\n")
                continue
            name = document["plumbline"].get("output", "missing")
            validator = validators.setdefault(name, validator_of(name))
            errors = "".join(explain(error) for error in validator.iter_errors(document))
            errors += "".join(f"  key with a blank: {key}\n" for key in set(blank_keys(document)))
            if errors:
                failures.append(f"{command}\n{errors}")
            examples.setdefault(name, document)
    for name, document in examples.items():
        if accepted := accepted_renames(validators[name], document):
            failures.append(f"the schema of {name} lets keys be renamed: {', '.join(accepted)}\n")
    described = set(shown_schema().split()) - {"defs"}
    if described != set(examples):
        failures.append(f"not tried: {', '.join(sorted(described ^ set(examples)))}\n")
    print("".join(failures) or f"{len(examples)} outputs are as their schemas describe them")
    return 1 if failures else 0


sys.exit(main())
