"""Sends beside the load that brokers must refuse: an illegal body, property section or topic.

The op of such a send always ends as `fail`, so a message that is delivered nevertheless is an aborted read.
"""

from __future__ import annotations

from random import Random
from typing import Final, NotRequired, TypedDict

from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign

ILLEGAL: Final = "illegal"  # field of a send with the reason for which brokers must refuse it
NO_NEW_TOPICS = ("autoCreateTopicEnable", "false")
BODY_BYTES_MAX = 4 << 20  # RocketMQ: maxMessageSize, of producers and brokers
PROPERTIES_BYTES_MAX = 32_767  # the length of the section is a signed 16-bit number
SIZE_BYTES = 100  # size of legal bodies


class SendToRefuse(TypedDict):
    """The value, without its key, of a send that brokers must refuse."""

    illegal: str
    topic: str
    size: int
    padding: NotRequired[int]
    account: NotRequired[str]


def refused_topics(campaign: Campaign) -> dict[str, str]:
    """Return the refused topics by the reason for refusal; none where brokers make unknown topics."""
    if not campaign.illegal_share or NO_NEW_TOPICS not in campaign.broker_properties:
        return {}
    return {"name of the topic": f"{campaign.topic}$", "unknown topic": f"{campaign.topic}-nowhere"}


class IllegalSends:
    """Draws occasional illegal sends from a stream of its own."""

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
        """Return the value of an illegal send, without its key; None if the load sends next."""
        if self._random.random() >= self._share:
            return None
        return pick(self._random, self._choices)
