"""Draws the messages of a storage crash cycle."""

from __future__ import annotations

from collections.abc import Callable

from staticfire.harness.store_crash.model import QueueKey
from staticfire.harness.store_crash.plan import (
    BODY_SIZE_MAX,
    FILLING,
    QUEUES,
    CycleClock,
    CyclePlan,
)
from staticfire.system_under_test.protocol.message import Message, encode_record

BLANK_SIZE = 8  # header of a blank, for which a file has room after every record
BATCH_MAX = 4
FRONT_SIZE = 88  # bytes of a record before its body, with IPv4 hosts
_WORDS = ("word0", "word1", "wordAa", "wordBB")  # Java's hashes of the last two are equal
_HOSTS = (("10.0.0.9", 40_000), ("10.0.0.1", 10_911))
_HOSTS_V6 = (("fd00::9", 40_000), ("fd00::1", 10_911))


class MessageDraw:
    """Draws messages; `draw(bound)` returns a number below the bound."""

    def __init__(self, plan: CyclePlan, clock: CycleClock, draw: Callable[[int], int]) -> None:
        self._plan = plan
        self._clock = clock
        self._draw = draw
        self.count = 0

    def plain(self) -> Message:
        """Draw a message with the plan's body size."""
        size = self._plan.body_size or self._draw(BODY_SIZE_MAX)
        body = bytes(size) if self._draw(20) == 0 else self._filling(size)
        return self._message(body, self._next_queue())

    def small(self, queue: QueueKey) -> Message:
        """Draw a small message of a queue, of which any file takes two."""
        return self._message(self._filling(20), queue)

    def batch(self) -> list[Message]:
        """Draw small messages of one queue, which together fit into any file."""
        queue = self._next_queue()
        return [self.small(queue) for _ in range(2 if self._is_tiny else BATCH_MAX)]

    def filling_file(self, end_offset: int, queue: QueueKey | None = None) -> Message:
        """Draw a message that leaves room for only a blank's header in its file; the log ends at `end_offset`."""
        room = self._plan.log_file_size - end_offset % self._plan.log_file_size
        message = self._message(b"", queue or self._next_queue())
        size = room - BLANK_SIZE - len(encode_record(message))
        if size < 0:
            size += self._plan.log_file_size
        message.body = self._filling(min(size, self._largest(message)))
        return message

    def too_large(self) -> Message:
        """Draw a message that is too large for any file by a few bytes."""
        message = self._message(b"", self._next_queue())
        message.body = self._filling(self._largest(message) + 1 + self._draw(2 * BLANK_SIZE))
        return message

    def forged(self, end_offset: int) -> tuple[Message, int]:
        """Draw a message with the image of a record in its body; return it and the image's position in the log.

        The position is right if the next record begins at `end_offset`.
        """
        message = self._message(b"", self._next_queue(), is_v6=False)
        lead = self._draw(20)
        at = end_offset + FRONT_SIZE + lead
        image = Message(
            topic=message.topic,
            queue_id=message.queue_id,
            body=b"forged",
            physical_offset=at,
            store_timestamp_ms=self._clock.wall_ms(),
        )
        message.body = self._filling(lead) + bytes(encode_record(image))
        return message, at

    @property
    def _is_tiny(self) -> bool:
        return self._plan.log_file_size < 1024

    def _largest(self, message: Message) -> int:
        """Return the size of the largest body with which this message, which has none, fits into a file."""
        return self._plan.log_file_size - BLANK_SIZE - len(encode_record(message))

    def _filling(self, size: int) -> bytes:
        start = self._draw(BODY_SIZE_MAX)
        if start + size <= len(FILLING):
            return FILLING[start : start + size]
        return (FILLING * (1 + size // len(FILLING)))[:size]

    def _next_queue(self) -> tuple[str, int]:
        number = self.count
        return QUEUES[number % len(QUEUES) if number < 6 else self._draw(len(QUEUES))]

    def _message(
        self, body: bytes, queue: tuple[str, int], *, is_v6: bool | None = None
    ) -> Message:
        number = self.count
        self.count += 1
        hosts = [_HOSTS, _HOSTS]
        if is_v6 is None and self._draw(8) == 0:
            hosts = [(_HOSTS, _HOSTS_V6)[self._draw(2)], (_HOSTS, _HOSTS_V6)[self._draw(2)]]
        return Message(
            topic=queue[0],
            queue_id=queue[1],
            body=body,
            properties=self._properties(number),
            born_timestamp_ms=self._clock.wall_ms(),
            born_host=hosts[0][0],
            store_host=hosts[1][1],
        )

    def _properties(self, number: int) -> dict[str, str]:
        """Return properties: most messages have both kinds of keys, some words repeat, one in ten has no key."""
        properties = {"TAGS": "even" if number % 2 == 0 else "uneven"}
        if self._draw(10):
            properties["UNIQ_KEY"] = f"C0A80001{number:08X}"
            properties["KEYS"] = f"k{number:05d} {_WORDS[number % len(_WORDS)]}"
        return properties
