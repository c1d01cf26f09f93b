"""Draws charts over time: rates as bars, durations as lines with gaps, undelivered messages as steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from staticfire.harness.html_report.activity import Slices
from staticfire.harness.html_report.copies import Copies
from staticfire.harness.html_report.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Band,
    TimeScale,
    at_s,
    bands_behind,
    element,
    nice_ticks,
    path,
    svg,
    text,
    time_axis,
    titled,
)
from staticfire.harness.report.quantities import duration

TOP, PLOT, AXIS = 10, 120, 22
HEIGHT = TOP + PLOT + AXIS
BOTTOM = TOP + PLOT


@dataclass(frozen=True, slots=True)
class Series:
    """Values by slice. `style` is 0, 1, 2, ...: a class with a colour, a pattern and a dash of its own."""

    name: str
    style: int
    values: Sequence[int]


def rate_chart(
    label: str, series: Sequence[Series], slices: Slices, scale: TimeScale, bands: Sequence[Band]
) -> str:
    """Draw stacked bars, in events a second. A slice without events has no bar."""
    totals = [
        sum(values) / slices.length_s
        for values in zip(*(one.values for one in series), strict=True)
    ]
    ticks = nice_ticks(max(totals, default=0), 4)
    top = max([*totals, ticks[-1], 1e-9])
    parts = [*bands_behind(bands, scale, TOP, BOTTOM), *time_axis(scale, TOP, BOTTOM)]
    parts += [_level(_y(tick, top), f"{tick:g}/s") for tick in ticks]
    bases = [0.0] * slices.count
    for one in series:
        bars = []
        for at, count in enumerate(one.values):
            if not count:
                continue
            x, right = scale(at * slices.length_s), scale((at + 1) * slices.length_s)
            low = bases[at]
            bases[at] = high = low + count / slices.length_s
            width = max(right - x - (0.8 if right - x > 3 else 0), 0.8)
            y = _y(high, top)
            bars.append(
                f"M{x:.1f} {y:.1f}h{width:.1f}v{max(_y(low, top) - y, 0.7):.1f}h-{width:.1f}z"
            )
        parts.append(element("path", d="".join(bars), class_=f"bar s{one.style}") if bars else "")
    return svg(HEIGHT, label, parts)


def duration_chart(
    label: str, series: Sequence[Series], slices: Slices, scale: TimeScale, bands: Sequence[Band]
) -> str:
    """Draw lines over a logarithmic axis; values are microseconds. A value of -1 interrupts the line."""
    known = [value for one in series for value in one.values if value >= 0]
    low = floor(log10(max(min(known, default=1), 100)))
    high = max(ceil(log10(max(max(known, default=1), 1000))), low + 1)
    parts = [*bands_behind(bands, scale, TOP, BOTTOM), *time_axis(scale, TOP, BOTTOM)]
    parts += [
        _level(_y(power - low, high - low), duration(10**power)) for power in range(low, high + 1)
    ]
    for one in series:
        lines = []
        for run in _runs(one.values):
            points = [
                (
                    scale((at + 0.5) * slices.length_s),
                    _y(max(log10(max(one.values[at], 1)) - low, 0), high - low),
                )
                for at in run
            ]
            lines.append(path(points))
        parts.append(
            element("path", d="".join(lines), class_=f"line s{one.style}") if lines else ""
        )
    return svg(HEIGHT, label, parts)


def count_chart(
    label: str, series: Sequence[Series], slices: Slices, scale: TimeScale, bands: Sequence[Band]
) -> str:
    """Draw numbers as steps; each holds until the next slice."""
    ticks = nice_ticks(max((max(one.values) for one in series), default=0), 4)
    top = max([max(one.values, default=0) for one in series] + [ticks[-1], 1])
    parts = [*bands_behind(bands, scale, TOP, BOTTOM), *time_axis(scale, TOP, BOTTOM)]
    parts += [_level(_y(tick, top), f"{tick:g}") for tick in ticks if tick == int(tick)]
    for one in series:
        steps = [f"M{scale(0):.1f} {_y(0, top):.1f}"]
        for at, value in enumerate(one.values):
            x = scale((at + 1) * slices.length_s)
            steps.append(f"V{_y(value, top):.1f}H{x:.1f}")
        parts.append(element("path", d="".join(steps), class_=f"line s{one.style}"))
    return svg(HEIGHT, label, parts)


def copies_chart(copies: Copies) -> str:
    """Draw the copies in memory and on disk. The x axis is not to scale: each moment gets room for its text."""
    steps = copies.steps
    most = max(step.memory + step.disk for step in steps) or 1
    top, plot, gap = 24, 70, 150.0
    width = LEFT + gap * (len(steps) + 0.4)
    bottom = top + plot

    def y(count: int) -> float:
        return bottom - plot * count / (most + 0.3)

    parts = [
        element("line", x1=LEFT, x2=width - RIGHT, y1=y(count), y2=y(count), class_="grid")
        + text(LEFT - 8, y(count) + 4, str(count), "tick", "end")
        for count in range(most + 1)
    ]
    for number, step in enumerate(steps):
        x = LEFT + gap * number + 14
        right = x + gap if number < len(steps) - 1 else width - RIGHT
        parts.append(
            titled(
                "rect",
                f"{step.disk} on disk",
                x=x,
                y=y(step.disk),
                width=right - x,
                height=bottom - y(step.disk),
                class_="copy disk",
            )
        )
        parts.append(
            titled(
                "rect",
                f"{step.memory} in memory alone",
                x=x,
                y=y(step.memory + step.disk),
                width=right - x,
                height=y(step.disk) - y(step.memory + step.disk),
                class_="copy memory",
            )
        )
        is_ack = number == 0
        parts.append(
            element(
                "line", x1=x, x2=x, y1=top - 6, y2=bottom + 4, class_="ack" if is_ack else "moment"
            )
        )
        parts.append(text(x + 4, top - 10, at_s(step.time_ns), "tick"))
        parts += [
            text(x + 4, bottom + 16 + 13 * line, words, "ack-label" if is_ack else "tick")
            for line, words in enumerate(_two_lines(step.text))
        ]
        if step.memory + step.disk == 0:
            parts.append(text(x + 8, bottom - 8, "no copy left", "none"))
    label = "; ".join(
        f"{at_s(step.time_ns)}, {step.text}: {step.disk} on disk, {step.memory} in memory alone"
        for step in steps
    )
    return svg(bottom + 36, f"Copies over time. {label}", parts, width=max(width, 420))


def _two_lines(words: str) -> list[str]:
    if len(words) <= 24:
        return [words]
    cut = words.rfind(" ", 0, 25)
    cut = cut if cut > 0 else 24
    return [words[:cut], words[cut:].strip()[:26]]


def _y(value: float, top: float) -> float:
    return BOTTOM - PLOT * min(value / top, 1.0)


def _level(y: float, words: str) -> str:
    line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
    return line + text(LEFT - 6, y + 4, words, "tick", "end")


def _runs(values: Sequence[int]) -> list[list[int]]:
    """Yield the ranges of neighbouring slices that have data."""
    runs: list[list[int]] = []
    for at, value in enumerate(values):
        if value < 0:
            continue
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs
