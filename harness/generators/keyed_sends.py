"""Sends of messages with a key that no other send uses: alone, in batches, one way, small and large."""

from __future__ import annotations

from random import Random

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.accounts import GUEST
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import BatchValue, GeneratedOp
from staticfire.harness.generators.account_sends import AccountSends
from staticfire.harness.generators.illegal_sends import IllegalSends

# Sizes of a large body. Clients compress bodies from 4096 bytes on (RocketMQ: compressMsgBodyOverHowmuch).
LARGE_BYTES = (4096, 12288)


class KeyedSends:
    """Each process sends `p<process>-<n>` with a size drawn from a range of bytes.

    The campaign sets the shares of batches, of one-way sends, of large bodies among single messages, of asynchronous
    sends among the others and, beside all these, of sends that brokers must refuse. With access control other accounts
    make some of the sends. `f` is the op of single messages.
    """

    f = "send"

    def __init__(self, random: Random, campaign: Campaign) -> None:
        self._random = random
        self._topics = campaign.consumer_topics or (campaign.topic,)
        self._sends_max = campaign.sends_max
        self._count = 0  # number of ops
        self._low, self._high = campaign.payload_bytes
        self._batch_share = campaign.batch_share
        self._fewest, self._most = campaign.batch_messages
        self._one_way_share = campaign.one_way_share
        self._async_share = campaign.async_share
        self._async_random = Random(f"staticfire/{campaign.seed}/asynchronous sends")
        self._illegal = IllegalSends(campaign)
        self._accounts = AccountSends(campaign)
        self._large_share = campaign.large_share
        self._large_random = Random(f"staticfire/{campaign.seed}/large bodies")
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> GeneratedOp | None:
        """Return the next op of this process as (f, value); None once the campaign has enough."""
        if self._sends_max and self._count == self._sends_max:
            return None
        illegal = self._illegal.next_value() or self._accounts.next_refused()
        if illegal is not None:
            return "send", {"key": self._next_key(process), **illegal}
        topic = self._topics[self._count % len(self._topics)]
        self._count += 1
        kind = self._random.random()
        if kind < self._batch_share:
            count = _drawn(self._random, self._fewest, self._most)
            messages = [self._message(process) for _ in range(count)]
            batch: BatchValue = {"topic": topic, "messages": messages}
            return "send_batch", batch
        value: SendValue = {**self._message(process), "topic": topic}
        if self._large_random.random() < self._large_share:
            value["size"] = _drawn(self._large_random, *LARGE_BYTES)
        if kind < self._batch_share + self._one_way_share:
            value["one_way"] = True
        elif self._async_random.random() < self._async_share and self._is_plain(value):
            value["async"] = True
        elif self._accounts.is_guests_turn() and self._is_plain(value):
            value["account"] = GUEST
        return self.f, value

    def _message(self, process: int) -> SendValue:
        key = self._next_key(process)
        size = _drawn(self._random, self._low, self._high)
        message: SendValue = {"key": key, "size": size}
        self._dress(process, message)
        return message

    def _dress(self, process: int, message: SendValue) -> None:
        """Add the fields of the workload to a message."""

    def _is_plain(self, value: SendValue) -> bool:
        return self.f == "send" and "sharding_key" not in value

    def _next_key(self, process: int) -> str:
        number = self._sent.get(process, 0)
        self._sent[process] = number + 1
        return f"p{process}-{number}"


def _drawn(random: Random, least: int, most: int) -> int:
    """Draw a whole number from `least` to `most`, both included."""
    return least + int((most - least + 1) * random.random())
