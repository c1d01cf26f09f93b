"""Splits runs into work units: whole queues (small ones together), and chunks of long queues.

A queue with more than WHOLE_ROWS rows is profiled first, and then cut by offset
(`checkers/formats/chunks/cut_points.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from staticfire.checkers.formats.chunks.cut_points import cut, orderly_groups
from staticfire.checkers.formats.chunks.queue_profile import (
    Grid,
    QueueProfile,
    grid_of,
    is_sparse,
    profile_part,
    span_of,
)
from staticfire.checkers.formats.chunks.work_units import (
    PARTITION_ROWS,
    WHOLE_ROWS,
    WorkUnit,
    is_long,
    together,
    whole,
)
from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.spark_analysis.engine.engines import Engine
from staticfire.spark_analysis.runs.inputs import RunInput
from staticfire.spark_analysis.runs.observed_file import bytes_in_memory

BYTES_A_ROW = 420  # memory for a row of a partition that is judged; measured
BYTES_A_ROW_READ = 310  # memory for a row of a part that is read for a chunk; measured
BYTES_A_ROW_KEPT = (
    12  # memory for a row of any partition, of which some columns are kept until the end; measured
)
BASE_BYTES = 210 << 20  # memory of a Python process with NumPy, Arrow and the checkers


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Whole queues of one run, or a chunk of one queue. `run` is the index of the run."""

    run: int
    unit: WorkUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTask:
    """One part of a long queue to be profiled; `at` is the index of its partition."""

    at: int
    history: Path
    part: Part
    grid: Grid
    orderly: Sequence[int]  # ids of orderly groups


def partitions_of(run: RunInput, number: int) -> list[Partition]:
    """Return partitions of whole queues in order. Neighbours share a partition while it is small."""
    groups = together(run.manifest, PARTITION_ROWS)
    return [Partition(run=number, unit=whole(parts)) for parts in groups or [[]]]


def partitioned(runs: Sequence[RunInput], engine: Engine) -> list[Partition]:
    """Return partitions of whole queues, and of chunks of long ones. Raises HistoryError, OSError, SparkError."""
    partitions = [part for number, run in enumerate(runs) for part in partitions_of(run, number)]
    items = [
        ProfileTask(
            at=at,
            history=run.history,
            part=part,
            grid=grid,
            orderly=orderly_groups(run.manifest.dictionaries.names(), run.facts),
        )
        for at, grid in _grids(runs, engine, partitions).items()
        for run in (runs[partitions[at].run],)
        for part in partitions[at].unit.parts
    ]
    profiles = engine.map("survey", profile_of, items, [item.part.rows for item in items])
    found: dict[int, list[QueueProfile]] = {}
    for item, profile in zip(items, profiles, strict=True):
        found.setdefault(item.at, []).append(profile)
    return [
        Partition(run=partition.run, unit=unit)
        for at, partition in enumerate(partitions)
        for unit in _cut(partition, found.get(at), runs[partition.run])
    ]


def _grids(
    runs: Sequence[RunInput], engine: Engine, partitions: Sequence[Partition]
) -> dict[int, Grid]:
    """Return, by the index of the partition, the grid in which the offsets of a long queue are counted."""
    long = {
        at: partition.unit.parts
        for at, partition in enumerate(partitions)
        if is_long(partition.unit.parts, WHOLE_ROWS)
    }
    sparse = [
        (at, runs[partitions[at].run].history, part)
        for at, parts in long.items()
        for part in parts
        if is_sparse(part)
    ]
    spans = engine.map("offsets", span_in, sparse, [part.rows for _, _, part in sparse])
    found: dict[int, dict[str, tuple[int, int]]] = {at: {} for at in long}
    for (at, _, part), span in zip(sparse, spans, strict=True):
        found[at][part.path] = span
    grids = {at: grid_of(parts, found[at]) for at, parts in long.items()}
    return {at: grid for at, grid in grids.items() if grid is not None}


def span_in(item: tuple[int, Path, Part]) -> tuple[int, int]:
    """Return the span of offsets in a part. Raises HistoryError, OSError."""
    _, history, part = item
    return span_of(ColumnarHistory(history), part)


def profile_of(item: ProfileTask) -> QueueProfile:
    """Profile one part. Raises HistoryError, OSError."""
    return profile_part(ColumnarHistory(item.history), item.part, item.grid, item.orderly)


def _cut(
    partition: Partition, profiles: list[QueueProfile] | None, run: RunInput
) -> list[WorkUnit]:
    if profiles is None:
        return [partition.unit]
    history = ColumnarHistory(run.history)
    timeline = history.timeline_of_events()
    return cut(partition.unit.parts, profiles, history.names, run.facts, timeline, WHOLE_ROWS)


def memory_bound_bytes(
    runs: Iterable[RunInput], partitions: Iterable[Partition], parallel: int
) -> int:
    """Return an upper bound of the memory of all processes that judge.

    It counts the `parallel` largest partitions, each with observations, and the results of all partitions.
    """
    observed = max((bytes_in_memory(run.observations) for run in runs), default=0)
    units = [of.unit for of in partitions]
    largest = sorted(map(_bytes_of, units), reverse=True)[:parallel]
    kept = BYTES_A_ROW_KEPT * sum(unit.rows for unit in units)
    return kept + sum(BASE_BYTES + observed + size for size in largest)


def _bytes_of(unit: WorkUnit) -> int:
    """Return the memory for judging a unit. For a chunk, too, parts are read as a whole, one after the other."""
    read = 0 if unit.chunk is None else max((part.rows for part in unit.parts), default=0)
    return BYTES_A_ROW * unit.rows + BYTES_A_ROW_READ * read
