#!/usr/bin/env python3
"""Holds that what surrounds the command changes no byte of its answers: surroundings_test.py PLUMBLINE ROOT.

Each verb runs as usual and then where everything else is different: one core instead of all, no network, a folder that
is not the repository, a German locale, another time zone, a home that does not exist, a small stack. Where the answer
differs, each of these alone is tried and the one that does it named. Without a network means a network namespace
without any interface but an unused loopback; where the kernel lends no namespaces, that one is left out and said so.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

PLUMBLINE, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])

SMALL_STACK = 64 << 10  # bytes

COMMANDS = [
    "simulate llama-3-8b-64xh800 --draws 16 --json -",
    "simulate llama-3-8b-64xh800 --fidelity cluster --seeds 2 --no-interval --json -",
    "simulate host-tiny-moe --no-interval --trace -",
    "memory llama-3-8b-64xh800 --json -",
    "campaign llama-3-405b-16384xh100 --seeds 5 --no-interval --json -",
    "serve llama-3-70b-8xh100 --no-interval --json -",
    "schedule all --ranks 4 --micro-batches 8 --csv -",
    "sweep llama-3-8b-64xh800 --over parallelism.tensor=1,2,4 --csv -",
    "sweep llama-3-8b-64xh800 --tornado --over cluster.nic_gbps=200,400 --svg -",
    "plan llama-3-8b --gpus 16 --cluster h100-dgx --top 2 --set search.pipeline=1 --json -",
    "compare llama-3-8b-64xh800 llama-3-8b-fsdp-64xh100 --fidelity closed-form --json -",
    "validate h800-dualpipe-chunk --json -",
    "show model llama-3-8b",
    "show topology h100-dgx",
    "show key batch.micro_batch_size",
    "import kineto {root}/tests/golden/inputs/kineto-trace.json -o -",
    "export megatron llama-3-8b-64xh800 -o -",
    "calibrate {root}/tests/golden/inputs/host-made-up.jsonl -o -",
    "simulate llama-3-8b-64xh800 --set parallelism.pipelin=2",
]


def without_network():
    return ["unshare", "--map-root-user", "--net"]


def german_locale(folder):
    """The variables of a German locale, made here where the system has its source; it writes 0,5 for a half."""
    made = processes.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")],
                         capture_output=True) if shutil.which("localedef") else None
    known = made is not None and (folder / "de_DE.UTF-8").exists()
    return {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", **({"LOCPATH": str(folder)} if known else {})}


def surroundings(folder):
    """What is different: a name, words before the command, variables, the folder, the cores."""
    core = {min(os.sched_getaffinity(0))}
    different = [("one core", [], {}, None, core), ("another folder", [], {}, folder, None),
                 ("a German locale", [], german_locale(folder), None, None),
                 ("another time zone", [], {"TZ": "Asia/Tokyo"}, None, None),
                 ("no home", [], {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}, None, None)]
    if processes.run([*without_network(), "true"], capture_output=True).returncode == 0:
        different.append(("no network", without_network(), {}, None, None))
    else:
        print("surroundings_test: no network namespaces here, the network was not taken away")
    different.append(("a small stack", ["prlimit", f"--stack={SMALL_STACK}:"], {}, None, None))  # which may be enlarged
    return different


def stack_refusal():
    """What is wrong where the stack may not be enlarged, which a privileged process may all the same."""
    done = processes.run(["prlimit", f"--stack={SMALL_STACK}:{SMALL_STACK}", PLUMBLINE, "show", "model", "llama-3-8b"],
                         capture_output=True, text=True)
    refused = done.returncode == 1 and "the stack is limited to 64 KiB (ulimit -s" in done.stderr
    return "" if done.returncode == 0 or refused else f"a small stack: exit {done.returncode}: {done.stderr}"


def answer(command, changes):
    words, variables, folder, cores = [], dict(os.environ), str(ROOT), None
    for _, before, changed, other, some in changes:
        words += before
        variables.update(changed)
        folder, cores = other or folder, some or cores
    arguments = command.replace("{root}", str(ROOT)).split()
    done = processes.run([*words, PLUMBLINE, *arguments], capture_output=True, cwd=folder, env=variables,
                         preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
    # How far it is, which a slow machine reports twice a minute, is no part of the answer.
    errors = re.sub(rb"plumbline: \d+ of \d+ tasks are done\n", b"", done.stderr)
    return done.returncode, done.stdout, errors


def main():
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        different = surroundings(pathlib.Path(temporary))
        for command in COMMANDS:
            usual = answer(command, [])
            expected = 1 if "pipelin=" in command else 0
            if usual[0] != expected or not usual[1] + usual[2]:
                failed.append(f"{command}: exit {usual[0]}: {usual[2].decode(errors='replace')}")
            elif answer(command, different) != usual:
                causes = [one[0] for one in different if answer(command, [one]) != usual]
                failed.append(f"{command}: changed by {', '.join(causes) or 'these together'}")
    failed += [text for text in [stack_refusal()] if text]
    print("\n".join(failed) or f"{len(COMMANDS)} commands give the same bytes under: {', '.join(one[0] for one in different)}")
    return 1 if failed else 0


sys.exit(main())
