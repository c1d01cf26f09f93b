"""Batches of messages with consecutive keys, one op a batch."""

from __future__ import annotations

from random import Random

from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import SendManyValue
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.ops import GeneratedOp


class ManySends:
    """Each process sends batches of messages with consecutive keys `p<process>-<n>`, all of one size in bytes."""

    def __init__(self, random: Random, campaign: Campaign) -> None:
        self._random = random
        self._topic = campaign.topic
        self._ops_left = campaign.sends_max or None
        self._low, self._high = campaign.payload_bytes
        self._fewest, self._most = campaign.batch_messages
        self._sent: dict[int, int] = {}

    def next_op(self, process: int) -> GeneratedOp | None:
        """Return the next op of this process as (f, value); None once the campaign has enough."""
        if self._ops_left is not None:
            if not self._ops_left:
                return None
            self._ops_left -= 1
        count = self._drawn(self._fewest, self._most)
        number = self._sent.get(process, 0)
        self._sent[process] = number + count
        key, size = f"p{process}-{number}", self._drawn(self._low, self._high)
        value: SendManyValue = {"topic": self._topic, "key": key, "count": count, "size": size}
        return SEND_MANY, value

    def _drawn(self, least: int, most: int) -> int:
        return least + int((most - least + 1) * self._random.random())
