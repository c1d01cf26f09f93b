"""The declaration of a workload: its question about a queue, its ops, and its consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.consumer_kinds import LITE_PULL_ASSIGN, PUSH
from staticfire.harness.generators.interpreter import Generator
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain, tags_of

Awaits = Callable[[Sequence[Op], int], str | None]


def awaits_nothing(_ops: Sequence[Op], _now_ns: int) -> str | None:
    """Return None: every message that consumers must get is already in a queue."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of load.

    Args:
        summary: one line, for `staticfire workloads`.
        generator: makes the source of the producers' ops for one campaign; the source draws from the given Random.
        membership: returns the specification of the consumer with a given number.
        changed: the same, once the fault `filter-change` has struck.
        awaits: describes the messages of a history that brokers still keep from consumers; None if there are none.
        settle_s: bounds how long the drain waits for these messages.
        options: values of campaign options that this workload fixes instead of drawing them; the user's values win.
        faults: fault kinds that the workload's question needs, added to those of the campaign if it has any.
        avoids: fault kinds under which the question has no answer.
        broker_properties: values of broker properties that this workload fixes; the user's values win.
        forwards: whether its consumers can forward (`forwarding` of a campaign).
        filters: whether its consumers subscribe to only some of the messages.
        needs_listener: why its consumers must be push consumers; empty if they need not be.
        lacks: by client implementation, why that one cannot run this workload.
    """

    name: str
    summary: str
    generator: Callable[[Random, Campaign], Generator]
    membership: Callable[[Campaign, int], ConsumerSpec] = plain
    changed: Callable[[Campaign, int], ConsumerSpec] | None = None
    awaits: Awaits = awaits_nothing
    settle_s: float = 60.0
    options: Mapping[str, object] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    forwards: bool = False
    filters: bool = False
    needs_listener: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)

    def member(self, campaign: Campaign, number: int) -> ConsumerSpec:
        """Return the specification of the consumer with this number; the campaign's options override the workload's."""
        spec = self._settled(campaign, number, self.membership)
        if campaign.consumer_topics:
            topics = campaign.consumer_topics
            spec = replace(spec, topic=topics[number % len(topics)])
        if campaign.expressions:
            expression = campaign.expressions[number % len(campaign.expressions)]
            spec = replace(spec, expression=expression, wanted_tags=tags_of(expression))
        return spec

    def member_changed(self, campaign: Campaign, number: int) -> ConsumerSpec:
        """Return the specification after the fault `filter-change`; expressions of the campaign do not change."""
        if self.changed is None or campaign.expressions:
            return self.member(campaign, number)
        return self._settled(campaign, number, self.changed)

    def _settled(
        self, campaign: Campaign, number: int, membership: Callable[[Campaign, int], ConsumerSpec]
    ) -> ConsumerSpec:
        """Add the fields that the campaign decides for all its consumers."""
        spec = membership(campaign, number)
        alike = [
            other
            for other in range(campaign.consumers)
            if membership(campaign, other).group == spec.group
        ]
        share = (alike.index(number), len(alike))
        return replace(spec, strategy=campaign.strategy, kind=campaign.consumer_kind, share=share)

    def why_not(self, kind: str, *, has_expressions: bool) -> str | None:
        """Return why its consumers cannot be of this kind; None if they can."""
        if kind == PUSH:
            return None
        if self.needs_listener:
            return self.needs_listener
        if kind == LITE_PULL_ASSIGN and (self.filters or has_expressions):
            return "a consumer that assigns queues to itself gets all their messages"
        return None

    def members(self, campaign: Campaign) -> list[ConsumerSpec]:
        """Return the specifications of all consumers, in order."""
        return [self.member(campaign, number) for number in range(campaign.consumers)]
