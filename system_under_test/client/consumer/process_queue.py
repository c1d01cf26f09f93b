"""Tracks the messages of one assigned queue from arrival to the end of consumption (RocketMQ: ProcessQueue).

It guarantees one thing: `commit_offset` never passes a message that was not consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile

from staticfire.system_under_test.protocol.message import Message


class ProcessQueue:
    """Arrived messages by queue offset.

    `next_offset` is the offset of the next pull. A message is pending, taken (the listener has it) or finished;
    `give_back` makes a taken message pending again.
    """

    __slots__ = ("_arrived", "_begun_at_s", "_pending", "_size_bytes", "_unfinished", "next_offset")

    def __init__(self, start_offset: int) -> None:
        self.next_offset = start_offset
        self._unfinished: dict[int, Message] = {}
        # Offsets in the order of arrival. Finished ones leave only from the front, so the first is the lowest
        # unfinished one; a dict alone would need a search from its start at each commit.
        self._arrived: deque[int] = deque()
        self._pending: deque[Message] = deque()
        self._begun_at_s: dict[int, float] = {}  # by offset: when the listener got the message
        self._size_bytes = 0

    def __len__(self) -> int:
        """The number of unfinished messages."""
        return len(self._unfinished)

    @property
    def size_bytes(self) -> int:
        """Total size of the bodies of unfinished messages."""
        return self._size_bytes

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def span(self) -> int:
        """Distance from the lowest unfinished offset to the last one that arrived; 0 if all messages are finished."""
        return self._arrived[-1] - self._arrived[0] if self._arrived else 0

    @property
    def commit_offset(self) -> int:
        """The lowest unfinished offset; if all messages are finished, the next offset to pull.

        The latter covers messages that a filter left out at the end of a pull.
        """
        return self._arrived[0] if self._arrived else self.next_offset

    @property
    def last_offset(self) -> int:
        """The highest offset that has arrived; 0 if all messages are finished."""
        return self._arrived[-1] if self._arrived else 0

    def put(self, messages: Sequence[Message], next_offset: int) -> None:
        """Add the answer to a pull. Ignores messages below the requested offset: they are here already."""
        for message in messages:
            offset = message.queue_offset
            if offset < self.next_offset:
                continue
            self._unfinished[offset] = message
            self._arrived.append(offset)
            self._pending.append(message)
            self._size_bytes += len(message.body)
            self.next_offset = offset + 1
        self.next_offset = max(self.next_offset, next_offset)

    def take(self, count_max: int) -> list[Message]:
        """Up to `count_max` pending messages for the listener; empty if there is none."""
        pending = self._pending
        return [pending.popleft() for _ in range(min(count_max, len(pending)))]

    def begin(self, messages: Sequence[Message], now_s: float) -> None:
        """Record when the listener gets taken messages."""
        for message in messages:
            self._begun_at_s[message.queue_offset] = now_s

    def begun_before(self, at_s: float, count_max: int) -> list[Message]:
        """Messages at the front of the queue that the listener got before `at_s` and has not finished.

        Ends at the first message that the listener got later, and returns at most `count_max` (RocketMQ:
        ProcessQueue.cleanExpiredMsg).
        """
        unfinished = (offset for offset in self._arrived if offset in self._unfinished)
        old = takewhile(lambda offset: self._begun_at_s.get(offset, at_s) < at_s, unfinished)
        return [self._unfinished[offset] for offset in islice(old, count_max)]

    def holds(self, message: Message) -> bool:
        """Whether the message has arrived and is not finished."""
        return message.queue_offset in self._unfinished

    def give_back(self, messages: Sequence[Message]) -> None:
        """Make messages pending again, before all others: the listener has failed."""
        for message in messages:
            self._begun_at_s.pop(message.queue_offset, None)
        self._pending.extendleft(reversed(messages))

    def finish(self, messages: Sequence[Message]) -> None:
        """Finish messages that are consumed or sent back; ignores messages finished before."""
        for message in messages:
            offset = message.queue_offset
            if self._unfinished.pop(offset, None) is not None:
                self._size_bytes -= len(message.body)
                self._begun_at_s.pop(offset, None)
        while self._arrived and self._arrived[0] not in self._unfinished:
            self._arrived.popleft()
