"""Runs kernels over a history in partitions of whole queues, however large, in three steps that every engine uses.

1. `screening_pass` for each partition: the kernels that work by queue judge it. The screening clears nearly all
   messages; the others are the candidates.
2. `exact_pass` for each partition: it fetches the rows of the candidates of all partitions, and makes a correction for
   those that the screening pass of this partition had counted as cleared.
3. `conclude`: the other kernels judge the candidates, tallies merge, and each kernel finishes.

The results that go from one step to the next are small, mergeable and can be pickled. In one process
`judge_partitions` runs the steps; on Spark the first two steps are jobs over the same functions. Partitions must come
in the order of their queues. Memory holds one partition, and all rows of all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, ScreenedCounts
from staticfire.checkers.engine.screening import candidates_of, is_among, screened_out, widened
from staticfire.checkers.guarantees.verdict import Tally, Validity, Verdict
from staticfire.checkers.model.building.column_arrays import event_order
from staticfire.checkers.model.columns import (
    Columns,
    Commits,
    Ints,
    Mask,
    MessageEvents,
    Names,
    Outcome,
    joined,
)

NO_CANDIDATES: Ints = np.zeros(0, np.int64)
Rows = tuple[MessageEvents, MessageEvents, Commits]
R = TypeVar("R", MessageEvents, Commits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningPass:
    """The results of judging one partition without the others."""

    tallies: Mapping[str, Tally] = field(default_factory=dict)  # by name of the kernel
    candidates: Ints = field(
        default_factory=lambda: NO_CANDIDATES
    )  # ids of messages, sorted, each once
    totals: Mapping[str, int] = field(default_factory=dict)  # sends by outcome, deliveries
    failed: Mapping[str, str] = field(default_factory=dict)  # name of the kernel -> why it failed
    states: Mapping[tuple[str, int], Any] = field(default_factory=dict)  # for queues in chunks

    def merge(self, other: ScreeningPass) -> ScreeningPass:
        """Add two results. Associative; ScreeningPass() is the identity."""
        totals = Tally(counts=self.totals).merge(Tally(counts=other.totals)).counts
        return ScreeningPass(
            tallies=merged(self.tallies, other.tallies),
            candidates=np.union1d(self.candidates, other.candidates),
            totals=totals,
            failed={**other.failed, **self.failed},
            states=_merged_states(self.states, other.states),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPass:
    """The rows of one partition that belong to candidates of all partitions."""

    sends: MessageEvents
    deliveries: MessageEvents
    commits: Commits  # of queues in which a candidate was delivered
    # negative counts, for candidates that the screening pass had counted as cleared
    correction: Mapping[str, Tally]
    failed: Mapping[str, str] = field(default_factory=dict)


def screening_pass(columns: Columns, context: Context, kernels: Sequence[Kernel]) -> ScreeningPass:
    """Judge what can be judged from whole queues, or from a chunk of one queue. A kernel that raises is in `failed`."""
    results = _Results()
    chunk = columns.chunk
    states = {}
    for kernel in kernels:
        if chunk is not None and kernel.split is not None:
            try:
                states[kernel.name, chunk.queue] = kernel.split.scan(columns, context, chunk)
            except Exception as error:
                results.failed[kernel.name] = failure(error)
        elif kernel.partition_by == "log":
            results.keep(kernel, lambda of: of.partial(columns, context))
    others = [kernel for kernel in kernels if _is_screened(kernel)]
    candidates = NO_CANDIDATES
    if others:
        counts, candidates = _screened(columns, context, others, results.failed)
        for kernel in others:
            results.keep(kernel, lambda of: Tally(counts=dict(of.counts_of_screened_out(counts))))
    return ScreeningPass(
        tallies=results.tallies,
        candidates=candidates,
        totals=totals_of(columns),
        failed=results.failed,
        states=states,
    )


def exact_pass(
    columns: Columns, candidates: Ints, own: Ints, context: Context, kernels: Sequence[Kernel]
) -> ExactPass:
    """Fetch the rows that the last step needs: those of the candidates, or every row if a kernel is not screened.

    Args:
        columns: the partition.
        candidates: ids of the candidates of all partitions, sorted.
        own: ids of the candidates of this partition, sorted.
        context: what kernels know beside the columns.
        kernels: all kernels of the run.
    """
    found = of_messages(columns, candidates)
    results = _Results()
    if len(own) < len(candidates):
        counted = of_messages(found, np.setdiff1d(candidates, own, assume_unique=True))
        for kernel in kernels:
            if _is_screened(kernel):
                results.keep(kernel, lambda of: _negative(of.partial(counted, context)))
    if reads_every_row(kernels):
        found = columns
    return ExactPass(
        sends=found.sends,
        deliveries=found.deliveries,
        commits=found.commits,
        correction=results.tallies,
        failed=results.failed,
    )


def conclude(
    first: ScreeningPass,
    second: Sequence[ExactPass],
    names: Names,
    context: Context,
    kernels: Sequence[Kernel],
) -> dict[str, Verdict]:
    """Judge the candidates of all partitions, and return the verdict of each kernel by its name."""
    columns = columns_of_rows(
        names, [(exact.sends, exact.deliveries, exact.commits) for exact in second]
    )
    results = _Results(failed=dict(first.failed))
    for exact in second:
        results.failed.update(exact.failed)
    screened = of_messages(columns, first.candidates) if reads_every_row(kernels) else columns
    for kernel in kernels:
        if kernel.partition_by != "log":
            read = screened if kernel.screened else columns
            results.keep(kernel, partial(_partial, read, context))
    tallies = reduce(
        merged, (exact.correction for exact in second), merged(first.tallies, results.tallies)
    )
    for kernel in kernels:
        tallies = merged(tallies, _of_pieces(kernel, first, columns, context, results))
    return {
        kernel.name: _finished(kernel, tallies.get(kernel.name, Tally()), results, context)
        for kernel in kernels
    }


def reads_every_row(kernels: Sequence[Kernel]) -> bool:
    """Whether one of the kernels must see all rows at once, so that the exact pass must read every partition."""
    return any(kernel.partition_by != "log" and not kernel.screened for kernel in kernels)


def _is_screened(kernel: Kernel) -> bool:
    return kernel.partition_by != "log" and kernel.screened


def _partial(columns: Columns, context: Context, kernel: Kernel) -> Tally:
    return kernel.partial(columns, context)


def _of_pieces(
    kernel: Kernel, first: ScreeningPass, columns: Columns, context: Context, results: _Results
) -> dict[str, Tally]:
    """Return a kernel's tally of queues that were judged in chunks."""
    states = [state for (name, _), state in sorted(first.states.items()) if name == kernel.name]
    if kernel.split is None or not states:
        return {}
    conclude_queue, own = kernel.split.conclude, _Results(failed=results.failed)
    own.keep(
        kernel,
        lambda _: reduce(Tally.merge, (conclude_queue(of, columns, context) for of in states)),
    )
    return own.tallies


def gathered(passes: Iterable[ScreeningPass]) -> tuple[ScreeningPass, list[Ints]]:
    """Merge all passes, and also return the candidates of each. An iterator of passes is not held in memory."""
    total, own = ScreeningPass(), [NO_CANDIDATES]
    for screened in passes:
        own.append(screened.candidates)
        total = total.merge(replace(screened, candidates=NO_CANDIDATES))
    return replace(total, candidates=np.unique(np.concatenate(own))), own[1:]


def judge_partitions(
    partitions: Sequence[Callable[[], Columns]],
    names: Names,
    context: Context,
    kernels: Sequence[Kernel],
) -> tuple[dict[str, Verdict], ScreeningPass]:
    """Judge a history partition by partition, in the order of queues.

    Each partition is read a second time if there are candidates, or if a kernel is not screened.
    """
    first, own = gathered(screening_pass(read(), context, kernels) for read in partitions)
    second: list[ExactPass] = []
    if len(first.candidates) or reads_every_row(kernels):
        for read, candidates in zip(partitions, own, strict=True):
            second.append(exact_pass(read(), first.candidates, candidates, context, kernels))
    return conclude(first, second, names, context, kernels), first


def judge_columns(
    columns: Columns, context: Context, kernels: Sequence[Kernel]
) -> tuple[dict[str, Verdict], ScreeningPass]:
    """Judge a history that is in memory, as one partition."""
    return judge_partitions([lambda: columns], columns.names, context, kernels)


def columns_of_rows(names: Names, parts: Sequence[Rows]) -> Columns:
    """Join the rows of all partitions and sort them as Columns requires, because chunks of a queue overlap in time."""
    return Columns(
        names=names,
        sends=_in_order(joined(MessageEvents, [part[0] for part in parts])),
        deliveries=_in_order(joined(MessageEvents, [part[1] for part in parts])),
        commits=_in_order(joined(Commits, [part[2] for part in parts])),
    )


def _in_order(rows: R) -> R:
    order = event_order(rows.log, rows.op_index)
    return rows if order is None else rows.where(order)


def of_messages(columns: Columns, messages: Ints) -> Columns:
    """Select the events of `messages` (ids, sorted), and the commits of the queues in which they were delivered.

    In a chunk, select all its commits, because deliveries in other chunks are not known here.
    """
    sends = np.flatnonzero(is_among(columns.sends.message, messages))
    deliveries = np.flatnonzero(is_among(columns.deliveries.message, messages))
    queues = np.unique(columns.deliveries.log[deliveries])
    return Columns(
        names=columns.names,
        sends=columns.sends.where(sends),
        deliveries=columns.deliveries.where(deliveries),
        commits=columns.commits
        if columns.chunk is not None
        else columns.commits.where(is_among(columns.commits.log, queues)),
    )


def _merged_states(
    one: Mapping[tuple[str, int], Any], other: Mapping[tuple[str, int], Any]
) -> Mapping[tuple[str, int], Any]:
    if not one or not other:
        return one or other
    both = dict(one)
    for key, state in other.items():
        both[key] = both[key].merge(state) if key in both else state
    return both


def merged(one: Mapping[str, Tally], other: Mapping[str, Tally]) -> dict[str, Tally]:
    """Merge tallies kernel by kernel."""
    if not one or not other:
        return dict(one or other)
    names = dict.fromkeys((*one, *other))
    return {name: one.get(name, Tally()).merge(other.get(name, Tally())) for name in names}


def totals_of(columns: Columns) -> dict[str, int]:
    """Count the sends, by outcome, and the deliveries."""
    sends = columns.sends
    by_outcome = np.bincount(sends.outcome, minlength=len(Outcome)).tolist()
    names = {outcome.name.lower(): by_outcome[outcome] for outcome in Outcome}
    acked = names.pop("ok")
    return {"sends": len(sends), "acked": acked, **names, "deliveries": len(columns.deliveries)}


def _screened(
    columns: Columns, context: Context, kernels: Sequence[Kernel], failed: dict[str, str]
) -> tuple[ScreenedCounts, Ints]:
    """Return the counts of what was screened out, and the candidates. If the screening fails, all are candidates."""
    try:
        candidates = candidates_of(columns, context)
        candidates = widened(columns, candidates, NO_CANDIDATES)
        cleared = ~candidates.of_sends(columns)
        more = list(_more_candidates(columns, context, kernels, cleared, failed))
        if more:
            candidates = widened(columns, candidates, np.unique(np.concatenate(more)))
        return screened_out(columns, candidates), candidates.messages
    except Exception:  # a malformed history may raise anything; then nothing is cleared
        none_cleared = ScreenedCounts(
            sends=np.zeros(len(Outcome), np.int64),
            deliveries=0,
            identified=0,
            delivered=0,
            pending=0,
        )
        touched = np.concatenate((columns.sends.message, columns.deliveries.message))
        return none_cleared, np.unique(touched)


def _more_candidates(
    columns: Columns,
    context: Context,
    kernels: Sequence[Kernel],
    cleared: Mask,
    failed: dict[str, str],
) -> Iterator[Ints]:
    for kernel in kernels:
        try:
            found = kernel.more_candidates(columns, context, cleared)
        except Exception as error:
            failed[kernel.name] = failure(error)
        else:
            if len(found):
                yield found


@dataclass(slots=True)
class _Results:
    """Tallies by kernel, and the errors of kernels that failed. A failure does not affect other kernels."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def keep(self, kernel: Kernel, action: Callable[[Kernel], Tally]) -> None:
        try:
            self.tallies[kernel.name] = action(kernel)
        except Exception as error:
            self.failed[kernel.name] = failure(error)


def failure(error: Exception) -> str:
    return f"the checker failed: {type(error).__name__}: {error}"


def _negative(tally: Tally) -> Tally:
    assert not tally.findings, "a message that was cleared has no findings in its own queue"
    return Tally(counts={name: -count for name, count in tally.counts.items()})


def _finished(kernel: Kernel, tally: Tally, results: _Results, context: Context) -> Verdict:
    """Return a kernel's verdict. A kernel that failed somewhere is at best unknown, but keeps its findings."""
    try:
        verdict = kernel.finish(tally, context)
    except Exception as error:
        return Verdict(checker=kernel.name, valid="unknown", reason=failure(error))
    if kernel.name not in results.failed:
        return verdict
    valid: Validity = False if verdict.valid is False else "unknown"
    return replace(verdict, valid=valid, reason=results.failed[kernel.name])
