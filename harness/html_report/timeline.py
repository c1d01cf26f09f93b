"""Draws the faults of a run over time: when each was planned, struck and healed, and whether it bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.harness.html_report.svg import (
    CHARACTER,
    LEFT,
    RIGHT,
    WIDTH,
    Band,
    TimeScale,
    element,
    svg,
    text,
    time_axis,
    titled,
)

ROWS_MAX = 40  # if there are more faults, those of one kind share a row
ROW = 19
TEXT_MAX = 60  # characters beside a bar


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLife:
    """One fault. Times are seconds; None for events that did not happen."""

    name: str
    kind: str
    targets: str
    planned_s: float | None
    planned_until_s: float | None
    fired_s: float | None
    struck_s: float | None
    healed_s: float | None
    bitten: bool
    error: str | None
    evidence: str

    @property
    def state(self) -> str:
        """The outcome in a word."""
        if self.error is not None:
            return "failed"
        if self.fired_s is None:
            return "never fired"
        return "bit" if self.bitten else "never bit"

    @property
    def title(self) -> str:
        return f"{self.kind} of {self.targets}" if self.targets else self.kind

    def band(self, end_s: float) -> Band | None:
        """Return the interval in which the fault was on; None if it did not bite."""
        if not self.bitten or self.fired_s is None:
            return None
        start = self.fired_s if self.struck_s is None else min(self.fired_s, self.struck_s)
        return Band(start, end_s if self.healed_s is None else self.healed_s, self.title)


def fault_lives(records: Sequence[Mapping[str, object]], plan_began_s: float) -> list[FaultLife]:
    """Return the faults of lines of faults.jsonl, by the time at which they fired or were planned."""
    lives = [_life(number, record, plan_began_s) for number, record in enumerate(records)]
    return sorted(lives, key=lambda life: (_start(life), life.name))


def _start(life: FaultLife) -> float:
    times = (life.fired_s, life.planned_s)
    return next((time for time in times if time is not None), float("inf"))


def _life(number: int, record: Mapping[str, Any], plan_began_s: float) -> FaultLife:
    at_s, lasts_s = _seconds(record.get("at_s")), _seconds(record.get("duration_s"))
    at_s = None if at_s is None else at_s + plan_began_s
    until_s = None if at_s is None or lasts_s is None else at_s + lasts_s
    evidence = {
        name: value
        for name, value in record["evidence"].items()
        if name != "bitten" and isinstance(value, int | float | str) and not isinstance(value, bool)
    }
    error = record.get("error")
    return FaultLife(
        name=str(record.get("id", number))[:40],
        kind=record["kind"][:80],
        targets=", ".join(record["targets"])[:200],
        planned_s=at_s,
        planned_until_s=until_s,
        fired_s=_of_ns(record.get("fired_ns")),
        struck_s=_of_ns(record.get("struck_ns")),
        healed_s=_of_ns(record.get("healed_ns")),
        bitten=record["bitten"] is True,
        error=None if error is None else str(error)[:300],
        evidence=", ".join(f"{name.replace('_', ' ')} {value}" for name, value in evidence.items())[
            :300
        ],
    )


def _of_ns(value: object) -> float | None:
    return value / 1e9 if isinstance(value, int) else None


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def timeline(lives: Sequence[FaultLife], marks: Mapping[str, float], scale: TimeScale) -> str:
    """Draw a row per fault, or per kind if there are many faults. `marks` are moments of the run, in seconds."""
    rows: dict[str, list[FaultLife]] = {}
    many = len(lives) > ROWS_MAX
    for life in lives:
        rows.setdefault(life.kind if many else f"{life.name} {life.kind}", []).append(life)
    shown = list(rows.values())[:ROWS_MAX]
    top = 26
    bottom = top + ROW * max(len(shown), 1)
    parts = time_axis(scale, top - 6, bottom)
    parts += _marks(marks, scale, top, bottom)
    for number, row in enumerate(shown):
        y = top + ROW * number
        for life in row:
            parts += _bar(life, y, scale)
        parts.append(_name(row, many, y, scale))
    if not shown:
        parts.append(text(LEFT + 8, top + 14, "no faults were planned"))
    words = "; ".join(f"{life.title}: {life.state}" for life in lives[:ROWS_MAX])
    return svg(bottom + 20, f"Faults over time. {words or 'None was planned.'}", parts)


def _marks(marks: Mapping[str, float], scale: TimeScale, top: float, bottom: float) -> list[str]:
    parts = []
    free_x = 0.0
    for name, at_s in sorted(marks.items(), key=lambda mark: mark[1]):
        x = scale(at_s)
        is_late = x > WIDTH - RIGHT - CHARACTER * len(name)
        parts.append(element("line", x1=x, x2=x, y1=top - 8, y2=bottom, class_="mark"))
        begin = x - CHARACTER * len(name) if is_late else x
        if begin >= free_x:
            parts.append(text(x, top - 12, name, "tick", "end" if is_late else "start"))
            free_x = begin + CHARACTER * len(name) + 8
    return parts


def _bar(life: FaultLife, y: float, scale: TimeScale) -> list[str]:
    parts = []
    if life.planned_s is not None and life.planned_until_s is not None:
        parts.append(_rect(life.planned_s, life.planned_until_s, y + 3, 12, "planned", life, scale))
    if life.fired_s is not None:
        until_s = scale.end_s if life.healed_s is None else life.healed_s
        struck_s = life.fired_s if life.struck_s is None else life.struck_s
        if struck_s > life.fired_s:
            parts.append(_rect(life.fired_s, struck_s, y + 6, 6, "firing", life, scale))
        state = life.state.replace(" ", "-")
        parts.append(_rect(struck_s, max(until_s, struck_s), y + 4, 10, state, life, scale))
    return parts


def _rect(
    start_s: float,
    end_s: float,
    y: float,
    height: float,
    class_: str,
    life: FaultLife,
    scale: TimeScale,
) -> str:
    x = scale(start_s)
    words = f"{life.title}: {life.state}"
    return titled(
        "rect",
        words,
        x=x,
        y=y,
        width=max(scale(end_s) - x, 2.0),
        height=height,
        class_=f"fault {class_}",
    )


def _name(row: Sequence[FaultLife], is_kind: bool, y: float, scale: TimeScale) -> str:
    first = row[0]
    words = f"{first.kind} ({len(row)})" if is_kind else f"{first.title}: {first.state}"
    words = words if len(words) <= TEXT_MAX else f"{words[: TEXT_MAX - 1]}…"
    ends = [
        time
        for life in row
        for time in (life.planned_until_s, life.fired_s, life.healed_s)
        if time is not None
    ]
    starts = [time for life in row for time in (life.planned_s, life.fired_s) if time is not None]
    unhealed = any(life.fired_s is not None and life.healed_s is None for life in row)
    right = WIDTH - RIGHT if unhealed else scale(max(ends, default=0)) + 5
    if right + CHARACTER * len(words) <= WIDTH:
        return text(right, y + 13, words)
    left = scale(min(starts, default=0)) - 5
    if left - CHARACTER * len(words) >= 0:
        return text(left, y + 13, words, anchor="end")
    return text(LEFT + 4, y + 13, words, "label over")
