"""The specification of a consumer: its group, its subscription, how it consumes."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.harness.campaign.campaign import AVERAGELY, Campaign
from staticfire.harness.clients.consumer_kinds import PUSH

CLUSTERING, BROADCASTING = "clustering", "broadcasting"
TAG, SQL92 = "TAG", "SQL92"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """The subscription and behaviour of one consumer. All members of a group should have the same specification.

    A campaign may give members different ones, to show the effect.

    Attributes:
        wanted_tags: the tags that the expression selects, None for all messages; checkers rely on it.
        retries_max: redeliveries before a message becomes a dead letter; -1: RocketMQ's default (16; unlimited for
            orderly consumers).
        sends_back: whether messages whose listener fails go to the retry topic, and finally to the dead letters.
        replies: whether its listener answers requests.
        condensed: whether it reports deliveries as ranges of messages.
        forward_to: the topic to which its listener forwards every message; "" for none.
        queues: queues of its topic on each broker; 0: as many as the campaign says.
        strategy: RocketMQ's name of the strategy that shares out queues.
        share: the member's index in its group, and the number of members.
    """

    group: str
    topic: str
    expression: str = "*"
    language: str = TAG
    wanted_tags: tuple[str, ...] | None = None
    model: str = CLUSTERING
    orderly: bool = False
    pull_batch: int = 32
    consume_batch: int = 32
    retries_max: int = -1
    sends_back: bool = False
    replies: bool = False
    condensed: bool = False
    forward_to: str = ""
    queues: int = 0
    strategy: str = AVERAGELY
    kind: str = PUSH
    share: tuple[int, int] = (0, 1)

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}"

    @property
    def dead_letter_topic(self) -> str:
        return f"%DLQ%{self.group}"


def plain(campaign: Campaign, _number: int) -> ConsumerSpec:
    """Return the specification of a run with one group and one topic."""
    return ConsumerSpec(group=campaign.group, topic=campaign.topic)


def tags_of(expression: str) -> tuple[str, ...] | None:
    """Return the tags that a tag expression names; None for all."""
    tags = tuple(part.strip() for part in expression.split("||") if part.strip())
    return None if not tags or tags == ("*",) else tags
