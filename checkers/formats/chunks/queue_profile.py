"""Profiles a queue that is too long for memory: its events by range of offsets. It reads only a few columns.

Offsets are counted in cells of equal width. Merging profiles of parts is associative and commutative. `cut_points.py`
uses the profile of all parts to find the offsets at which the queue may be cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from staticfire.checkers.formats.chunks.ownership_runs import OwnershipRuns, ownership_runs_of
from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.rows import commits_of
from staticfire.checkers.formats.columnar.schema import Kind
from staticfire.checkers.model.columns import UNKNOWN, Commits, Ints, Outcome, joined

Keys = NDArray[np.uint64]  # call and end of an op in one number that ascends with calls
SENDS = -1  # in place of a group
CELLS = 4001
SPARSE = 64  # offsets for each row
FAR = 0.01  # of the rows of a part may lie far from all others, at either end
READ = (
    "kind",
    "op_index",
    "invoke_index",
    "time_ns",
    "process",
    "outcome",
    "group",
    "queue",
    "queue_offset",
)
INDEX_MAX = (1 << 32) - 1
NEVER, ALWAYS = np.uint64(0), np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells of offsets; the outermost ones also count the offsets beyond them."""

    low: int
    width: int
    cells: int

    def cell(self, offsets: Ints) -> Ints:
        found: Ints = np.clip((offsets - self.low) // self.width, 0, self.cells - 1)
        return found

    def first_offset(self, cell: int) -> int:
        return self.low + cell * self.width


def is_sparse(part: Part) -> bool:
    """Whether a part has so few rows in its range of offsets that one end may be an outlier, such as a wrong commit."""
    return part.high - part.low >= SPARSE * part.rows


def span_of(history: ColumnarHistory, part: Part) -> tuple[int, int]:
    """Return the offsets between which a part has nearly all of its rows. Raises HistoryError, OSError."""
    offset = history.table(part, ["queue_offset"])["queue_offset"].to_numpy()
    low, high = np.quantile(offset, [FAR, 1 - FAR], method="nearest").tolist()
    return low, high


def grid_of(
    parts: Sequence[Part], spans: Mapping[str, tuple[int, int]], cells: int = CELLS
) -> Grid | None:
    """Return the cells of a queue with these parts; None if offsets are too far apart to be counted.

    `spans` are those of the sparse parts by path: one distant offset must not make the cells too wide for all others.
    The width of cells is odd, and sizes of calls mostly are not, because otherwise each edge might lie within a call.
    """
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    if low < UNKNOWN or high >= 1 << 62 or max(part.last for part in parts) > INDEX_MAX:
        return None
    lows, highs = zip(*(spans.get(part.path, (part.low, part.high)) for part in parts), strict=True)
    low, high = min(lows), max(highs)
    width = -(-(high - low + 1) // cells) | 1
    return Grid(low=low, width=width, cells=-(-(high - low + 1) // width))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """The first and last call and end of the events in each cell, shape (cells,). Calls are Keys, ends op indices."""

    first_call: Keys
    last_call: Keys
    first_end: Keys
    last_end: Keys

    def merge(self, other: Times) -> Times:
        return Times(
            first_call=np.minimum(self.first_call, other.first_call),
            last_call=np.maximum(self.last_call, other.last_call),
            first_end=np.minimum(self.first_end, other.first_end),
            last_end=np.maximum(self.last_end, other.last_end),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueueProfile:
    """The profile of some parts of one queue."""

    grid: Grid
    rows: Ints  # shape (cells,)
    times: Mapping[int, Times]  # by group: its deliveries; SENDS: acknowledged sends
    within: Ints  # shape (cells + 1,): changes of how many calls run backwards across the lower edge of each cell
    ownership_runs: Mapping[int, OwnershipRuns]  # by orderly group
    given: Mapping[int, tuple[int, int]]  # group -> lowest and highest offset that it received
    reach: Mapping[
        str, tuple[int, int]
    ]  # part -> lowest and highest offset of its sends and deliveries
    ends: Mapping[
        str, tuple[int, int]
    ]  # part -> lowest offset of its first op, highest one of its last op
    commits: Commits

    def merge(self, other: QueueProfile) -> QueueProfile:
        """Return the profile of the parts of both; they must have the same grid."""
        return QueueProfile(
            grid=self.grid,
            rows=self.rows + other.rows,
            times={
                of: self.times[of].merge(other.times[of])
                if of in self.times and of in other.times
                else self.times.get(of) or other.times[of]
                for of in sorted({*self.times, *other.times})
            },
            within=self.within + other.within,
            ownership_runs={
                of: self.ownership_runs[of].merge(other.ownership_runs[of])
                if of in self.ownership_runs and of in other.ownership_runs
                else self.ownership_runs.get(of) or other.ownership_runs[of]
                for of in sorted({*self.ownership_runs, *other.ownership_runs})
            },
            given={
                group: _span(self.given.get(group), other.given.get(group))
                for group in sorted({*self.given, *other.given})
            },
            reach={**self.reach, **other.reach},
            ends={**self.ends, **other.ends},
            commits=_sorted(joined(Commits, [self.commits, other.commits])),
        )


def profile_part(
    history: ColumnarHistory, part: Part, grid: Grid, orderly: Collection[int]
) -> QueueProfile:
    """Profile one part; `orderly` are groups. Raises HistoryError, OSError."""
    table = history.table(part, READ)
    column = {name: table[name].to_numpy() for name in READ}
    kind, offset, group = column["kind"], column["queue_offset"], column["group"]
    placed = (kind != Kind.COMMIT) & (offset != UNKNOWN)
    acked = placed & (kind == Kind.SEND) & (column["outcome"] == Outcome.OK)
    delivered = np.flatnonzero(kind == Kind.DELIVERY)
    groups = np.unique(group[delivered]).tolist()
    of_group = {of: delivered[group[delivered] == of] for of in groups}
    rows = np.flatnonzero(placed)
    streams = {SENDS: np.flatnonzero(acked), **of_group}
    touched = np.flatnonzero(kind != Kind.COMMIT)
    return QueueProfile(
        grid=grid,
        rows=np.bincount(grid.cell(offset[rows]), minlength=grid.cells),
        times={of: _times(column, of_stream, grid) for of, of_stream in streams.items()},
        within=sum(
            (_backwards(column, of_stream, grid) for of_stream in of_group.values()),
            np.zeros(grid.cells + 1, np.int64),
        ),
        ownership_runs={
            of: ownership_runs_of(column["process"][mine], column["invoke_index"][mine])
            for of, mine in of_group.items()
            if of in orderly
        },
        given={
            of: (int(offset[mine].min()), int(offset[mine].max())) for of, mine in of_group.items()
        },
        reach={part.path: _lowest_and_highest(offset[touched])},
        ends={part.path: _ends(offset[touched], column["op_index"][touched])},
        commits=_commits(table.filter(pa.array(kind == Kind.COMMIT))),
    )


def _lowest_and_highest(offset: Ints) -> tuple[int, int]:
    return (int(offset.min()), int(offset.max())) if len(offset) else (UNKNOWN, UNKNOWN)


def _ends(offset: Ints, op_index: Ints) -> tuple[int, int]:
    if not len(offset):
        return UNKNOWN, UNKNOWN
    first, last = op_index == op_index.min(), op_index == op_index.max()
    return int(offset[first].min()), int(offset[last].max())


def _times(column: Mapping[str, Ints], rows: Ints, grid: Grid) -> Times:
    cell = grid.cell(column["queue_offset"][rows])
    call, end = (column[name][rows].astype(np.uint64) for name in ("invoke_index", "op_index"))
    key = (call << np.uint64(32)) | end
    times = Times(
        first_call=np.full(grid.cells, ALWAYS),
        last_call=np.full(grid.cells, NEVER),
        first_end=np.full(grid.cells, ALWAYS),
        last_end=np.full(grid.cells, NEVER),
    )
    np.minimum.at(times.first_call, cell, key)
    np.maximum.at(times.last_call, cell, key)
    np.minimum.at(times.first_end, cell, end)
    np.maximum.at(times.last_end, cell, end)
    return times


def _backwards(column: Mapping[str, Ints], rows: Ints, grid: Grid) -> Ints:
    """Return steps, shape (cells + 1,), whose running sum counts the calls that run backwards across each cell edge.

    Such a call has a lower offset after a higher one, so no cut point may lie between the two.
    """
    offset, op_index = column["queue_offset"][rows], column["op_index"][rows]
    back = np.flatnonzero((op_index[1:] == op_index[:-1]) & (offset[1:] < offset[:-1]))
    steps = np.zeros(grid.cells + 1, np.int64)
    np.add.at(steps, grid.cell(offset[back + 1]) + 1, 1)
    np.add.at(steps, grid.cell(offset[back]) + 1, -1)
    return steps


def _commits(table: pa.Table) -> Commits:
    return commits_of({name: table[name].to_numpy().copy() for name in table.schema.names})


def _sorted(commits: Commits) -> Commits:
    if np.all(commits.op_index[1:] >= commits.op_index[:-1]):
        return commits
    return commits.where(np.argsort(commits.op_index, kind="stable"))


def _span(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int]:
    known = [span for span in (one, other) if span is not None]
    return min(low for low, _ in known), max(high for _, high in known)
