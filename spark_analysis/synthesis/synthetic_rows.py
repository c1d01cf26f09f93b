"""Turns slots into rows: numbers invocations and completions in the order of time, and makes tables of rows and ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from staticfire.checkers.formats.columnar.schema import MESSAGE_EVENTS, OPS, Kind, completed
from staticfire.checkers.model.columns import UNKNOWN, Ints, LogKey, Outcome
from staticfire.checkers.model.message_contents import NO_PROPERTIES
from staticfire.checkers.model.message_ids import key_of
from staticfire.spark_analysis.synthesis.injections import Injected
from staticfire.spark_analysis.synthesis.synthetic_slots import (
    CONSUMERS_FROM,
    RECORD_BYTES,
    Progress,
    Slots,
)
from staticfire.spark_analysis.synthesis.workload_profile import NS_PER_S, WorkloadProfile

COMMITS_A_CHUNK = 4
AHEAD = 1_000_000
BODY_BYTES = 100
TYPES = ("ok", "info", "fail")
FUNCTIONS = ("send", "consume", "commit")
TYPE_OF_OUTCOME = np.array([0, 1, 1, 2], np.int8)  # Outcome -> TYPES

Rows = dict[str, NDArray[np.generic]]  # the columns that are not constant


@dataclass(slots=True)
class Calls:
    """Ops of one kind; arrays of shape (ops,). `number_calls` sets the indices."""

    invoke_ns: Ints
    done_ns: Ints
    process: Ints
    outcome: Ints
    message_events: Ints
    function: int  # index in FUNCTIONS
    invoke_index: Ints | None = None
    index: Ints | None = None


@dataclass(slots=True)
class Chunk:
    """The rows of one part of the history. `message_events` is sorted by queue, then index."""

    message_events: pa.Table
    ops: pa.Table
    expected: list[Injected]  # findings that follow from the commits


def make_chunk(profile: WorkloadProfile, slots: Slots, progress: Progress) -> Chunk:
    """Number all ops, and make the tables; advance `progress`."""
    batches = [_batches(profile, slots, branch) for branch in range(profile.fan_out)]
    again = [_redelivery_calls(profile, slots, number) for number in range(len(slots.redeliveries))]
    sends, unstored = _send_calls(slots), _unstored_calls(profile, slots)
    commits, commit_rows, expected = _commits(profile, slots, progress)
    calls = [sends, unstored, *(calls for calls, _, _ in batches), *again, *commits]
    end_index = number_calls(calls, progress.next_index)
    rows = [
        _send_rows(slots, sends),
        _unstored_rows(unstored, progress),
        *(
            _delivery_rows(profile, slots, branch, calls, which, op)
            for branch, (calls, which, op) in enumerate(batches)
        ),
        *(_redelivered_rows(profile, slots, n, calls) for n, calls in enumerate(again)),
        *_commit_rows(commits, commit_rows),
    ]
    chunk = Chunk(message_events=_message_events(profile, rows), ops=_ops(calls), expected=expected)
    progress.next_index = end_index
    progress.next_ns = slots.end_ns + NS_PER_S
    progress.physical += RECORD_BYTES * len(slots.queue)
    return chunk


def number_calls(calls: Sequence[Calls], first_index: int) -> int:
    """Number invocations and completions in the order of time; return the next index."""
    times = np.concatenate([time for of in calls for time in (of.invoke_ns, of.done_ns)])
    order = np.argsort(times, kind="stable")
    index = np.empty(len(times), np.int64)
    index[order] = np.arange(first_index, first_index + len(times))
    at = 0
    for of in calls:
        size = len(of.invoke_ns)
        of.invoke_index, of.index = index[at : at + size], index[at + size : at + 2 * size]
        at += 2 * size
    return first_index + len(times)


def _send_calls(slots: Slots) -> Calls:
    sent = slots.sent
    return Calls(
        invoke_ns=slots.invoke_ns[sent],
        done_ns=slots.done_ns[sent],
        process=slots.process[sent],
        outcome=slots.outcome[sent],
        message_events=np.ones(int(sent.sum()), np.int64),
        function=0,
    )


def _send_rows(slots: Slots, calls: Calls) -> Rows:
    sent = slots.sent
    return {
        "kind": np.full(len(calls.process), Kind.SEND),
        **_times(calls),
        "message": slots.message[sent],
        "queue": slots.acked_queue[sent],
        "topic_queue": slots.queue[sent],
        "queue_offset": slots.acked_offset[sent],
        "physical_offset": slots.physical[sent],
        "tries": slots.tries[sent],
        **_sent_contents(len(calls.process)),
    }


def _sent_contents(rows: int) -> Rows:
    """Return contents without user properties. Deliveries report no contents besides the body."""
    return {"properties": np.full(rows, NO_PROPERTIES), "size": np.full(rows, BODY_BYTES)}


def _unstored_calls(profile: WorkloadProfile, slots: Slots) -> Calls:
    """Return sends during an outage, one per process: half of them are refused, half get no answer."""
    size = len(slots.unstored_ns)
    at = np.arange(size)
    return Calls(
        invoke_ns=slots.unstored_ns,
        done_ns=slots.unstored_ns + NS_PER_S,
        process=profile.producers + at,
        outcome=np.where(at % 2 == 0, Outcome.FAILED, Outcome.UNKNOWN).astype(np.int64),
        message_events=np.ones(size, np.int64),
        function=0,
    )


def _unstored_rows(calls: Calls, progress: Progress) -> Rows:
    size = len(calls.process)
    return {
        "kind": np.full(size, Kind.SEND),
        **_times(calls),
        "message": (calls.process << 40) | (progress.next_index + np.arange(size)),
        "queue": np.full(size, UNKNOWN),
        "topic_queue": np.zeros(size, np.int64),
        "tries": np.ones(size, np.int64),
        **_sent_contents(size),
    }


def _batches(profile: WorkloadProfile, slots: Slots, branch: int) -> tuple[Calls, Ints, Ints]:
    """Return the listener calls of one branch of the fan-out, the delivered slots, and the call of each of them."""
    delivered = slots.deliveries[branch]
    head = slots.index_in_queue % profile.batch == 0
    batch = np.cumsum(head) - 1
    which = np.flatnonzero(delivered.kept)
    sizes = np.bincount(batch[which], minlength=int(batch[-1]) + 1)
    called = np.flatnonzero(sizes)
    first = np.flatnonzero(head)[called]
    renumbered = np.cumsum(sizes > 0) - 1
    calls = Calls(
        invoke_ns=delivered.invoke_ns[first],
        done_ns=delivered.done_ns[first],
        process=consumer_of(profile, slots.queue[first], branch),
        outcome=delivered.outcome[first],
        message_events=sizes[called],
        function=1,
    )
    return calls, which, renumbered[batch[which]]


def consumer_of(profile: WorkloadProfile, queue: Ints, branch: int) -> Ints:
    """Return the process that reads a queue for its group."""
    return (
        CONSUMERS_FROM
        + group_of(profile, queue, branch) * profile.consumers
        + queue % profile.consumers
    )


def group_of(profile: WorkloadProfile, queue: Ints, branch: int) -> Ints:
    return (queue % profile.topics + branch) % profile.groups


def _delivery_rows(
    profile: WorkloadProfile, slots: Slots, branch: int, calls: Calls, which: Ints, op: Ints
) -> Rows:
    delivered, queue = slots.deliveries[branch], slots.queue[which]
    return {
        "kind": np.full(len(which), Kind.DELIVERY),
        **{name: column[op] for name, column in _times(calls).items()},
        "message": delivered.message[which],
        "queue": queue,
        "topic_queue": queue,
        "group": group_of(profile, queue, branch),
        "queue_offset": delivered.offset[which],
        "physical_offset": slots.stored[which],
        "tries": np.zeros(len(which), np.int64),
        "body_ok": delivered.body_ok[which],
    }


def _redelivery_calls(profile: WorkloadProfile, slots: Slots, number: int) -> Calls:
    again = slots.redeliveries[number]
    return Calls(
        invoke_ns=np.array([again.invoke_ns]),
        done_ns=np.array([again.done_ns]),
        process=consumer_of(profile, slots.queue[again.slots[:1]], again.branch),
        outcome=np.array([Outcome.OK], np.int64),
        message_events=np.array([len(again.slots)]),
        function=1,
    )


def _redelivered_rows(profile: WorkloadProfile, slots: Slots, number: int, calls: Calls) -> Rows:
    again = slots.redeliveries[number]
    op = np.zeros(len(again.slots), np.int64)
    rows = _delivery_rows(profile, slots, again.branch, calls, again.slots, op)
    return {**rows, "tries": np.full(len(again.slots), again.tries)}


def _commits(
    profile: WorkloadProfile, slots: Slots, progress: Progress
) -> tuple[list[Calls], list[tuple[Ints, Ints, Ints, Ints]], list[Injected]]:
    """Let each consumer commit a few times. Return the ops, rows of (op, queue, group, offset), and findings."""
    span = slots.end_ns - slots.begin_ns
    at_ns = slots.begin_ns + span * np.arange(1, COMMITS_A_CHUNK + 1) // COMMITS_A_CHUNK
    queues = np.arange(profile.queues)
    calls, rows = [], []
    expected: list[Injected] = []
    for branch in range(profile.fan_out):
        slice_of = np.searchsorted(at_ns[:-1], slots.deliveries[branch].done_ns, side="left")
        read = np.bincount(
            slots.queue * COMMITS_A_CHUNK + slice_of, minlength=profile.queues * COMMITS_A_CHUNK
        ).reshape(profile.queues, COMMITS_A_CHUNK)
        so_far = _down_to_consumed(slots, branch, np.cumsum(read, axis=1))
        offsets = progress.committed[branch][:, None] + so_far
        progress.committed[branch] += read.sum(axis=1)
        if branch == 0:
            expected += list(_ahead(offsets, sorted(set(slots.commits_ahead))))
        process = consumer_of(profile, queues, branch)
        owners, owner_of = np.unique(process, return_inverse=True)
        for number, time_ns in enumerate(at_ns.tolist()):
            size = len(owners)
            calls.append(
                Calls(
                    invoke_ns=np.full(size, time_ns),
                    done_ns=np.full(size, time_ns + 1000),
                    process=owners,
                    outcome=np.zeros(size, np.int64),
                    message_events=np.bincount(owner_of),
                    function=2,
                )
            )
            rows.append((owner_of, queues, group_of(profile, queues, branch), offsets[:, number]))
    return calls, rows, expected


def _down_to_consumed(slots: Slots, branch: int, counts: Ints) -> Ints:
    """Reduce counts of slots, shape (queues, commits), until the last slot of each was consumed."""
    delivered = slots.deliveries[branch]
    consumed = delivered.kept & (delivered.offset == slots.offset)
    consumed &= delivered.outcome == Outcome.OK
    starts = np.searchsorted(slots.queue, np.arange(len(counts)))[:, None]
    while np.any(high := (counts > 0) & ~consumed[np.maximum(starts + counts - 1, 0)]):
        counts = counts - high
    return counts


def _ahead(offsets: Ints, queues: Sequence[int]) -> Iterator[Injected]:
    """Put the second commit of some queues far ahead; yield the findings of it and of the commit after it."""
    for queue in queues:
        offsets[queue, 1] += AHEAD
        for anomaly, number in (("commit_ahead", 1), ("commit_rewound", 2)):
            yield Injected(
                anomaly=anomaly,
                explained=False,
                message=UNKNOWN,
                queue=queue,
                queue_offset=int(offsets[queue, number]),
                branch=0,
            )


def _commit_rows(commits: list[Calls], rows: list[tuple[Ints, Ints, Ints, Ints]]) -> list[Rows]:
    return [
        {
            "kind": np.full(len(queue), Kind.COMMIT),
            **{name: column[op] for name, column in _times(calls).items()},
            "message": np.full(len(queue), UNKNOWN),
            "queue": queue,
            "topic_queue": queue,
            "group": group,
            "queue_offset": offset,
            "physical_offset": np.full(len(queue), UNKNOWN),
            "tries": np.zeros(len(queue), np.int64),
        }
        for calls, (op, queue, group, offset) in zip(commits, rows, strict=True)
    ]


def _times(calls: Calls) -> Rows:
    assert calls.index is not None
    assert calls.invoke_index is not None
    return {
        "op_index": calls.index,
        "invoke_index": calls.invoke_index,
        "time_ns": calls.done_ns,
        "invoke_ns": calls.invoke_ns,
        "process": calls.process,
        "outcome": calls.outcome,
    }


def _message_events(profile: WorkloadProfile, parts: list[Rows]) -> pa.Table:
    """Return one table, sorted by queue, then index, then the order within the op."""
    sizes = [len(rows["kind"]) for rows in parts]
    queue = np.concatenate([rows["queue"] for rows in parts])
    index = np.concatenate([rows["op_index"] for rows in parts])
    low = int(index.min())
    bits = max(1, int(index.max() - low).bit_length())
    order = np.argsort(((queue + 1) << bits) | (index - low), kind="stable")
    columns = {}
    for name in MESSAGE_EVENTS.names:
        if name == "topic":
            whole = np.concatenate([rows["topic_queue"] for rows in parts]) % profile.topics
        elif any(name in rows for rows in parts):
            default = name == "body_ok" or UNKNOWN
            whole = np.concatenate(
                [rows.get(name, np.full(n, default)) for rows, n in zip(parts, sizes, strict=True)]
            )
        else:
            whole = None
        if whole is None:
            columns[name] = np.full(len(order), 0 if name == "transaction" else UNKNOWN)
        else:
            columns[name] = whole[order]
    return pa.table(columns, schema=MESSAGE_EVENTS)


def _ops(calls: list[Calls]) -> pa.Table:
    index = np.concatenate([of.index for of in calls if of.index is not None])
    order = np.argsort(index)
    function = np.repeat(
        np.array([of.function for of in calls], np.int8), [len(of.process) for of in calls]
    )[order]

    def whole(name: str) -> Ints:
        column: Ints = np.concatenate([getattr(of, name) for of in calls])[order]
        return column

    size = len(order)
    nothing = pa.nulls(size, pa.string())
    columns = {
        "index": index[order],
        "invoke_index": whole("invoke_index"),
        "time_ns": whole("done_ns"),
        "invoke_ns": whole("invoke_ns"),
        "process": whole("process"),
        "message_events": whole("message_events"),
        "size": np.where(function == 0, BODY_BYTES, UNKNOWN),
        "type": _texts(TYPE_OF_OUTCOME[whole("outcome")], TYPES),
        "f": _texts(function, FUNCTIONS),
        "node": nothing,
        "error": nothing,
        "value": nothing,
        "invoke_value": nothing,
    }
    return completed(pa.table(columns), OPS.names, OPS)


def _texts(codes: NDArray[np.int8], words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words)).cast(pa.string())


def truth_of(profile: WorkloadProfile, log: LogKey, injected: Injected) -> dict[str, object]:
    """Return the finding to expect, with the fields of a finding."""
    queue = injected.queue
    expected: dict[str, object] = {
        "anomaly": injected.anomaly,
        "explained": injected.explained,
        "topic": log.topic,
        "broker": log.home,
        "queue": log.partition,
        "queue_offset": injected.queue_offset,
    }
    if injected.message != UNKNOWN:
        expected["key"] = key_of(injected.message, [])
    if injected.physical_offset != UNKNOWN:
        expected["physical_offset"] = injected.physical_offset
    if injected.branch is not None:
        expected["group"] = f"group-{(queue % profile.topics + injected.branch) % profile.groups}"
    return expected
