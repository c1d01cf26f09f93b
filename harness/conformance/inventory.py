"""Lists the topics and groups that a broker knows."""

from __future__ import annotations

from dataclasses import dataclass

from staticfire.harness.conformance.answers import json_object
from staticfire.harness.conformance.failures import BadAnswer
from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.codes import RequestCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The topics and groups that one broker knows."""

    topics: frozenset[str]
    groups: frozenset[str]


async def inventory(broker: Wire) -> Inventory:
    """Return the inventory of a broker. Raises NoAnswer, BadAnswer."""
    topics = json_object(await broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG))
    groups = json_object(await broker.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    try:
        return Inventory(
            topics=frozenset(topics["topicConfigTable"]),
            groups=frozenset(groups["subscriptionGroupTable"]),
        )
    except (KeyError, TypeError) as error:
        raise BadAnswer(
            f"{broker.address} does not list its topics and groups: {error!r}"
        ) from error
