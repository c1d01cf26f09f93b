"""The specification of a consumer: its group, its subscription, how it consumes."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.harness.campaign.campaign import AVERAGELY, Campaign
from staticfire.harness.clients.consumer_kinds import PUSH

CLUSTERING, BROADCASTING = "clustering", "broadcasting"
TAG, SQL92 = "TAG", "SQL92"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """All members of a group should have the same; a campaign may give them different ones, to show the effect.

    `wanted_tags` is what the expression means in terms of tags, None for everything; the checkers believe it.
    `retries_max` is how often a message comes again before it is dead; -1: as RocketMQ (16, or for ever in order).
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
    sends_back: bool = False  # what its listener fails for goes to the retry topic, and at last to the dead letters
    replies: bool = False  # its listener answers requests
    condensed: bool = False  # what its listener is given is told as stretches
    forward_to: str = ""  # a topic: all that its listener does is send on what it is given
    queues: int = 0  # of its topic on each broker; 0: as many as the campaign says
    strategy: str = AVERAGELY  # how queues are shared out, by a name of RocketMQ
    kind: str = PUSH  # of consumer
    share: tuple[int, int] = (0, 1)  # the member's place in its group, and how many members

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}"

    @property
    def dead_letter_topic(self) -> str:
        return f"%DLQ%{self.group}"


def plain(campaign: Campaign, _number: int) -> ConsumerSpec:
    """The one group of a run, all of one topic."""
    return ConsumerSpec(group=campaign.group, topic=campaign.topic)


def tags_of(expression: str) -> tuple[str, ...] | None:
    """The tags that a tag expression names; None for all."""
    tags = tuple(part.strip() for part in expression.split("||") if part.strip())
    return None if not tags or tags == ("*",) else tags
