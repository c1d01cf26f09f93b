"""Finds the half messages of transactions that are still open (RocketMQ, TransactionalMessageBridge).

A half message is closed when an op message names its queue offset, or when the check has moved it on, either by
appending it again at a new offset or by parking it. The check stores its progress as a consumer offset of a
group of its own.
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
PARKED_MAX = 10_000  # given up lately: their producers' answers may still be on their way


class _Moves:
    """The offsets of one half message that was put back."""

    __slots__ = ("current", "known")

    def __init__(self, first: int) -> None:
        self.current = first
        self.known = [first]  # by producers, from the answer to a send or from a question

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
        self.progress = SafeProgress(0)  # of the check, in the half queue
        # Half offsets that are over, from the progress on, and how far the log must be safe for that to count.
        self._ended: dict[int, int] = {}
        # Of those that were put back: by each offset that a producer may name, and by the current one.
        self._moved: dict[int, _Moves] = {}
        self._parked: dict[int, _Moves] = {}  # given up, by the place of the copy in the log
        self._ops: deque[tuple[int, int]] = deque()  # op offset and the half offset that it names
        self._damaged_ops: dict[int, Entry] = {}  # by op offset; they may come back from a replica
        self._op_missing: list[int] = []  # over, but the store refused the op message

    def begin(self) -> None:
        """Find out from the queues what is open; the offsets must be within them."""
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
        message = self._read_entry(entry.physical_offset)
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
        """Whether some half message may be over of which this is not known: its op message is damaged.

        Reads those again that a replica may have mended.
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
        """How many half messages are over that the check has not passed yet."""
        return len(self._ended)

    def is_over(self, half_offset: int) -> bool:
        return half_offset < self.progress.position or half_offset in self._ended

    def open_offset(self, half_offset: int) -> int | None:
        """Where the half message that had this offset is now, or was when it was given up; None if it is over.

        The check may have put it back, or parked it, since its producer was asked: an answer may travel for longer
        than a round of the check takes. RocketMQ carries an end out wherever the half message that it names has gone.
        """
        moves = self._moved.get(half_offset)
        if moves is None:
            return None if self.is_over(half_offset) else half_offset
        return moves.current

    def read(self, half_offset: int) -> Message | None:
        """The half message at this offset of the half queue; None if it cannot be read."""
        entries = self._store.queue_view.entries(HALF_TOPIC, QUEUE_ID, half_offset, 1)
        return self._read_entry(entries[0].physical_offset) if entries else None

    def waits_for_repair(self, half_offset: int) -> bool:
        """Whether the half message at this offset is damaged, and may come back from a replica."""
        entries = self._store.queue_view.entries(HALF_TOPIC, QUEUE_ID, half_offset, 1)
        return bool(entries) and self._store.waits_for_repair(
            entries[0].physical_offset, entries[0].size
        )

    def read_at(self, physical_offset: int) -> Message | None:
        """The message at a place of the log that a client gives; None if none begins there."""
        return decoded(self._store.look_up(physical_offset))

    def _read_entry(self, physical_offset: int) -> Message | None:
        return decoded(self._store.record_of_entry(physical_offset))

    def bounds(self) -> tuple[int, int]:
        """First half offset there is, and the next one to become visible."""
        return self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)

    # Changes

    def end(self, half_offset: int) -> PutResult:
        """A half message is committed or rolled back: write its op message.

        If the store refuses, the half message is over in this process all the same; the check writes the op message
        later. Should the process die before, the producer is asked once more.
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
        """Try again what the store has refused."""
        missing, self._op_missing = self._op_missing, []
        for half_offset in missing:
            if self._put_op(half_offset).status is not PutStatus.PUT_OK:
                self._op_missing.append(half_offset)

    def pass_over(self) -> None:
        """The half message at the position of the check is over."""
        self.progress.advance(self._ended.pop(self.progress.position, 0))

    def put_back(self, copy: PutResult, *, is_asked: bool) -> None:
        """The half message at the position of the check goes on as this copy, which a producer is asked about."""
        at = self.progress.position
        moves = self._moved.setdefault(at, _Moves(at))
        self._move(moves, copy.queue_offset)
        if is_asked:
            moves.known.append(copy.queue_offset)
        self.progress.advance(copy.end_offset)

    def _move(self, moves: _Moves, offset: int) -> None:
        if moves.current != moves.known[-1]:  # no producer will name it
            del self._moved[moves.current]
        moves.current = offset
        self._moved[offset] = moves

    def park(self, copy: PutResult) -> None:
        """The half message at the position of the check is given up; this copy waits for a human."""
        at = self.progress.position
        self._parked[copy.physical_offset] = self._moved.setdefault(at, _Moves(at))
        if len(self._parked) > PARKED_MAX:
            self.revive(next(iter(self._parked)))
        self.progress.advance(copy.end_offset)

    def revive(self, physical_offset: int) -> None:
        """A parked half message begins anew: nothing that a producer knows of it counts any more."""
        moves = self._parked.pop(physical_offset, None)
        if moves is not None:
            self._forget(moves.current)

    def _forget(self, half_offset: int) -> None:
        moves = self._moved.get(half_offset)
        for offset in () if moves is None else moves.all():
            del self._moved[offset]

    def save_progress(self) -> None:
        """Commit how far everything is dealt with and cannot be lost any more."""
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
