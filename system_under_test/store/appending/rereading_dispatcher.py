"""Dispatch as in RocketMQ, which reads records back from the log (ReputMessageService, bug R14: issue 1164).

At a record that it cannot parse, a master skips the rest of what it has read, up to the end of the file: sound messages
there never get a queue entry. A slave waits there instead, as the record may not have arrived in full. The next message
of a queue takes the queue offset of the first one that is missing ("logic queue order maybe wrong").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from staticfire.system_under_test.protocol.message import MAGIC_MESSAGE
from staticfire.system_under_test.store.appending.dispatcher import Dispatcher
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.record_scan import BLANK_HEADER, BLANK_HEADER_SIZE
from staticfire.system_under_test.store.results import Dispatched

# (physical offset, size) -> bytes, at most to the end of the file
ReadLog = Callable[[int, int], bytes]


class RereadingDispatcher(Dispatcher):
    """Reads the header of each record back from the log before it dispatches the record."""

    __slots__ = ("_is_slave", "_read")

    def __init__(self, index: MessageIndex, read: ReadLog, *, is_slave: bool) -> None:
        super().__init__(index)
        self._read = read
        self._is_slave = is_slave

    def dispatch(self, durable_offset: int) -> list[Dispatched]:
        """Like Dispatcher, but leaves out a record that it cannot parse, and what follows it."""
        start = self.dispatched_offset
        while start < durable_offset:
            data = self._read(start, durable_offset - start)
            bad = self._first_bad(start, data)
            if bad is not None and self._is_slave:
                return super().dispatch(bad)
            if bad is not None:
                self._leave_out(bad, start + len(data))
            start += max(len(data), 1)
        return super().dispatch(durable_offset)

    def _first_bad(self, start: int, data: bytes) -> int | None:
        """The offset of the first record that cannot be parsed in `data`, which begins at `start`; None if all can."""
        for _, message in self._waiting:
            position = message.physical_offset - start
            if position < 0:
                continue
            if position + BLANK_HEADER_SIZE > len(data):
                return None
            size, magic = BLANK_HEADER.unpack_from(data, position)
            if magic != MAGIC_MESSAGE or size != message.end_offset - message.physical_offset:
                return message.physical_offset
        return None

    def _leave_out(self, start: int, end: int) -> None:
        """Give the records from `start` to `end` no entries."""
        for number, (_, message) in enumerate(self._waiting):
            if start <= message.physical_offset < end:
                self._index.reserved -= len(message.hashes)
                self._waiting[number] = (None, replace(message, hashes=()))

    def _meet_hole(self, message: Dispatched, next_offset: int) -> None:
        """Do not raise: the entry takes the queue offset of the missing one."""
