"""Groups that filter by tags or by SQL92: does each group get exactly the messages that match?"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.faults.model.draws import pick
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.consumer_spec import SQL92, ConsumerSpec, plain, tags_of
from staticfire.harness.workloads.workload import Workload

# "Aa" and "BB" have the same Java hash, and brokers compare tags by their hashes.
WEIGHT_OF_TAG = {"red": 1, "green": 2, "blue": 3, "Aa": 4, "BB": 5}
UNTAGGED_SHARE = 0.1
WEIGHT = "weight"  # property with a number for the tag, for groups that filter by SQL92


class TaggedSends(KeyedSends):
    """Gives most messages a tag, and a property with the number of that tag."""

    def __init__(self, random: Random, campaign: Campaign) -> None:
        super().__init__(random, campaign)
        # If the campaign has expressions of its own, their tags take turns.
        named = (tags_of(expression) or () for expression in campaign.expressions)
        self._named = tuple(dict.fromkeys(tag for tags in named for tag in tags))
        self._tagged = 0

    def _dress(self, process: int, message: SendValue) -> None:
        if self._named:
            message["tag"] = self._named[self._tagged % len(self._named)]
            self._tagged += 1
        elif self._random.random() >= UNTAGGED_SHARE:
            tag = pick(self._random, tuple(WEIGHT_OF_TAG))
            message |= {"tag": tag, "properties": {WEIGHT: str(WEIGHT_OF_TAG[tag])}}


def member(campaign: Campaign, number: int) -> ConsumerSpec:
    """Put every other consumer into a group that filters by SQL92."""
    if campaign.expressions:
        return plain(campaign, number)
    if number % 2:
        return ConsumerSpec(
            group=f"{campaign.group}-sql",
            topic=campaign.topic,
            expression=f"{WEIGHT} BETWEEN 2 AND 4 AND TAGS IS NOT NULL",
            language=SQL92,
            wanted_tags=("green", "blue", "Aa"),
        )
    return ConsumerSpec(
        group=campaign.group,
        topic=campaign.topic,
        expression="red || Aa",
        wanted_tags=("red", "Aa"),
    )


def changed(campaign: Campaign, number: int) -> ConsumerSpec:
    """Change each group's filter to one that overlaps with the former one."""
    spec = member(campaign, number)
    if spec.language == SQL92:
        expression = f"{WEIGHT} BETWEEN 1 AND 3 AND TAGS IS NOT NULL"
        return replace(spec, expression=expression, wanted_tags=("red", "green", "blue"))
    return replace(spec, expression="green || Aa", wanted_tags=("green", "Aa"))


FILTERED = Workload(
    name="filtered",
    filters=True,
    summary="groups that filter by tags or SQL92 get all matching messages, and no others",
    generator=TaggedSends,
    membership=member,
    changed=changed,
    faults=("filter-change",),
    options={"batch_share": 0.1},
    broker_properties={
        "enablePropertyFilter": "true",
        "enableCalcFilterBitMap": "true",
        "enableConsumeQueueExt": "true",
        "mappedFileSizeConsumeQueueExt": "65536",
    },
)
