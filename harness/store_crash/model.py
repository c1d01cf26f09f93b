"""The model of a log in a crash test: all messages that were put, in order, and how far they must survive.

The model never reads the store. It compares files and answers with the results of puts, so it also detects a store that
recovers to a wrong but consistent state.
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
    """The store broke a promise; the text names the message or offset, and what was found."""


class PutRecord:
    """One accepted put, with the exact position and bytes of its record."""

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
        self.forged_at: int | None = None  # physical offset of a record's image in its body
        self.was_damaged = False  # then a start may not know its store time
        self.may_lack_tags = False  # it was damaged when all entries of its queue were lost

    @property
    def raw(self) -> bytes:
        """The record's bytes in the log; encoded once, since most records outlive several crashes."""
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
        """The keys by which a query must find it."""
        properties = self._message.properties
        return [key for name in ("UNIQ_KEY", "KEYS") for key in properties.get(name, "").split()]

    @property
    def parsed(self) -> RawRecord:
        """The fields of its bytes. Raises PromiseBroken if it names other hosts than the message."""
        if self._parsed is None:
            self._parsed = parse_record(self.raw, self.physical_offset)
            hosts = self._message.born_host, self._message.store_host
            if self._parsed.hosts != hosts:
                raise PromiseBroken(f"a record has the hosts {self._parsed.hosts}, not {hosts}")
        return self._parsed


class LogModel:
    """The accepted puts, the end up to which they must survive, and a put that a power cut interrupted."""

    def __init__(self, file_size: int) -> None:
        self._file_size = file_size
        self._interrupted: Sequence[Message] = ()
        self._counts: dict[QueueKey, int] = {}
        self.puts: list[PutRecord] = []
        self.promised_end = 0
        self.min_offset = 0  # earlier records were deleted on purpose
        self._deleted_end = 0  # end of the durable deletion
        self._cached_end = 0
        self._cut_from: int | None = None  # offset of a truncation that is under way

    @property
    def end_offset(self) -> int:
        return self.puts[-1].end_offset if self.puts else 0

    @property
    def kept(self) -> list[PutRecord]:
        """The puts that were not deleted."""
        return [put for put in self.puts if put.physical_offset >= self.min_offset]

    def begin_delete(self, min_offset: int) -> None:
        """Note that the log may begin at `min_offset` from now on."""
        self.min_offset = max(self.min_offset, min_offset)

    def finish_delete(self) -> None:
        """Note that deleted records must never come back."""
        self._deleted_end = self.min_offset

    def begin_put(self, messages: Sequence[Message]) -> None:
        """Note that a message, or those of a batch, are about to be put."""
        self._interrupted = messages

    def end_put(self) -> None:
        """Note that the store accepted or refused the put as a whole."""
        self._interrupted = ()

    def accept_put(self, message: Message, result: PutResult) -> PutRecord:
        """Add an accepted message.

        Raises PromiseBroken if an offset or the store time does not follow the previous put.
        """
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
        """Note that everything before `end_offset` is in the page cache, and must survive until the power fails."""
        self._cached_end = end_offset if self._cut_from is None else min(end_offset, self._cut_from)

    def lose_cache(self) -> None:
        self._cached_end = 0

    def begin_truncate(self, offset: int) -> None:
        """Note that a truncation has begun: until it ends, records beyond `offset` may stay or go."""
        self.promised_end = min(self.promised_end, offset)
        self._cut_from = offset

    def finish_truncate(self, offset: int) -> None:
        """Note that records beyond `offset` must never come back, and that earlier ones are durable."""
        self._cut_from = None
        self._drop_beyond(offset)
        self.promise(offset)

    def count(self, queue: QueueKey) -> int:
        return self._counts.get(queue, 0)

    def first(self, queue: QueueKey) -> int:
        """Return the queue offset of the first message that was not deleted."""
        return self.count(queue) - sum(put.queue == queue for put in self.kept)

    def entries(self, queue: QueueKey) -> bytes:
        """Return the whole content of the consume queue after a dispatch, with entries of deleted messages."""
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
        """Accept the bounds that recovery found; return the number of puts that it dropped. Raises PromiseBroken."""
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
        self._cached_end = 0  # recovery has made everything durable
        return before - len(self.puts)

    def check_log(self, recovered_end: int, read: ReadLog) -> None:
        """Check that every byte of the log is part of a put record, or of a blank at the end of a file.

        Raises PromiseBroken.
        """
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
        """Accept what recovery found beyond the acknowledged end: a blank, and messages of the interrupted put."""
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
