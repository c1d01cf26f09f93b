"""Messages with a sharding key: messages of one key go to one queue and are consumed in order."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain
from staticfire.harness.workloads.workload import Workload

KEYS_OF_A_CLIENT = 4
SHARED_KEY, SHARED_SHARE = "everybody", 0.1


class OrderedSends(KeyedSends):
    """Gives each producer keys of its own, and all producers one common key, the hot key.

    The campaign may set the share of messages with the hot key (`hot_share`).
    """

    def __init__(self, random: Random, campaign: Campaign) -> None:
        super().__init__(random, campaign)
        self._clients = campaign.producers
        self._shared_share = campaign.hot_share or SHARED_SHARE

    def _dress(self, process: int, message: SendValue) -> None:
        if self._random.random() < self._shared_share:
            message["sharding_key"] = SHARED_KEY
        else:
            number = int(KEYS_OF_A_CLIENT * self._random.random())
            message["sharding_key"] = f"client-{process % self._clients}-{number}"


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    return replace(plain(campaign, number), orderly=True, consume_batch=4)


ORDERED = Workload(
    name="ordered",
    needs_listener="an orderly listener holds the lock of its queue",
    summary="messages with one sharding key stay in one queue and are consumed in order, whichever member owns it",
    generator=OrderedSends,
    membership=member,
    avoids=("disk-lost",),  # only masters give locks, and no slave becomes a master
    options={"batch_share": 0.0, "one_way_share": 0.0},
)
