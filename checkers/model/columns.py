"""A history as NumPy columns, with one row for each send and one for each delivered message.

Strings are in dictionaries (`Names`). Rows hold integers, so that kernels compare and index instead of hashing. The
integer -1 means "not known" or "does not apply". Message ids are large (`checkers/model/message_ids.py`).

Rows are sorted by queue, then by op index. Rows of one op keep the order of its value.

A column with only one value takes no memory (`constant`). This is safe because columns are never written to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.model.message_ids import key_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
PartitionKey = Literal["message", "log", "stream"]
UNKNOWN = -1
INTERNAL_TOPICS = ("%RETRY%", "%DLQ%")  # the broker itself moves messages to these (MixAll)


class Outcome(IntEnum):
    """The outcome of an event. A delivery is OK (consumed) or UNKNOWN (the listener failed or died)."""

    OK = 0
    WEAK = 1  # stored, but FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE
    UNKNOWN = 2
    FAILED = 3  # a send that was definitely not stored


class Transaction(IntEnum):
    """The end that a producer gave a transactional send."""

    NONE = 0
    COMMIT = 1
    ROLLBACK = 2
    UNKNOWN = 3  # the broker must ask


class LogKey(NamedTuple):
    """A log of messages, one partition of a topic: in RocketMQ a message queue.

    `home` is part of the name if a log never moves (RocketMQ: the broker), and empty if it may. Keys sort by topic,
    home and partition, like the files of existing histories.
    """

    topic: str
    home: str
    partition: int

    @property
    def stream(self) -> str:
        """The name of the sequence that stores its messages: all logs of a home share one (RocketMQ: a commit log).

        A log without a home is its own stream. `RunFacts.replica_sets` names the replicas of each stream.
        """
        return self.home or f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        """Return `topic@home/partition`, or `topic/partition` for a log that may move."""
        return (
            f"{self.topic}@{self.home}/{self.partition}"
            if self.home
            else f"{self.topic}/{self.partition}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvents:
    """Rows of sends, or of deliveries. All arrays have shape (rows,); `body_ok` is bool, all others are int64."""

    op_index: Ints  # of the completion; of the invocation if there is none
    invoke_index: Ints
    time_ns: Ints  # of the completion
    invoke_ns: Ints
    process: Ints
    outcome: Ints  # Outcome
    message: Ints  # Names.key returns its key; UNKNOWN if the body held no readable key
    topic: Ints  # id in Names.topics
    log: Ints  # id in Names.logs; UNKNOWN for a send that no broker answered
    group: Ints  # id in Names.groups; UNKNOWN for sends
    queue_offset: Ints
    position: Ints  # in the stream that stores its log (`LogKey.stream`)
    tries: Ints  # attempts of a send (0: not recorded), reconsume times of a delivery
    body_ok: Mask
    sharding_key: Ints  # id in Names.sharding_keys, of a send
    tag: Ints  # id in Names.tags; for a delivery "" is no tag, and UNKNOWN is not reported
    due_ns: Ints  # the earliest time of delivery of a delayed message, of a send
    transaction: Ints  # Transaction, of a send
    check_ns: Ints  # the earliest time of a check of the transaction, of a send that names it
    # The client's own times, on the run's clock (`checkers/model/event_times.py`); UNKNOWN: only `time_ns` is known.
    at_ns: Ints  # of the completion
    invoke_at_ns: Ints
    within_ns: Ints  # the error bound of both
    # Contents (`checkers/features/contents.py`) that the client reported; UNKNOWN for those that it did not.
    message_id: Ints  # digest of the unique message id
    properties: Ints  # digest of the user properties
    size: Ints  # bytes of the body
    born_ms: Ints  # wall clock of the producer, of a delivery
    stored_ms: Ints  # wall clock of the broker, of a delivery
    origin: Ints  # position of the message of which this is a copy, of a delivery

    def __len__(self) -> int:
        return len(self.op_index)

    def where(self, rows: Mask | Ints | slice) -> Self:
        """Return the chosen rows, in the order of `rows`; a slice returns views, not copies."""
        if not isinstance(rows, slice) and rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        size = len(self.op_index[rows])
        return type(self)(
            **{name: _chosen(getattr(self, name), rows, size) for name in EVENT_FIELDS}
        )

    def row(self, at: int) -> Self:
        """Return one row as a copy: findings and the states of chunks keep it after the columns of their part."""
        return self.where(np.array([at]))


EVENT_FIELDS = tuple(column.name for column in fields(MessageEvents))


def constant(value: int | bool, rows: int) -> Any:
    """Return a read-only column of shape (rows,) that repeats one value without taking memory for each row."""
    return np.broadcast_to(np.array(value), rows)


def is_constant(column: Ints | Mask) -> bool:
    """Whether the column was made by `constant`."""
    return column.strides == (0,) and len(column) > 0


def _chosen(column: Any, rows: Mask | Ints | slice, size: int) -> Any:
    if not is_constant(column):
        return column[rows] if size else np.zeros(0, column.dtype)  # a view keeps the column alive
    return column[:size] if size <= len(column) else np.broadcast_to(column[0], size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """One row for each committed offset of a queue; all arrays have shape (rows,) and type int64."""

    op_index: Ints
    time_ns: Ints
    process: Ints
    group: Ints
    log: Ints
    offset: Ints  # of the next message that the group wants

    def __len__(self) -> int:
        return len(self.op_index)

    def where(self, rows: Mask | Ints) -> Self:
        """Return the chosen rows, in the order of `rows`."""
        return type(self)(**{name: getattr(self, name)[rows] for name in COMMIT_FIELDS})


COMMIT_FIELDS = tuple(column.name for column in fields(Commits))
R = TypeVar("R", MessageEvents, Commits)


def joined(kind: type[R], parts: Sequence[R]) -> R:
    """Join the rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for name in EVENT_FIELDS if kind is MessageEvents else COMMIT_FIELDS:
        nothing = np.zeros(0, bool if name == "body_ok" else np.int64)
        chunks: list[Any] = [getattr(part, name) for part in parts]
        columns[name] = _in_a_row([nothing, *chunks])
    return kind(**columns)


def _in_a_row(chunks: list[Any]) -> Any:
    held = [chunk for chunk in chunks if len(chunk)]
    if held and all(map(is_constant, held)) and len({chunk[0] for chunk in held}) == 1:
        return np.broadcast_to(held[0][0], sum(map(len, held)))
    return np.concatenate(chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The dictionaries of the ids in columns."""

    other_keys: list[str]  # keys that do not follow from the ids of their messages
    topics: list[str]
    streams: list[str]
    logs: list[LogKey]
    groups: list[str]
    stream_of_log: Ints  # shape (logs,): id in `streams`
    topic_of_log: Ints  # shape (logs,)
    internal_topic: Mask  # shape (topics,): a retry or dead-letter topic
    tags: list[str] = field(default_factory=list)
    sharding_keys: list[str] = field(default_factory=list)

    def key(self, message: int) -> str | None:
        return None if message == UNKNOWN else key_of(message, self.other_keys)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """A range of offsets of a queue that is too long for memory. The first also has the sends without a known position.

    At a cut point between two chunks every group passed from one side to the other and never returned
    (`checkers/formats/chunks/cut_points.py`).
    """

    queue: int
    number: int  # 0, 1, 2, ... in the order of offsets
    first_offset: int
    last_offset: int
    commits: Commits  # of the whole queue
    given: Mapping[
        int, tuple[int, int]
    ]  # group -> lowest and highest offset that it received, of the whole queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The events of a history, or of some of its partitions."""

    names: Names
    sends: MessageEvents
    deliveries: MessageEvents
    commits: Commits  # in a chunk: commits to its offsets
    chunk: Chunk | None = None  # None: whole queues
    cache: dict[str, object] = field(default_factory=dict, compare=False, repr=False)
