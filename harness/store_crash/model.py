"""The model of a log in a crash test: the messages that were put, in order, and the promised ones among them.

The model never reads the store. It compares files and answers with what the puts returned, so that a store which
recovers to a wrong state is caught even where its own view is consistent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from staticfire.harness.store_crash.raw_record import IndexKey, RawRecord, parse_record
from staticfire.system_under_test.protocol.message import (
    MAGIC_BLANK,
    MAGIC_MESSAGE,
    Message,
    decode_record,
    encode_record,
    patch_record,
)
from staticfire.system_under_test.store.results import PutResult

QueueKey = tuple[str, int]
ReadLog = Callable[[int, int], bytes]  # (physical offset, size) -> bytes of the commit-log files

_BLANK_HEADER = struct.Struct(">Ii")


class PromiseBroken(Exception):
    """The store did not keep a promise; the text says which message or offset, and what was found."""


class PutRecord:
    """One accepted put, and the exact position and bytes of its record."""

    __slots__ = (
        "_message",
        "_parsed",
        "_raw",
        "end_offset",
        "forged_at",
        "may_lack_tags",
        "physical_offset",
        "queue",
        "queue_offset",
        "size",
        "stored_ms",
        "was_damaged",
    )

    def __init__(
        self,
        message: Message,
        *,
        physical_offset: int,
        size: int,
        queue_offset: int,
        stored_ms: int,
    ) -> None:
        self._message = message
        self._parsed: RawRecord | None = None
        self._raw = b""
        self.queue: QueueKey = (message.topic, message.queue_id)
        self.physical_offset = physical_offset
        self.size = size
        self.end_offset = physical_offset + size
        self.queue_offset = queue_offset
        self.stored_ms = stored_ms
        self.forged_at: int | None = None  # where its body holds the image of a record
        self.was_damaged = False  # then a start may not know when it was stored
        self.may_lack_tags = False  # it was damaged, and no entry of its queue was left

    @property
    def raw(self) -> bytes:
        """The record as it must be in the log; encoded once, since most records outlive several crashes."""
        if not self._raw:
            record = encode_record(self._message)
            patch_record(
                record,
                queue_offset=self.queue_offset,
                physical_offset=self.physical_offset,
                store_timestamp_ms=self.stored_ms,
            )
            self._raw = bytes(record)
        return self._raw

    @property
    def keys(self) -> list[str]:
        """The keys under which a query must find it."""
        properties = self._message.properties
        return [key for name in ("UNIQ_KEY", "KEYS") for key in properties.get(name, "").split()]

    @property
    def parsed(self) -> RawRecord:
        """Return the fields of its bytes."""
        if self._parsed is None:
            self._parsed = parse_record(self.raw, self.physical_offset)
        return self._parsed


class LogModel:
    """The accepted puts, the end that a finished flush promised, and the put that a power cut interrupted."""

    def __init__(self, file_size: int) -> None:
        self._file_size = file_size
        self._interrupted: Sequence[Message] = ()
        self._counts: dict[QueueKey, int] = {}
        self.puts: list[PutRecord] = []
        self.promised_end = 0
        self.min_offset = 0  # what lies before it has been deleted on purpose
        self._deleted_end = 0  # up to where deletion is durable
        self._cached_end = 0
        self._cut_from: int | None = None  # where a truncation begins that is under way

    @property
    def end_offset(self) -> int:
        return self.puts[-1].end_offset if self.puts else 0

    @property
    def kept(self) -> list[PutRecord]:
        """Return the puts that must be there: those not deleted."""
        return [put for put in self.puts if put.physical_offset >= self.min_offset]

    def begin_delete(self, min_offset: int) -> None:
        """The log may begin at `min_offset` from now on: what lies before it is old."""
        self.min_offset = max(self.min_offset, min_offset)

    def finish_delete(self) -> None:
        """Note that deleted records must never come back."""
        self._deleted_end = self.min_offset

    def begin_put(self, messages: Sequence[Message]) -> None:
        """A message, or those of a batch, are about to be put."""
        self._interrupted = messages

    def end_put(self) -> None:
        """Note that it was accepted or refused as a whole."""
        self._interrupted = ()

    def accept_put(self, message: Message, result: PutResult) -> PutRecord:
        """Raises PromiseBroken when the offsets of the answer do not follow those before."""
        put = PutRecord(
            message,
            physical_offset=result.physical_offset,
            size=result.size_bytes,
            queue_offset=result.queue_offset,
            stored_ms=result.store_timestamp_ms,
        )
        expected = self.count(put.queue)
        if put.queue_offset != expected:
            raise PromiseBroken(
                f"put got queue offset {put.queue_offset} in {put.queue}, not {expected}"
            )
        if put.physical_offset not in (self.end_offset, self._next_file(self.end_offset)):
            raise PromiseBroken(
                f"put got physical offset {put.physical_offset}; the log ends at {self.end_offset}"
            )
        last = self.puts[-1] if self.puts else put
        is_known = last.physical_offset >= self.min_offset and not last.was_damaged
        if is_known and put.stored_ms < last.stored_ms:
            raise PromiseBroken(f"store time went back from {last.stored_ms} to {put.stored_ms} ms")
        self._append(put)
        return put

    def promise(self, end_offset: int) -> None:
        """Note that everything before `end_offset` must survive from now on."""
        self.promised_end = max(self.promised_end, end_offset)

    def promise_cached(self, end_offset: int) -> None:
        """Everything before `end_offset` is in the page cache: it must survive until the power fails."""
        self._cached_end = end_offset if self._cut_from is None else min(end_offset, self._cut_from)

    def lose_cache(self) -> None:
        self._cached_end = 0

    def begin_truncate(self, offset: int) -> None:
        """Note that records beyond `offset` may go or stay while the truncation is under way."""
        self.promised_end = min(self.promised_end, offset)
        self._cut_from = offset

    def finish_truncate(self, offset: int) -> None:
        """Note that records beyond `offset` must never come back, and that those before are durable."""
        self._cut_from = None
        self._drop_beyond(offset)
        self.promise(offset)

    def count(self, queue: QueueKey) -> int:
        return self._counts.get(queue, 0)

    def first(self, queue: QueueKey) -> int:
        """The queue offset of the first message that was not deleted."""
        return self.count(queue) - sum(put.queue == queue for put in self.kept)

    def entries(self, queue: QueueKey) -> bytes:
        """The consume queue as it must be once everything is dispatched, had none of its files been deleted."""
        return b"".join(put.parsed.queue_entry for put in self.puts if put.queue == queue)

    @property
    def vouched_ms(self) -> int:
        """The latest store time that a checkpoint may hold: that of a record that must survive."""
        times = (put.stored_ms for put in self.puts if put.end_offset <= self.promised_end)
        return max(times, default=0)

    @property
    def index_keys(self) -> list[IndexKey]:
        """The keys of all messages, deleted ones included, in the order of the index."""
        return [key for put in self.puts for key in put.parsed.index_keys]

    def records(self, queue: QueueKey) -> list[bytes]:
        return [put.raw for put in self.kept if put.queue == queue]

    def settle(self, min_offset: int, recovered_end: int, read: ReadLog) -> int:
        """Accept the bounds that recovery found; return how many puts it cost. Raises PromiseBroken."""
        if not self._deleted_end <= min_offset <= self.min_offset:
            raise PromiseBroken(
                f"the log begins at {min_offset}, not between {self._deleted_end} and {self.min_offset}"
            )
        self.min_offset = self._deleted_end = min_offset
        promised_end = max(self.promised_end, self._cached_end)
        if recovered_end < promised_end:
            raise PromiseBroken(
                f"recovered end {recovered_end} is before the promised end {promised_end}"
            )
        if recovered_end > self.end_offset:
            self._settle_beyond(recovered_end, read)
        before = len(self.puts)
        self._drop_beyond(recovered_end)
        if recovered_end not in (self.end_offset, self._next_file(self.end_offset)):
            raise PromiseBroken(f"recovered end {recovered_end} is no end of a record")
        self._interrupted = ()
        self._cut_from = None
        self.promised_end = recovered_end
        self._cached_end = 0  # recovery has made durable what it found
        return before - len(self.puts)

    def check_log(self, recovered_end: int, read: ReadLog) -> None:
        """Every byte of the log is a record that was put, or a blank at the end of a file."""
        position = self.min_offset
        for put in self.kept:
            position = self._skip_blank(position, put.physical_offset, read)
            if read(position, put.size) != put.raw:
                raise PromiseBroken(f"record at {position} of {put.queue} is not what was put")
            position += put.size
        self._skip_blank(position, recovered_end, read)

    def _skip_blank(self, position: int, next_position: int, read: ReadLog) -> int:
        if position == next_position:
            return position
        room = next_position - position
        expected = _BLANK_HEADER.pack(room, MAGIC_BLANK).ljust(room, b"\0")
        if read(position, room) != expected:
            raise PromiseBroken(f"no blank from {position} to {next_position}")
        return next_position

    def _settle_beyond(self, recovered_end: int, read: ReadLog) -> None:
        """More came back than was acknowledged: at most a blank, and messages of the put that was under way."""
        for message in self._interrupted:
            end = self.end_offset
            starts = (end, self._next_file(end))
            start = next((start for start in starts if _is_record(read(start, 8))), recovered_end)
            if start >= recovered_end:
                return
            found = decode_record(read(start, recovered_end - start))
            self._append(
                PutRecord(
                    message,
                    physical_offset=start,
                    size=found.size_bytes,
                    queue_offset=self.count((message.topic, message.queue_id)),
                    stored_ms=found.store_timestamp_ms,
                )
            )

    def _drop_beyond(self, end_offset: int) -> None:
        while self.puts and self.puts[-1].end_offset > end_offset:
            self._counts[self.puts.pop().queue] -= 1

    def _append(self, put: PutRecord) -> None:
        self.puts.append(put)
        self._counts[put.queue] = self.count(put.queue) + 1

    def _next_file(self, offset: int) -> int:
        return -(-offset // self._file_size) * self._file_size


def _is_record(head: bytes) -> bool:
    return len(head) == 8 and struct.unpack(">i", head[4:])[0] == MAGIC_MESSAGE
