"""The schedule of a farm: its next step as a function of settings, ledger, newest commit and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from staticfire.harness.cli.farm.ledger import DAY_S, Kind, Ledger, day_of

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a farm."""

    weights: Mapping[str, float]  # workload -> its share of the CPU time
    canaries: Sequence[str]  # planted bugs
    cpu_hours: float  # a day
    seeds: int  # a round
    canary_seeds: int


@dataclass(frozen=True, slots=True)
class Job:
    """A round to carry out."""

    kind: Kind
    name: str
    first: int
    last: int
    workload: str = ""  # of a shrink


@dataclass(frozen=True, slots=True)
class Wait:
    """A step of waiting, since the budget of the day is spent."""

    seconds: float


def next_step(settings: Settings, ledger: Ledger, commit: str, now_s: float) -> Job | Wait:
    """Return the next step: canaries first, every day and at every new commit; then shrinks of failures; then seeds."""
    day = day_of(now_s)
    if ledger.cpu_s(day) >= settings.cpu_hours * HOUR_S:
        return Wait(DAY_S - now_s % DAY_S)
    if canary := _due_canary(settings, ledger, commit, day):
        first = settings.canary_seeds * sum(one.name == canary for one in ledger.of("canary"))
        return Job("canary", canary, first, first + settings.canary_seeds - 1)
    if failure := _new_failure(ledger):
        return failure
    workload = _furthest_behind(settings, ledger)
    # One seed draws the same options and kinds of fault for all workloads, so no two of them get it.
    first = max((one.last + 1 for one in ledger.of("hunt")), default=0)
    return Job("hunt", workload, first, first + settings.seeds - 1)


def _due_canary(settings: Settings, ledger: Ledger, commit: str, day: str) -> str | None:
    found = {
        one.name
        for one in ledger.of("canary")
        if one.is_found and one.commit == commit and one.day == day
    }
    return next((name for name in settings.canaries if name not in found), None)


def _new_failure(ledger: Ledger) -> Job | None:
    """Find a cause that no shrink has tried, with the first seed that showed it."""
    tried = {one.name for one in ledger.of("shrink")}
    for one in ledger.of("hunt"):
        for cause, seed in one.causes.items():
            if cause not in tried:
                return Job("shrink", cause, seed, seed, one.name)
    return None


def _furthest_behind(settings: Settings, ledger: Ledger) -> str:
    """Return the workload with the least CPU time for its weight."""
    spent = dict.fromkeys(settings.weights, 0.0)
    for one in ledger.of("hunt"):
        if one.name in spent:
            spent[one.name] += one.cpu_s
    return min(spent, key=lambda name: spent[name] / settings.weights[name])
