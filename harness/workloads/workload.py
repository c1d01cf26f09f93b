"""The declaration of a workload: a question about a queue, the ops that put it, and its consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from staticfire.checkers.model.history import Op
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.consumer_kinds import LITE_PULL_ASSIGN, PUSH
from staticfire.harness.generators.interpreter import Generator
from staticfire.harness.workloads.consumer_spec import ConsumerSpec, plain, tags_of

Awaits = Callable[[Sequence[Op], int], str | None]


def awaits_nothing(_ops: Sequence[Op], _now_ns: int) -> str | None:
    """Return None: every message that is to be consumed is in a queue already."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of load.

    Args:
        summary: one line, for `staticfire workloads`.
        generator: makes the source of the producers' ops for one campaign; it draws from the Random it is given.
        membership: the specification of the consumer with this number.
        changed: the same when the fault `filter-change` has struck.
        awaits: what messages of this history brokers still keep from consumers, in words; None when it is nothing.
            `settle_s` bounds how long the drain waits for it.
        options: options of a campaign that are not drawn with this workload; the user's win.
        faults: kinds that it is not itself without; they come on top of those of the campaign, if it has any.
        avoids: kinds under which it has no answer.
        broker_properties: the same for properties of brokers, one by one.
        forwards: whether its members can forward (`forwarding` of a campaign).
        filters: whether its members ask for some of the messages only.
        needs_listener: why its members can only be push consumers; empty if they need not.
        lacks: features of clients that it needs and the named implementation has not, by client.
    """

    name: str
    summary: str
    generator: Callable[[Random, Campaign], Generator]
    membership: Callable[[Campaign, int], ConsumerSpec] = plain
    changed: Callable[[Campaign, int], ConsumerSpec] | None = None
    awaits: Awaits = awaits_nothing
    settle_s: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    forwards: bool = False
    filters: bool = False
    needs_listener: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)

    def member(self, campaign: Campaign, number: int) -> ConsumerSpec:
        """The specification of the consumer with this number; options of the campaign come first."""
        spec = self._settled(campaign, number, self.membership)
        if campaign.consumer_topics:
            topics = campaign.consumer_topics
            spec = replace(spec, topic=topics[number % len(topics)])
        if campaign.expressions:
            expression = campaign.expressions[number % len(campaign.expressions)]
            spec = replace(spec, expression=expression, wanted_tags=tags_of(expression))
        return spec

    def member_changed(self, campaign: Campaign, number: int) -> ConsumerSpec:
        """The same when the fault `filter-change` has struck; expressions of the campaign stay."""
        if self.changed is None or campaign.expressions:
            return self.member(campaign, number)
        return self._settled(campaign, number, self.changed)

    def _settled(
        self, campaign: Campaign, number: int, membership: Callable[[Campaign, int], ConsumerSpec]
    ) -> ConsumerSpec:
        """With what holds for all members of a campaign."""
        spec = membership(campaign, number)
        alike = [
            other
            for other in range(campaign.consumers)
            if membership(campaign, other).group == spec.group
        ]
        share = (alike.index(number), len(alike))
        return replace(spec, strategy=campaign.strategy, kind=campaign.consumer_kind, share=share)

    def why_not(self, kind: str, *, has_expressions: bool) -> str | None:
        """Why its members cannot be consumers of this kind; None if they can."""
        if kind == PUSH:
            return None
        if self.needs_listener:
            return self.needs_listener
        if kind == LITE_PULL_ASSIGN and (self.filters or has_expressions):
            return "a consumer that is assigned queues gets all that they hold"
        return None

    def members(self, campaign: Campaign) -> list[ConsumerSpec]:
        """The specifications of all consumers, in order."""
        return [self.member(campaign, number) for number in range(campaign.consumers)]
