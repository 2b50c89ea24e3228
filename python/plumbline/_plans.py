"""Plans as dictionaries."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Protocol, Tuple, Union

from . import _core


class Planned(Protocol):
    """An answer about one plan, which can stand for it."""

    @property
    def plan(self) -> "Plan": ...


PlanLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Planned]


class Plan(Dict[str, Any]):
    """The keys of a plan in their tables. `file` is where it was read: names of files in it are relative to that."""

    def __init__(self, keys: Mapping[str, Any], file: str = "<plan>") -> None:
        super().__init__(keys)
        self.file = file

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Plan, (dict(self), self.file))

    def to_toml(self) -> str:
        """The effective plan as TOML, with every default written out (`plumbline simulate --print-plan`)."""
        return _core.effective_plan(self, None)

    def set(self, **keys: Any) -> "Plan":
        """A copy with other values: `plan.set(parallelism__pipeline=8)`."""
        return load_plan(self, set=keys)


def plan_argument(plan: Any) -> Any:
    """What the C++ side reads as a plan: of a result it is the plan that was predicted."""
    if isinstance(plan, dict):
        return plan
    if isinstance(plan, Mapping):
        return dict(plan)
    of_result = getattr(plan, "plan", None)
    return of_result if isinstance(of_result, dict) else plan


def changes(set: Optional[Mapping[str, Any]], keys: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """The changes of `set` (dotted keys) and of keyword arguments (two underscores for a dot)."""
    dotted = {name.replace("__", "."): value for name, value in keys.items()}
    both = [name for name in dotted if name in (set or {})]
    if both:
        raise TypeError(f"given twice: {', '.join(both)}")
    return {**(set or {}), **dotted} or None


def load_plan(plan: PlanLike, *, defaults: bool = False, set: Optional[Mapping[str, Any]] = None,
              **keys: Any) -> Plan:
    """Reads a plan, a file, a shipped name, TOML text or a dict, into its tables.

    With `defaults` the effective plan, in which every default is written out. Errors: those of a wrong plan.
    """
    argument, changed = plan_argument(plan), changes(set, keys)
    effective = _core.effective_plan(argument, changed)  # refuses a wrong plan
    text, file, flat = _core.plan_text(argument)
    if defaults:
        return Plan(tomllib.loads(effective), file)
    tables = tomllib.loads(text)
    overrides: List[str] = flat + _core.overrides(changed)
    for override in overrides:
        key, value = override.split("=", 1)
        section, _, leaf = key.rpartition(".") if not key.startswith("model.") else ("model", ".", key[6:])
        table = tables
        for name in section.split("."):
            table = table.setdefault(name, {})
        table[leaf] = tomllib.loads("value = " + value)["value"]
    return Plan(tables, file)


def is_text(plan: Any) -> bool:
    """Whether a string is the text of a plan, not its name."""
    return isinstance(plan, str) and "\n" in plan


def stem(name: Union[str, "os.PathLike[str]"]) -> str:
    return Path(os.fspath(name)).stem
