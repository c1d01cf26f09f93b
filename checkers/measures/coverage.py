"""Coverage: how often a run reached each mechanism of `coverage_marks.py`. It never decides a verdict.

A kernel counts events in the columns: sends with more than one attempt, deliveries for which a listener had failed
before, changes of an owner while a listener was processing messages of the queue, consecutive orderly deliveries to
different processes, and messages that a filter excluded. Brokers compare hashes of tags, so only the consumer can
exclude messages whose tag has the hash of a wanted one. The other counts come from observations, other verdicts and
facts.

A zero does not prove that a run never reached a mechanism, only that the harness did not see it: it does not read logs
of external brokers. Source: the "sometimes" assertions of Antithesis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, Split, nothing_missing
from staticfire.checkers.engine.position_index import index_of, stream_id
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.verdict import Tally, Verdict
from staticfire.checkers.measures.coverage_marks import MARKS, Mark
from staticfire.checkers.model.columns import UNKNOWN, Chunk, Columns, Ints, Mask, Outcome

LUCK_MAX = 0.05  # a mark counts as missed if the probability of missing it by chance is below this


def tally_coverage(columns: Columns, context: Context) -> Tally:
    """Count events of whole queues (partition key: log)."""
    return Tally(
        counts={
            "retried_sends": int(np.count_nonzero(columns.sends.tries > 1)),
            "retried_deliveries": int(np.count_nonzero(columns.deliveries.tries > 0)),
            "rebalanced_at_work": int(np.count_nonzero(_worked_at(columns, context))),
            "handed_over": _handed_over(columns, context),
            **_kept_back(columns, context),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverageInChunks:
    """The counts of some chunks of one queue. `merge` is associative and commutative."""

    tally: Tally  # counts of rows
    at_work: Mask  # by change of an owner, see `_worked_at`
    ends: tuple[tuple[int, str, int, int], ...]  # chunk, orderly group, its first and last process

    def merge(self, other: CoverageInChunks) -> CoverageInChunks:
        return CoverageInChunks(
            tally=self.tally.merge(other.tally),
            at_work=self.at_work | other.at_work,
            ends=tuple(sorted((*self.ends, *other.ends))),
        )


def scan_coverage(columns: Columns, context: Context, chunk: Chunk) -> CoverageInChunks:
    """Count the events in a chunk of a queue; `conclude_coverage` counts those between two chunks."""
    tally = tally_coverage(
        columns, replace(context, timeline=replace(context.timeline, ownership={}))
    )
    ends = [
        (chunk.number, group, int(process[0]), int(process[-1]))
        for group, _, process in _orderly_calls(columns, context)
        if len(process)
    ]
    return CoverageInChunks(tally=tally, at_work=_worked_at(columns, context), ends=tuple(ends))


def conclude_coverage(state: CoverageInChunks, _columns: Columns, _context: Context) -> Tally:
    """Count events between two chunks."""
    last: dict[str, int] = {}
    handed_over = 0
    for _, group, first_process, last_process in state.ends:
        handed_over += last.get(group, first_process) != first_process
        last[group] = last_process
    counts = {
        "rebalanced_at_work": int(np.count_nonzero(state.at_work)),
        "handed_over": handed_over,
    }
    return state.tally.merge(Tally(counts=counts))


def _handed_over(columns: Columns, context: Context) -> int:
    """Count how often two consecutive deliveries of an orderly queue went to different processes."""
    return sum(
        int(np.count_nonzero((queue[1:] == queue[:-1]) & (process[1:] != process[:-1])))
        for _, queue, process in _orderly_calls(columns, context)
    )


def _orderly_calls(columns: Columns, context: Context) -> Iterator[tuple[str, Ints, Ints]]:
    """Yield each orderly group with the queue and process of its deliveries, by queue, then in the order of calls."""
    deliveries, groups = columns.deliveries, columns.names.groups
    for group in context.facts.orderly:
        if group in groups:
            of_group = deliveries.where(np.flatnonzero(deliveries.group == groups.index(group)))
            order = np.lexsort((of_group.invoke_index, of_group.log))
            yield group, of_group.log[order], of_group.process[order]


def _kept_back(columns: Columns, context: Context) -> dict[str, int]:
    """Count acknowledged messages that a filter excludes, and those whose unwanted tag has the hash of a wanted one."""
    sends, names = columns.sends, columns.names
    sends = sends.where(np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN)))
    filtered = colliding = 0
    for group, wanted in context.facts.wanted_tags.items():
        topics = context.facts.groups.get(group, ())
        subscribed = np.array([topic in topics for topic in names.topics], np.bool_)[sends.topic]
        unasked = subscribed & ~context.matches(columns, sends, group)
        hashes = {java_hash(tag) for tag in wanted}
        alike = [tag not in wanted and java_hash(tag) in hashes for tag in names.tags]
        collides = np.array([*alike, False], np.bool_)[sends.tag]
        filtered += int(np.count_nonzero(unasked))
        colliding += int(np.count_nonzero(subscribed & collides))
    return {"filtered_out": filtered, "colliding_tags": colliding}


def java_hash(text: str) -> int:
    """Return Java's String.hashCode of text in the Basic Multilingual Plane, as an unsigned 32-bit integer."""
    code = 0
    for letter in text:
        code = (code * 31 + ord(letter)) & 0xFFFFFFFF
    return code


def _worked_at(columns: Columns, context: Context) -> Mask:
    """Whether a listener was processing messages of the queue at each change of its owner, in timeline order."""
    names, delivered = columns.names, columns.deliveries
    worked: list[bool] = []
    groups = {group: number for number, group in enumerate(names.groups)}
    queues = {queue: number for number, queue in enumerate(names.logs)}
    for (group, queue), changes in context.timeline.ownership.items():
        if group in groups and queue in queues:
            stream = stream_id(columns, queues[queue], groups[group])
            rows = index_of(columns).streams.ended(stream)
            begin, end = delivered.invoke_index[rows], delivered.op_index[rows]
            for change in changes:
                busy = (begin < change.op_index) & (change.op_index < end)
                worked.append(bool(np.any(busy)))
    return np.array(worked, np.bool_)


COVERAGE = Kernel(
    name="coverage",
    partition_by="log",
    anomalies=(),
    partial=tally_coverage,
    unknown_reason=nothing_missing,
    split=Split(scan_coverage, conclude_coverage),
)


def coverage_of(
    verdicts: Iterable[Verdict], observations: Sequence[Mapping[str, Any]], facts: RunFacts
) -> dict[str, int]:
    """Return how often the run reached each mark, in the order of the table."""
    counts = {
        f"{verdict.checker}.{name}": count
        for verdict in verdicts
        for name, count in verdict.counts.items()
    }
    seen: dict[str, dict[str, int]] = {"log": {}, "history": {}}
    wanted = {mark.seen.partition(".")[0] for mark in MARKS if mark.source == "observation"}
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in observations:
        if record["kind"] == "events":
            for source, events in seen.items():
                for name, count in record.get(source, {}).items():
                    events[name] = events.get(name, 0) + count
        elif record["kind"] in wanted:
            by_kind.setdefault(record["kind"], []).append(record)
    bitten = [fault.kind for fault in facts.faults if fault.bitten_ns is not None]
    return {mark.name: _count(mark, counts, seen, by_kind, bitten) for mark in MARKS}


def _count(
    mark: Mark,
    counts: Mapping[str, int],
    seen: Mapping[str, Mapping[str, int]],
    by_kind: Mapping[str, Sequence[Mapping[str, Any]]],
    bitten: Sequence[str],
) -> int:
    if mark.source == "verdict":
        return counts.get(mark.seen, 0)
    if mark.source == "fault":
        return bitten.count(mark.seen)
    if mark.source == "observation":
        kind, _, field = mark.seen.partition(".")
        return sum((record.get(field) or 0) >= mark.at_least for record in by_kind.get(kind, ()))
    return seen[mark.source].get(mark.seen, 0)


def missed(coverage: Mapping[str, int], campaign: str, seeds: int) -> list[str]:
    """Return the marks of a campaign or workload that none of its seeds reached, if chance alone is no explanation.

    `seeds`: the number of seeds that ran. A mark is missed if the probability of this result is below LUCK_MAX.
    """
    return [
        mark.name
        for mark in MARKS
        if campaign in mark.campaigns
        and not coverage.get(mark.name)
        and (1.0 - mark.share) ** seeds < LUCK_MAX
    ]
