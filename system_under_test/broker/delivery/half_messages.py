"""Finds the half messages of transactions that are still open (RocketMQ, TransactionalMessageBridge).

A half message is over when an op message names its queue offset, or when the check has moved it on: appended it again
at a new offset, or parked it. The check stores its progress as a consumer offset of a group of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from staticfire.system_under_test.broker.delivery.safe_progress import SafeProgress
from staticfire.system_under_test.broker.metadata.offsets import ConsumerOffsets
from staticfire.system_under_test.broker.metadata.topics import HALF_TOPIC, OP_HALF_TOPIC
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.protocol.message import (
    Address,
    Message,
    RecordError,
    decode_record,
)
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.queues.consume_queue import Entry
from staticfire.system_under_test.store.results import PutResult, PutStatus

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
OP_PROPERTIES = {"TAGS": "d", "WAIT": "true"}  # RocketMQ, TransactionalMessageUtil.REMOVETAG
QUEUE_ID = 0
READ_AT_ONCE = 256
PARKED_MAX = 10_000  # parked lately: answers of their producers may still arrive


class _Moves:
    """The offsets of one half message that the check has put back."""

    __slots__ = ("current", "known")

    def __init__(self, first: int) -> None:
        self.current = first
        # offsets that producers know, from the answer to a send or from a check
        self.known = [first]

    def all(self) -> list[int]:
        return self.known if self.current == self.known[-1] else [*self.known, self.current]


class HalfMessages:
    """The half queue and the op queue of a master."""

    def __init__(
        self,
        store: MessageStore,
        offsets: ConsumerOffsets,
        copies: InternalCopies,
        *,
        store_host: Address,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._copies = copies
        self._store_host = store_host
        self._now_ms = now_ms
        self.progress = SafeProgress(0)  # position of the check in the half queue
        # Half offsets at or beyond `progress` that are over -> end offset up to which the log must be safe for that.
        self._ended: dict[int, int] = {}
        # Half messages that were put back: by each offset that a producer may name, and by the current one.
        self._moved: dict[int, _Moves] = {}
        self._parked: dict[int, _Moves] = {}  # by the physical offset of the parked copy
        self._ops: deque[tuple[int, int]] = deque()  # (op offset, half offset that it names)
        self._damaged_ops: dict[int, Entry] = {}  # by op offset; a replica may have sound copies
        self._op_missing: list[int] = []  # over, but the store refused the op message

    def begin(self) -> None:
        """Find the open half messages in the queues; the stored offsets must lie within the queues."""
        offset = self._offsets.query(TRANSACTION_GROUP, HALF_TOPIC, QUEUE_ID) or 0
        low, high = self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)
        self.progress.jump(min(max(offset, low), high))
        self._read_ops()

    def _read_ops(self) -> None:
        low, high = self._store.queue_bounds(OP_HALF_TOPIC, QUEUE_ID)
        stored = self._offsets.query(TRANSACTION_GROUP, OP_HALF_TOPIC, QUEUE_ID) or 0
        op_offset = max(stored, low)
        while op_offset < high:
            entries = self._store.queue_view.entries(
                OP_HALF_TOPIC, QUEUE_ID, op_offset, READ_AT_ONCE
            )
            if not entries:
                return
            for entry in entries:
                self._read_op(op_offset, entry)
                op_offset += 1

    def _read_op(self, op_offset: int, entry: Entry) -> None:
        message = self._read_entry(entry)
        if message is None and self._store.waits_for_repair(entry.physical_offset, entry.size):
            self._damaged_ops[op_offset] = entry
        elif message is not None and message.body.isdigit():
            half_offset = int(message.body)
            self._ops.append((op_offset, half_offset))
            self._end(half_offset, 0)

    def _end(self, half_offset: int, safe_from: int) -> None:
        if half_offset >= self.progress.position:
            self._ended[half_offset] = safe_from
        while self.progress.position in self._ended:
            self.pass_over()

    def lacks_ops(self) -> bool:
        """Whether a damaged op message may hide that some half message is over.

        Reads damaged op messages again, as they may have been repaired from a replica.
        """
        if not self._damaged_ops:
            return False
        damaged, self._damaged_ops = self._damaged_ops, {}
        for op_offset, entry in damaged.items():
            self._read_op(op_offset, entry)
        self._ops = deque(sorted(self._ops))
        return bool(self._damaged_ops)

    # Questions

    def ended_count(self) -> int:
        """The number of half messages that are over but not yet passed by the check."""
        return len(self._ended)

    def is_over(self, half_offset: int) -> bool:
        return half_offset < self.progress.position or half_offset in self._ended

    def open_offset(self, half_offset: int) -> int | None:
        """The current offset of the half message that had this offset, or its last one if parked; None if it is over.

        The check may have put it back, or parked it, since it asked the producer: an answer may take longer than a
        round of the check. RocketMQ ends a transaction regardless of such moves.
        """
        moves = self._moved.get(half_offset)
        if moves is None:
            return None if self.is_over(half_offset) else half_offset
        return moves.current

    def read(self, half_offset: int) -> Message | None:
        """The half message at this offset of the half queue; None if it cannot be read."""
        entries = self._store.queue_view.entries(HALF_TOPIC, QUEUE_ID, half_offset, 1)
        return self._read_entry(entries[0]) if entries else None

    def waits_for_repair(self, half_offset: int) -> bool:
        """Whether the half message at this offset is damaged and a replica may have a sound copy.

        Also if the disk has lost the entry: the store is about to stop, and its next start writes the entry anew.
        """
        entries = self._store.queue_view.entries(HALF_TOPIC, QUEUE_ID, half_offset, 1)
        return not entries or self._store.waits_for_repair(
            entries[0].physical_offset, entries[0].size
        )

    def read_at(self, physical_offset: int) -> Message | None:
        """The message at a physical offset named by a client; None if none begins there."""
        return decoded(self._store.look_up(physical_offset))

    def _read_entry(self, entry: Entry) -> Message | None:
        return decoded(self._store.record_of(entry))

    def bounds(self) -> tuple[int, int]:
        """The first offset of the half queue, and the next one to become visible."""
        return self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)

    # Changes

    def end(self, half_offset: int) -> PutResult:
        """Write the op message of a half message that is committed or rolled back.

        If the store refuses, the half message is still over in this process, and the check writes the op message later.
        If the process dies before that, the next check asks the producer again.
        """
        self._forget(half_offset)
        result = self._put_op(half_offset)
        if result.status is not PutStatus.PUT_OK:
            self._op_missing.append(half_offset)
        self._end(half_offset, self._store.end_offset)
        return result

    def _put_op(self, half_offset: int) -> PutResult:
        now_ms = self._now_ms()
        result = self._copies.put(
            Message(
                topic=OP_HALF_TOPIC,
                body=b"%d" % half_offset,
                properties=dict(OP_PROPERTIES),
                queue_id=QUEUE_ID,
                born_timestamp_ms=now_ms,
                born_host=self._store_host,
                store_host=self._store_host,
            )
        )
        if result.status is PutStatus.PUT_OK:
            self._ops.append((result.queue_offset, half_offset))
        return result

    def write_missing_ops(self) -> None:
        """Write the op messages that the store has refused before."""
        missing, self._op_missing = self._op_missing, []
        for half_offset in missing:
            if self._put_op(half_offset).status is not PutStatus.PUT_OK:
                self._op_missing.append(half_offset)

    def pass_over(self) -> None:
        """Advance the check: the half message at its position is over."""
        self.progress.advance(self._ended.pop(self.progress.position, 0))

    def put_back(self, copy: PutResult, *, is_asked: bool) -> None:
        """Advance the check: `copy` replaces the half message at its position. `is_asked`: a producer learns of it."""
        at = self.progress.position
        moves = self._moved.setdefault(at, _Moves(at))
        self._move(moves, copy.queue_offset)
        if is_asked:
            moves.known.append(copy.queue_offset)
        self.progress.advance(copy.end_offset)

    def _move(self, moves: _Moves, offset: int) -> None:
        if moves.current != moves.known[-1]:  # no producer knows the current offset
            del self._moved[moves.current]
        moves.current = offset
        self._moved[offset] = moves

    def park(self, copy: PutResult) -> None:
        """Advance the check: it gives up the half message at its position; `copy` waits for an administrator."""
        at = self.progress.position
        self._parked[copy.physical_offset] = self._moved.setdefault(at, _Moves(at))
        if len(self._parked) > PARKED_MAX:
            self.revive(next(iter(self._parked)))
        self.progress.advance(copy.end_offset)

    def revive(self, physical_offset: int) -> None:
        """Put a parked half message back: offsets that its producer knows are no longer valid."""
        moves = self._parked.pop(physical_offset, None)
        if moves is not None:
            self._forget(moves.current)

    def _forget(self, half_offset: int) -> None:
        moves = self._moved.get(half_offset)
        for offset in () if moves is None else moves.all():
            del self._moved[offset]

    def save_progress(self) -> None:
        """Commit the offset up to which the check's work is done and its copies are safe."""
        half_offset = self.progress.confirm(self._copies.safe_end())
        if half_offset:
            self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, QUEUE_ID, half_offset)
        done = 0
        while self._ops and self._ops[0][1] < half_offset:
            done = self._ops.popleft()[0] + 1
        if done and not self._damaged_ops:
            self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, QUEUE_ID, done)


def decoded(record: bytes | None) -> Message | None:
    """The message of a record; None if there is none, or if it cannot be read."""
    try:
        return None if record is None else decode_record(record)
    except RecordError:
        return None
