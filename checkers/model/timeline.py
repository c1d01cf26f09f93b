"""The timeline: the ops of a history that do not become rows of columns, such as assignments, drains and probes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from staticfire.checkers.model.columns import Ints, LogKey, Mask
from staticfire.checkers.model.history import OpType


class Commit(NamedTuple):
    """A consumer committed the offset of one queue: the offset of the next message that it wants."""

    op_index: int
    time_ns: int
    process: int
    offset: int


class Ownership(NamedTuple):
    """A process gained or lost one queue."""

    op_index: int
    time_ns: int
    process: int
    change: Literal["gained", "lost"]


class Begun(NamedTuple):
    """A broker gave a member the offset of its group in a queue."""

    op_index: int
    time_ns: int
    process: int
    offset: int | None  # None: the broker knows none, or the client does not report it
    broker_id: int | None  # 0: the leader; None: the client does not report it


class CommitTo(NamedTuple):
    """A member commits offsets of queues of one replica set."""

    op_index: int  # its commits follow it
    time_ns: int
    broker_id: int  # of the broker to which it sends them; 0: the leader
    earlier_arrived: bool  # its previous commits to this replica set have surely arrived


class QueueEnd(NamedTuple):
    """The ends of one queue and one group's offset when the drain ended."""

    min_offset: int
    max_offset: int  # one past the last message
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The last drain of a group on a topic.

    `complete`: the lag reached 0 within the bound. `still_s`: the drain ended early, because no offset had moved for
    this many seconds.
    """

    op_index: int
    time_ns: int
    complete: bool
    lag: int
    ends: Mapping[LogKey, QueueEnd]
    still_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One send after the heal, which shows whether a broker accepts sends."""

    op_index: int
    time_ns: int
    broker: str
    type: OpType
    error: str | None


class Torn(NamedTuple):
    """An answer that should have held one message held an invalid record."""

    key: str
    queue: int
    queue_offset: int
    error: str


class Found(NamedTuple):
    """The result of a broker's queries for one acknowledged message."""

    key: str
    queue: int
    queue_offset: int
    by_key: bool
    by_id: bool | None  # None: its id is not known
    in_queue: bool


class RefusedRead(NamedTuple):
    """A message that a broker failed to read, or whose store time it failed to search for (SYSTEM_ERROR)."""

    key: str
    queue: int
    queue_offset: int
    error: str  # of the broker's answer


class Searched(NamedTuple):
    """A stored message, and the answer to a search for its store time (SEARCH_OFFSET_BY_TIMESTAMP). Times are in ms."""

    key: str
    queue: int
    queue_offset: int
    stored_ms: int
    answer: int  # a queue offset
    answer_stored_ms: int | None  # None: no message is stored at the answered offset
    before_stored_ms: int | None  # of the message before the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """The queries about acknowledged messages that the harness sent to one node after the drain.

    `error`: why the node gave no answer.
    """

    op_index: int
    time_ns: int
    topic: str
    broker: str
    is_indexed: bool  # brokers keep an index of keys
    found: Sequence[Found]
    first_offsets: Mapping[
        int, int
    ]  # by queue: earlier messages were deleted, perhaps since the drain
    error: str | None
    node: str = ""  # the node that was asked; "": not known
    torn: Sequence[Torn] = ()
    asked: int | None = None  # number of messages; None: not known
    searched: Sequence[Searched] = ()
    # why the node answered no search by time; None: it answered, or was not asked
    search_error: str | None = None
    refused: Sequence[RefusedRead] = ()  # searches by time that failed at the node


class Sent(NamedTuple):
    """A send of a transaction: the value and, if known, its offset in the log of `key`."""

    key: str
    value: int | str
    offset: int | None


class Polled(NamedTuple):
    """The result of one poll of a transaction: for each key, (offset, value) in the order of arrival."""

    messages: Mapping[str, Sequence[tuple[int, int | str]]]


class Txn(NamedTuple):
    """A transaction in Jepsen's sense: its sends and polls happen all or not at all."""

    invoke_index: int
    op_index: int  # of the completion; of the invocation if there is none
    time_ns: int
    process: int
    type: OpType  # "info" if it was never completed
    mops: Sequence[Sent | Polled]


class Opened(NamedTuple):
    """A client process reported that it is ready."""

    time_ns: int
    process: int
    node: str


class CheckBack(NamedTuple):
    """A broker asked a producer for the end of a transaction, and the producer answered."""

    op_index: int
    time_ns: int
    topic: str
    key: str
    state: str  # commit, rollback, unknown
    node: str | None  # where the producer runs; None: its client does not report it
    earliest_ns: int  # when the producer can have answered, by its own stamp; `time_ns` without one
    broker: str | None = None  # the one that asked; None: the client does not report it


class Exchange(NamedTuple):
    """A responder sent a reply, or a requester received one."""

    op_index: int
    time_ns: int
    process: int
    key: str  # of the request
    reply: str  # the key that the reply names
    is_taken: bool  # the op is "ok"; for a responder: the broker reported that the requester took the reply
    properties: int | None = None  # digest of those that the listener set; None: not reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The configuration that a consumer started with."""

    op_index: int
    time_ns: int
    process: int
    node: str
    group: str
    topic: str
    expression: str
    model: str
    orderly: bool


class Forward(NamedTuple):
    """A group member has forwarded copies of messages, and all of them are stored as safely as requested."""

    op_index: int
    time_ns: int
    process: int
    group: str
    queue: LogKey  # from which it received the originals
    originals: Sequence[tuple[int, int]]  # first queue offset, and the number of consecutive ones
    copy: int  # id of the first copy; the ids of the others follow

    @property
    def messages(self) -> int:
        return sum(count for _, count in self.originals)


class TriedRead(NamedTuple):
    """The harness tried to read a retry or dead-letter topic at the end of the run."""

    op_index: int
    time_ns: int
    group: str
    topic: str
    broker: str
    type: OpType  # "ok": readable, or missing; "fail": the broker refuses; "info": no answer, or not read to the end
    error: str | None


class Refusal(NamedTuple):
    """A broker refused a send, or refused to copy a message that a consumer sent back."""

    op_index: int
    time_ns: int
    topic: str
    key: str
    illegal: str | None  # why the send is illegal; None: it is legal
    code: int  # of the response
    broker: str | None  # None: not known
    is_of_account: bool = False  # of another account than the load's
    is_sent_back: bool = False  # a consumer sent it back; reported after a copy of its own


class SentBack(NamedTuple):
    """A consumer sent a message back."""

    group: str
    tries: int  # reconsume times of the delivery
    # the broker made the copy, not the client; also False if the client does not report it
    by_broker: bool
    is_clear: bool  # a broker answered that it has a copy that is as safe as requested
    time_ns: int
    process: int
    broker: str  # the one that holds the message
    op_index: int
    is_declined: bool  # the client reports that this broker made no copy
    is_unanswered: bool  # ... and that it did not answer
    attempts: int  # of the client's own copy; 0 also if the client does not report it


class FaultOp(NamedTuple):
    """The fault injector began or ended a fault."""

    time_ns: int
    verb: str  # start, stop
    kind: str
    targets: tuple[str, ...]
    fault_id: str | None
    bitten: bool | None  # whether an effect was proven; None: the op does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The events of a history that do not become rows of columns, each list in history order."""

    commits: Mapping[tuple[str, LogKey], Sequence[Commit]]  # by group and queue
    # Commits that no broker has confirmed: a broker may apply them at any later time, or never.
    unclear_commits: Mapping[tuple[str, LogKey], Sequence[Commit]] = field(default_factory=dict)
    ownership: Mapping[tuple[str, LogKey], Sequence[Ownership]]  # by group and queue
    begins: Mapping[tuple[str, LogKey], Sequence[Begun]] = field(default_factory=dict)
    # by group, replica set and process
    commits_to: Mapping[tuple[str, str, int], Sequence[CommitTo]] = field(default_factory=dict)
    drains: Mapping[tuple[str, str], Drain]  # by group and topic
    probes: Sequence[Probe]
    opens: Sequence[Opened]
    look_ups: Sequence[LookUp] = ()
    txns: Sequence[Txn] = ()
    check_backs: Sequence[CheckBack] = ()
    replies: Sequence[Exchange] = ()  # sent by responders
    answers: Sequence[Exchange] = ()  # received by requesters
    subscriptions: Sequence[Subscribed] = ()
    forwards: Sequence[Forward] = ()
    tried_reads: Sequence[TriedRead] = ()
    refused: Sequence[Refusal] = ()
    unreported: Set[str] = frozenset()  # keys of transactions whose end was not sent
    # keys of transactions whose half was stored with a weak status: clients roll these back by themselves
    weak_halves: Set[str] = frozenset()
    sent_back: Mapping[str, Sequence[SentBack]] = field(default_factory=dict)  # by key
    faults: Sequence[FaultOp] = ()
    nodes: Mapping[int, str]  # process -> where it runs, of clients that opened or sent

    def drains_of(self, group: str, topic: str) -> Drain | None:
        return self.drains.get((group, topic))

    def last_report_ns(self) -> dict[int, int]:
        """Return, by process, the time in ns of its last confirmed commit, ownership change, begin or send-back."""
        found: dict[int, int] = {}
        reported: Iterable[Iterable[Commit | Ownership | Begun | SentBack]] = chain(
            self.commits.values(),
            self.ownership.values(),
            self.begins.values(),
            self.sent_back.values(),
        )
        for one in chain.from_iterable(reported):
            found[one.process] = max(one.time_ns, found.get(one.process, 0))
        return found

    def ownership_between(
        self, group: str, queue: LogKey, after: int, until: int
    ) -> Sequence[Ownership]:
        """Return the changes of ownership with an op_index in after+1..until."""
        changes = self.ownership.get((group, queue), ())
        first = bisect_right(changes, after, key=lambda change: change.op_index)
        return changes[first : bisect_right(changes, until, key=lambda change: change.op_index)]

    def gained_between(
        self, group: str, queue: LogKey, process: int, after: int, until: int
    ) -> bool:
        """Whether `process` gained `queue` with an op_index in after+1..until."""
        return any(
            change.process == process and change.change == "gained"
            for change in self.ownership_between(group, queue, after, until)
        )

    def gains(self, group: str, queue: LogKey, process: int) -> Sequence[Ownership]:
        """Return the gains of `queue` by `process`, in history order."""
        changes = self.ownership.get((group, queue), ())
        return [
            change for change in changes if change.process == process and change.change == "gained"
        ]

    def members(self, group: str) -> frozenset[str]:
        """Return the nodes of all processes that ever owned a queue of the group, or of its subscribers if none did."""
        owners = {
            change.process
            for (name, _), changes in self.ownership.items()
            if name == group
            for change in changes
        }
        processes = owners or {of.process for of in self.subscriptions if of.group == group}
        return frozenset(self.nodes[process] for process in processes & self.nodes.keys())

    def gained_before(
        self, group: str, queue: LogKey, process: int, before: int
    ) -> Ownership | None:
        """Return the latest gain of `queue` by `process` before op index `before`."""
        changes = self.ownership.get((group, queue), ())
        last = bisect_left(changes, before, key=lambda change: change.op_index)
        gains = (
            change
            for change in reversed(changes[:last])
            if change.process == process and change.change == "gained"
        )
        return next(gains, None)


def same_stint(earlier: Ints, later: Ints, changes: Sequence[Ownership]) -> Mask:
    """Whether a process owned a queue without interruption from one op index to another, shape (rows,).

    Args:
        earlier: op index where each interval begins, shape (rows,).
        later: op index where it ends, shape (rows,).
        changes: the changes of ownership of this process and queue, in history order.
    """
    at = [change.op_index for change in changes]
    stint = np.searchsorted(at, earlier)
    has_it = np.array([False, *(change.change == "gained" for change in changes)])[stint]
    same: Mask = has_it & (np.searchsorted(at, later) == stint)
    return same
