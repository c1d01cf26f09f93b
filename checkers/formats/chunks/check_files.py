"""Judges a history in files, of any size: whole queues, or chunks of long ones, in one process or several.

Memory never holds the whole history. Each process holds one partition (some queues with PARTITION_ROWS rows together,
or one queue or chunk of a queue of up to about WHOLE_ROWS), and all rows of all candidates. A checker without a kernel
receives the rows that it selects (`Checker.rows`). It may select more once the selected rows of all queues are known
(`Checker.rows_again`).
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from staticfire.checkers.engine.engine import (
    ExactPass,
    ScreeningPass,
    conclude,
    exact_pass,
    gathered,
    reads_every_row,
    screening_pass,
)
from staticfire.checkers.engine.kernel import Checker, Context
from staticfire.checkers.engine.row_selection import (
    Read,
    SelectedRows,
    select_rows,
    select_rows_again,
)
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
    read_unit,
    together,
    whole,
)
from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.columns import Columns, Ints
from staticfire.checkers.verdicts.compose import (
    ALL_CHECKERS,
    RunVerdict,
    asked_of,
    conclude_run,
    kernels_of,
)

Progress = Callable[[int, int], None]  # rows judged, rows in all


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The input that every process needs in order to judge a partition."""

    folder: Path
    verify: bool
    context: Context
    names: Sequence[str]  # of checkers


def check_files(
    history: ColumnarHistory,
    observations: Sequence[Mapping[str, Any]],
    facts: RunFacts,
    checkers: Sequence[Checker] = ALL_CHECKERS,
    *,
    jobs: int = 1,
    partition_rows: int = PARTITION_ROWS,
    whole_rows: int = WHOLE_ROWS,
    progress: Progress = lambda _done, _all: None,
) -> RunVerdict:
    """Return the verdict of `check_columns`. Raises HistoryError for a damaged file, OSError for a missing one.

    With more than one job, `checkers` must be some of ALL_CHECKERS, because workers find them by name; others raise
    ValueError. A queue with more than `whole_rows` is judged in chunks of about a quarter of that.
    """
    unknown = [checker.name for checker in checkers if checker not in ALL_CHECKERS]
    if jobs > 1 and unknown:
        raise ValueError(
            f"checkers of {jobs} jobs are {', '.join(unknown)}; allowed: those of ALL_CHECKERS"
        )
    context = Context(
        facts=facts,
        timeline=history.timeline_of_events(),
        promises=LossPromises(facts),
        observations=observations,
    )
    asked = asked_of(checkers, context)
    judging = Judging(
        folder=history.folder,
        verify=history.verify,
        context=context,
        names=[checker.name for checker in asked],
    )
    with _Workers(judging, asked, jobs) as each:
        partitions = list(_work_units(history, context, partition_rows, whole_rows, each))
        partitions = partitions or [whole(())]
        rows_in_all = sum(unit.rows for unit in partitions)
        asked_first: list[SelectedRows] = []

        def passes() -> Iterator[ScreeningPass]:
            done = 0
            for unit, (screened, asked_for) in zip(
                partitions, each(_screen_unit, [(unit,) for unit in partitions]), strict=True
            ):
                asked_first.append(asked_for)
                done += unit.rows
                progress(done, rows_in_all)
                yield screened

        first, own = gathered(passes())
        again = [
            (unit, first.candidates, candidates)
            for unit, candidates in zip(partitions, own, strict=True)
        ]
        reads = len(first.candidates) or reads_every_row(kernels_of(asked))
        second = list(each(_judge_unit, again)) if reads else []
        read = Read.of(history.names, asked_first)
        asking = read.of_those_that_ask_again(asked)
        more = each(_rows_again, [(unit, asking) for unit in partitions]) if asking else ()
        read = read.then(Read.of(history.names, list(more)))
    by_kernel = conclude(first, second, history.names, context, kernels_of(asked))
    return conclude_run(checkers, context, by_kernel, read.answer, first.totals, history.names)


def _work_units(
    history: ColumnarHistory,
    context: Context,
    rows_max: int,
    whole_rows: int,
    each: Callable[..., Iterator[Any]],
) -> Iterator[WorkUnit]:
    """Yield whole queues, and chunks of queues with more than `whole_rows` rows."""
    for parts in together(history.manifest, rows_max):
        if not is_long(parts, whole_rows):
            yield whole(parts)
            continue
        sparse = [part for part in parts if is_sparse(part)]
        spans = each(_span, [(part,) for part in sparse])
        paths = [part.path for part in sparse]
        if grid := grid_of(parts, dict(zip(paths, spans, strict=True))):
            profiles = list(each(_profile, [(part, grid) for part in parts]))
            names, facts, timeline = history.names, context.facts, context.timeline
            yield from cut(parts, profiles, names, facts, timeline, whole_rows)
        else:
            yield whole(parts)


def _span(
    history: ColumnarHistory, _context: Context, _checkers: Sequence[Checker], part: Part
) -> tuple[int, int]:
    return span_of(history, part)


def _profile(
    history: ColumnarHistory,
    context: Context,
    _checkers: Sequence[Checker],
    part: Part,
    grid: Grid,
) -> QueueProfile:
    return profile_part(history, part, grid, orderly_groups(history.names, context.facts))


class _Workers:
    """Maps a function over partitions, in this process or in others; results are in the order of partitions."""

    def __init__(self, judging: Judging, checkers: Sequence[Checker], jobs: int) -> None:
        self._judging, self._checkers, self._jobs = judging, checkers, jobs
        self._pool: ProcessPoolExecutor | None = None
        self._others: list[BaseProcess] = []  # child processes that existed before

    def __enter__(self) -> Callable[..., Iterator[Any]]:
        if self._jobs == 1:
            history = ColumnarHistory(self._judging.folder, verify=self._judging.verify)
            mine = history, self._judging.context, self._checkers
            return lambda call, work: (call(*mine, *one) for one in work)
        self._others = multiprocessing.active_children()
        self._pool = ProcessPoolExecutor(
            self._jobs, get_context("spawn"), initializer=_begin, initargs=(self._judging,)
        )
        return self._map

    def _map(self, call: Callable[..., Any], work: Iterable[Any]) -> Iterator[Any]:
        """Start the work. The new processes ignore SIGINT (Ctrl-C), which their parent handles."""
        assert self._pool is not None
        with _interrupts_ignored():
            return self._pool.map(partial(_in_worker, call), work)

    def __exit__(self, error: object, *_: object) -> None:
        if self._pool is None:
            return
        if error is not None:  # for example interrupted: do not wait for work under way
            for worker in multiprocessing.active_children():
                if worker not in self._others:
                    worker.kill()
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_worker: list[tuple[ColumnarHistory, Context, Sequence[Checker]]] = []  # of this process


def _begin(judging: Judging) -> None:
    history = ColumnarHistory(judging.folder, verify=judging.verify)
    checkers = [checker for checker in ALL_CHECKERS if checker.name in judging.names]
    _worker[:] = [(history, judging.context, checkers)]


def _in_worker(call: Callable[..., Any], work: tuple[Any, ...]) -> Any:
    return call(*_worker[0], *work)


def _screen_unit(
    history: ColumnarHistory, context: Context, checkers: Sequence[Checker], unit: WorkUnit
) -> tuple[ScreeningPass, SelectedRows]:
    columns = read_unit(history, unit)
    screened = screening_pass(columns, context, kernels_of(checkers))
    return screened, select_rows(columns, context, checkers)


def _judge_unit(
    history: ColumnarHistory,
    context: Context,
    checkers: Sequence[Checker],
    unit: WorkUnit,
    candidates: Ints,
    own: Ints,
) -> ExactPass:
    columns = read_unit(history, unit)
    return exact_pass(columns, candidates, own, context, kernels_of(checkers))


def _rows_again(
    history: ColumnarHistory,
    context: Context,
    checkers: Sequence[Checker],
    unit: WorkUnit,
    gathered: Mapping[str, Columns],
) -> SelectedRows:
    return select_rows_again(read_unit(history, unit), context, checkers, gathered)
