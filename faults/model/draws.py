"""Seeded choices that use `Random.random()` alone, so they are the same on every version of Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def pick(random: Random, choices: Sequence[T]) -> T:
    """Draw one of the choices."""
    return choices[int(random.random() * len(choices))]


def between(random: Random, low: float, high: float) -> float:
    return low + (high - low) * random.random()


def shuffled(random: Random, items: Iterable[T]) -> list[T]:
    """Return the items in a drawn order."""
    left = list(items)
    return [left.pop(int(random.random() * len(left))) for _ in range(len(left))]
