"""Formats an unexpected error as one line: its text, and the line of the project that raised it."""

from __future__ import annotations

import traceback
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LENGTH_MAX = 300  # characters of its text


def raised_text(error: BaseException) -> str:
    """Return a text such as `ValueError: no number, at harness/cli/run.py:12 in run`; control characters are kept."""
    said = " ".join(str(error).split())
    text = type(error).__name__ + (f": {said[:LENGTH_MAX]}" if said else "")
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    own = [frame for frame in frames if _of_project(frame.filename)]
    last = (own or frames)[-1]
    return f"{text}, at {_of_project(last.filename) or last.filename}:{last.lineno} in {last.name}"


def _of_project(name: str) -> str:
    """Return the path in the project, also for a planted copy; empty for code of libraries."""
    parts = Path(name).parts
    if "site-packages" in parts:
        return ""
    path = Path(name).resolve()
    if path.is_relative_to(PROJECT):
        return str(path.relative_to(PROJECT))
    if "staticfire" in parts:
        return str(Path(*parts[len(parts) - parts[::-1].index("staticfire") :]))
    return ""
