"""Sends of messages with a key that nobody else uses."""

from __future__ import annotations

from random import Random
from typing import Any


class KeyedSends:
    """Each process sends `p<process>-<n>` with a size drawn from a range of bytes."""

    def __init__(self, random: Random, topic: str, payload_bytes: tuple[int, int]) -> None:
        self._random = random
        self._topic = topic
        self._low, self._high = payload_bytes
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> tuple[str, dict[str, Any]]:
        """The next op of this process as (f, value)."""
        number = self._sent.get(process, 0)
        self._sent[process] = number + 1
        size = self._low + int((self._high - self._low + 1) * self._random.random())
        return "send", {"key": f"p{process}-{number}", "topic": self._topic, "size": size}
