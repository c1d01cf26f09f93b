"""The pace of a hunt in words: its rate, and the behaviours that it has seen over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from staticfire.harness.cli.hunt.breeding import Behaviour, behaviours_of


def rate_text(count: int, seconds: float) -> str:
    """Return seeds a second, a minute or an hour: the first unit in which the number is at least 1."""
    a_second = count / max(seconds, 1e-9)
    for unit, factor in (("second", 1.0), ("minute", 60.0), ("hour", 3600.0)):
        rate = a_second * factor
        if rate >= 1.0:
            digits = 0 if rate >= 10 else 1
            return f"{rate:.{digits}f} {'an' if unit == 'hour' else 'a'} {unit}"
    return "less than 1 an hour"


def growth(coverages: Iterable[Mapping[str, int]]) -> list[tuple[int, int]]:
    """Return the behaviours seen after 1, 2, 5, 10, 20, 50, ... and all seeds."""
    known: set[Behaviour] = set()
    points: list[tuple[int, int]] = []
    number = 0
    for number, coverage in enumerate(coverages, 1):
        known |= behaviours_of(coverage)
        if number in _ROUND:
            points.append((number, len(known)))
    if number and number not in _ROUND:
        points.append((number, len(known)))
    return points


_ROUND = frozenset(one * 10**power for power in range(7) for one in (1, 2, 5))


def growth_text(coverages: Iterable[Mapping[str, int]]) -> str:
    return ", ".join(f"{count} after {seeds}" for seeds, count in growth(coverages))
