"""The verbs of the command as functions."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _core
from ._answers import (Comparison, MemoryResult, PlanAnswer, Result, ServingResult, TraceComparison, Validation, flat,
                       pandas_module)
from ._plans import Plan, PlanLike, changes, is_text, plan_argument, stem

if TYPE_CHECKING:
    import pandas

# SimGrid has one engine per process.
_engine = _core.Engine()

Values = Union[str, Iterable[Any]]


def _file_of(plan: Any) -> str:
    return _core.plan_text(plan)[1]


def simulate(plan: PlanLike, *, fidelity: str = "step", interval: bool = True, draws: int = 64, seed: int = 1,
             seeds: Optional[int] = None, measured: Optional[str] = None, measured_memory: Optional[str] = None,
             set: Optional[Mapping[str, Any]] = None, **keys: Any) -> Result:
    """Predicts one training step, as `plumbline simulate` does.

    plan: a dict, the path or shipped name of a plan, TOML text, or the result of another one.
    fidelity: closed-form, step, or cluster, which draws `seeds` fleets.
    interval: P10, P50 and P90 from so many `draws`; they take most of the time.
    measured: a measured step to hold against the interval, as `--measured` ("2.1s", "230TFLOP/s", "train.log"), and the
        peak of its fullest GPU (`measured_memory="71GB"`).
    set, keys: changes of the plan, `set={"parallelism.pipeline": 8}` or `parallelism__pipeline=8`.
    """
    plan = plan_argument(plan)
    if measured is None and measured_memory is not None:
        raise TypeError("measured_memory needs a measured step: measured=\"2.1s\"")
    text = _engine.simulate(plan, changes(set, keys), fidelity, interval, draws, seed, seeds, measured, measured_memory)
    return Result(text, _file_of(plan))


def memory(plan: PlanLike, *, rank: Optional[int] = None, set: Optional[Mapping[str, Any]] = None,
           **keys: Any) -> MemoryResult:
    """Predicts the memory of every pipeline rank, as `plumbline memory` does; `rank` is shown over the step."""
    plan = plan_argument(plan)
    return MemoryResult(_engine.memory(plan, changes(set, keys), rank), _file_of(plan))


def serve(plan: PlanLike, *, interval: bool = True, draws: int = 128, seed: int = 1, confidence: float = 0.5,
          measured: Optional[str] = None, set: Optional[Mapping[str, Any]] = None, **keys: Any) -> ServingResult:
    """Predicts a deployment that serves, as `plumbline serve` does.

    confidence: the share of cases in which inference.max_tpot_s and max_ttft_s hold; without an interval they are held
    against the components alone.
    measured: a measured time per output token or rate to hold against the interval, as `--measured` ("35ms",
        "9000tok/s").
    """
    plan = plan_argument(plan)
    return ServingResult(_engine.serve(plan, changes(set, keys), interval, draws, seed, confidence, measured),
                         _file_of(plan))


def _range(values: Values) -> str:
    """The values as the command reads them; words stay bare."""
    if isinstance(values, str):
        return values
    items = list(values)
    words = all(isinstance(item, str) and re.fullmatch(r"[\w-]*[A-Za-z_][\w-]*", item) for item in items)
    return ",".join(items) if words else _core.toml_value(items)


def sweep(plan: PlanLike, over: Mapping[str, Values], *, fidelity: str = "step", interval: bool = False,
          threads: int = 0, set: Optional[Mapping[str, Any]] = None, **keys: Any) -> "pandas.DataFrame":
    """Predicts a step, or a deployment, for every combination of values, on all cores, as `plumbline sweep` does.

    over: values by dotted key, a list or a range of the command: `{"overlap.communication_sms": "0..64:4"}`.
    Returns a row per point, the last key fastest: the swept keys, `feasible`, `reason`, and the dotted keys of the
    JSON. The whole JSON is `frame.attrs["plumbline"]`.
    """
    frames = pandas_module()
    ranges = [f"{name}={_range(values)}" for name, values in over.items()]
    text = _engine.sweep(plan_argument(plan), ranges, changes(set, keys), fidelity, interval, threads)
    answer = json.loads(text)
    rows = [{**point["values"], **flat({name: part for name, part in point.items() if name != "values"})}
            for point in answer["points"]]
    frame = frames.DataFrame(rows)
    frame.attrs["plumbline"] = answer
    return frame


def _names(value: Union[None, str, Iterable[str]]) -> List[str]:
    if value is None:
        return []
    return value.split(",") if isinstance(value, str) else list(value)


def _numbers(value: Union[None, int, Iterable[int]]) -> List[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def plan(model: PlanLike, *, gpus: Union[None, int, Iterable[int]] = None,
         cluster: Union[None, str, Iterable[str]] = None, offer: Union[None, str, Iterable[str]] = None,
         objective: str = "time", deadline: str = "", budget: str = "", tokens: str = "", top: int = 10,
         complete: bool = False, threads: int = 0, confidence: Optional[float] = None,
         set: Optional[Mapping[str, Any]] = None, **keys: Any) -> PlanAnswer:
    """Finds the best plans of a model on clusters, as `plumbline plan` does; Ctrl-C returns no answer.

    model: a shipped model, a config.json, or a plan to search around.
    cluster: names, each with @GPUS and :PROFILE if it has its own; gpus: sizes of the others. offer: instead of both,
    "h200-hgx:512@2.60", with USD per GPU-hour. tokens: of the training, "5T". objective: time, cost or gpu-hours;
    throughput, latency or tokens-per-dollar find deployments that serve, whose limits of times hold in a share of
    `confidence` of the cases (0.5).
    """
    subject = plan_argument(model)
    text = _engine.plan(subject, _numbers(gpus), _names(cluster), _names(offer), objective, deadline, budget, tokens,
                        top, complete, threads, confidence, changes(set, keys))
    named = isinstance(subject, dict) or os.path.isfile(os.fspath(subject))
    return PlanAnswer(text, _file_of(subject) if named and not str(subject).endswith(".json") else "<plan>")


def compare(*subjects: PlanLike, cluster: Union[None, str, Iterable[str]] = None,
            gpus: Union[None, int, Iterable[int]] = None, fidelity: str = "step", against: str = "first",
            by_class: bool = False, interval: bool = True, names: Optional[Sequence[str]] = None,
            rank: Optional[int] = None, set: Optional[Mapping[str, Any]] = None,
            **keys: Any) -> Union[Comparison, TraceComparison]:
    """Compares plans, results and files of results, or one plan on several clusters, as `plumbline compare` does.

    One plan and a file of the PyTorch profiler, or a chunk measurement, are compared kernel by kernel; `rank` is the
    pipeline rank of the trace, by default its own, else the best match.
    names: those of subjects that are no files; default: the stems of their files, or "plan 2", "result 3".
    """
    traces = [one for one in subjects if isinstance(one, (str, os.PathLike)) and not is_text(one)
              and _core.is_trace(os.fspath(one))]
    if len(subjects) == 2 and len(traces) == 1:
        plan = plan_argument(next(one for one in subjects if one is not traces[0]))
        name = os.fspath(plan) if isinstance(plan, (str, os.PathLike)) and not is_text(plan) else _file_of(plan)
        return TraceComparison(_engine.compare_trace(plan, name, changes(set, keys), os.fspath(traces[0]), rank),
                               _file_of(plan))
    labels: List[str] = []
    results: Dict[str, str] = {}
    plans: Dict[str, Any] = {}
    for index, subject in enumerate(subjects):
        is_result = isinstance(subject, Result)
        if not is_result and not isinstance(subject, dict) and not is_text(subject):
            labels.append(os.fspath(subject))  # type: ignore[arg-type]
            continue
        file = getattr(subject, "file", "<plan>")
        name = names[index] if names is not None else stem(file)
        if name == "<plan>" or any(stem(label) == name for label in labels):
            name = f"{'result' if is_result else 'plan'} {index + 1}"
        # The folder is searched for files that the plan names.
        label = os.path.join(os.path.dirname(file), name + (".json" if is_result else ".toml"))
        labels.append(label)
        if isinstance(subject, Result):
            results[label] = subject.to_json()
        else:
            plans[label] = subject
    return Comparison(_engine.compare(labels, results, plans, changes(set, keys), _names(cluster), _numbers(gpus),
                                      fidelity, against, by_class, interval))


def validate(*cases: Union[str, "os.PathLike[str]"]) -> Validation:
    """Compares predictions with published figures, as `plumbline validate` does; without cases with all shipped."""
    return Validation(_engine.validate([os.fspath(case) for case in cases]))


class Predictor:
    """Closed-form estimates of one plan with changes, for loops: what plans share is computed once.

    It is safe to use from several threads. Files that the plan names are read once, when they are first needed.
    """

    def __init__(self, plan: PlanLike, *, set: Optional[Mapping[str, Any]] = None, **keys: Any) -> None:
        self._core = _core.Predictor(plan_argument(plan), changes(set, keys))
        self.estimate = self._core.estimate

    def __call__(self, **keys: Any) -> _core.Estimate:
        """The estimate of the plan with changes: `predictor(parallelism__pipeline=8)`."""
        return self.estimate(keys)

    def predict(self, changes: Mapping[str, Any]) -> _core.Estimate:
        """The estimate of the plan with changes of dotted keys: `predictor.predict({"parallelism.pipeline": 8})`."""
        return self.estimate(changes)
