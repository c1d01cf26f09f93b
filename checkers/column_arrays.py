"""Rows to arrays: what the column builder has collected becomes columns in one go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from checkers.column_values import TOUCH_WIDTH, check_types, check_widths, integer, ints, text
from checkers.columns import (
    INTERNAL_TOPICS,
    UNKNOWN,
    Commits,
    Ints,
    Names,
    QueueKey,
    Touches,
)
from checkers.timeline import Commit

SendRow = tuple[Any, ...]  # the fields of a send, in the order in which send_touches takes them
SEND_WIDTH = 12
ConsumeRow = tuple[int, ...]  # what the touches of one op share, and how many they are
CONSUME_WIDTH = 10


class Ids(defaultdict[Any, int]):
    """Numbers things 0, 1, 2, ... in order of first use. Look up with []."""

    def __init__(self) -> None:
        super().__init__()
        self.default_factory = self.__len__


def send_touches(sends: Sequence[SendRow], messages: Ids) -> Touches:
    """A touch for each send. Raises HistoryError."""
    at, invoked, time_ns, invoke_ns, process, outcome, keys, *place = _transpose(sends, SEND_WIDTH)
    topic, queue, queue_offset, physical_offset, attempts = place
    check_types(keys, {str}, "key", at)
    return Touches(
        op_index=ints(at, "index", at),
        invoke_index=ints(invoked, "index", at),
        time_ns=ints(time_ns, "time_ns", at),
        invoke_ns=ints(invoke_ns, "time_ns", at),
        process=ints(process, "process", at),
        outcome=np.array(outcome, np.int64),
        message=np.array(list(map(messages.__getitem__, keys)), np.int64),
        topic=np.array(topic, np.int64),
        queue=np.array(queue, np.int64),
        group=np.full(len(keys), UNKNOWN, np.int64),
        queue_offset=ints(queue_offset, "queue_offset", at),
        physical_offset=ints(physical_offset, "physical_offset", at),
        tries=ints(attempts, "attempts", at),
        body_ok=np.ones(len(keys), np.bool_),
    )


def delivery_touches(
    consumes: Sequence[ConsumeRow], delivered: Sequence[Sequence[Any]], messages: Ids
) -> Touches:
    """A touch for each message delivered; what touches share is in the row of their op. Raises HistoryError."""
    ops = np.array(consumes, np.int64).reshape(len(consumes), CONSUME_WIDTH)
    shared = np.repeat(ops[:, :9], ops[:, 9], axis=0).T.copy()
    at = shared[0]
    check_widths(delivered, at)
    keys, offsets, physical, body_ok, tries = _transpose(delivered, TOUCH_WIDTH)
    check_types(keys, {str, type(None)}, "key", at)
    check_types(body_ok, {bool}, "body_ok", at)
    return Touches(
        op_index=shared[0],
        invoke_index=shared[1],
        time_ns=shared[2],
        invoke_ns=shared[3],
        process=shared[4],
        outcome=shared[5],
        message=_message_ids(keys, messages),
        topic=shared[6],
        queue=shared[7],
        group=shared[8],
        queue_offset=ints(offsets, "queue_offset", at),
        physical_offset=ints(physical, "physical_offset", at),
        tries=ints(tries, "reconsume_times", at),
        body_ok=np.array(body_ok, np.bool_),
    )


def commit_columns(
    commits_of: Mapping[tuple[str, QueueKey], Sequence[Commit]], groups: Ids, queues: Ids
) -> Commits:
    """A row for each offset that a group committed for a queue."""
    rows = [
        (*commit[:3], groups[group], queues[queue], commit.offset)
        for (group, queue), commits in commits_of.items()
        for commit in commits
    ]
    op_index, time_ns, process, group, queue, offset = (
        np.array(rows, np.int64).reshape(len(rows), 6).T.copy()
    )
    return Commits(
        op_index=op_index,
        time_ns=time_ns,
        process=process,
        group=group,
        queue=queue,
        offset=offset,
    )


def make_names(messages: Ids, topics_seen: Ids, queues_seen: Ids, groups: Ids) -> Names:
    """The names behind the numbers. Raises HistoryError for one that is no name."""
    queues = [
        QueueKey(text(topic), text(broker), integer(number))
        for topic, broker, number in queues_seen
    ]
    brokers = Ids()
    broker_of_queue = np.array([brokers[queue.broker] for queue in queues], np.int64)
    topic_of_queue = np.array([topics_seen[queue.topic] for queue in queues], np.int64)
    topics = list(map(text, topics_seen))
    return Names(
        messages=list(messages),
        topics=topics,
        brokers=list(brokers),
        queues=queues,
        groups=list(map(text, groups)),
        broker_of_queue=broker_of_queue,
        topic_of_queue=topic_of_queue,
        internal_topic=np.array([t.startswith(INTERNAL_TOPICS) for t in topics], np.bool_),
    )


def _transpose(rows: Sequence[Sequence[Any]], width: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*rows, strict=True)) or ((),) * width


def _message_ids(keys: Sequence[str | None], messages: Ids) -> Ints:
    if None not in keys:
        return np.array(list(map(messages.__getitem__, keys)), np.int64)
    return np.array([UNKNOWN if key is None else messages[key] for key in keys], np.int64)
