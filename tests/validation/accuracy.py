#!/usr/bin/env python3
"""Validates all shipped cases once, and holds what comes out against accuracy.csv beside this file.

accuracy.py PLUMBLINE ROOT KEPT [--update]

PLUMBLINE is the command, ROOT the repository, KEPT the folder that validate.json and residuals.csv are written to, for
whoever needs them afterwards. With --update, accuracy.csv is written anew. Errors, biases and coverages are in percent:
of `step` (closed form beside measured steps), `middle` (P50 of its interval) and `memory` the mean absolute error; of
`kernels` and of deployments the median.
"""

import csv
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import processes

COLUMNS = ["set", "figure", "rows", "error", "bias", "coverage"]
# Percent by which a row may differ: it is written with one digit, and the last of a sum depends on the processor.
DIFFERENCE = 0.11


def row(name, figure, rows, error, bias=None, coverage=None):
    percents = ["" if value is None else f"{100 * value:.1f}" for value in (error, bias, coverage)]
    return dict(zip(COLUMNS, [name, figure, str(rows), *percents]))


def rows_of_figures(case):
    """Figures of the plan's own profile, which is the last one."""
    errors = [figure["error"][case["profiles"][-1]] for figure in case["figures"]]
    yield row(case["name"], "all", len(errors), sum(map(abs, errors)) / len(errors), sum(errors) / len(errors))
    if case["figures"][0]["metric"] == "step.time_s":
        yield row(case["name"], "step", 1, abs(errors[0]), errors[0])


def rows_of_steps(case):
    for summary in case["summaries"]:
        if summary["prediction"]["mean_absolute"] is not None:
            found = summary["prediction"]
            name = case["name"] if summary["name"] == "all" else summary["name"]
            yield row(name, "step", summary["rows"], found["mean_absolute"], found["bias"])


def rows_of_intervals(intervals, sets):
    """The rows of intervals, and the mean of the sets, each of which counts the same (docs/intervals.md)."""
    steps = [interval["step"] for interval in intervals if interval["name"] in sets and interval["step"]]
    if steps:
        error, bias, coverage = (sum(values) / len(steps) for values in zip(
            *((step["middle"]["mean_absolute"], step["middle"]["bias"], step["coverage"]) for step in steps)))
        yield row("mean of the sets", "middle", len(steps), error, bias, coverage)
    for interval in intervals:
        for figure, part in (("middle", interval["step"]), ("memory", interval["memory"])):
            if part:
                middle = part["middle"]
                yield row(interval["name"], figure, part["rows"], middle["mean_absolute"], middle["bias"], part["coverage"])


def rows_of_kernels(case):
    for found in case["components"]:
        if found["table"] is None and found["rows"]:
            yield row(f"{found['profile']} {found['family']}", "kernels", found["rows"], found["median"])


def rows_of_deployments(case):
    for summary in case["summaries"]:
        found, interval = summary["prediction"], summary["interval"]
        yield row(summary["name"], summary["figure"], interval["rows"], found["median_absolute"], found["bias"],
                  interval["coverage"])


def accuracy_of(answer):
    readers = {"figures": rows_of_figures, "steps": rows_of_steps, "components": rows_of_kernels,
               "deployments": rows_of_deployments}
    rows = [found for case in answer["cases"] for kind, read in readers.items() if kind in case for found in read(case)]
    sets = {step["set"] for case in answer["cases"] for step in case.get("steps", [])}
    return rows + list(rows_of_intervals(answer["intervals"], sets))


def differs(recorded, found):
    """Whether a cell of two rows is another number."""
    numbers = [(float(recorded[column] or "nan"), float(found[column] or "nan")) for column in COLUMNS[3:]]
    return recorded["rows"] != found["rows"] or any(
        (a == a) != (b == b) or abs(a - b) > DIFFERENCE for a, b in numbers)


def print_differences(recorded, found):
    """Prints what differs; returns whether anything does."""
    keys = dict.fromkeys([*recorded, *found])
    changed = [key for key in keys
               if key not in recorded or key not in found or differs(recorded[key], found[key])]
    for key in changed:
        cells = [" ".join(f"{column} {rows[key][column]}" for column in COLUMNS[2:] if rows[key][column])
                 if key in rows else "nothing" for rows in (recorded, found)]
        print(f"{key[0]}, {key[1]}: recorded {cells[0]}; now {cells[1]}")
    return bool(changed)


def main():
    plumbline, root, kept = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    update = sys.argv[4:] == ["--update"]
    kept.mkdir(parents=True, exist_ok=True)
    done = processes.run([plumbline, "validate", "--json", str(kept / "validate.json"), "--residuals",
                          str(kept / "residuals.csv")], capture_output=True, text=True, deadline_s=580)
    if done.returncode not in (0, 3):
        sys.exit(f"plumbline validate ended with {done.returncode}: {done.stderr}")
    answer = json.loads((kept / "validate.json").read_text())
    found = {(each["set"], each["figure"]): each for each in accuracy_of(answer)}
    table = pathlib.Path(__file__).with_name("accuracy.csv")
    with open(table, newline="", encoding="utf-8") as file:
        recorded = {(each["set"], each["figure"]): each for each in csv.DictReader(file)}
    changed = print_differences(recorded, found)
    if update:
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(found.values())
        return
    faults = {
        f"another accuracy than {table.name} records: ./dev accuracy --update writes it anew": changed,
        "a case misses what it tolerates: plumbline validate prints which": done.returncode == 3,
        "other residuals than calibrate/residuals.csv: plumbline validate --residuals writes them":
            (kept / "residuals.csv").read_bytes() != (root / "calibrate/residuals.csv").read_bytes(),
    }
    sys.exit("\n".join(fault for fault, true in faults.items() if true) or 0)


if __name__ == "__main__":
    main()
