"""Plans a second of a loop over a Predictor, on one core.

    PYTHONPATH=build/release/python python3 tests/python/bench.py [build/release/benchmarks/predictor_bench]

With the benchmark of the predictor, the same plans are evaluated in a loop within C++ as well; the ratio of both rates
is what Python and the reading of changes cost.
"""

import itertools
import json
import subprocess
import sys
import time

import plumbline

KINDS = ("1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev", "interleaved", "interleaved-overlap")


def plans():
    """The plans of the case wired_zero_0_to_2 of predictor_bench, as changes of the shipped plan."""
    for micro_batch, tensor, pipeline, expert, zero, recompute, kind in itertools.product(
            (1, 2), (1, 2, 4, 8), (1, 2, 4, 8, 16), (8, 16, 32, 64), (0, 1, 2), ("none", "selective", "full"), KINDS):
        yield {"batch.micro_batch_size": micro_batch, "parallelism.tensor": tensor, "parallelism.sequence": tensor > 1,
               "parallelism.pipeline": pipeline, "parallelism.expert": expert, "parallelism.zero_stage": zero,
               "recompute.policy": recompute, "schedule.kind": kind,
               "schedule.virtual_stages": 2 if kind.startswith("interleaved") else 1}


def rate(predictor, changes):
    """Plans a second of CPU time, and the plans that the layout allows."""
    begin, feasible = time.process_time(), []
    for change in changes:
        try:
            predictor.predict(change)
            feasible.append(change)
        except plumbline.InfeasibleError:
            pass
    return len(feasible) / (time.process_time() - begin), feasible


def inside(benchmark):
    """Plans a second of the same plans in a loop within C++: predictor_bench, warm."""
    done = subprocess.run([benchmark, "--benchmark_filter=warm/wired_zero_0_to_2", "--benchmark_format=json"],
                          capture_output=True, text=True, check=True)
    case = json.loads(done.stdout)["benchmarks"][0]
    return case["plans"] * 1e3 / case["cpu_time"]  # cpu_time is in ms


def main():
    predictor = plumbline.Predictor("deepseek-v3-2048xh800", routing__imbalance=0, schedule__layers_per_stage="even")
    cold, feasible = rate(predictor, plans())
    print(f"{len(feasible)} plans, each for the first time: {cold:,.0f} plans/s")
    for _ in range(3):
        warm, _ = rate(predictor, feasible)
        line = f"again: {warm:,.0f} plans/s"
        if sys.argv[1:]:
            within = inside(sys.argv[1])
            line += f"; in a loop within C++ {within:,.0f} plans/s, ratio {warm / within:.2f}"
        print(line)


if __name__ == "__main__":
    main()
