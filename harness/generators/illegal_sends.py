"""Sends beside the load that brokers must refuse: an illegal body, property section or topic.

Whatever becomes of such a send, its op ends as `fail`: a message that is delivered nevertheless is an aborted read.
"""

from __future__ import annotations

from random import Random
from typing import Final, NotRequired, TypedDict

from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign

ILLEGAL: Final = "illegal"  # the field of a send that says why it must be refused
NO_NEW_TOPICS = ("autoCreateTopicEnable", "false")
BODY_BYTES_MAX = 4 << 20  # RocketMQ: maxMessageSize, of producers and brokers
PROPERTIES_BYTES_MAX = 32_767  # the length of the section is two bytes with a sign
SIZE_BYTES = 100  # of the body of the others


class SendToRefuse(TypedDict):
    """The value of a send that must be refused, without its key."""

    illegal: str
    topic: str
    size: int
    padding: NotRequired[int]
    account: NotRequired[str]


def refused_topics(campaign: Campaign) -> dict[str, str]:
    """Why brokers refuse a topic -> its name; empty where they would make one that they do not know."""
    if not campaign.illegal_share or NO_NEW_TOPICS not in campaign.broker_properties:
        return {}
    return {"name of the topic": f"{campaign.topic}$", "unknown topic": f"{campaign.topic}-nowhere"}


class IllegalSends:
    """Now and then something to be refused, drawn from a stream of its own."""

    def __init__(self, campaign: Campaign) -> None:
        self._random = Random(f"staticfire/{campaign.seed}/illegal sends")
        self._share = campaign.illegal_share
        topic = campaign.topic
        self._choices: list[SendToRefuse] = [
            {ILLEGAL: "body", "topic": topic, "size": BODY_BYTES_MAX + 1},
            {
                ILLEGAL: "properties",
                "topic": topic,
                "size": SIZE_BYTES,
                "padding": PROPERTIES_BYTES_MAX,
            },
        ]
        self._choices += [
            {ILLEGAL: why, "topic": refused, "size": SIZE_BYTES}
            for why, refused in refused_topics(campaign).items()
        ]

    def next_value(self) -> SendToRefuse | None:
        """The value of a send, without its key; None if it is the turn of the load."""
        if self._random.random() >= self._share:
            return None
        return pick(self._random, self._choices)
