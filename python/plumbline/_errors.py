"""Errors of plans and requests. Their text is what the command prints."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A request that has no answer: `kind` says whether it is wrong or cannot be met."""

    kind = ""

    def __init__(self, text: str, message: str = "", file: Optional[str] = None, line: Optional[int] = None,
                 key: Optional[str] = None, hint: Optional[str] = None) -> None:
        super().__init__(text, message, file, line, key, hint)
        self.text = text
        self.message = message
        self.file = file
        self.line = line
        self.key = key
        self.hint = hint

    def __str__(self) -> str:
        return self.text


class InputError(Error):
    """Wrong input: an unknown key, a missing file, a value of another type."""

    kind = "input"


class InfeasibleError(Error):
    """A well-formed request that cannot be met: degrees that do not divide."""

    kind = "infeasible"
