"""Reads values of untrusted JSON documents; a value of the wrong type reads as empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def table(value: object) -> Mapping[str, object]:
    """Return the value if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[object]:
    """Return the value if it is an array; else an empty one."""
    return value if isinstance(value, list) else []


def tables(value: object) -> list[Mapping[str, object]]:
    """Return the objects of an array."""
    return [one for one in rows(value) if isinstance(one, dict)]


def text(value: object) -> str:
    """Return the value if it is text; else an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """Return the value if it is a number that is not too large to print."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < 1e18 else None


def counts(value: Any) -> dict[str, int]:
    """Return the whole numbers of an object."""
    return {
        name: int(count)
        for name, count in table(value).items()
        if isinstance(count, int) and number(count) is not None
    }
