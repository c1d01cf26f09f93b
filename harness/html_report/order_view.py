"""Draws the neighbourhood of a queue offset: offsets across, time down, a mark for each send and delivery."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staticfire.checkers.model.columns import Ints, Names, Outcome
from staticfire.harness.html_report.history_rows import Rows, key_of
from staticfire.harness.html_report.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Band,
    at_s,
    element,
    nice_ticks,
    svg,
    text,
    titled,
)
from staticfire.harness.html_report.witnesses import Witness

TOP, PLOT = 40, 300
GAP_SHARE = 12  # an idle time longer than 1/GAP_SHARE of the shown time is shortened to that


def order_view(witness: Witness, names: Names, bands: Sequence[Band]) -> str | None:
    """Return the drawing; None if nothing was stored or delivered near the finding's queue offset."""
    sends, deliveries = witness.order_sends, witness.order_deliveries
    if sends is None or deliveries is None:
        return None
    stored = sends.where((sends["outcome"] == Outcome.OK) | (sends["outcome"] == Outcome.WEAK))
    offsets = np.concatenate([stored["queue_offset"], deliveries["queue_offset"]])
    times = np.concatenate([stored["time_ns"], deliveries["invoke_ns"]])
    if not len(offsets):
        return None
    low, high = int(offsets.min()), int(offsets.max())
    across = _Across(low, high)
    down = _Down(times)
    parts = _behind(down, across, bands)
    queue_offset = witness.finding.queue_offset
    if queue_offset is not None and low <= queue_offset <= high:
        x = across(queue_offset)
        width = max(across.step, 8.0)
        parts.append(
            titled(
                "rect",
                f"offset {queue_offset}",
                x=x - width / 2,
                y=TOP - 6,
                width=width,
                height=PLOT + 12,
                class_="place",
            )
        )
    parts += _marks(stored, "time_ns", "stored", names, down, across, witness.message)
    parts += _marks(deliveries, "invoke_ns", "given", names, down, across, witness.message)
    words = (
        f"Offsets {low} to {high} of the queue across, time down from {at_s(int(times.min()))} to "
        f"{at_s(int(times.max()))}: {len(stored)} acknowledgements and {len(deliveries)} deliveries."
    )
    return svg(TOP + PLOT + 14, words, parts)


class _Across:
    """Maps offsets to x."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.step = (WIDTH - LEFT - RIGHT) / (high - low + 1)

    def __call__(self, offset: int) -> float:
        return LEFT + (offset - self.low + 0.5) * self.step


class _Down:
    """Maps times to y, and shortens idle times."""

    def __init__(self, times: Ints) -> None:
        self.moments = np.unique(times)
        gaps = np.diff(self.moments)
        limit = max(int(self.moments[-1] - self.moments[0]) // GAP_SHARE, 1)
        self.is_short = gaps > limit
        room = np.concatenate([[0], np.cumsum(np.minimum(gaps, limit))]).astype(float)
        self.ys = TOP + PLOT * room / max(room[-1], 1.0)

    def __call__(self, time_ns: int) -> float:
        return float(np.interp(time_ns, self.moments, self.ys))


def _behind(down: _Down, across: _Across, bands: Sequence[Band]) -> list[str]:
    """Draw axes, faults, and a line at each shortened time."""
    first, last = int(down.moments[0]), int(down.moments[-1])
    parts = []
    for band in bands:
        start, end = int(band.start_s * 1e9), int(band.end_s * 1e9)
        if end < first or start > last:
            continue
        y = down(start)
        parts.append(
            titled(
                "rect",
                band.text,
                x=LEFT,
                y=y,
                width=WIDTH - LEFT - RIGHT,
                height=max(down(end) - y, 2.0),
                class_="band",
            )
        )
    for tick in nice_ticks(across.high - across.low, 12):
        offset = across.low + int(tick)
        if tick == int(tick) and offset <= across.high:
            parts.append(text(across(offset), TOP - 12, str(offset), "tick", "middle"))
    parts.append(text(LEFT - 8, TOP - 12, "offset", "tick", "end"))
    free_y = 0.0
    for number in range(len(down.moments)):
        y = float(down.ys[number])
        if y >= free_y or number == len(down.moments) - 1:
            seconds = at_s(int(down.moments[number]))
            if y >= free_y:
                parts.append(text(LEFT - 8, y + 4, seconds, "tick", "end"))
                parts.append(element("line", x1=LEFT - 5, x2=LEFT, y1=y, y2=y, class_="grid"))
            free_y = y + 22
    for number in np.flatnonzero(down.is_short).tolist():
        y = (down.ys[number] + down.ys[number + 1]) / 2
        idle_s = (down.moments[number + 1] - down.moments[number]) / 1e9
        parts.append(
            titled(
                "line",
                f"{idle_s:.1f} s in which nothing happened here",
                x1=LEFT,
                x2=WIDTH - RIGHT,
                y1=float(y),
                y2=float(y),
                class_="idle",
            )
        )
    return parts


def _marks(
    rows: Rows,
    time: str,
    kind: str,
    names: Names,
    down: _Down,
    across: _Across,
    witness: int,
) -> list[str]:
    parts = []
    for number in range(len(rows)):
        message, offset = int(rows["message"][number]), int(rows["queue_offset"][number])
        time_ns = int(rows[time][number])
        group = int(rows["group"][number])
        what = "acknowledged" if kind == "stored" else f"given to {names.groups[group]}"
        mine = " mine" if message == witness else ""
        words = f"{key_of(names, message) or 'no key'} at {offset}, {what}, {at_s(time_ns)}"
        x, y = across(offset), down(time_ns)
        if kind == "stored":
            parts.append(titled("circle", words, cx=x, cy=y, r=4, class_=f"stored{mine}"))
        else:
            style = f"given s{group % 6}{mine}"
            parts.append(
                titled("rect", words, x=x - 2.5, y=y - 2.5, width=5, height=5, class_=style)
            )
    return parts
