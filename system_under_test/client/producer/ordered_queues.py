"""Maps sharding keys to queues, so that equal keys use one queue (RocketMQ: SelectMessageQueueByHash).

RocketMQ counts only queues whose master is in the route. While a master is away, keys move to other queues, and back
later, and order is lost. Here a key keeps its queue as long as the topic keeps its queues; sends to a queue without a
master fail.
"""

from __future__ import annotations

from staticfire.system_under_test.client.routing.routes import Route
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import java_string_hash


def index_of_key(key: str, count: int) -> int:
    """The index of a key below `count`: the absolute value of Java's remainder of Java's hash."""
    return abs(java_string_hash(key)) % count


class OrderedQueues:
    """The queues of each topic among which keys are spread.

    A broker that is missing from the route keeps its queues, because it will come back. A broker that has become
    read-only loses them, and so does one that an order configuration (`orderTopicConf`) does not name.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}  # by topic and broker name

    def queue_of(self, key: str, route: Route) -> MessageQueue | None:
        """The queue for `key`; None if no queue of the topic can be written to."""
        counts = self._counts_of(route)
        queues = sum(counts.values())
        if not queues:
            return None
        index = index_of_key(key, queues)
        for broker_name in sorted(counts):
            if index < counts[broker_name]:
                return MessageQueue(route.topic, broker_name, index)
            index -= counts[broker_name]
        raise AssertionError("an index below the sum is one of some broker")

    def _counts_of(self, route: Route) -> dict[str, int]:
        fresh = route.ordered_counts
        if route.is_template or route.has_order_configuration:
            return fresh
        known = self._counts.setdefault(route.topic, {})
        for broker_name in list(known):
            if broker_name in route.brokers:
                del known[broker_name]
        known.update(fresh)
        return known
