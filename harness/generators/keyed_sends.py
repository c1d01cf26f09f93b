"""Sends of messages with a key that nobody else uses: alone, in batches, one way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from harness.campaign import Campaign

Dress = Callable[
    [int, dict[str, Any]], None
]  # the process, and its message, which gets more fields


class KeyedSends:
    """Each process sends `p<process>-<n>` with a size drawn from a range of bytes.

    The campaign says which share of the ops are batches, and which are sent one way. `dress` gives each message what
    its workload is about; `f` is what single ones are sent with.
    """

    def __init__(
        self, random: Random, campaign: Campaign, dress: Dress | None = None, *, f: str = "send"
    ) -> None:
        self._random = random
        self._dress = dress
        self._f = f
        self._topics = campaign.consumer_topics or (campaign.topic,)
        self._sends_max = campaign.sends_max
        self._count = 0  # of ops
        self._low, self._high = campaign.payload_bytes
        self._batch_share = campaign.batch_share
        self._fewest, self._most = campaign.batch_messages
        self._one_way_share = campaign.one_way_share
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> tuple[str, dict[str, Any]] | None:
        """The next op of this process as (f, value); None when the campaign wants no more."""
        if self._sends_max and self._count == self._sends_max:
            return None
        topic = self._topics[self._count % len(self._topics)]
        self._count += 1
        kind = self._random.random()
        if kind < self._batch_share:
            count = self._fewest + int((self._most - self._fewest + 1) * self._random.random())
            messages = [self._message(process) for _ in range(count)]
            return "send_batch", {"topic": topic, "messages": messages}
        value = {**self._message(process), "topic": topic}
        if kind < self._batch_share + self._one_way_share:
            value["one_way"] = True
        return self._f, value

    def _message(self, process: int) -> dict[str, Any]:
        number = self._sent.get(process, 0)
        self._sent[process] = number + 1
        size = self._low + int((self._high - self._low + 1) * self._random.random())
        message: dict[str, Any] = {"key": f"p{process}-{number}", "size": size}
        if self._dress is not None:
            self._dress(process, message)
        return message
