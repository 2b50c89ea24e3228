"""Reads the traces of the command by the rules of those who open them: its JSON Schema, Perfetto, Holistic Trace Analysis.

Usage: traces_test.py PLUMBLINE SCHEMA. The schema is checked where Python has jsonschema.
"""

import gzip
import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

failures = []


def expect(condition, text):
    if not condition:
        failures.append(text)


def command(plumbline, *arguments):
    done = processes.run([plumbline, *arguments], capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}")


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def check_schema(name, trace, schema):
    """Validates the document with every event of a rare kind and some of the frequent ones."""
    if jsonschema is None:
        return
    seen = defaultdict(int)
    events = []
    for event in trace["traceEvents"]:
        kind = (event["ph"], event.get("cat"), event["name"])
        seen[kind] += 1
        if seen[kind] <= 20:
            events.append(event)
    errors = jsonschema.Draft202012Validator(schema).iter_errors({**trace, "traceEvents": events})
    for error in list(errors)[:3]:
        expect(False, f"{name}: {error.json_path}: {error.message[:300]}")


def check_perfetto(name, trace):
    """Slices of a track nest, arrows have both ends in a slice, counters are numbers."""
    tracks, arrows = defaultdict(list), defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            tracks[event["pid"], event["tid"]].append((start, start + nanoseconds(event["dur"])))
        elif event["ph"] in "sf":
            expect(event["ph"] not in arrows[event["id"]], f"{name}: arrow {event['id']} has two {event['ph']}")
            arrows[event["id"]][event["ph"]] = event
        elif event["ph"] == "C":
            expect(all(isinstance(value, (int, float)) for value in event["args"].values()), f"{name}: {event}")
    covered = {}
    for track, slices in tracks.items():
        slices.sort(key=lambda one: (one[0], -one[1]))
        opened, starts = [], []
        for start, end in slices:
            while opened and opened[-1] <= start:
                opened.pop()
            expect(not opened or end <= opened[-1], f"{name}: track {track}: a slice at {start} ns leaves its parent")
            opened.append(end)
            starts.append((start, end))
        covered[track] = set()
        for start, end in starts:
            covered[track].add(start)
            covered[track].add(end - 1)
    for arrow, ends in arrows.items():
        expect(set(ends) == {"s", "f"}, f"{name}: arrow {arrow} has one end")
        for end in ends.values():
            expect(nanoseconds(end["ts"]) in covered[end["pid"], end["tid"]], f"{name}: arrow {arrow} is in no slice")
        if set(ends) == {"s", "f"}:
            expect(ends["s"]["ts"] <= ends["f"]["ts"], f"{name}: arrow {arrow} goes back in time")
    return len(arrows)


def check_analysis(name, trace):
    """One rank with its number, one step, kernels with a stream; communication and copies by their names."""
    rank = trace["distributedInfo"].get("rank")
    expect(isinstance(rank, int) and rank >= 0, f"{name}: rank {rank}")
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    steps = [event for event in slices if re.match(r"ProfilerStep\s*#\s*(\d+)", event["name"])]
    expect(len(steps) == 1 and "stream" not in steps[0].get("args", {}), f"{name}: {len(steps)} steps")
    kernels = [event for event in slices if event.get("args", {}).get("stream", -1) >= 0]
    expect({event["cat"] for event in kernels} <= {"kernel", "gpu_memcpy"}, f"{name}: categories of kernels")
    expect(all(event in kernels for event in slices if event["cat"] in ("kernel", "gpu_memcpy")), f"{name}: no stream")
    ids = [event["args"]["correlation"] for event in kernels]
    expect(len(set(ids)) == len(ids) and min(ids) >= 0, f"{name}: correlations of kernels")
    kinds = defaultdict(float)
    for event in kernels:
        communicates = re.match(r"^nccl.*Kernel", event["name"]) is not None and "ncclKernel" in event["name"]
        copies = re.match(r"^(Memcpy|Memset)", event["name"]) is not None
        expect(copies == (event["cat"] == "gpu_memcpy"), f"{name}: {event['name']}")
        kinds["communication" if communicates else "memory" if copies else "computation"] += event["dur"]
    return kinds


def check_kernels_fill_phases(name, trace):
    """With --trace-ranks the kernels of every slot are there: they take all of the time of the compute phases."""
    phases = kernels = 0.0
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or event["cat"] not in ("phase", "kernel") or "layer" not in event["args"]:
            continue
        if event["cat"] == "phase":
            phases += event["dur"]
        elif not event["name"].startswith("nccl"):
            kernels += event["dur"]
    expect(phases > 0 and abs(kernels / phases - 1) < 1e-3, f"{name}: kernels take {kernels} us of {phases} us")


def main(plumbline, schema_file):
    schema = json.loads(Path(schema_file).read_text())
    with tempfile.TemporaryDirectory() as folder:
        whole, again = Path(folder, "all.json"), Path(folder, "again.json.gz")
        one, same = Path(folder, "rank.json.gz"), Path(folder, "same.json.gz")
        measured, both = Path(folder, "measured.json"), Path(folder, "both.json")
        dualpipe = ("deepseek-v3-2048xh800", "--no-interval", "--set", "batch.global_batch_size=4096")
        command(plumbline, "simulate", *dualpipe, "--trace", str(whole))
        command(plumbline, "simulate", *dualpipe, "--trace", str(again))
        command(plumbline, "simulate", *dualpipe, "--trace", str(one), "--trace-ranks", "3")
        command(plumbline, "simulate", *dualpipe, "--trace", str(same), "--trace-ranks", "3-3")
        command(plumbline, "run", "host-dualpipe", "--steps", "2", "--trace", str(measured))
        command(plumbline, "compare", "llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100", "--no-interval", "--trace", str(both))
        if failures:
            return
        expect(one.read_bytes() == same.read_bytes(), "equal commands give different files")
        expect(gzip.decompress(again.read_bytes()) == whole.read_bytes(), "compressed and plain differ")
        for path in (whole, one, measured, both):
            trace = read(path)
            check_schema(path.name, trace, schema)
            arrows = check_perfetto(path.name, trace)
            expect(arrows > 0, f"{path.name}: no arrow")
        expect("rank" not in read(whole)["distributedInfo"], "a file of many ranks has one rank")
        trace = read(one)
        kinds = check_analysis(one.name, trace)
        expect(kinds["computation"] > kinds["communication"] > 0, f"{one.name}: {dict(kinds)}")
        check_kernels_fill_phases(one.name, trace)
        counters = {event["name"] for event in trace["traceEvents"] if event["ph"] == "C"}
        expect(counters >= {"memory (bytes)", "SMs", "links (B/s)", "power (W)"}, f"counters {counters}")


main(*sys.argv[1:])
for failure in failures[:20]:
    print(failure)
sys.exit(1 if failures else 0)
