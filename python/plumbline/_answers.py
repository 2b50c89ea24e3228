"""What the verbs answer. The state of every answer is its JSON, the text that the command prints with `--json -`."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from ._errors import InfeasibleError
from ._plans import Plan

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


def pandas_module() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a DataFrame needs pandas (Debian: python3-pandas)") from error
    return pandas


def new_axes(axes: Optional["Axes"]) -> "Axes":
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("a plot needs matplotlib (Debian: python3-matplotlib)") from error
    return pyplot.subplots(figsize=(8, 3.5), layout="constrained")[1]


def flat(value: Any, key: str = "") -> Dict[str, Any]:
    """The numbers, words and flags of nested objects by their dotted keys; lists are left out."""
    if isinstance(value, dict):
        pairs: Dict[str, Any] = {}
        for name, part in value.items():
            pairs.update(flat(part, f"{key}.{name}" if key else name))
        return pairs
    return {} if isinstance(value, list) else {key: value}


def html_table(rows: List[Tuple[str, ...]], head: Tuple[str, ...] = ()) -> str:
    def row(cells: Tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + (row(head, "th") if head else "") + "".join(row(cells, "td") for cells in rows) + "</table>"


def number(value: Any, unit: str = "", factor: float = 1.0) -> str:
    if value is None:
        return "-"
    scaled = value * factor
    return f"{scaled:,.0f} {unit}".rstrip() if abs(scaled) >= 1000 else f"{scaled:.4g} {unit}".rstrip()


def days(value: Optional[float]) -> str:
    """Days as the command has them: 55.3, and 0.058 of a fine-tuning of an hour or two."""
    return "-" if value is None else f"{value:.{3 if value < 1 else 1}f} days"


def chance(probability: Optional[float]) -> str:
    """A probability as the command has it: no draws resolve what is within a percent of certain."""
    if probability is None:
        return "-"
    return "< 1 %" if probability < 0.01 else "> 99 %" if probability > 0.99 else f"{100 * probability:.4g} %"


class Answer:
    """What all answers have: the JSON, as text and as dict, its keys as attributes, and rows of it. What a key means is
    in the JSON Schema that `plumbline show schema` prints."""

    _main: Tuple[str, ...] = ()  # keys of objects whose keys are attributes, too

    def __init__(self, text: str, file: str = "<plan>") -> None:
        self._text = text
        self._file = file
        self._parsed: Optional[Dict[str, Any]] = None

    def to_json(self) -> str:
        """The JSON of the command's `--json -`."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """The same as a dict."""
        return json.loads(self._text)

    @property
    def _data(self) -> Dict[str, Any]:
        if self._parsed is None:
            self._parsed = json.loads(self._text)
        return self._parsed

    def _attributes(self) -> Dict[str, Any]:
        parts = [*(self._data[key] for key in reversed(self._main)), self._data]
        return {key: value for part in parts for key, value in part.items()}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in (found := self._attributes()):
            return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._attributes()]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each thing that is answered; columns are the dotted keys of the JSON."""
        return pandas_module().DataFrame(self._rows())

    def _rows(self) -> List[Dict[str, Any]]:
        raise NotImplementedError

    def __reduce__(self) -> Tuple[Any, ...]:
        return (type(self), (self._text, self._file))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and type(self) is type(other) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class PlanResult(Answer):
    """An answer about one plan."""

    @property
    def plan(self) -> Plan:
        """The effective plan."""
        return Plan(self._data["plan"], self._file)


class MemoryAnswer(PlanResult):
    """An answer that has the memory of every pipeline rank."""

    _main = ("memory",)

    def _needs(self) -> str:
        """The peak and the capacity. Allocators fill a device, so that of a full one the least is what tells."""
        rank = self.memory.get("fullest_rank")
        fullest = next((stage for stage in self.memory["stages"] if stage["stage"] == rank), {})
        least, peak = fullest.get("low_bytes") or self.peak_bytes, self.peak_bytes
        full = least < peak and peak > 0.999 * self.capacity_bytes
        needed = f"at least {number(least, 'GB', 1e-9)}" if full else number(peak, "GB", 1e-9)
        return f"{needed} of {number(self.capacity_bytes, 'GB', 1e-9)}"

    def _verdict(self) -> str:
        verdict = self.memory.get("verdict")
        return f", {verdict}" + ("" if self.fits_probability is None else f" with {chance(self.fits_probability)}"
                                 ) if verdict else ""


class LinesAnswer(Answer):
    """An answer that is shown as lines of a name and a value."""

    _name_width = 12

    def _lines(self) -> List[Tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(f"{name:<{self._name_width}} {value}" for name, value in self._lines())

    def _repr_html_(self) -> str:
        return html_table(list(self._lines()))


class Result(LinesAnswer, MemoryAnswer):
    """One predicted training step."""

    _main = ("step", "memory")

    @property
    def interval(self) -> Optional[Dict[str, Any]]:
        """P10, P50 and P90 of time, rates, cost and memory; None where none was asked for."""
        interval = self._data["interval"]
        return interval if interval and interval.get("draws") else None

    @property
    def bound_s(self) -> Optional[float]:
        """The proven lower bound of the step."""
        return self._data["bound"]["time_s"]

    def _rows(self) -> List[Dict[str, Any]]:
        parts = ("step", "interval", "bound", "run", "memory")
        return [flat({part: self._data[part] for part in parts if self._data[part] is not None})]

    def _lines(self) -> List[Tuple[str, str]]:
        interval = self.interval
        shown = self.middle or {**(self.run or {}), **self.step}
        lines = [("step time", number(shown["time_s"], "s")),
                 ("P10 to P90", f"{number(interval['time_s']['p10'], 's')} to {number(interval['time_s']['p90'], 's')}"
                  if interval else "-"),
                 ("tokens/s", number(shown["tokens_per_s"])),
                 ("MFU", number(shown["mfu"], "%", 100)),
                 ("from components", number(self.time_s, "s")),
                 ("lower bound", number(self.bound_s, "s")),
                 ("peak memory", self._needs() + self._verdict())]
        if self.run:
            lines.append(("training", f"{days(shown['days'])}, {number(shown['cost_usd'], 'USD')}"))
        if self.measured:
            lines.append(("measured", f"{number(self.measured['step_s'], 's')}. {self.measured['sentence']}"))
            lines += [("cause", f"{cause['cause']}, {number(cause['step_s'], 's')}: {cause['try']}")
                      for cause in self.measured["causes"]]
        return lines

    def plot(self, axes: Optional["Axes"] = None) -> "Axes":
        """Draws what the step is spent on."""
        return stack(axes, "s", ["step"], [self.breakdown_s])


def stack(axes: Optional["Axes"], unit: str, names: List[str], parts: List[Dict[str, float]]) -> "Axes":
    """Draws a stacked bar for each name."""
    axes = new_axes(axes)
    left = [0.0] * len(names)
    for part in dict.fromkeys(key for one in parts for key in one):
        widths = [one.get(part) or 0.0 for one in parts]
        axes.barh(names, widths, left=left, label=part)
        left = [begin + width for begin, width in zip(left, widths)]
    axes.invert_yaxis()
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_xlabel(unit)
    return axes


class MemoryResult(MemoryAnswer):
    """The memory of every pipeline rank."""

    _uses = ("parameters", "gradients", "optimizer", "activations", "buffers")

    def _rows(self) -> List[Dict[str, Any]]:
        return [flat(stage) for stage in self.memory["stages"]]

    def __repr__(self) -> str:
        return f"peak memory {self._needs()}{self._verdict()}"

    def _repr_html_(self) -> str:
        parts = (*self._uses, "peak")
        rows = [(str(stage["stage"]), *(number(stage[f"{part}_bytes"], "GB", 1e-9) for part in parts))
                for stage in self.memory["stages"]]
        return html_table(rows, ("rank", *parts))

    def plot(self, axes: Optional["Axes"] = None) -> "Axes":
        """Draws what fills each rank at its highest moment."""
        stages = self.memory["stages"]
        axes = stack(axes, "GB", [f"rank {stage['stage']}" for stage in stages],
                     [{use: stage[f"{use}_bytes"] / 1e9 for use in self._uses} for stage in stages])
        axes.axvline(self.capacity_bytes / 1e9, color="black", linestyle=":")
        return axes


class ServingResult(LinesAnswer, PlanResult):
    """A deployment that serves."""

    _name_width = 30
    _main = ("serving", "memory")

    def _rows(self) -> List[Dict[str, Any]]:
        return [flat(self.serving)]

    def _lines(self) -> List[Tuple[str, str]]:
        shown = self.middle or self.serving
        return [("TPOT", number(shown["tpot_s"], "ms", 1e3)),
                ("TTFT", number(shown["ttft_s"], "ms", 1e3)),
                ("TTFT, unloaded", number(shown["ttft_unloaded_s"], "ms", 1e3)),
                ("output tokens/s per GPU", number(shown["output_tokens_per_s_per_gpu"])),
                ("USD per million output tokens", number(shown["usd_per_million_output_tokens"])),
                ("bound by", self.bound_by),
                ("memory", f"{self.memory['verdict']} with {chance(self.fits_probability)}")]


def time_of_rollout(rollout: Dict[str, Any]) -> float:
    """The seconds of a step of reinforcement learning, in the middle of its interval where there is one."""
    return rollout["middle"]["time_s"] if rollout["middle"] else rollout["step_s"]


class PlanAnswer(Answer):
    """The plans that a search found, the best of all clusters first."""

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self._found())

    @property
    def plans(self) -> List[Plan]:
        """The plans, those of the best cluster first."""
        return [Plan(found["plan"], self._file) for _, found in self._found()]

    @property
    def best(self) -> Plan:
        """The best plan. Without any, InfeasibleError says why."""
        if recommended := self._data.get("plan"):
            return Plan(recommended, self._file)
        reasons = "; ".join(f"{site['cluster']}: {site.get('no_plan_because') or site.get('reason')}"
                            for site in self._sites())
        raise InfeasibleError(f"no plan: {reasons}", reasons)

    def _sites(self) -> List[Dict[str, Any]]:
        return sorted(self._data["sites"], key=lambda site: site.get("rank") or len(self._data["sites"]) + 1)

    def _found(self) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
        return [(site, found) for site in self._sites() for found in site.get("plans") or []]

    def _rows(self) -> List[Dict[str, Any]]:
        about = ("cluster", "gpus", "profile", "stack", "rank")
        return [{**{name: site.get(name) for name in about}, **flat(found)} for site, found in self._found()]

    def __repr__(self) -> str:
        return f"{len(self)} plans on {len(self._data['sites'])} clusters"

    def _repr_html_(self) -> str:
        def cells(site: Dict[str, Any], found: Dict[str, Any]) -> Tuple[str, ...]:
            degrees = found["plan"]["parallelism"]
            words = ", ".join(f"{name} {value}" for name, value in degrees.items()
                              if isinstance(value, int) and not isinstance(value, bool) and value > 1)
            if "rollout" in found:
                rollout = found["rollout"]
                return (str(site["cluster"]), str(rollout["gpus"]), number(time_of_rollout(rollout), "s"),
                        ", ".join(part for part in (found["placement"], words) if part))
            speed = number((found["middle"] or found["step"])["time_s"], "s") if "step" in found else number(
                found["serving"]["output_tokens_per_s_per_gpu"], "tokens/s")
            return (str(site["cluster"]), str(site["gpus"]), speed, words)

        return html_table([cells(site, found) for site, found in self._found()],
                          ("cluster", "GPUs", "step, or per GPU", "degrees"))


class Comparison(Answer):
    """Plans and results next to each other."""

    def _rows(self) -> List[Dict[str, Any]]:
        parts = ("step", "bound", "run", "memory", "serving", "usd_per_gpu_hour", "rollout")
        return [{"name": one["name"], "origin": one["origin"], "feasible": one["feasible"], "reason": one["reason"],
                 **flat({part: one.get(part) for part in parts if one.get(part) is not None})}
                for one in self.subjects]

    @staticmethod
    def _time(subject: Dict[str, Any]) -> str:
        """The time of a step, or of an output token of a deployment."""
        serving = subject.get("serving")
        if serving:
            return number((serving.get("middle") or serving)["tpot_s"], "ms", 1e3)
        if rollout := subject.get("rollout"):
            return number(time_of_rollout(rollout), "s")
        return number((subject.get("step") or {}).get("time_s"), "s")

    def __repr__(self) -> str:
        return "\n".join(f"{one['name']:<32} {self._time(one)}" for one in self.subjects)

    def _repr_html_(self) -> str:
        rows = [(one["name"], self._time(one), number((one.get("step") or {}).get("mfu"), "%", 100),
                 one["reason"] or "") for one in self.subjects]
        time = "TPOT" if any(one.get("serving") for one in self.subjects) else "step"
        return html_table(rows, ("subject", time, "MFU", "infeasible because"))

    def plot(self, axes: Optional["Axes"] = None) -> "Axes":
        """Draws what each step is spent on."""
        feasible = [one for one in self.subjects if one.get("step")]
        return stack(axes, "s", [one["name"] for one in feasible],
                     [{part["name"]: part["seconds"] for part in one["rollout"]["parts"]} if one.get("rollout")
                      else one["step"].get("breakdown_s") or {} for one in feasible])


class TraceComparison(PlanResult):
    """A trace of a GPU's kernels next to the predicted step of its pipeline rank, or of an overlapped pair of chunks."""

    def _rows(self) -> List[Dict[str, Any]]:
        return [{"table": table, **flat(row)} for table, rows in self.comparison.items()
                if isinstance(rows, list) for row in rows if isinstance(row, dict)]

    def _lines(self) -> List[Tuple[str, ...]]:
        return [(row["name"], number(row["predicted_s"], "ms", 1e3), number(row["measured_s"], "ms", 1e3),
                 number(row["error"], "%", 100)) for row in self.comparison["totals"] + self.comparison["classes"]]

    def __repr__(self) -> str:
        return "\n".join(f"{name:<28} {predicted:>12} {measured:>12} {error:>9}"
                         for name, predicted, measured, error in self._lines())

    def _repr_html_(self) -> str:
        return html_table(self._lines(), ("", "predicted", "measured", "error"))


class Validation(Answer):
    """Predictions next to published and measured figures."""

    def _rows(self) -> List[Dict[str, Any]]:
        return [{"case": case["name"], **flat(figure)}
                for case in self._data["cases"] for figure in case.get("figures") or []]

    def __repr__(self) -> str:
        return "\n".join(f"{case['name']}: {'passed' if case['passed'] else 'out of tolerance'}"
                         for case in self._data["cases"])
