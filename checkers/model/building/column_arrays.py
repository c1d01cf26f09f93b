"""Converts the rows that the column builder has collected into columns, in one step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticfire.checkers.model.building.column_values import (
    EVENT_WIDTH,
    check_types,
    check_widths,
    integer,
    ints,
    text,
)
from staticfire.checkers.model.columns import (
    COMMIT_FIELDS,
    INTERNAL_TOPICS,
    UNKNOWN,
    Commits,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    Names,
    Transaction,
    constant,
)
from staticfire.checkers.model.message_ids import MessageIds

SendRow = tuple[Any, ...]  # the fields of a send, in the order in which send_events takes them
SEND_WIDTH = 20
# Columns that many histories leave empty, and the value that stands for "none". A SendRow ends with those of OF_SENDS.
NOTHING_SPECIAL: Mapping[str, int] = {
    "sharding_key": UNKNOWN,
    "tag": UNKNOWN,
    "due_ns": UNKNOWN,
    "transaction": Transaction.NONE,
    "check_ns": UNKNOWN,
    "message_id": UNKNOWN,
    "properties": UNKNOWN,
    "size": UNKNOWN,
    "born_ms": UNKNOWN,
    "stored_ms": UNKNOWN,
    "origin": UNKNOWN,
    "at_ns": UNKNOWN,
    "invoke_at_ns": UNKNOWN,
    "within_ns": UNKNOWN,
}
OF_SENDS = (
    "sharding_key",
    "tag",
    "due_ns",
    "transaction",
    "check_ns",
    "message_id",
    "properties",
    "size",
)
SHARED = (
    "op_index",
    "invoke_index",
    "time_ns",
    "invoke_ns",
    "process",
    "outcome",
    "topic",
    "log",
    "group",
)
ConsumeRow = tuple[int, ...]  # the values that the events of one op share, and their number
CONSUME_WIDTH = 10
CommitRow = tuple[int, ...]  # the fields of Commits


class Ids(defaultdict[Any, int]):
    """Numbers values 0, 1, 2, ... in order of first use. Look up with []."""

    def __init__(self) -> None:
        super().__init__()
        self.default_factory = self.__len__


def send_events(sends: Sequence[SendRow], messages: MessageIds) -> MessageEvents:
    """Return an event for each send. Raises HistoryError."""
    at, invoked, time_ns, invoke_ns, process, outcome, keys, *rest = _transpose(sends, SEND_WIDTH)
    topic, log, queue_offset, position, attempts, *special = rest
    check_types(keys, {str}, "key", at)
    columns = {
        "op_index": ints(at, "index", at),
        "invoke_index": ints(invoked, "index", at),
        "time_ns": ints(time_ns, "time_ns", at),
        "invoke_ns": ints(invoke_ns, "time_ns", at),
        "process": ints(process, "process", at),
        "outcome": np.fromiter(outcome, np.int64, len(outcome)),
        "message": np.array(list(map(messages.__getitem__, keys)), np.int64),
        "topic": np.array(topic, np.int64),
        "log": np.array(log, np.int64),
        "queue_offset": ints(queue_offset, "queue_offset", at),
        "position": ints(position, "physical_offset", at),
        "tries": ints(attempts, "attempts", at),
    }
    same = {"group": UNKNOWN, **NOTHING_SPECIAL}
    for name, values in zip(OF_SENDS, special, strict=True):
        if not set(values) <= {NOTHING_SPECIAL[name]}:
            columns[name] = ints(values, name, at)
    return in_order(columns, same, np.ones(len(keys), np.bool_))


def delivery_events(
    consumes: Sequence[ConsumeRow],
    delivered: Sequence[Sequence[Any]],
    messages: MessageIds,
    contents: Mapping[str, Ints],
) -> MessageEvents:
    """Return an event for each delivered message. Raises HistoryError.

    Args:
        consumes: a row for each op, with the values that its events share.
        delivered: the messages of all ops, one after the other.
        messages: numbers the keys.
        contents: columns of shape (events,) by the names in `message_contents.CONTENTS`; empty if no op had contents.
    """
    ops = np.array(consumes, np.int64).reshape(len(consumes), CONSUME_WIDTH)
    shared = np.repeat(ops[:, :9], ops[:, 9], axis=0).T.copy()
    at = shared[0]
    check_widths(delivered, at)
    keys, offsets, physical, body_ok, tries = _transpose(delivered, EVENT_WIDTH)
    check_types(keys, {str, type(None)}, "key", at)
    check_types(body_ok, {bool}, "body_ok", at)
    columns = {
        **dict(zip(SHARED, shared, strict=True)),
        "message": _message_ids(keys, messages),
        "queue_offset": ints(offsets, "queue_offset", at),
        "position": ints(physical, "physical_offset", at),
        "tries": ints(tries, "reconsume_times", at),
        **contents,
    }
    return in_order(columns, NOTHING_SPECIAL, np.array(body_ok, np.bool_))


def in_order(columns: Mapping[str, Ints], same: Mapping[str, int], body_ok: Mask) -> MessageEvents:
    """Return events sorted by queue and op. `same` has the single value of each column that `columns` lacks."""
    rows = len(body_ok)
    order = event_order(columns["log"], columns["op_index"])
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
        body_ok = body_ok[order]
    everywhere = {
        name: constant(value, rows) for name, value in same.items() if name not in columns
    }
    return MessageEvents(**columns, **everywhere, body_ok=body_ok)


def event_order(queue: Ints, op_index: Ints) -> Ints | None:
    """Return the row numbers sorted by queue, then by op, shape (rows,); None if the rows are sorted already.

    The sort is stable: rows of one op keep their order.
    """
    if _is_in_order(queue, op_index):
        return None
    order = None if _ascends(op_index) else np.argsort(op_index, kind="stable")
    if order is not None:
        queue = queue[order]
    if _ascends(queue):
        return order
    # NumPy sorts 16-bit integers by radix: linear, and several times as fast.
    small = queue.astype(np.int16) if int(queue.min()) >= -1 and int(queue.max()) < 2**15 else queue
    by_queue = np.argsort(small, kind="stable")
    return by_queue if order is None else order[by_queue]


def _is_in_order(queue: Ints, op_index: Ints) -> bool:
    step = np.diff(queue)
    return bool(np.all((step > 0) | ((step == 0) & (np.diff(op_index) >= 0))))


def _ascends(values: Ints) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def commit_columns(commits: Sequence[CommitRow]) -> Commits:
    """Return a row for each offset that a group committed for a queue, sorted by queue and op."""
    columns = np.array(commits, np.int64).reshape(len(commits), len(COMMIT_FIELDS)).T
    order = event_order(columns[4], columns[0])
    in_order = (column.copy() if order is None else column[order] for column in columns)
    return Commits(**dict(zip(COMMIT_FIELDS, in_order, strict=True)))


def make_names(
    messages: MessageIds, topics_seen: Ids, queues_seen: Ids, groups: Ids, tags: Ids, sharding: Ids
) -> Names:
    """Return the names behind the numbers. Raises HistoryError for a value that is no name."""
    queues = [
        LogKey(text(topic), text(broker), integer(number)) for topic, broker, number in queues_seen
    ]
    for queue in queues:
        topics_seen[queue.topic]
    return names_of(
        other_keys=messages.others,
        topics=list(map(text, topics_seen)),
        queues=queues,
        groups=list(map(text, groups)),
        tags=list(map(text, tags)),
        sharding_keys=list(map(text, sharding)),
    )


def names_of(
    *,
    other_keys: list[str],
    topics: list[str],
    queues: list[LogKey],
    groups: list[str],
    tags: list[str],
    sharding_keys: list[str],
) -> Names:
    """Return names with the columns that follow from them. Raises KeyError for a queue whose topic `topics` lacks."""
    streams = Ids()
    stream_of_log = np.array([streams[log.stream] for log in queues], np.int64)
    topic_ids = {topic: number for number, topic in enumerate(topics)}
    return Names(
        other_keys=other_keys,
        topics=topics,
        streams=list(streams),
        logs=queues,
        groups=groups,
        stream_of_log=stream_of_log,
        topic_of_log=np.array([topic_ids[queue.topic] for queue in queues], np.int64),
        internal_topic=np.array([t.startswith(INTERNAL_TOPICS) for t in topics], np.bool_),
        tags=tags,
        sharding_keys=sharding_keys,
    )


def _transpose(rows: Sequence[Sequence[Any]], width: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*rows, strict=True)) or ((),) * width


def _message_ids(keys: Sequence[str | None], messages: MessageIds) -> Ints:
    return np.array([UNKNOWN if key is None else messages[key] for key in keys], np.int64)
