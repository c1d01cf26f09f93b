"""Judge a history in files, of any size: whole queues at a time, in one process or in several.

Never holds the whole history. Memory: for each process a partition (some queues of together PARTITION_ROWS touches, or
one queue that has more), and all touches of all suspects. Checkers that are no kernels see the rows that they ask for
(`Checker.rows`), or ask for once more when they know what all queues gave them (`Checker.rows_again`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from checkers.columnar.reader import ColumnarHistory
from checkers.columns import Columns, Commits, Ints, Names, Touches, joined
from checkers.compose import ALL_CHECKERS, RunVerdict, asked_of, conclude_run, kernels_of
from checkers.engine import FirstLook, SecondLook, conclude, first_look, gathered, second_look
from checkers.facts import RunFacts
from checkers.kernel import Checker, Context
from checkers.promises import LossPromises
from checkers.verdict import Verdict

PARTITION_ROWS = 1 << 18  # touches: about 150 MB while they are judged
Rows = tuple[Touches, Touches, Commits]
Progress = Callable[[int, int], None]  # rows judged, rows in all


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What every process needs."""

    folder: Path
    verify: bool
    context: Context
    names: Sequence[str]  # of checkers

    def checkers(self, known: Sequence[Checker] = ALL_CHECKERS) -> list[Checker]:
        return [checker for checker in known if checker.name in self.names]


def check_files(
    history: ColumnarHistory,
    observations: Sequence[Mapping[str, Any]],
    facts: RunFacts,
    checkers: Sequence[Checker] = ALL_CHECKERS,
    *,
    jobs: int = 1,
    partition_rows: int = PARTITION_ROWS,
    progress: Progress = lambda _done, _all: None,
) -> RunVerdict:
    """Give the verdict of `check_columns`. Raises HistoryError for a damaged file, OSError for one that is missing.

    With more than one job, `checkers` must be some of ALL_CHECKERS.
    """
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
    partitions = list(partitions_of(history, partition_rows))
    with _Workers(judging, asked, jobs) as each:
        rows: dict[str, list[Rows]] = {}

        def looks() -> Iterator[FirstLook]:
            done = 0
            for queues, (look, asked_for) in zip(
                partitions, each(_look_first, [(queues,) for queues in partitions]), strict=True
            ):
                for name, part in asked_for.items():
                    rows.setdefault(name, []).append(part)
                done += sum(map(history.rows, queues))
                progress(done, history.manifest.rows)
                yield look

        first, own = gathered(looks())
        again = [
            (queues, first.suspects, suspects)
            for queues, suspects in zip(partitions, own, strict=True)
        ]
        second = list(each(_look_again, again)) if len(first.suspects) else []
        read = {name: columns_of_rows(history.names, parts) for name, parts in rows.items()}
        asking = {of.name: read[of.name] for of in asked if of.rows_again and of.name in read}
        more = each(_rows_again, [(queues, asking) for queues in partitions]) if asking else ()
        again_read: dict[str, list[Rows]] = {name: [] for name in asking}
        for found in more:
            for name, part in found.items():
                again_read[name].append(part)
    read |= {name: columns_of_rows(history.names, parts) for name, parts in again_read.items()}
    by_kernel = conclude(first, second, history.names, context, kernels_of(asked))
    nothing = columns_of_rows(history.names, [])

    def answer(checker: Checker, context: Context) -> Verdict:
        return checker.check(read.get(checker.name, nothing), context)

    return conclude_run(checkers, context, by_kernel, answer, first.totals)


def partitions_of(history: ColumnarHistory, rows_max: int) -> Iterator[list[int]]:
    """Queues in order, so many together that they have about `rows_max` touches."""
    together: list[int] = []
    rows = 0
    for queue in history.queues():
        if together and rows + history.rows(queue) > rows_max:
            yield together
            together, rows = [], 0
        together.append(queue)
        rows += history.rows(queue)
    if together:
        yield together


def _columns(history: ColumnarHistory, queues: Sequence[int]) -> Columns:
    return history.columns_of(
        [part for queue in queues for part in history.manifest.parts_of(queue)]
    )


class _Workers:
    """Maps a function over partitions, here or in other processes; in the order of partitions."""

    def __init__(self, judging: Judging, checkers: Sequence[Checker], jobs: int) -> None:
        self._judging, self._checkers, self._jobs = judging, checkers, jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Callable[..., Iterator[Any]]:
        if self._jobs == 1:
            history = ColumnarHistory(self._judging.folder, verify=self._judging.verify)
            mine = history, self._judging.context, self._checkers
            return lambda look, work: (look(*mine, *one) for one in work)
        self._pool = ProcessPoolExecutor(
            self._jobs, get_context("spawn"), initializer=_begin, initargs=(self._judging,)
        )
        pool = self._pool
        return lambda look, work: pool.map(partial(_in_worker, look), work)

    def __exit__(self, *_error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


_worker: list[tuple[ColumnarHistory, Context, Sequence[Checker]]] = []  # of this process


def _begin(judging: Judging) -> None:
    history = ColumnarHistory(judging.folder, verify=judging.verify)
    _worker[:] = [(history, judging.context, judging.checkers())]


def _in_worker(look: Callable[..., Any], work: tuple[Any, ...]) -> Any:
    return look(*_worker[0], *work)


def _look_first(
    history: ColumnarHistory, context: Context, checkers: Sequence[Checker], queues: Sequence[int]
) -> tuple[FirstLook, dict[str, Rows]]:
    columns = _columns(history, queues)
    look = first_look(columns, context, kernels_of(checkers))
    return look, rows_asked_for(columns, context, checkers)


def rows_asked_for(
    columns: Columns, context: Context, checkers: Sequence[Checker]
) -> dict[str, Rows]:
    """What checkers that are no kernels read of these queues, by name."""
    return {
        checker.name: _rows(checker.rows(columns, context))
        for checker in checkers
        if checker.kernel is None and checker.rows is not None
    }


def rows_asked_for_again(
    columns: Columns,
    context: Context,
    checkers: Sequence[Checker],
    gathered: Mapping[str, Columns],
) -> dict[str, Rows]:
    """What they read when they know what all queues gave them, by name; `gathered` has those that ask again."""
    return {
        checker.name: _rows(checker.rows_again(columns, context, gathered[checker.name]))
        for checker in checkers
        if checker.rows_again is not None and checker.name in gathered
    }


def _rows(columns: Columns) -> Rows:
    return columns.sends, columns.deliveries, columns.commits


def columns_of_rows(names: Names, parts: Sequence[Rows]) -> Columns:
    """What a checker asked for, of all partitions in their order."""
    return Columns(
        names=names,
        sends=joined(Touches, [part[0] for part in parts]),
        deliveries=joined(Touches, [part[1] for part in parts]),
        commits=joined(Commits, [part[2] for part in parts]),
    )


def _look_again(
    history: ColumnarHistory,
    context: Context,
    checkers: Sequence[Checker],
    queues: Sequence[int],
    suspects: Ints,
    own: Ints,
) -> SecondLook:
    columns = _columns(history, queues)
    return second_look(columns, suspects, own, context, kernels_of(checkers))


def _rows_again(
    history: ColumnarHistory,
    context: Context,
    checkers: Sequence[Checker],
    queues: Sequence[int],
    gathered: Mapping[str, Columns],
) -> dict[str, Rows]:
    return rows_asked_for_again(_columns(history, queues), context, checkers, gathered)
